"""Many agents in one process: fake cards, and everything that speaks with the API server."""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
import uuid
from pathlib import Path

from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.model.units import DeviceId, MiB
from hami_plugins.observe import logging
from tests.bench.processes import serve
from volcano_vgpu.agent import config
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.core.model import DeviceMeasurement, NodeInventory, PhysicalDevice

CARDS = 8
SWITCH_SECONDS = 1.0
"""Threads that want the interpreter ask for it this often. Thousands that ask every 5 ms leave no time for anything
else; what they do between two waits takes a millisecond at most."""


class StillCards:
    """``Discovery`` of eight cards with which nothing ever happens, as NVML waits for news of them."""

    def __init__(self, node: str) -> None:
        self._closed = threading.Event()
        self._inventory = NodeInventory(
            driver="550.54.15",
            cards=tuple(
                PhysicalDevice(
                    uuid=DeviceId(f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{at}')}"),
                    index=at,
                    minor=at,
                    model="NVIDIA A100-SXM4-40GB",
                    memory=MiB(40960),
                )
                for at in range(CARDS)
            ),
        )

    def open(self) -> None:
        """See ``Discovery``."""

    def inventory(self) -> NodeInventory:
        """See ``Discovery``."""
        return self._inventory

    def use(self, _uuid: DeviceId) -> DeviceMeasurement:
        """See ``Discovery``."""
        return DeviceMeasurement()

    def wait(self, timeout: float) -> bool:
        """See ``Discovery``."""
        self._closed.wait(timeout)
        return False

    def close(self) -> None:
        """See ``Discovery``."""
        self._closed.set()


class Fleet:
    """The agents of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._agents: list[Agent] = []
        self._api: KubeClient | None = None

    def start(self, *, url: str, nodes: int) -> int:
        """One agent for each node, as fast as they can be made; how many there are."""
        self._api = connect_to(url, component="volcano-vgpu")
        for number in range(nodes):
            agent = self._made(self._api, f"node-{number}")
            agent.start()
            self._agents.append(agent)
        return len(self._agents)

    def stop(self) -> None:
        """End all of them."""
        ending = [threading.Thread(target=agent.stop) for agent in self._agents]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join()
        if self._api is not None:
            self._api.close()

    def written(self) -> int:
        """The most writes of any agent by its own account."""
        return max(agent.publisher.written for agent in self._agents)

    def _made(self, api: KubeClient, node: str) -> Agent:
        home = self._root / node
        settings = config.load(
            "",
            {
                "NODE_NAME": node,
                **{
                    f"{config.PREFIX}{name}": str(home / name.lower())
                    for name in ("KUBELET_DIRECTORY", "POD_RESOURCES_SOCKET", "CDI_DIRECTORY", "HOOK_PATH", "LOCK_PATH")
                },
            },
        )
        return Agent(settings, api, StillCards(node), metrics=AgentMetrics(), serving=False)


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    sys.setswitchinterval(SWITCH_SECONDS)
    # Every full collection would look at all that a thousand agents hold; one agent holds a thousandth of that.
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="bench") as root:
        fleet = Fleet(Path(root))
        serve({"start": fleet.start, "written": fleet.written})
        fleet.stop()


if __name__ == "__main__":
    main()
