"""The start of a container: which container it is, its allocation, and its specification file.

All that is needed comes through ``Ports``. Nothing here waits: what cannot be told yet is refused, and the kubelet asks
again (``trials.md`` K10).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import structlog

from hami_plugins.errors import KubeError, KubeletError, WireError
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.checkpoint import Checkpoint
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.pods import containers_of, finished, leaving
from volcano_vgpu.agent.cdi import Serving
from volcano_vgpu.agent.ports import Ports
from volcano_vgpu.core import edits, identity
from volcano_vgpu.core.allocations import CONFIG_HASH_KEY, AllocationLookup, Answers, allocations_of
from volcano_vgpu.core.assignments import record_of
from volcano_vgpu.core.edits import ContainerEdits, Owner
from volcano_vgpu.core.identity import Adopted, AllocateCall, Allocation, IdentityDoubt, Starting, Unclear
from volcano_vgpu.core.model import SharingMode, SlotId
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer

_log = structlog.get_logger(__name__)

_DOUBTS: Final = {
    IdentityDoubt.UNRECORDED: RefusalCode.UNRECORDED,
    IdentityDoubt.DOUBLED: RefusalCode.DOUBLED,
    IdentityDoubt.CONTRADICTED: RefusalCode.CONTRADICTED,
}
_MAY_BE_STALE: Final = frozenset(
    {
        RefusalCode.NO_ALLOCATION,
        RefusalCode.NOT_VOLCANO,
        RefusalCode.OTHER_NODE,
        RefusalCode.MALFORMED,
        RefusalCode.SEGMENTS,
        RefusalCode.COUNT,
        RefusalCode.CONTRADICTED,
        RefusalCode.UNKNOWN_CARD,
        RefusalCode.MARKED_FAILED,
        RefusalCode.LARGER,
    }
)
"""Refusals that another version of the pod may not give: the pod is read once more before it is refused so."""

_SLICE: Final = ("NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_")
"""The variables that make up a slice, by the start of their names."""


class CallLog:
    """What the agent remembers of its own answers; it may be lost at any time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.calls: tuple[AllocateCall, ...] = ()

    def add(self, nonce: str, slots: frozenset[SlotId]) -> None:
        """An answer that is about to be given."""
        with self._lock:
            self.calls = (*self.calls, AllocateCall(nonce, slots, self._clock()))

    def busy(self, held_by: Collection[Allocation]) -> frozenset[SlotId]:
        """The slots that are held. Forgets what the kubelet has forgotten."""
        self.forget(held_by)
        return identity.in_use(held_by, self.calls, now=self._clock())

    def forget(self, held_by: Iterable[Allocation]) -> None:
        """Forgets answers that no container holds and that the kubelet will no longer record."""
        with self._lock:
            self.calls = identity.remembered(self.calls, held_by, now=self._clock())


class _Known(NamedTuple):
    """What a pod holds, and from what that was worked out."""

    raw: Json
    handed: Mapping[str, tuple[AssignedDevice, ...]]
    record: PodRecord | None


class PreStartHandler:
    """Serves containers that are about to start. Pods may come at the same time, containers of one do not."""

    def __init__(self, ports: Ports, book: CallLog) -> None:
        self._ports = ports
        self._book = book
        self._reservations = ports.reservations
        self._records: dict[PodUid, _Known] = {}
        self._recorded: tuple[Checkpoint, tuple[Allocation, ...]] | None = None

    def start(self, ids: frozenset[SlotId]) -> ContainerRefusal | None:
        """Make the container that holds these ids ready; ``None`` where it is."""
        try:
            recorded = self.recorded()
        except (WireError, OSError) as error:
            text = f"the kubelet's checkpoint cannot be read: {error}; it tries again; restart it if this persists"
            return ContainerRefusal(RefusalCode.UNREADABLE_CHECKPOINT, text)
        # A kubelet with one slot left asks for no preference, so that this is where it is certain to come by.
        self._book.forget((*recorded, *self._ports.specifications.served))
        whose = self._whose(recorded, ids)
        if isinstance(whose, Unclear):
            return ContainerRefusal(_DOUBTS[whose.doubt], whose.text)
        if isinstance(whose, Adopted):
            _log.info("container_adopted", pod_uid=whose.pod_uid, containers=whose.containers)
            return None
        raw = self._pod(whose.pod_uid)
        if isinstance(raw, ContainerRefusal):
            return raw
        return self._listed_elsewhere(whose, ids, raw) or self._started(whose, raw, recorded)

    def recorded(self) -> tuple[Allocation, ...]:
        """The kubelet's record, worked out once for each state of it. Raises ``OSError`` and ``WireError``."""
        record = self._ports.checkpoint()
        last = self._recorded
        if last is None or last[0] is not record:
            last = self._recorded = (record, identity.allocations(record, self._ports.resource))
        return last[1]

    def held(self, recorded: Iterable[Allocation]) -> tuple[Allocation, ...]:
        """Who holds slots: by the kubelet's record, and by what was served to pods that it has forgotten.

        The kubelet lets go of a pod's ids when its containers have ended, a moment before the API server hears of it:
        a served pod that the record lacks and that is going holds nothing any more.
        """
        found = tuple(each for each in recorded if not self._ended(each.pod_uid))
        known = {each.pod_uid for each in found}
        served = (each for each in self._ports.specifications.served if each.pod_uid not in known)
        return (*found, *(each for each in served if not self._ended(each.pod_uid, or_going=True)))

    def _whose(self, recorded: tuple[Allocation, ...], ids: frozenset[SlotId]) -> Starting | Adopted | Unclear:
        calling = {each.pod_uid for each in recorded if each.slots == ids}
        gone = {each.pod_uid for each in recorded if self._ended(each.pod_uid)}
        if calling <= gone:
            gone -= calling
        known = {each.pod_uid for each in recorded}
        served = [
            each
            for each in self._ports.specifications.served
            if each.pod_uid in known or not self._ended(each.pod_uid, or_going=True)
        ]
        whose = identity.identify(recorded, ids, served=served, calls=self._book.calls, gone=gone)
        if isinstance(whose, Starting):
            for each in whose.withheld:
                text = f"{each}: its ids ({', '.join(sorted(each.slots))}) were given to pod {whose.pod_uid} before"
                self._ports.outcomes.refused(each.pod_uid, each.container, ContainerRefusal(RefusalCode.DOUBLED, text))
        return whose

    def _ended(self, uid: PodUid, *, or_going: bool = False) -> bool:
        """Whether no container of a pod can run any more, by what the watch shows (static pods it does not)."""
        raw = self._ports.pods.get(uid)
        if raw is None:
            return True
        return (or_going and leaving(raw)) or finished(raw)

    def _pod(self, uid: PodUid) -> Json | ContainerRefusal:
        raw = self._ports.pods.get(uid)
        if raw is not None:
            return raw
        try:
            found = self._ports.pods.read_of_node()
        except KubeError as error:
            text = f"pod {uid} is not known yet and the API server does not answer: {error}; the kubelet tries again"
            return ContainerRefusal(RefusalCode.AWAY, text)
        for each in found:
            metadata = each.get("metadata") or {}
            if uid in (metadata.get("uid"), (metadata.get("annotations") or {}).get(CONFIG_HASH_KEY)):
                return each
        return ContainerRefusal(
            RefusalCode.POD_GONE, f"the API server has no pod with UID {uid}; it is being deleted, nothing to do"
        )

    def _listed_elsewhere(self, whose: Starting, ids: frozenset[SlotId], raw: Json) -> ContainerRefusal | None:
        """Whether pod-resources has the ids for another pod.

        It is asked only for calls from before the agent started: the others are confirmed by its own book, and every
        question gives the kubelet an occasion to forget an allocation under way (``trials.md`` K8).
        """
        nonces = {whose.containers[name].nonce for name in whose.calling}
        if nonces <= {call.nonce for call in self._book.calls} or nonces <= self._nonces(whose.pod_uid):
            return None
        try:
            rows = [row for row in self._ports.listed() if row.resource == self._ports.resource]
        except KubeletError as error:
            _log.warning("cross_check_skipped", error=str(error))
            return None
        metadata = raw.get("metadata") or {}
        mine = (metadata.get("namespace"), metadata.get("name"))
        others = sorted(
            {f"{row.namespace}/{row.pod}" for row in rows if row.device_ids & ids} - {"/".join(map(str, mine))}
        )
        if not others:
            return None
        return ContainerRefusal(
            RefusalCode.CONTRADICTED,
            f"the kubelet's checkpoint has {', '.join(sorted(ids))} for pod {mine[0]}/{mine[1]}, its pod-resources "
            f"list for {', '.join(others)}; the kubelet tries again, delete the pod if this persists",
        )

    def _nonces(self, uid: PodUid) -> frozenset[str]:
        return frozenset(each.nonce for each in self._ports.specifications.served_to(uid))

    def _started(self, whose: Starting, raw: Json, recorded: tuple[Allocation, ...]) -> ContainerRefusal | None:
        answers = self._serve(whose, raw, recorded)
        refusals = [answer for name in whose.calling if isinstance(answer := answers[name], ContainerRefusal)]
        if any(refusal.code in _MAY_BE_STALE for refusal in refusals):
            fresh = self._read_again(raw)
            if isinstance(fresh, ContainerRefusal):
                return fresh
            if fresh is not None:
                raw, answers = fresh, self._serve(whose, fresh, recorded)
        allocated = {name: answer for name, answer in answers.items() if isinstance(answer, AllocatedContainer)}
        if allocated:
            self._ports.outcomes.served(whose.pod_uid, allocated)
        for name in whose.calling:
            answer = answers[name]
            if isinstance(answer, ContainerRefusal):
                self._ports.outcomes.refused(whose.pod_uid, name, answer)
        first = answers[next(iter(_yet_to_start(raw, whose.calling)), whose.calling[0])]
        return first if isinstance(first, ContainerRefusal) else None

    def _read_again(self, raw: Json) -> Json | ContainerRefusal | None:
        """A newer version of the pod, if there is one."""
        metadata = raw.get("metadata") or {}
        try:
            fresh = self._ports.pods.read(str(metadata.get("namespace")), str(metadata.get("name")))
        except KubeError as error:
            _log.warning("pod_not_read_again", pod=metadata.get("name"), error=str(error))
            return None
        if fresh is None:
            return ContainerRefusal(
                RefusalCode.POD_GONE, f"pod {metadata.get('namespace')}/{metadata.get('name')} was deleted"
            )
        same = (fresh.get("metadata") or {}).get("resourceVersion") == metadata.get("resourceVersion")
        return None if same else fresh

    def _serve(self, whose: Starting, raw: Json, recorded: tuple[Allocation, ...]) -> Answers:
        """Decide about all containers of the pod, and write down what the allocated ones get.

        Pods that are decided concurrently count each other: the first one reserves its cards until its specification
        records them.
        """
        offer = self._ports.offer()
        uid = whose.pod_uid
        with self._reservations.lock:
            question = AllocationLookup(
                uid=uid,
                held={name: each.slots for name, each in whose.containers.items()},
                others=self._others(uid, recorded, offer),
                served=frozenset(each.container for each in self._ports.specifications.served_to(uid)),
                first=self._ports.pods.first(uid),
            )
            answers = allocations_of(raw, question, offer)
            decided = {name: each.devices for name, each in answers.items() if isinstance(each, AllocatedContainer)}
            self._reservations.held[uid] = record_of(raw, offer, decided)
        try:
            return self._written(whose, raw, answers, offer)
        finally:
            with self._reservations.lock:
                del self._reservations.held[uid]

    def _others(self, uid: PodUid, recorded: Iterable[Allocation], offer: NodeOffer) -> tuple[PodRecord, ...]:
        """The pods that had their cards before: served, being served, or started by another plugin or without CDI.

        What was served counts, because the owner of a pod may write its annotations while it runs.
        """
        before = {each.pod_uid for each in recorded if not each.nonce or each.answered}
        uids = (before | self._ports.specifications.pods) - {uid}
        known: dict[PodUid, _Known] = {}
        for each in sorted(uids):
            raw = self._ports.pods.get(each)
            if raw is not None:
                handed = self._ports.specifications.handed_to(each)
                last = self._records.get(each)
                unchanged = last is not None and last.raw is raw and last.handed is handed
                known[each] = last if last and unchanged else _Known(raw, handed, record_of(raw, offer, handed or None))
        self._records = known
        records = {each: record for each, (_, _, record) in known.items()} | self._reservations.held
        return tuple(record for each, record in records.items() if record is not None and each != uid)

    def _written(self, whose: Starting, raw: Json, answers: Answers, offer: NodeOffer) -> Answers:
        settings = self._ports.settings()
        had = self._nonces(whose.pod_uid)
        servings: list[Serving] = []
        checked = dict(answers)
        for name, answer in answers.items():
            if isinstance(answer, ContainerRefusal):
                continue
            owner = Owner(pod_uid=whose.pod_uid, container=name, raw=edits.container_in(raw, name))
            wanted = edits.edits_of(answer, owner, settings, offer.inventory)
            allocation = whose.containers[name]
            wrong = None if allocation.nonce in had else _answered_otherwise(allocation, wanted)
            if wrong is not None:
                checked[name] = wrong
                continue
            servings.append(Serving(allocation=allocation, allocated=answer, edits=wanted, dialect=settings.dialect))
        if not servings:
            return checked
        names = [f"{whose.pod_uid}_{each.allocation.container}" for each in servings]
        wrong = None
        if settings.mode is not SharingMode.MIG:
            wrong = self._ports.unlimited() or self._ports.directories.make(names)
        wrong = wrong or self._ports.specifications.write(whose.pod_uid, servings)
        if wrong is not None:
            checked.update((each.allocation.container, wrong) for each in servings)
        return checked


def _answered_otherwise(allocation: Allocation, wanted: ContainerEdits) -> ContainerRefusal | None:
    """Without CDI the answer of ``Allocate`` is what the container has; it must be the slice of just this container."""
    if not allocation.answered:
        return None
    env = {name: text for name, text in wanted.env if name.startswith(_SLICE)}
    answered = {name: text for name, text in allocation.answered.items() if name.startswith(_SLICE)}
    if env == answered:
        return None
    return ContainerRefusal(
        RefusalCode.CONTRADICTED,
        f"{allocation} got {answered} from Allocate, but {env} is allocated to it: it was asked for while another "
        "pod was admitted. It does not start; delete the pod, and turn CDI on in the container runtime",
        heals=False,
    )


def _yet_to_start(raw: Json, calling: Iterable[str]) -> list[str]:
    """The containers that the call may be for, in the order in which they start, without init containers that are done.

    A refused init container never runs, so nothing after it starts: the call is for the first of them.
    """
    ended = {
        each.get("name")
        for each in lenient.mappings(lenient.inside(raw, "status").get("initContainerStatuses"))
        if lenient.inside(each, "state", "terminated").get("exitCode") == 0
    }
    left = set(calling) - ended
    return [str(each["name"]) for each, _ in containers_of(raw) if each.get("name") in left]
