"""The steps in which a kubelet takes a pod in and starts its containers: to be seen, and to die between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.sandbox.kubelet.specs import PodSpec


class FaultPoint(StrEnum):
    """What is about to be done, or (``..ED``) has just been done."""

    PREFER = "GetPreferredAllocation"
    ALLOCATE = "Allocate"
    ALLOCATED = "Allocated"
    RECORDED = "Recorded"
    CHECKPOINTED = "Checkpointed"
    ADMITTED = "Admitted"
    REJECTED = "Rejected"
    SANDBOX = "RunPodSandbox"
    PRE_START = "PreStartContainer"
    PRE_STARTED = "PreStarted"
    CREATE = "CreateContainer"
    START = "StartContainer"
    STARTED = "Started"


class PassedFaultPoint(NamedTuple):
    """A step that was taken; ``container`` is empty where the pod as a whole is meant."""

    step: FaultPoint
    pod: str
    pod_uid: str
    container: str


class Killed(BaseException):
    """Ends a thread of a kubelet that was killed; not an ``Exception``, so that no handler takes it for an error."""


class FaultJournal:
    """Remembers the steps, and kills the kubelet at one of them when asked to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: list[PassedFaultPoint] = []
        self._deadly: Callable[[PassedFaultPoint], bool] | None = None
        self._dead = threading.Event()

    @property
    def dead(self) -> threading.Event:
        """Set once the kubelet was killed; every further step ends its thread."""
        return self._dead

    def step(self, step: FaultPoint, pod: PodSpec, container: str = "") -> None:
        """A step is taken; raises ``Killed``."""
        taken = PassedFaultPoint(step, pod.full_name, pod.uid, container)
        with self._lock:
            if self._dead.is_set():
                raise Killed
            self._taken.append(taken)
            if self._deadly is not None and self._deadly(taken):
                self._deadly = None
                self._dead.set()
                raise Killed

    def check(self) -> None:
        """Raises ``Killed`` if the kubelet is dead; for code that is not a step of its own."""
        if self._dead.is_set():
            raise Killed

    def kill(self) -> None:
        """The kubelet dies now."""
        self._dead.set()

    def kill_at(self, deadly: Callable[[PassedFaultPoint], bool]) -> None:
        """Let the kubelet die at the first step for which this is true."""
        with self._lock:
            self._deadly = deadly

    def revive(self) -> None:
        """A new kubelet goes on with the same journal."""
        self._dead.clear()

    def taken(self, *steps: FaultPoint) -> tuple[PassedFaultPoint, ...]:
        """What was done so far, oldest first; only these steps where some are named."""
        with self._lock:
            return tuple(taken for taken in self._taken if not steps or taken.step in steps)
