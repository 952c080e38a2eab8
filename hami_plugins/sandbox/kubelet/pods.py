"""One admitted pod: its containers are started, watched, started again and ended in the kubelet's order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from hami_plugins.errors import KubeletError
from hami_plugins.sandbox.kubelet import environment, statuses
from hami_plugins.sandbox.kubelet.admission import DeviceManager
from hami_plugins.sandbox.kubelet.fault_points import FaultJournal, FaultPoint, Killed
from hami_plugins.sandbox.kubelet.runtime import KILLED, TERMINATED, CreationError, RunningContainer, Runtime
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec, Role
from hami_plugins.sandbox.kubelet.status_writer import StatusWriter
from hami_plugins.sandbox.kubelet.statuses import Fate, Waiting
from hami_plugins.sandbox.kubelet.times import Times
from hami_plugins.wire.fields import Json

_log = structlog.get_logger(__name__)

_IDLE: Final = 3600.0
"""Seconds between two looks at a pod with which nothing is to happen."""

_BACK_OFF: Final = "CrashLoopBackOff"


class OnEnd(Protocol):
    """The listeners for the end of a pod."""

    def __call__(self, pod: PodSpec, *, gone: bool) -> None:
        """All containers have ended for good; ``gone`` says that nothing is left of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnvironment:
    """What all pods of a node share."""

    runtime: Runtime
    allocator: DeviceManager
    journal: FaultJournal
    paper: StatusWriter
    times: Times
    clock: Callable[[], float]
    volumes: Path
    host: str


class PodWorker:
    """Owns a thread. ``wake`` has it look again, ``delete`` ends the pod, ``abandon`` ends the thread alone."""

    def __init__(self, pod: PodSpec, around: PodEnvironment, *, started: float, on_end: OnEnd) -> None:
        self._pod = pod
        self._around = around
        self._started = started
        self._on_end = on_end
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._abandoned = threading.Event()
        self._deadline: float | None = None
        self._waiting: dict[str, Waiting] = {}
        self._retry_at: dict[str, float] = {}
        self._backoff: dict[str, float] = {}
        self._reported: Mapping[str, Any] = {}
        self._unreported = False
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod.full_name}")

    @property
    def pod(self) -> PodSpec:
        """The pod as the API server has it."""
        with self._lock:
            return self._pod

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def update(self, raw: Json) -> None:
        """The pod object has changed; its containers stay as they were admitted."""
        with self._lock:
            self._pod = replace(self._pod, raw=raw)

    def wake(self) -> None:
        """Something may have happened to a container."""
        self._wake.set()

    def delete(self, grace: float) -> None:
        """The containers are to end within ``grace`` seconds; a later call may shorten that."""
        deadline = self._around.clock() + grace
        with self._lock:
            self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
        self._wake.set()

    def abandon(self) -> None:
        """The kubelet goes away; containers run on. Waits for the thread."""
        self._abandoned.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._abandoned.is_set():
                self._wake.clear()
                pause = self._turn()
                if pause is None:
                    break
                self._wake.wait(pause)
        except Killed:
            _log.debug("pod_worker_killed", pod=self._pod.full_name)

    def _turn(self) -> float | None:
        """One look at the pod: the seconds until the next, ``None`` when nothing is left to do."""
        began = self._around.clock()
        with self._lock:
            deadline = self._deadline
        if deadline is not None:
            return self._wind_down(deadline)
        if not self._over():
            self._sandbox()
            self._advance()
        if self._over():
            self._close()
            return self._around.times.retry if self._unreported else _IDLE
        self._report()
        return self._pause(began)

    def _over(self) -> bool:
        return statuses.phase(self._pod, self._fates()) in ("Succeeded", "Failed")

    def _sandbox(self) -> None:
        if not self._around.runtime.has_sandbox(self._pod.uid):
            self._around.journal.step(FaultPoint.SANDBOX, self._pod)
            self._abandoned.wait(self._around.times.sandbox)
            self._around.runtime.make_sandbox(self._pod.uid)

    def _advance(self) -> None:
        """Starts what may start: init containers one after another, sidecars on the way, then the apps."""
        for container in self._pod.containers:
            if self._abandoned.is_set():
                return
            fate = self._fate(container)
            if container.role is Role.INIT and fate.done:
                continue
            if not fate.running and self._may_start(fate):
                self._try(container)
                fate = self._fate(container)
            if container.role is Role.INIT and not fate.done:
                return
            if container.role is Role.SIDECAR and not fate.running:
                return

    def _may_start(self, fate: Fate) -> bool:
        if self._around.clock() < self._retry_at.get(fate.spec.name, 0):
            return False
        if fate.newest is None or (fate.waiting is not None and fate.waiting.reason != _BACK_OFF):
            return True
        return self._starts_again(fate) and self._rested(fate, fate.newest)

    def _rested(self, fate: Fate, newest: RunningContainer) -> bool:
        """The first restart comes at once, each further one after twice the pause of the one before."""
        name, times = fate.spec.name, self._around.times
        if newest.attempt == 0 or fate.waiting is not None:
            return True
        pause = min(self._backoff.get(name, times.restart / 2) * 2, times.longest_restart)
        self._backoff[name] = pause
        self._retry_at[name] = (newest.ended or newest.started) + pause
        text = f"back-off {pause:g}s restarting failed container={name} pod={self._pod.name}_{self._pod.namespace}"
        self._waiting[name] = Waiting(_BACK_OFF, f"{text}({self._pod.uid})")
        return False

    def _try(self, container: ContainerSpec) -> None:
        around, pod = self._around, self.pod
        try:
            wanted = around.allocator.configuration(pod, container)
            own = environment.edits(pod, container, volumes=around.volumes)
            around.journal.step(FaultPoint.CREATE, pod, container.name)
            self._abandoned.wait(around.times.create)
            made = around.runtime.create(pod, container, replace(wanted, edits=wanted.edits.plus(own)))
            around.journal.step(FaultPoint.START, pod, container.name)
            self._abandoned.wait(around.times.start)
            around.runtime.start(made)
        except KubeletError as error:
            self._wait_for(container, "CreateContainerConfigError", str(error))
        except CreationError as error:
            self._wait_for(container, error.reason, str(error))
        else:
            around.journal.step(FaultPoint.STARTED, pod, container.name)
            self._waiting.pop(container.name, None)
            self._retry_at.pop(container.name, None)

    def _wait_for(self, container: ContainerSpec, reason: str, message: str) -> None:
        self._around.journal.check()
        if self._waiting.get(container.name) != Waiting(reason, message):
            self._around.paper.event(self._pod, "Failed", f"Error: {message}")
        self._waiting[container.name] = Waiting(reason, message)
        self._retry_at[container.name] = self._around.clock() + self._around.times.retry
        _log.info(
            "container_not_created", pod=self._pod.full_name, container=container.name, reason=reason, message=message
        )

    def _wind_down(self, deadline: float) -> float | None:
        runtime, now, late = self._around.runtime, self._around.clock(), False
        for container in self._pod.containers:
            newest = runtime.newest(self._pod.uid, container.name)
            if newest is None or not newest.running:
                continue
            if now >= deadline:
                runtime.finish(self._pod.uid, container.name, KILLED)
            elif newest.program.stubborn:
                late = True
            else:
                runtime.finish(self._pod.uid, container.name, TERMINATED)
        if late:
            return max(deadline - now, 0.001)
        self._report()
        runtime.remove_sandbox(self._pod.uid)
        self._on_end(self._pod, gone=False)
        if not self._around.paper.remove(self._pod):
            return self._around.times.retry
        runtime.forget(self._pod.uid)
        self._on_end(self._pod, gone=True)
        return None

    def _close(self) -> None:
        """All apps have ended: sidecars are ended too."""
        self._around.runtime.remove_sandbox(self._pod.uid)
        self._report()
        self._on_end(self._pod, gone=False)

    def _pause(self, began: float) -> float:
        """Seconds until something is due: a container's end, another try, another report."""
        now = self._around.clock()
        # What has become due since this look began, while the status was written, was not seen by it.
        moments = [moment for moment in self._retry_at.values() if moment > began]
        for fate in self._fates():
            newest = fate.newest
            if newest is not None and newest.running and newest.program.seconds is not None:
                moments.append(newest.started + newest.program.seconds)
            elif newest is not None and self._starts_again(fate) and self._retry_at.get(fate.spec.name, 0) <= now:
                moments.append(now)
        if self._unreported:
            moments.append(now + self._around.times.retry)
        return max(min(moments, default=now + _IDLE) - now, 0.001)

    def _starts_again(self, fate: Fate) -> bool:
        """Whether a container that ran is to run again."""
        newest = fate.newest
        if newest is None or newest.running or (fate.spec.role is Role.INIT and fate.done):
            return False
        policy = "Always" if fate.spec.role is Role.SIDECAR else self._pod.restart_policy
        return statuses.restarts(policy, newest.exit_code)

    def _report(self) -> None:
        self._around.journal.check()
        found = statuses.status(self._pod, self._fates(), started=self._started, host=self._around.host)
        if found != self._reported:
            self._unreported = not self._around.paper.report(self._pod, found)
            self._reported = {} if self._unreported else found

    def _fates(self) -> list[Fate]:
        return [self._fate(container) for container in self._pod.containers]

    def _fate(self, container: ContainerSpec) -> Fate:
        self._around.runtime.newest(self._pod.uid, container.name)
        history = self._around.runtime.history(self._pod.uid, container.name)
        return Fate(container, history, self._waiting.get(container.name))
