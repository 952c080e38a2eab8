"""One agent in a process of its own that notes how long each start of a container keeps the kubelet waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from hami_plugins.cli.kit.memory import rest
from hami_plugins.kube.client import connect
from hami_plugins.observe import logging
from tests.bench.processes import serve
from tests.bench.station import NODE
from volcano_vgpu.agent import config
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.agent.server import VolcanoDevicePlugin
from volcano_vgpu.agent.serving import KubeletServing
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.file import FileDiscovery

Ids = tuple[str, ...]


def environment(root: Path, *, split: int) -> dict[str, str]:
    """The settings of an agent whose kubelet lives in ``root``."""
    values = {
        "KUBELET_DIRECTORY": root / "device-plugins",
        "POD_RESOURCES_SOCKET": root / "pod-resources" / "kubelet.sock",
        "CDI_DIRECTORY": root / "cdi",
        "HOOK_PATH": root / "hook",
        "LOCK_PATH": root / "lock",
        "LIBRARY_SOURCE": root / "image",
        "CARDS_FILE": root / "cards.yaml",
        "DEVICE_SPLIT_COUNT": split,
        "START_JITTER": 0,
        "CDI": "always",
        "LISTEN__HOST": "127.0.0.1",
        "LISTEN__PORT": 0,
        "LOG__FORM": "json",
        "LOG__LEVEL": "warning",
    }
    return {"NODE_NAME": NODE, **{f"{config.PREFIX}{name}": str(value) for name, value in values.items()}}


class Watched(Agent):
    """An agent whose plugin is timed from outside: by the clock, and by the CPU time of the thread that answers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.starts: list[tuple[float, float]] = []
        self._allocated: dict[Ids, tuple[float, float]] = {}

    def _serving(self, settings: AgentSettings) -> KubeletServing:
        serving = super()._serving(settings)
        made = serving.plugin
        vars(serving)["plugin"] = lambda ports, slots: self._timed(made(ports, slots))
        return serving

    def _timed(self, plugin: VolcanoDevicePlugin) -> VolcanoDevicePlugin:
        allocate, pre_start = plugin.Allocate, plugin.PreStartContainer

        def timed_allocate(request: Any, context: grpc.ServicerContext) -> Any:
            spent, answer = _timed(allocate, request, context)
            self._allocated[tuple(sorted(request.container_requests[0].devices_ids))] = spent
            return answer

        def timed_pre_start(request: Any, context: grpc.ServicerContext) -> Any:
            spent, answer = _timed(pre_start, request, context)
            before = self._allocated.pop(tuple(sorted(request.devices_ids)), (0.0, 0.0))
            self.starts.append((before[0] + spent[0], before[1] + spent[1]))
            return answer

        vars(plugin).update(Allocate=timed_allocate, PreStartContainer=timed_pre_start)
        return plugin


def _timed(call: Callable[[Any, Any], Any], request: Any, context: Any) -> tuple[tuple[float, float], Any]:
    clock, thread = time.perf_counter(), time.thread_time()
    answer = call(request, context)
    return ((time.perf_counter() - clock) * 1000, (time.thread_time() - thread) * 1000), answer


class Solo:
    """The agent of this process."""

    def __init__(self) -> None:
        self._agent: Watched | None = None

    def start(self, *, root: str, kubeconfig: str, split: int) -> None:
        """Begin."""
        settings = config.load("", environment(Path(root), split=split))
        client = connect(kubeconfig=kubeconfig, component="volcano-vgpu")
        cards = FileDiscovery(Path(root) / "cards.yaml")
        self._agent = Watched(settings, client, cards, metrics=AgentMetrics())
        self._agent.start()
        rest()

    def starts(self) -> list[tuple[float, float]]:
        """Milliseconds of each start since the last question, by the clock and of CPU time."""
        if self._agent is None:
            raise ValueError("the agent has not been started")
        found, self._agent.starts = self._agent.starts, []
        return found

    def stop(self) -> None:
        """End."""
        if self._agent is not None:
            self._agent.stop()


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    solo = Solo()
    try:
        serve({"start": solo.start, "starts": solo.starts})
    finally:
        solo.stop()


if __name__ == "__main__":
    main()
