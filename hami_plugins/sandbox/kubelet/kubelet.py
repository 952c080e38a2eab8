"""One node's kubelet and container runtime in this process, with the real gRPC protocols on real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hami_plugins.errors import ConfigError
from hami_plugins.kube.port import KubeApi
from hami_plugins.node.kubelet.sockets import CHECKPOINT, KUBELET_SOCKET
from hami_plugins.runnable import Runnable
from hami_plugins.sandbox.kubelet.fault_points import FaultJournal, PassedFaultPoint
from hami_plugins.sandbox.kubelet.pod_resources import Rate
from hami_plugins.sandbox.kubelet.process import KubeletMachine, KubeletProcess
from hami_plugins.sandbox.kubelet.runtime import (
    ContainerProgram,
    RunningContainer,
    Runtime,
    any_device,
    on_this_host,
    program_of,
)
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec
from hami_plugins.sandbox.kubelet.times import Times

REAL_TIMES: Final = Times()
DEFAULT_RATE: Final = Rate()
_LONGEST_SOCKET_PATH: Final = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """The simulated machine: the behaviour of its containers, and its paths and devices."""

    programs: Callable[[PodSpec, ContainerSpec], ContainerProgram] = program_of
    path_exists: Callable[[str], bool] = on_this_host
    device_exists: Callable[[str], bool] = any_device


_ORDINARY: Final = MachineSpec()


class EmulatedKubelet(Runnable):
    """A kubelet that can be stopped, killed between any two steps, and started again; its containers run on.

    Everything lies under ``root``: ``device-plugins`` (kubelet.sock, the checkpoint, sockets of plugins),
    ``pod-resources/kubelet.sock``, ``cdi`` and ``volumes``. ``rate`` is the limit of the pod-resources socket.
    ``forgets`` keeps the real kubelet's fault of giving one device to two pods when an Allocate takes long; see
    ``lose_track_of`` for the same without luck. ``clock`` gives seconds since 1970. A node that the API server does not
    have is registered.
    """

    def __init__(  # noqa: PLR0913 - all but the first three have defaults that fit
        self,
        api: KubeApi,
        node: str,
        root: Path,
        *,
        times: Times = REAL_TIMES,
        host: MachineSpec = _ORDINARY,
        rate: Rate | None = DEFAULT_RATE,
        forgets: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.node = node
        self.plugin_directory = root / "device-plugins"
        self.pod_resources_socket = root / "pod-resources" / KUBELET_SOCKET
        self.cdi_directory = root / "cdi"
        self.checkpoint = self.plugin_directory / CHECKPOINT
        self.journal = FaultJournal()
        self._runtime = Runtime(
            self.cdi_directory,
            clock=clock,
            programs=host.programs,
            path_exists=host.path_exists,
            device_exists=host.device_exists,
        )
        self._machine = KubeletMachine(
            api=api,
            node=node,
            plugin_directory=self.plugin_directory,
            pod_resources_socket=self.pod_resources_socket,
            volumes=root / "volumes",
            runtime=self._runtime,
            journal=self.journal,
            times=times,
            rate=rate,
            forgets=forgets,
            clock=clock,
        )
        self._life: KubeletProcess | None = None
        for socket in (self.plugin_directory / KUBELET_SOCKET, self.pod_resources_socket):
            if len(str(socket)) > _LONGEST_SOCKET_PATH:
                raise ConfigError(
                    f"{socket}: a socket's path has at most {_LONGEST_SOCKET_PATH} bytes; choose a shorter directory"
                )

    def start(self) -> None:
        """A kubelet process begins: sockets first, pods a little later."""
        if self._life is None:
            self.cdi_directory.mkdir(parents=True, exist_ok=True)
            self.journal.revive()
            self._life = KubeletProcess(self._machine)
            self._life.start()

    def stop(self) -> None:
        """The process ends, whatever it is doing; nothing that is under way is recorded."""
        self.journal.kill()
        life, self._life = self._life, None
        if life is not None:
            life.stop()

    def restart(self) -> None:
        """Ends the process and begins another."""
        self.stop()
        self.start()

    def kill_at(self, deadly: Callable[[PassedFaultPoint], bool]) -> None:
        """Let the process die at the first step for which this is true; then call ``wait_killed``."""
        self.journal.kill_at(deadly)

    def wait_killed(self, timeout: float) -> bool:
        """Waits for that death and buries what is left; whether it came within ``timeout`` seconds."""
        dead = self.journal.dead.wait(timeout)
        if dead:
            self.stop()
        return dead

    def containers(self, pod_uid: str, name: str) -> tuple[RunningContainer, ...]:
        """Every start of a container of a pod that is still there, oldest first."""
        self._runtime.newest(pod_uid, name)
        return self._runtime.history(pod_uid, name)

    def newest(self, pod_uid: str, name: str) -> RunningContainer | None:
        """The newest start of a container of a pod that is still there; none before the first."""
        return self._runtime.newest(pod_uid, name)

    def running(self) -> tuple[RunningContainer, ...]:
        """Every container that runs now."""
        return tuple(container for container in self._runtime.all() if container.running)

    def finish(self, pod_uid: str, name: str, *, exit_code: int = 0) -> bool:
        """Lets a running container end as if by itself; whether there was one."""
        ended = self._runtime.finish(pod_uid, name, exit_code)
        if self._life is not None:
            self._life.intake.wake(pod_uid)
        return ended

    def lose_track_of(self, pod_uid: str) -> None:
        """The fault of ``trials.md`` K8: what the pod holds counts as free, so that it is given out twice."""
        if self._life is not None:
            self._life.book.lose(pod_uid)
