"""The node agent as a process of the private machine, with cards out of a file."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.cluster.api import Object
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

NUMBER: Final = "volcano.sh/vgpu-number"
MEMORY: Final = "volcano.sh/vgpu-memory"
CORES: Final = "volcano.sh/vgpu-cores"
IDS: Final = "volcano.sh/vgpu-ids-new"
REGISTER: Final = "volcano.sh/node-vgpu-register"
HOOK: Final = "/var/lib/vgpu"
CDI: Final = "/run/cdi"

RULES: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"]},
)
"""All that the agent may do, and no more."""


def card(number: int, *, memory: int = 40960, **more: object) -> Object:
    """One of the cards; its UUID ends in its number."""
    return {
        "uuid": f"GPU-{number:08x}-0000-0000-0000-{number:012x}",
        "model": "NVIDIA A100-SXM4-40GB",
        "memory": memory,
        "numa": 0,
        **more,
    }


def uuid(number: int) -> str:
    """The UUID of a card."""
    return str(card(number)["uuid"])


class NodeAgent:
    """The agent of the node. It starts on demand, and can be ended in any way."""

    def __init__(self, node: Node, name: str = "agent", *, settings: Mapping[str, object] | None = None) -> None:
        self.node = node
        self.plane = node.plane
        folder = node.machine.root / name
        folder.mkdir(exist_ok=True)
        self._cards = folder / "cards.yaml"
        library = folder / "image"
        library.mkdir(exist_ok=True)
        (library / "libvgpu.so").write_bytes(b"not a library; nothing on this machine loads it")
        self._port = free_port()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._settings(library) | dict(settings or {})))
        command = [
            sys.executable,
            "-m",
            "hami_plugins.cli",
            "volcano-vgpu",
            "agent",
            "--config",
            str(config),
            "--cards-file",
            str(self._cards),
        ]
        self.component: Component = node.plane.program(
            name,
            command,
            rules=RULES,
            ready=lambda: self._answers("/healthz"),
            environment={
                "NODE_NAME": node.name,
                "PYTHONPATH": str(Path.cwd()),
                "KUBECONFIG": "/nonexistent",
                "PATH": os.environ["PATH"],
            },
        )

    def _settings(self, library: Path) -> dict[str, object]:
        return {
            "kubeletDirectory": DEVICE_PLUGINS,
            "podResourcesSocket": POD_RESOURCES,
            "cdiDirectory": CDI,
            "hookPath": HOOK,
            "lockPath": "/var/lib/vgpulock",
            "librarySource": str(library),
            "startJitter": 0,
            "listen": {"host": "127.0.0.1", "port": self._port},
            "log": {"level": "debug", "form": "json"},
        }

    def cards(self, *cards: Object) -> None:
        """What the driver reports from now on."""
        draft = self._cards.with_suffix(".tmp")
        draft.write_text(yaml.safe_dump({"driver": "550.54.15", "cards": list(cards)}))
        draft.replace(self._cards)

    def start(self, slots: int) -> None:
        """Starts, and waits until the node offers that many slots."""
        self.component.start()
        self.wait_offering(slots)

    def stop(self) -> None:
        """Ends as a DaemonSet would."""
        if self.component.running:
            self.component.stop()

    def wait_offering(self, slots: int, timeout: float = 60.0) -> None:
        """Until the node's status has that many slots and the agent says that it is ready."""
        wait_until(lambda: self._answers("/readyz"), "the agent is ready", timeout, show=self.component.log)
        wait_until(lambda: self.offered() == slots, f"the node offers {slots} slots", timeout, show=self.component.log)

    def offered(self) -> int:
        """The slots that the node offers."""
        return int(self.object()["status"].get("allocatable", {}).get(NUMBER, "0"))

    def object(self) -> Object:
        """The node as the API server has it."""
        return self.plane.api.get(f"/api/v1/nodes/{self.node.name}")

    def register(self) -> str:
        """The register annotation, empty where there is none."""
        return str(self.object()["metadata"].get("annotations", {}).get(REGISTER, ""))

    def metrics(self) -> str:
        """What the agent tells Prometheus."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
