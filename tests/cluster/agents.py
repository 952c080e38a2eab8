"""The node agent as a process of the private machine, with cards out of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.api import Object
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

NUMBER: Final = "volcano.sh/vgpu-number"
GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "volcano.sh/vgpu-memory"
CORES: Final = "volcano.sh/vgpu-cores"
REGISTER: Final = "volcano.sh/node-vgpu-register"
HANDSHAKE: Final = "volcano.sh/node-vgpu-handshake"
HOOK: Final = "/var/lib/vgpu"
CDI: Final = "/run/cdi"
CHECKPOINT: Final = f"{DEVICE_PLUGINS}/kubelet_internal_checkpoint"
KUBELET_SOCKET: Final = f"{DEVICE_PLUGINS}/kubelet.sock"

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
    """An agent of the node. It starts on demand, and can be ended in any way. Another ``name`` is another process."""

    def __init__(
        self,
        node: Node,
        name: str = "agent",
        *,
        settings: Mapping[str, object] | None = None,
        device_config: str | None = None,
    ) -> None:
        self.node = node
        self.plane = node.plane
        self.name = name
        self._folder = node.machine.root / name
        library = self._folder / "image"
        library.mkdir(parents=True, exist_ok=True)
        self._cards = self._folder / "cards.yaml"
        (library / "libvgpu.so").write_bytes(b"not a library; nothing on this machine loads it")
        self.port = free_port()
        self.resource = GPU if (settings or {}).get("dialect") == "hami" else NUMBER
        self._config = self._folder / "config.yaml"
        self._config.write_text(yaml.safe_dump(self._settings(library) | dict(settings or {})))
        command = [*self._program("agent"), "--cards-file", str(self._cards)]
        if device_config is not None:
            (self._folder / "device-config.yaml").write_text(device_config)
            command += ["--device-config", str(self._folder / "device-config.yaml")]
        self.component: Component = node.plane.program(
            name, command, rules=RULES, ready=lambda: not self.complaint("/healthz"), environment=self._environment()
        )

    def _program(self, command: str) -> list[str]:
        words = [sys.executable, "-m", "hami_plugins.cli", "volcano-vgpu", command]
        return [*words, "--config", str(self._config)]

    def _environment(self) -> dict[str, str]:
        return {
            "NODE_NAME": self.node.name,
            "PYTHONPATH": str(Path.cwd()),
            "KUBECONFIG": "/nonexistent",
            "PATH": os.environ["PATH"],
        }

    def _settings(self, library: Path) -> dict[str, object]:
        return {
            "kubeletDirectory": DEVICE_PLUGINS,
            "podResourcesSocket": POD_RESOURCES,
            "cdiDirectory": CDI,
            "hookPath": HOOK,
            "lockPath": "/var/lib/vgpulock",
            "librarySource": str(library),
            "startJitter": 0,
            "listen": {"host": "127.0.0.1", "port": self.port},
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

    def kill(self) -> None:
        """Ends as a machine that fails would."""
        if self.component.running:
            self.component.stop(SIGKILL)

    def clean(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs ``hami-plugins volcano-vgpu clean`` on the node, with the rights of the agent."""
        account = self.plane.account_folder(self.name, self.plane.account(self.name, RULES))
        command = self.node.machine.in_cluster([*self._program("clean"), *arguments], account)
        environment = {**self.plane.in_cluster_environment(), **self._environment()}
        return self.node.machine.run(command, timeout=120, environment=environment)

    def in_its_mounts(self, *arguments: str) -> None:
        """Runs a command as root among the mounts of the running agent, which no other process sees."""
        enter = ["nsenter", f"--mount=/proc/{self.component.pid}/ns/mnt", "--", *arguments]
        subprocess.run(enter, check=True, capture_output=True)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Until the agent says that it serves."""
        wait_until(
            lambda: not self.complaint("/readyz"),
            "the agent is ready",
            timeout,
            show=lambda: self.complaint("/readyz") + self.component.log()[-3000:],
        )

    def wait_offering(self, slots: int, timeout: float = 60.0) -> None:
        """Until the agent serves, and the node's status has that many slots and no fewer to give."""
        if slots:
            self.wait_ready(timeout)
        wait_until(
            lambda: self.offered() == slots,
            f"the node offers {slots} slots",
            timeout,
            show=lambda: self.component.log()[-3000:],
        )

    def offered(self) -> int:
        """The slots that the node offers."""
        return int(self.object()["status"].get("allocatable", {}).get(self.resource, "0"))

    def object(self) -> Object:
        """The node as the API server has it."""
        return self.plane.api.get(f"/api/v1/nodes/{self.node.name}")

    def annotation(self, key: str = REGISTER) -> str:
        """One of the node's annotations, empty where there is none."""
        return str(self.object()["metadata"].get("annotations", {}).get(key, ""))

    def path(self, inside: str) -> Path:
        """How the test reaches a path of the node."""
        return self.node.path(inside)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name, ``volcano_vgpu_`` left out, that have these labels."""
        return sum(value for found, value in self.samples(name) if labels.items() <= found.items())

    def samples(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """All samples of that name with their labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"volcano_vgpu_{name}":
                    yield sample.labels, sample.value

    def said(self, event: str) -> list[Mapping[str, Any]]:
        """What the agent logged under one event, over all its starts."""
        lines = (line for line in self.component.log().splitlines() if line.startswith("{") and event in line)
        found: list[Mapping[str, Any]] = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of one that was killed while it wrote
            if entry.get("event") == event:
                found.append(entry)
        return found

    def complaint(self, path: str) -> str:
        """Why a probe fails, empty where it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return str(error)

    def resident(self) -> int:
        """Bytes of memory that the process has."""
        text = Path(f"/proc/{self.component.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) * 1024

    def processor_seconds(self) -> float:
        """Seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.component.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class CallTimes:
    """How long the kubelet waited, over the calls between two looks at the agent's histogram."""

    def __init__(self, agent: NodeAgent, methods: Sequence[str] = ("Allocate", "PreStartContainer")) -> None:
        self._agent = agent
        self._methods = methods
        self._before = self._look()

    def _look(self) -> dict[float, float]:
        found: dict[float, float] = {}
        for labels, value in self._agent.samples("kubelet_call_seconds_bucket"):
            if labels["method"] in self._methods:
                bound = float(labels["le"])
                found[bound] = found.get(bound, 0.0) + value
        return found

    def quantile(self, share: float) -> float:
        """The bound below which that share of the calls lay."""
        counts = {bound: value - self._before.get(bound, 0.0) for bound, value in self._look().items()}
        total = max(counts.values(), default=0.0)
        assert total, f"no call of {self._methods} since the first look"
        return next(bound for bound in sorted(counts) if counts[bound] >= share * total)


class Numbers:
    """What was measured, for the table at the end of the run."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, str]] = {}

    def add(self, what: str, measured: str, target: str) -> None:
        """One row; a case that is run again replaces its own."""
        self.rows[what] = (measured, target)

    def table(self) -> str:
        """As Markdown."""
        lines = ["| case | measured | target |", "| --- | --- | --- |"]
        lines += [f"| {what} | {measured} | {target} |" for what, (measured, target) in sorted(self.rows.items())]
        return "\n".join(lines)


def seconds_since(started: float) -> str:
    """For the table: how long it took from ``started`` (monotonic) until now."""
    return f"{time.monotonic() - started:.2f} s"
