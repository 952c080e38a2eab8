"""HP9xx: pods in Koordinator's words, whose amounts are those of the whole pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.engine.demand import WHOLE, request_of
from hami_plugins.engine.mutate import DEFAULT_SCHEDULER
from hami_plugins.errors import InvalidRequestError
from hami_plugins.inputs.manifests import Path
from hami_plugins.inputs.vocabulary import speaks
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.koordinator import ISOLATION, asked_by, holder
from hami_plugins.vet import facts
from hami_plugins.vet.context import Context, each_pod, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView
from hami_plugins.wire.koordinator import MEMORY, RATIO, misspells_hami_core

ENFORCED: Final = "HAMi-core"
"""The value of the label by which limits are enforced; case counts."""


def refused(pod: PodView, context: Context) -> Iterator[Violation]:
    """Amounts that Koordinator's scheduler does not take."""
    spec = _spec(pod, context)
    if spec is None or pod.pod is None:
        return
    try:
        _request(spec, pod.pod)
    except InvalidRequestError as error:
        view = next((each for each in pod.containers if each.name == error.container), pod.containers[0])
        what = f"{where(view, pod)}: {error.resource}={error.value}: {error.why}"
        yield Violation(_first(view, spec, error.resource), what, error.remedy)


def several(pod: PodView, context: Context) -> Iterator[Violation]:
    """Cards in more than one application container; of init containers the largest counts, and not the sum."""
    spec = _spec(pod, context)
    if spec is None or pod.pod is None:
        return
    asking = [each for each in pod.containers if each.kind is not ContainerKind.INIT and spec in context.asked_of(each)]
    plain = _summed(pod.pod, completed=False)
    if len(asking) < 2 or plain is None:
        return
    names = ", ".join(each.name for each in asking)
    completed = _summed(pod.pod, completed=True)
    other = f"; where Koordinator's webhook runs, the pod has {_cards(completed)}" if completed != plain else ""
    yield Violation(
        _first(asking[1], spec),
        f"{len(asking)} containers ask for cards ({names}), and Koordinator adds them up to one request: the pod has "
        f"{_cards(plain)}, and each container sees all of {'it' if plain.count == 1 else 'them'}{other}",
        "put the cards into one container, or make several pods",
    )


def _summed(pod: Pod, *, completed: bool) -> rules.CardRequest | None:
    """What the containers of a pod ask for together, ``None`` where that is refused."""
    try:
        amounts = asked_by(pod, completed=completed)
    except InvalidRequestError:
        return None
    found = rules.request_of(amounts) if completed else rules.submitted(amounts)
    return None if isinstance(found, rules.IllegalRequest) else replace(found, bits=0, total={})


def _cards(request: rules.CardRequest | None) -> str:
    """The cards of a pod in a sentence."""
    if request is None:
        return "no legal request"
    cards = f"{request.count} {'card' if request.count == 1 else 'cards'}"
    if not request.shared:
        return cards.replace(" ", " whole ") + " without limits"
    if RATIO in request.per_card:
        return f"{cards} with {request.per_card[RATIO]} % of the memory of each"
    return f"{cards} with {request.per_card.get(MEMORY, 0) >> 20:,} MiB of each"


def without_limits(pod: PodView, context: Context) -> Iterator[Violation]:
    """Parts of NVIDIA's cards that nothing limits."""
    spec, request = _shared(pod, context)
    if spec is None or request is None or any(each.name in facts.BESIDE_KOORDINATOR for each in context.asked_by(pod)):
        return
    value = pod.labels.get(ISOLATION)
    path = pod.of("metadata", "labels", ISOLATION)
    if value is None:
        yield Violation(
            _first(pod.containers[_holder(pod)], spec),
            f"the pod shares a card without the label {ISOLATION}: nothing limits it there",
            f"add the label {ISOLATION}: {ENFORCED}, and a nodeSelector of it",
        )
    elif misspells_hami_core(value):
        what = f"label {ISOLATION}={value}: no component acts on it, and nothing limits the pod on its card"
        yield Violation(path, what, f"write {ENFORCED}", RewriteFix(path, ENFORCED), VetSeverity.ERROR)
    elif value != ENFORCED:
        what = f"label {ISOLATION}={value}: HAMi-core does not limit the pod, the component of that name has to"
        yield Violation(path, what, f"write {ENFORCED} where HAMi-core is meant", severity=VetSeverity.NOTE)


def without_selector(pod: PodView, context: Context) -> Iterator[Violation]:
    """The label without a nodeSelector of it."""
    _, request = _shared(pod, context)
    if request is None or pod.pod is None or pod.labels.get(ISOLATION) != ENFORCED:
        return
    if dict(pod.pod.constraints.selector).get(ISOLATION) is None:
        yield Violation(
            pod.of("metadata", "labels", ISOLATION),
            f"label {ISOLATION} without a nodeSelector of it: one node with cards and without the label ends the "
            "search for a place, wherever the pod would fit",
            f"add the nodeSelector {ISOLATION}: {ENFORCED}",
        )


def other_scheduler(pod: PodView, context: Context) -> Iterator[Violation]:
    """Koordinator's resources for another scheduler."""
    spec = _spec(pod, context)
    if spec is None or pod.labels.get(rules.SCHEDULER_LABEL):
        return
    view = next(each for each in pod.containers if spec in context.asked_of(each))
    if pod.scheduler in {"", DEFAULT_SCHEDULER}:
        yield Violation(
            _first(view, spec),
            "the pod names no scheduler, and only Koordinator's looks at its cards",
            "set schedulerName: koord-scheduler, or overlook this where a ClusterColocationProfile sets it",
        )
    elif pod.scheduler in {*context.settings.volcano, context.settings.rules.webhook.scheduler}:
        what = f"schedulerName {pod.scheduler} does not look at Koordinator's resources"
        yield Violation(pod.scheduler_path, what, "set schedulerName: koord-scheduler", severity=VetSeverity.ERROR)


def uncounted(pod: PodView, context: Context) -> Iterator[Violation]:
    """Cards without cores, which are then promised twice."""
    spec, request = _shared(pod, context)
    if spec is not None and request is not None and not request.cores:
        yield Violation(
            _first(pod.containers[_holder(pod)], spec),
            f"without {spec.resources.cores} Koordinator counts no cores for the pod: other pods also get them",
            f"name {spec.resources.cores}, 1 at least for each card",
        )


def _spec(pod: PodView, context: Context) -> VendorSpec | None:
    if pod.placed:
        return None
    return next(iter(speaks(Dialect.KOORDINATOR, context.asked_by(pod))), None)


def _shared(pod: PodView, context: Context) -> tuple[VendorSpec | None, DeviceRequest | None]:
    """What a pod asks for, if it is parts of cards, and means something."""
    spec = _spec(pod, context)
    if spec is None or pod.pod is None:
        return None, None
    try:
        request = _request(spec, pod.pod)
    except InvalidRequestError:
        return None, None
    return spec, request if request is not None and request.memory != WHOLE else None


def _request(spec: VendorSpec, pod: Pod) -> DeviceRequest | None:
    """What a pod asks for, of the container that has it."""
    return request_of(spec, pod.containers[holder(pod)], pod)


def _holder(pod: PodView) -> int:
    return 0 if pod.pod is None else holder(pod.pod)


def _first(view: ContainerView, spec: VendorSpec, resource: str = "") -> Path:
    """Where a container names a resource, or the first of Koordinator's."""
    found = view.amount(resource) or next(
        (amount for name, amount in view.amounts.items() if name in spec.resources.all()), None
    )
    return view.path if found is None else found.path


RULES: Final = (
    VetRule(
        id="HP901",
        name="koordinator-refuses",
        severity=VetSeverity.ERROR,
        summary="A pod asks Koordinator for a set of resources, or amounts, that its scheduler does not take.",
        why="The scheduler refuses the pod before it looks at any node, and nothing about nodes changes that.",
        fix="Name koordinator.sh/gpu.shared and one of gpu-memory and gpu-memory-ratio, as sums over the cards.",
        check=each_pod(refused),
    ),
    VetRule(
        id="HP902",
        name="koordinator-adds-up",
        severity=VetSeverity.WARNING,
        summary="Several application containers of a pod ask Koordinator for cards.",
        why="It knows one request per pod, the sum, and each container sees all cards of it: two times half a card are "
        "half of two cards, or one whole card without limits where no container names gpu.shared.",
        fix="Put the cards into one container, or make several pods.",
        check=each_pod(several),
    ),
    VetRule(
        id="HP903",
        name="koordinator-no-limits",
        severity=VetSeverity.WARNING,
        summary="A pod shares a card under Koordinator, and nothing limits it there.",
        why="Limits are enforced only for pods with the label koordinator.sh/gpu-isolation-provider: HAMi-core.",
        fix="Add the label, and a nodeSelector of it.",
        check=each_pod(without_limits),
    ),
    VetRule(
        id="HP904",
        name="koordinator-no-selector",
        severity=VetSeverity.WARNING,
        summary="A pod has Koordinator's isolation label and no nodeSelector of it.",
        why="Its scheduler gives up on such a pod as soon as it looks at a node with cards and without the label.",
        fix="Add the nodeSelector.",
        check=each_pod(without_selector),
    ),
    VetRule(
        id="HP905",
        name="koordinator-scheduler",
        severity=VetSeverity.WARNING,
        summary="A pod asks for Koordinator's resources, and its scheduler is not Koordinator's.",
        why="Other schedulers place it by the sums of nodes: no component chooses or counts a card.",
        fix="Set schedulerName: koord-scheduler.",
        check=each_pod(other_scheduler),
    ),
    VetRule(
        id="HP906",
        name="koordinator-uncounted-cores",
        severity=VetSeverity.NOTE,
        summary="A pod shares a card under Koordinator and names no cores.",
        why="Koordinator counts none for it then, so that a whole card may be given away with the pod on it.",
        fix="Name koordinator.sh/gpu-core, 1 at least for each card.",
        check=each_pod(uncounted),
    ),
)
