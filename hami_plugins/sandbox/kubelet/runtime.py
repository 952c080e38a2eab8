"""The container runtime: containers are records of their settings, and end on request.

It outlives the kubelet, as containerd does.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hami_plugins.sandbox.kubelet.cdi import Cdi, CdiError, CdiMount, Edits
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec, Role

KILLED: Final = 137
TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """The behaviour of a container: how long it runs (``None``: until it is stopped) and how it ends.

    ``stubborn`` says that it does not listen when it is asked to end, so that its grace passes first.
    """

    seconds: float | None = None
    exit_code: int = 0
    stubborn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningContainer:
    """A container that was started: what it sees, since when, and how it ended.

    ``attempt`` counts from 0 for each container of a pod. Times are those of the runtime's clock.
    """

    pod_uid: str
    pod: str
    name: str
    attempt: int
    id: str
    started: float
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[CdiMount, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    program: ContainerProgram = ContainerProgram()
    ended: float | None = None
    exit_code: int = 0

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None


class CreationError(Exception):
    """The runtime could not make a container; ``reason`` is the kubelet's word for it, the text the runtime's."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the kubelet asks the runtime for: its own part, and the names of CDI devices for the runtime to resolve."""

    edits: Edits
    cdi: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def program_of(pod: PodSpec, container: ContainerSpec) -> ContainerProgram:
    """Understands ``true``, ``false``, ``sleep N`` and, in a ``sh -c`` of several, ``exit N`` and ``trap '' TERM``.

    Any other container runs until it is stopped, except an init container, which succeeds immediately.
    """
    del pod
    words = [*(container.raw.get("command") or ()), *(container.raw.get("args") or ())]
    lines = words[2].split(";") if words[:2] == ["sh", "-c"] and len(words) == 3 else [" ".join(words)]
    program = ContainerProgram(seconds=0)
    for line in lines:
        match line.split():
            case ["true"]:
                program = replace(program, exit_code=0)
            case ["false"]:
                program = replace(program, exit_code=1)
            case ["exit", code]:
                return replace(program, exit_code=int(code))
            case ["sleep", seconds]:
                program = replace(program, seconds=(program.seconds or 0) + float(seconds))
            case ["trap", "''", "TERM"]:
                program = replace(program, stubborn=True)
            case _:
                return ContainerProgram(seconds=0 if container.role is Role.INIT else None, stubborn=program.stubborn)
    return program


def on_this_host(path: str) -> bool:
    """Whether this machine has the path."""
    return Path(path).exists()


def any_device(path: str) -> bool:
    """Says that every device node is there: the emulated cards have none."""
    return bool(path)


class Runtime:
    """All containers of a node. ``exists`` says which paths of the host there are for CDI's mounts and device nodes."""

    def __init__(
        self,
        cdi: Path,
        *,
        clock: Callable[[], float],
        programs: Callable[[PodSpec, ContainerSpec], ContainerProgram] = program_of,
        path_exists: Callable[[str], bool] = on_this_host,
        device_exists: Callable[[str], bool] = any_device,
    ) -> None:
        self._cdi = Cdi(cdi)
        self._clock = clock
        self._programs = programs
        self._path_exists = path_exists
        self._device_exists = device_exists
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._containers: dict[tuple[str, str], list[RunningContainer]] = {}
        self._sandboxes: set[str] = set()

    def has_sandbox(self, uid: str) -> bool:
        """Whether the pod has its place to run."""
        with self._lock:
            return uid in self._sandboxes

    def make_sandbox(self, uid: str) -> None:
        """Gives the pod its place to run."""
        with self._lock:
            self._sandboxes.add(uid)

    def remove_sandbox(self, uid: str) -> None:
        """Ends whatever still runs in it; the records of its containers stay."""
        with self._lock:
            self._sandboxes.discard(uid)
            for history in self._containers.values():
                if history[-1].pod_uid == uid and history[-1].running:
                    history[-1] = replace(history[-1], ended=self._clock(), exit_code=KILLED)

    def create(self, pod: PodSpec, spec: ContainerSpec, wanted: Configuration) -> RunningContainer:
        """The configuration of the next start of a container, nothing running yet; raises ``CreationError``."""
        edits = wanted.edits
        if wanted.cdi:
            try:
                injected = self._cdi.resolve(wanted.cdi)
                self._find_devices(injected)
            except CdiError as error:
                raise CreationError("CreateContainerError", f"failed to create containerd container: {error}") from None
            edits = edits.plus(injected)
        number = next(self._ids)
        return RunningContainer(
            pod_uid=pod.uid,
            pod=pod.full_name,
            name=spec.name,
            attempt=len(self.history(pod.uid, spec.name)),
            id=f"{number:064x}",
            started=self._clock(),
            env=dict(edits.env),
            mounts=tuple({mount.container: mount for mount in edits.mounts}.values()),
            devices=tuple({inside: (outside, inside) for outside, inside in edits.devices}.values()),
            annotations=wanted.annotations,
            program=self._programs(pod, spec),
        )

    def start(self, container: RunningContainer) -> RunningContainer:
        """Lets a created container run; raises ``CreationError`` where a path to be mounted is missing."""
        for mount in container.mounts:
            if self._path_exists(mount.host):
                continue
            if mount.made:
                Path(mount.host).mkdir(parents=True, exist_ok=True)
            else:
                raise CreationError(
                    "RunContainerError",
                    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
                    "create failed: unable to start container process: error during container init: error mounting "
                    f'"{mount.host}" to rootfs at "{mount.container}": stat {mount.host}: no such file or directory',
                )
        started = replace(container, started=self._clock())
        with self._lock:
            self._containers.setdefault((container.pod_uid, container.name), []).append(started)
        return started

    def finish(self, uid: str, name: str, exit_code: int) -> bool:
        """Ends the newest start of a container; whether it was running."""
        with self._lock:
            history = self._containers.get((uid, name)) or []
            if not history or not history[-1].running:
                return False
            history[-1] = replace(history[-1], ended=self._clock(), exit_code=exit_code)
            return True

    def newest(self, uid: str, name: str) -> RunningContainer | None:
        """The newest start of a container, ended by itself if its time is up."""
        with self._lock:
            history = self._containers.get((uid, name)) or []
            if not history:
                return None
            last, now = history[-1], self._clock()
            if last.running and last.program.seconds is not None and now >= last.started + last.program.seconds:
                history[-1] = replace(last, ended=last.started + last.program.seconds, exit_code=last.program.exit_code)
            return history[-1]

    def history(self, uid: str, name: str) -> tuple[RunningContainer, ...]:
        """Every start of a container, oldest first."""
        with self._lock:
            return tuple(self._containers.get((uid, name)) or ())

    def forget(self, uid: str) -> None:
        """Removes a pod's records: it is gone from the API server."""
        with self._lock:
            self._sandboxes.discard(uid)
            for key in [key for key in self._containers if key[0] == uid]:
                del self._containers[key]

    def all(self) -> tuple[RunningContainer, ...]:
        """The newest start of every container that is known."""
        with self._lock:
            return tuple(history[-1] for history in self._containers.values())

    def _find_devices(self, edits: Edits) -> None:
        for host, _ in edits.devices:
            if not self._device_exists(host):
                raise CdiError(
                    "CDI device injection failed: failed to inject devices: "
                    f'failed to stat CDI host device "{host}": no such file or directory'
                )
