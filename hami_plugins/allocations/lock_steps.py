"""What is to be done next about a node's locks, as values, each with its words for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hami_plugins.allocations.lock_demand import LockPod, ReleaseReason
from hami_plugins.model.units import NodeName


@dataclass(frozen=True, slots=True)
class Held:
    """The pod has its locks: it can be bound."""


@dataclass(frozen=True, slots=True)
class Take:
    """All locks of the pod are to be written in one patch that requires this version of the node.

    ``replaced`` are locks that were left behind.
    """

    texts: Mapping[str, str]
    version: str
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Pods of this server come first: ``before`` wait in front of it, ``holder`` has had the lock ``held`` seconds."""

    key: str
    before: int = 0
    holder: LockPod | None = None
    held: float = 0.0

    @property
    def text(self) -> str:
        """What the pod waits for."""
        pods = "1 pod waits" if self.before == 1 else f"{self.before} pods wait"
        waiting = f"{pods} before this one for {self.key}" if self.before else ""
        has = f"pod {self.holder.full_name} has had {self.key} for {self.held:.1f} s" if self.holder else ""
        return "; ".join(filter(None, (waiting, has)))


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another client's lock, ``age`` seconds old, which counts as left behind in ``left`` seconds.

    ``holder`` is the pod that it names, empty where it names none.
    """

    key: str
    holder: str
    age: float
    left: float

    @property
    def text(self) -> str:
        """What the pod waits for."""
        whose = f"pod {self.holder}, which another client binds," if self.holder else "another client"
        return f"{whose} has had {self.key} for {self.age:.1f} s; it counts as left behind in {self.left:.0f} s"


@dataclass(frozen=True, slots=True)
class Inspect:
    """A lock names a pod of which nothing is known: it has to be read from the API server first.

    The result does not count if the pod has had more ``changes`` in the meantime.
    """

    key: str
    text: str
    namespace: str
    name: str
    changes: int = 0


@dataclass(frozen=True, slots=True)
class ReadNode:
    """The node has not been seen: it has to be read from the API server first."""


@dataclass(frozen=True, slots=True)
class LockRefused:
    """The pod gets no lock here, however long it waits."""

    text: str


Step = Held | Take | Wait | Foreign | Inspect | ReadNode | LockRefused
"""The next step for a pod that asked for its locks."""


@dataclass(frozen=True, slots=True)
class LockRelease:
    """These keys are to be removed from the node in one patch that requires this version of it.

    Before it, an ``unsettled`` pod has to be marked as failed: it says that a plugin is on its way to it, and none is.
    """

    pod: LockPod
    keys: tuple[str, ...]
    version: str
    reason: ReleaseReason
    unsettled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEnd:
    """A pod has its locks no longer. ``held`` is for how many seconds it had them.

    ``report`` is what its owner should be told, empty where nothing went wrong.
    """

    node: NodeName
    pod: LockPod
    reason: ReleaseReason
    held: float
    report: str = ""


def unanswered(node: NodeName, keys: tuple[str, ...], seconds: float, *, bound: bool, phase: str) -> str:
    """The message for the owner of a pod whose device plugin did not answer in time."""
    locks = " and ".join(keys)
    if not bound:
        return (
            f"the pod was not bound to node {node} within {seconds:g} s after its lock ({locks}) was taken; the lock "
            "is released for the next pod. If the pod stays Pending, see the events of its scheduler"
        )
    return (
        f"no device plugin on node {node} has allocated this pod's devices within {seconds:g} s after its binding "
        f"(hami.io/bind-phase is {phase or 'not set'}); its lock ({locks}) is released for the next pod. Check the "
        "device plugin's pod on the node, then delete this pod, so that it is scheduled again"
    )
