"""HP20x: counts and amounts that cannot mean what their author wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.inputs.vocabulary import speaks
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet import facts, memory, values
from hami_plugins.vet.context import Context, each_request, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, ResourceEntry


def request_alone(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Resources among the requests that the limits do not have."""
    for name in _own(spec, container):
        if name in container.limits:
            continue
        asked = container.requests[name]
        consequence = (
            "the webhook looks at limits alone and leaves the pod to the default scheduler"
            if spec.dialect is Dialect.HAMI
            else "Volcano looks at limits alone"
        )
        yield Violation(
            asked.path,
            f"{where(container, pod)}: {name}={asked.text} is a request without a limit: {consequence}, and the API "
            "server refuses such a request",
            f"write {name}: {asked.text} under resources.limits",
        )


def request_differs(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Requests and limits that contradict each other."""
    for name in _own(spec, container):
        limit, asked = container.limits.get(name), container.requests.get(name)
        if limit is None or asked is None or limit.quantity is None or asked.quantity is None:
            continue
        if limit.quantity.nano != asked.quantity.nano:
            yield Violation(
                asked.path,
                f"{where(container, pod)}: {name}: the request {asked.text} is not the limit {limit.text}; the API "
                "server refuses that for devices",
                f"write {limit.text} in both, or drop the request",
                RewriteFix(asked.path, limit.text),
            )


def fractional(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Parts of one device or of one unit."""
    for amount in _amounts(spec, container):
        found = amount.quantity
        if found is None or found.whole is not None or found.nano < 0:
            continue
        if amount.resource == spec.resources.memory and memory.meant(amount) is not None:
            continue
        yield Violation(
            amount.path,
            f"{where(container, pod)}: {amount.resource}={amount.text} is not a whole number",
            _whole_remedy(spec, amount),
        )


def negative(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Less than nothing."""
    for amount in _amounts(spec, container):
        if amount.quantity is not None and amount.quantity.nano < 0:
            yield Violation(
                amount.path,
                f"{where(container, pod)}: {amount.resource}={amount.text} is negative",
                "write a whole number from 1, or drop the resource",
            )


def zero(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Nothing, which is read as everything or as no request."""
    names = spec.resources
    for amount in _amounts(spec, container):
        if amount.quantity is None or amount.quantity.nano or amount.resource in (names.cores, names.priority):
            continue
        if amount.resource == names.count:
            what, fix = "asks for no card at all", "write 1, or drop all resources of this vendor"
        else:
            what, fix = "does not mean none, but all of the card's memory", "write the amount, or drop the resource"
        yield Violation(amount.path, f"{where(container, pod)}: {amount.resource}={amount.text} {what}", fix)


def count_missing(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Memory or cores of no card."""
    names = spec.resources
    parts = [name for name in (names.memory, names.memory_percentage, names.cores) if container.amount(name)]
    if _is_beside(spec, pod, context):
        return
    if container.amount(names.count) is not None or not parts or spec.name in facts.COUNT_IS_OPTIONAL:
        return
    asked = container.amount(parts[0])
    reading = context.reading(spec, container)
    if asked is None or reading.denied:
        return
    what = f"{where(container, pod)}: {asked.resource}={asked.text} without {names.count}"
    fix = f"add {names.count}: 1 under resources.limits"
    if reading.request is None and spec.dialect is Dialect.VOLCANO:
        bound = "Volcano binds the pod, and the container gets no card"
        yield Violation(asked.path, f"{what}: {bound}", fix, quirk=volcano_releases.CORES_ALONE)
    elif reading.request is None:
        yield Violation(asked.path, f"{what}: the container gets no card", fix)
    else:
        yield Violation(
            asked.path, f"{what}: it counts as {reading.request.count} only by default", fix, severity=VetSeverity.NOTE
        )


def cores_over_whole(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """More cores than a card has."""
    names = spec.resources
    asked = container.amount(names.cores)
    if asked is None or asked.quantity is None or spec.name == facts.NEURON:
        return
    whole = facts.WHOLE_CORES.get(spec.name, 100)
    count = container.amount(names.count)
    cards = (count.quantity.whole or 1) if count is not None and count.quantity is not None else 1
    most = whole * max(cards, 1) if spec.name in facts.CORES_ARE_TOTALS else whole
    if asked.quantity.ceiling > most:
        yield Violation(
            asked.path,
            f"{where(container, pod)}: {names.cores}={asked.text} is more than a whole card, which is {whole}",
            f"write at most {most}; cores are those of each card, not of all" if most == whole else f"write {most}",
            RewriteFix(asked.path, str(most)),
        )


def unusable(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Whatever else the vendor's webhook or scheduler will not take."""
    if _is_beside(spec, pod, context):
        return
    reading = context.reading(spec, container)
    scope = (*container.path, "resources")
    if reading.refused is not None:
        error = reading.refused
        found = container.amount(error.resource)
        path = scope if found is None else found.path
        what = f"{where(container, pod)}: {error.resource}={error.value} is {error.why}"
        yield Violation(path, what, error.remedy, scope=scope)
    elif reading.denied and not any(key in spec.keys.inputs for key, _ in values.wrong_words(pod)):
        own = _own(spec, container)
        first = container.amount(spec.resources.count) or container.amount(own[0])
        path = scope if first is None else first.path
        asked = ", ".join(f"{name}={amount.text}" for name in own if (amount := container.amount(name)) is not None)
        what = f"{where(container, pod)}: the webhook refuses {asked}: {reading.denied}"
        fix = reading.remedy or f"ask for what `hami-plugins vendors {spec.name}` says"
        yield Violation(path, what, fix, scope=scope)


def priority(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Priorities beyond the two that there are."""
    name = spec.resources.priority
    asked = container.amount(name) if name else None
    if asked is not None and asked.quantity is not None and asked.quantity.whole not in (0, 1):
        yield Violation(
            asked.path,
            f"{where(container, pod)}: {name}={asked.text}: a card knows two priorities, 0 (high) and 1 (low)",
            "write 0 or 1; for more levels use PriorityClasses or the queues of Volcano",
        )


def _is_beside(spec: VendorSpec, pod: PodView, context: Context) -> bool:
    """Whether the amounts are those of the vendor's device plugin, while Koordinator allocates the cards."""
    return spec.name in facts.BESIDE_KOORDINATOR and bool(speaks(Dialect.KOORDINATOR, context.asked_by(pod)))


def _own(spec: VendorSpec, container: ContainerView) -> list[str]:
    return [name for name in spec.resources.all() if container.amount(name) is not None]


def _amounts(spec: VendorSpec, container: ContainerView) -> Iterator[ResourceEntry]:
    return (amount for name in spec.resources.all() if (amount := container.amount(name)) is not None)


def _whole_remedy(spec: VendorSpec, amount: ResourceEntry) -> str:
    names = spec.resources
    if amount.resource == names.count and (names.memory or names.cores):
        parts = " and ".join(name for name in (names.memory, names.cores) if name)
        return f"write 1, and ask for a part of the card with {parts}"
    if amount.resource == names.cores:
        return f"write a whole number; {spec.core_step or '1 %'} is the smallest step"
    return "write a whole number from 1"


RULES: Final = (
    VetRule(
        id="HP201",
        name="request-without-limit",
        severity=VetSeverity.ERROR,
        summary="A vendor's resource is in the requests but not in the limits.",
        why="The webhook recognises pods by their limits and does not claim this one, so the default scheduler keeps "
        "it; then the API server refuses a device request that has no limit.",
        fix="Write devices under resources.limits; requests follow by themselves.",
        check=each_request(request_alone),
    ),
    VetRule(
        id="HP202",
        name="request-differs-from-limit",
        severity=VetSeverity.ERROR,
        summary="The request of a vendor's resource is not its limit.",
        why="Devices cannot be overcommitted, so the API server refuses the pod.",
        fix="Write the same amount in both places, or the limit alone.",
        check=each_request(request_differs),
    ),
    VetRule(
        id="HP203",
        name="fractional-amount",
        severity=VetSeverity.ERROR,
        summary="An amount of a vendor's resource is not a whole number.",
        why="Parts of cards are asked for by memory and cores, in whole units; the API server refuses anything else.",
        fix="Write a whole number.",
        check=each_request(fractional),
    ),
    VetRule(
        id="HP204",
        name="negative-amount",
        severity=VetSeverity.ERROR,
        summary="An amount of a vendor's resource is negative.",
        why="The API server refuses it.",
        fix="Write a whole number from 1.",
        check=each_request(negative),
    ),
    VetRule(
        id="HP205",
        name="zero-amount",
        severity=VetSeverity.WARNING,
        summary="An amount of a vendor's resource is zero.",
        why="Zero cards is not a request; zero memory is read as the whole card.",
        fix="Write what is wanted, or drop the resource.",
        check=each_request(zero),
    ),
    VetRule(
        id="HP206",
        name="count-missing",
        severity=VetSeverity.ERROR,
        summary="Memory or cores are asked for without a number of cards.",
        why="Most vendors then give no card at all; NVIDIA's webhook adds a default that an operator can change.",
        fix="Write the number of cards as well.",
        check=each_request(count_missing),
    ),
    VetRule(
        id="HP207",
        name="cores-over-whole",
        severity=VetSeverity.ERROR,
        summary="A container asks for more cores than one card has.",
        why="Cores are a share of each card: more than all of it is cut down silently, or fits nowhere.",
        fix="Write at most a whole card's cores; ask for more cards to get more.",
        check=each_request(cores_over_whole),
    ),
    VetRule(
        id="HP208",
        name="unusable-request",
        severity=VetSeverity.ERROR,
        summary="The vendor's webhook or scheduler refuses the request.",
        why="The pod is not created, or never placed.",
        fix="Ask for what the vendor gives; `hami-plugins vendors NAME` shows it.",
        check=each_request(unusable),
    ),
    VetRule(
        id="HP209",
        name="priority-level",
        severity=VetSeverity.WARNING,
        summary="nvidia.com/priority is neither 0 nor 1.",
        why="It is not a scheduling priority: it decides which of two pods on one card waits. There are two levels.",
        fix="Write 0 or 1.",
        check=each_request(priority),
    ),
)
