"""Which container a call of the kubelet is for.

Neither ``Allocate`` nor ``PreStartContainer`` names a pod. So ``Allocate`` answers with a name of its own for each
call, and the kubelet keeps that answer in its checkpoint under pod UID, container and resource. When the container is
about to start, the name found there says whose call it was (``trials.md`` K10: 0 wrong in 804 starts,
crashes of either side included). What the agent remembers of its own calls, what it has served and what pod-resources
lists are cross-checks only.

The kubelet can hand out an id twice (``trials.md`` K8). Then the container that came first keeps it: the one that was
served already, else the one whose call came first. The later one is never served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from volcano_vgpu.core.model import SlotId

KIND: Final = "volcano.sh/vgpu"
"""The CDI kind of the names that ``Allocate`` answers with: ``volcano.sh/vgpu=<nonce>``."""

NONCE_KEY: Final = "volcano.sh/vgpu-allocation"
"""The annotation that carries the nonce where an answer has no CDI name (runtimes without CDI)."""

IN_FLIGHT_SECONDS: Final = 15.0
"""For so long a call that the checkpoint does not show yet counts as held; the kubelet writes within milliseconds."""


class IdentityDoubt(StrEnum):
    """Why the container of a call is unknown. All may heal: the kubelet asks again."""

    UNRECORDED = "not-recorded"
    DOUBLED = "id-given-twice"
    CONTRADICTED = "contradiction"


class AllocateCall(NamedTuple):
    """One answered ``Allocate``: its nonce, the ids it was for, and when it came (seconds of a monotonic clock)."""

    nonce: str
    slots: frozenset[SlotId]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What the kubelet recorded for one container. Without a ``nonce`` another plugin answered it.

    ``answered`` are the variables that the answer itself carried (none where it named a CDI device).
    """

    pod_uid: PodUid
    container: str
    slots: frozenset[SlotId]
    nonce: str = ""
    answered: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"container {self.container} of pod {self.pod_uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """A pod with a container that is about to start.

    ``containers`` are all of its containers that are ours to serve; ``calling`` those that hold exactly the ids of the
    call (an init container and an application may share them). ``withheld`` are later owners of the same ids, in any
    pod: they get nothing.
    """

    pod_uid: PodUid
    containers: Mapping[str, Allocation]
    calling: tuple[str, ...]
    withheld: tuple[Allocation, ...] = ()


@dataclass(frozen=True, slots=True)
class Adopted:
    """Containers that another plugin served before: what they have is in the kubelet's own copy of its answer."""

    pod_uid: PodUid
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unclear:
    """No container can be served on this call; ``text`` is the reason and the remedy."""

    doubt: IdentityDoubt
    text: str


def allocations(checkpoint: Checkpoint, resource: str) -> tuple[Allocation, ...]:
    """What the kubelet recorded for one resource, in the order of its record."""
    return tuple(_allocation(entry) for entry in checkpoint.entries if entry.resource == resource)


def identify(
    recorded: Iterable[Allocation],
    ids: frozenset[SlotId],
    *,
    served: Iterable[Allocation] = (),
    calls: Iterable[AllocateCall] = (),
    gone: Collection[PodUid] = frozenset(),
) -> Starting | Adopted | Unclear:
    """Whose container starts with these ids.

    ``recorded`` is the kubelet's record, ``served`` the containers with a specification (a kubelet that lost its record
    does not know of those), ``calls`` the agent's memory of its own answers (empty after a restart), ``gone`` the
    deleted pods that the record still has, because the kubelet writes it only when it allocates.
    """
    known = [each for each in recorded if each.pod_uid not in gone]
    calling = [each for each in known if each.slots == ids]
    if not calling:
        return _unrecorded(known, ids)
    claims = _Claims(known, [each for each in served if each.pod_uid not in gone], tuple(calls))
    pods = {each.pod_uid for each in calling}
    for each in known:
        if each.pod_uid in pods and (wrong := claims.contradiction(each)) is not None:
            return wrong
    keeping = [each for each in calling if claims.keeps(each)]
    if not keeping:
        return _doubled(claims, calling, ids)
    uid = next((each.pod_uid for each in keeping if each.nonce), None)
    if uid is None:
        return Adopted(keeping[0].pod_uid, tuple(each.container for each in keeping))
    of_pod = [each for each in known if each.pod_uid == uid and each.nonce]
    return Starting(
        pod_uid=uid,
        containers={each.container: each for each in of_pod if claims.keeps(each)},
        calling=tuple(each.container for each in keeping if each.pod_uid == uid and each.nonce),
        withheld=tuple(each for each in known if (each in calling or each in of_pod) and not claims.keeps(each)),
    )


def in_use(held_by: Iterable[Allocation], calls: Iterable[AllocateCall], *, now: float) -> frozenset[SlotId]:
    """The ids that are held: by the kubelet's record, by what was served, by calls that are not recorded yet."""
    held = {slot for each in held_by for slot in each.slots}
    held.update(slot for call in calls if now - call.at < IN_FLIGHT_SECONDS for slot in call.slots)
    return frozenset(held)


def remembered(
    calls: Iterable[AllocateCall], recorded: Iterable[Allocation], *, now: float
) -> tuple[AllocateCall, ...]:
    """The calls worth remembering: those that the kubelet recorded, and those it may still be recording."""
    nonces = {each.nonce for each in recorded}
    return tuple(call for call in calls if call.nonce in nonces or now - call.at < IN_FLIGHT_SECONDS)


def _allocation(entry: CheckpointEntry) -> Allocation:
    names = [device.name.partition("=") for device in entry.response.cdi_devices]
    nonce = next((name for kind, _, name in names if kind == KIND), entry.response.annotations.get(NONCE_KEY, ""))
    return Allocation(
        pod_uid=entry.pod_uid,
        container=entry.container,
        slots=frozenset(map(SlotId, entry.device_ids)),
        nonce=nonce,
        answered=dict(entry.response.envs),
    )


def _unrecorded(live: Iterable[Allocation], ids: frozenset[SlotId]) -> Unclear:
    partly = sorted(f"{each} ({_listed(each.slots)})" for each in live if each.slots & ids)
    text = f"the kubelet's checkpoint has no container with exactly {_listed(ids)} yet"
    if partly:
        text += f"; parts of it are held by {', '.join(partly)}"
    return Unclear(IdentityDoubt.UNRECORDED, f"{text}. The kubelet tries again; if this persists, delete the pod")


def _doubled(claims: _Claims, calling: Iterable[Allocation], ids: frozenset[SlotId]) -> Unclear:
    mine = "; ".join(sorted(map(str, calling)))
    others = "; ".join(sorted({str(rival) for each in calling for rival in claims.rivals(each)}))
    return Unclear(
        IdentityDoubt.DOUBLED,
        f"the kubelet gave {_listed(ids)} to {mine}, although {others} had it, or a part of it; nothing is handed out "
        "twice. This pod starts when the other has ended; delete one of the two pods to have it placed anew",
    )


class _Claims:
    """Who holds what by all accounts, and who of several had it first."""

    def __init__(self, known: list[Allocation], served: list[Allocation], calls: tuple[AllocateCall, ...]) -> None:
        recorded = {each.nonce for each in known}
        self._holders = [*known, *(each for each in served if each.nonce not in recorded)]
        self._served = {each.nonce: each for each in served}
        self._own = {call.nonce: (place, call) for place, call in enumerate(calls)}

    def contradiction(self, mine: Allocation) -> Unclear | None:
        """Two containers with the name of one call, or a name with ids that it was not given for."""
        if not mine.nonce:
            return None
        for other in (*self._holders, *self._served.values()):
            same = (other.pod_uid, other.container) == (mine.pod_uid, mine.container)
            if other.nonce == mine.nonce and not same:
                return Unclear(
                    IdentityDoubt.CONTRADICTED,
                    f"the kubelet's checkpoint has one answer ({mine.nonce}) for both {mine} and {other}; "
                    "neither is served until that is corrected. Delete both pods",
                )
        if mine.nonce in self._own and self._own[mine.nonce][1].slots != mine.slots:
            given = _listed(self._own[mine.nonce][1].slots)
            return Unclear(
                IdentityDoubt.CONTRADICTED,
                f"the kubelet's checkpoint has the answer {mine.nonce} with {_listed(mine.slots)} for {mine}, but it "
                f"was given for {given}; delete the pod",
            )
        return None

    def rivals(self, mine: Allocation) -> list[Allocation]:
        """Containers of other pods that hold some of the same ids."""
        return [each for each in self._holders if each.pod_uid != mine.pod_uid and each.slots & mine.slots]

    def keeps(self, mine: Allocation) -> bool:
        """Whether none of its ids was held before."""
        return all(self._comes_first(mine, rival) for rival in self.rivals(mine))

    def _comes_first(self, mine: Allocation, rival: Allocation) -> bool:
        """What another plugin answered counts as served.

        Calls that the agent does not remember were made before it started, so before those that it does. Of two such,
        none came first: both wait until one is gone.
        """
        if not mine.nonce or mine.nonce in self._served:
            return True
        if not rival.nonce or rival.nonce in self._served:
            return False
        if mine.nonce in self._own:
            return rival.nonce in self._own and self._own[mine.nonce][0] < self._own[rival.nonce][0]
        return rival.nonce in self._own


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(sorted(ids))
