"""What a scheduler allocated to each container of a pod, or why it cannot be handed over.

HAMi's list (``hami.io/vgpu-devices-allocated``) has a piece for every container, in the order of the pod, and a
separate list has its MIG places: the engine reads both, and nothing else differs here. The rest is about Volcano.

Volcano writes the cards of a pod into ``volcano.sh/vgpu-ids-new``, one segment for each application container whose
limits name the count or the memory resource, in their order (Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/device_info.go``, ``trials.md`` V6). That text is never erased;
``devices-to-allocate`` starts as its copy and loses the segments that were served, so that what is left must agree.
Volcano sometimes writes the cards of an earlier try, books a card twice, or binds without writing anything
(``trials.md`` V4 and V19): so every allocation is held against the node, its cards and the pods that were served
before.

Init containers and sidecars get no segment. If this project's allocator allocates, their allocation is listed
separately by name, in ``hami-plugins.io/vgpu-more-ids``. Without that, init containers get the slice of an application
container, as much of it as they request: the kubelet lets them use the ids of one that starts later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.inventory import RecordReader, named_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.pods import Container, Pod, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import PodUid
from hami_plugins.wire import lenient, volcano
from hami_plugins.wire import pods as wire_pods
from hami_plugins.wire.fields import Json
from volcano_vgpu.core.assignments import Segment, asking, listed
from volcano_vgpu.core.dialects import FAILED, keys_of
from volcano_vgpu.core.model import SlotId
from volcano_vgpu.core.origins import doubt
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.requests import larger
from volcano_vgpu.core.shares import AllocatedContainer, ContainerShare, NodeOffer, overbooked, share_of

CONFIG_SOURCE_KEY: Final = "kubernetes.io/config.source"
CONFIG_HASH_KEY: Final = "kubernetes.io/config.hash"
MIRROR_KEY: Final = "kubernetes.io/config.mirror"

Answers = Mapping[str, AllocatedContainer | ContainerRefusal]
"""By container name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationLookup:
    """What is to be found out about one pod.

    ``held`` are the ids that the kubelet gave to each of its containers. ``others`` are the pods of the node that were
    served before; ``served`` are the containers of this one that were: they have what they have, so that only their
    cards and their allocation are looked at. ``first`` are the annotations of the pod when the node first saw it, if
    known.
    """

    uid: PodUid
    held: Mapping[str, frozenset[SlotId]]
    others: tuple[PodRecord, ...] = field(default=())
    served: frozenset[str] = frozenset()
    first: Mapping[str, str] | None = None


def is_static(raw: Json) -> bool:
    """Whether the kubelet read the pod from a file; the API server has only its image."""
    annotations = lenient.inside(raw, "metadata", "annotations")
    return MIRROR_KEY in annotations or annotations.get(CONFIG_SOURCE_KEY, "api") != "api"


def allocations_of(raw: Json, question: AllocationLookup, offer: NodeOffer) -> Answers:
    """What each container that holds ids gets. Every text names the pod and the container."""
    try:
        case = _Case(wire_pods.pod(raw), question, offer)
    except WireError as error:
        return dict.fromkeys(
            question.held, ContainerRefusal(RefusalCode.MALFORMED, f"{error}; delete the pod", heals=False)
        )
    subject = f"pod {case.pod.full_name}"
    segments = _misplaced(case, static=is_static(raw)) or _segments(case)
    if isinstance(segments, ContainerRefusal):
        return dict.fromkeys(question.held, segments.about(subject))
    answers = _checked(_by_container(segments, case), case, doubt(raw, question.first, offer.spec))
    return {
        name: answer.about(f"{subject}, container {name}") if isinstance(answer, ContainerRefusal) else answer
        for name, answer in answers.items()
    }


class _Case(NamedTuple):
    """A pod, what is asked about it, and the node that it is on."""

    pod: Pod
    question: AllocationLookup
    offer: NodeOffer

    def asking(self) -> list[str]:
        """See ``assignments.asking``."""
        return asking(self.pod, self.offer.spec)


def _misplaced(case: _Case, *, static: bool) -> ContainerRefusal | None:
    """What is wrong with the pod as a whole: it is not Volcano's, not this one, or not for this node."""
    pod, question, offer = case
    if static:
        return ContainerRefusal(
            RefusalCode.STATIC_POD,
            "a static pod has no allocation, because no scheduler sees it; make it a pod of the API server with "
            "schedulerName: volcano",
            heals=False,
        )
    if pod.uid != question.uid:
        return ContainerRefusal(
            RefusalCode.POD_GONE,
            f"the kubelet starts the pod with UID {question.uid}, the API server has another of that name (UID "
            f"{pod.uid}); the old one is being deleted, nothing to do",
        )
    if pod.node != offer.node:
        return ContainerRefusal(
            RefusalCode.OTHER_NODE, f"bound to {pod.node or 'no node'}, not to {offer.node}; delete the pod"
        )
    if offer.spec.keys.allocated not in pod.annotations:
        return _unallocated(pod, offer)
    keys = keys_of(offer.spec)
    node = pod.annotations.get(keys.node, "")
    if node != offer.node:
        return ContainerRefusal(
            RefusalCode.OTHER_NODE,
            f"the allocation is for node {node or '(none)'} ({keys.node}), the pod is on {offer.node}: "
            f"{keys.scheduler} wrote it in an earlier try and did not renew it. Delete the pod, so that it is placed "
            "anew",
            heals=False,
        )
    return None


def _unallocated(pod: Pod, offer: NodeOffer) -> ContainerRefusal:
    keys = offer.spec.keys
    if keys_of(offer.spec).lists_every:
        return ContainerRefusal(
            RefusalCode.NO_ALLOCATION,
            f"scheduled by {pod.scheduler or 'no scheduler'}, and no card was allocated ({keys.allocated} is missing); "
            "create the pod again for a scheduler that asks the allocator or HAMi's extender, and without nodeName",
            heals=False,
        )
    if pod.scheduler not in offer.schedulers:
        return ContainerRefusal(
            RefusalCode.NOT_VOLCANO,
            f"scheduled by {pod.scheduler or 'no scheduler'}, so no card was allocated ({keys.allocated} is missing); "
            f"set schedulerName: {min(offer.schedulers, default='volcano')} and create the pod again",
            heals=False,
        )
    return ContainerRefusal(
        RefusalCode.NO_ALLOCATION,
        f"Volcano bound it without allocating a card ({keys.allocated} is missing). It does so for a node that it has "
        "not examined since its own start, for a locked node, and where nodeName was set by hand. The node is "
        "touched, which corrects later pods; delete this one, so that it is placed anew",
        heals=False,
    )


def _segments(case: _Case) -> Mapping[str, Segment] | ContainerRefusal:
    """The cards of each container that has some written for it; what is left to serve must agree with them."""
    if keys_of(case.offer.spec).lists_every:
        return listed(case.pod, case.offer.spec)
    keys, annotations = case.offer.spec.keys, case.pod.annotations
    try:
        more = named_in(case.offer.spec, case.pod)
        segments = volcano.decode_assignment(keys.allocated, annotations[keys.allocated])
        left = volcano.decode_assignment(keys.to_allocate, annotations.get(keys.to_allocate, ""))
    except WireError as error:
        return ContainerRefusal(
            RefusalCode.MALFORMED, f"{error}; only Volcano may write this, delete the pod", heals=False
        )
    names = case.asking()
    if names and not segments:
        segments = ((),)  # an empty text is that of one container without cards
    if len(segments) != len(names):
        return ContainerRefusal(
            RefusalCode.SEGMENTS,
            f"{keys.allocated} allocates cards to {len(segments)} containers, {len(names)} ask for some "
            f"({', '.join(names) or 'none'}); the annotation or the pod was changed. Delete the pod",
            heals=False,
        )
    for at, segment in enumerate(left):
        allocated = segments[at] if at < len(segments) else ()
        if segment and segment != allocated:
            return ContainerRefusal(
                RefusalCode.CONTRADICTED,
                f"{keys.to_allocate} has {volcano.encode_assignment([segment])!r} in place {at}, {keys.allocated} has "
                f"{volcano.encode_assignment([allocated])!r}; only Volcano may write these, delete the pod",
                heals=False,
            )
    return {**dict(zip(names, segments, strict=True)), **more}


def _by_container(allocated: Mapping[str, Segment], case: _Case) -> Answers:
    known = {container.name: container for container in case.pod.containers}
    answers: dict[str, AllocatedContainer | ContainerRefusal] = {}
    for name, ids in case.question.held.items():
        container = known.get(name)
        if container is None:
            text = f"the kubelet gave {len(ids)} slots to it, but the pod has no such container; delete the pod"
            answers[name] = ContainerRefusal(RefusalCode.SEGMENTS, text)
        elif container.kind is ContainerKind.APP or name in allocated:
            answers[name] = _app(container, allocated.get(name, ()), ids, case)
        elif container.kind is ContainerKind.SIDECAR:
            answers[name] = _sidecar(case.offer)
    for name, ids in case.question.held.items():
        if name not in answers:
            answers[name] = _init(known[name], ids, answers, case)
    return answers


def _app(
    container: Container, segment: Segment, ids: frozenset[SlotId], case: _Case
) -> AllocatedContainer | ContainerRefusal:
    offer = case.offer
    if len(segment) != len(ids):
        cards = volcano.encode_assignment([segment]) or "none"
        return ContainerRefusal(
            RefusalCode.COUNT,
            f"asked for {container.amount(offer.spec.resources.count) or 0} cards, the kubelet gave {len(ids)} slots, "
            f"{offer.scheduler} allocated {len(segment)} cards ({cards}); delete the pod, so that it is placed anew",
            heals=False,
        )
    if len({device.device for device in segment}) < len(segment):
        text = f"{volcano.encode_assignment([segment])} names a card twice; only a scheduler may write this"
        return ContainerRefusal(RefusalCode.MALFORMED, f"{text}, delete the pod", heals=False)
    served = container.name in case.question.served
    shares = [share_of(device, offer, served=served) for device in segment]
    refused = next((share for share in shares if isinstance(share, ContainerRefusal)), None)
    found = tuple(share for share in shares if not isinstance(share, ContainerRefusal))
    if refused is None and not served:
        refused = larger(container, found, case.pod, offer)
    return refused or AllocatedContainer(found)


def _sidecar(offer: NodeOffer) -> ContainerRefusal:
    return ContainerRefusal(
        RefusalCode.SIDECAR,
        "a sidecar (an init container with restartPolicy: Always); "
        f"{offer.scheduler} allocates it no card, and it runs with the other containers, so that it cannot use their "
        f"cards. Make it an ordinary container, drop its {offer.spec.resources.count}, or let the allocator place it",
        heals=False,
    )


def _init(
    container: Container, ids: frozenset[SlotId], answers: Answers, case: _Case
) -> AllocatedContainer | ContainerRefusal:
    """The slice of the application container whose ids it uses, as many cards of it as it asks for."""
    names = case.offer.spec.resources
    held = case.question.held
    running = {each.name for each in case.pod.containers if each.kind is ContainerKind.APP}
    lender = next((name for name in held if name in running and ids <= held[name]), None)
    if lender is None:
        return ContainerRefusal(
            RefusalCode.INIT_CONTAINER,
            f"an init container with {len(ids)} slots that no single application container uses after it; "
            f"{case.offer.scheduler} allocated it nothing, so that it can only use such a container's cards. Ask for "
            f"no more {names.count} than the first container that asks for any, or move the work to that container",
            heals=False,
        )
    lent = answers[lender]
    if isinstance(lent, ContainerRefusal):
        return ContainerRefusal(
            lent.code, f"it would use the slice of container {lender}, but: {lent.text}", lent.heals
        )
    try:
        fitting = [share for share in lent.shares if _fits(container, share, case)]
    except (InvalidRequestError, WireError) as error:
        return ContainerRefusal(RefusalCode.REQUEST, str(error), heals=False)
    if len(fitting) < len(ids):
        slices = ", ".join(f"{share.assigned.memory} of memory, {share.assigned.cores} cores" for share in lent.shares)
        return ContainerRefusal(
            RefusalCode.INIT_CONTAINER,
            f"an init container that asks for more than the slice of container {lender} ({slices}), which is all that "
            f"it can use; ask for at most that in {names.memory} and {names.cores}",
            heals=False,
        )
    return AllocatedContainer(tuple(fitting[: len(ids)]), lender)


def _fits(container: Container, lent: ContainerShare, case: _Case) -> bool:
    """Whether what the container names fits into a slice; what it does not name is as the slice has it.

    No cores at all means unlimited, so any number fits.
    """
    names = case.offer.spec.resources
    asked = request_of(case.offer.spec, container, case.pod)
    device = case.offer.device(lent.card)
    if asked is None or device is None:
        return False
    named = any(container.amount(name) is not None for name in (names.memory, names.memory_percentage))
    enough = not named or asked.memory.on(device) <= lent.assigned.memory
    return enough and (not lent.assigned.cores or asked.cores <= lent.assigned.cores)


def _checked(answers: Answers, case: _Case, forged: ContainerRefusal | None) -> Answers:
    """The same answers held against what others hold, against a mark that the pod has failed, and against forgery."""
    record, _ = RecordReader(Registry([case.offer.spec])).record(case.pod)
    full = overbooked(record, case.question.others, case.offer)
    phase = keys_of(case.offer.spec).phase
    marked = _marked(phase) if case.pod.annotations.get(phase) == FAILED else None
    checked: dict[str, AllocatedContainer | ContainerRefusal] = {}
    for name, answer in answers.items():
        checked[name] = answer
        if isinstance(answer, AllocatedContainer) and name not in case.question.served:
            card_full = next((full[card] for card in answer.cards if card in full), None)
            checked[name] = forged or card_full or marked or answer
    return checked


def _marked(phase: str) -> ContainerRefusal:
    return ContainerRefusal(
        RefusalCode.MARKED_FAILED,
        f"{phase} records that handing over its cards failed before; delete the pod, so that it is placed anew",
        heals=False,
    )
