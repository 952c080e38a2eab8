"""The cost of the Neuron agent: a process of its own on a tree as sysfs has it, with an allocator, then left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from tests.bench.measuring import Figure, figure
from tests.bench.processes import ROOT, load
from tests.cluster.ports import free_port
from tests.integration.neuron_topology.server.servers import a_node, a_pod, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

IDLE_SECONDS = 120.0
CHANGES = 10
NAME = "Neuron agent, 16 devices"
COUNTERS = ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_repairable_uncorrected")


def figures() -> Iterator[Figure]:
    """Default settings, but for the places of driver and tools."""
    with tempfile.TemporaryDirectory() as made, site(Path(made), a_node("n1")) as cluster:
        folder = Path(made)
        api = connect_to(cluster.server.url)
        allocator = cluster.start()
        began = time.monotonic()
        process = _started(folder, cluster.server.kubeconfig(folder / "kubeconfig"))
        try:
            wait_for(lambda: "hami-plugins.io/neuron-ls" in _annotations(api), "the node is described")
            yield figure(f"{NAME}: start to a described node", [time.monotonic() - began], unit="s")
            time.sleep(10)
            version, before = _version(api), load(process.pid)
            time.sleep(IDLE_SECONDS)
            after = load(process.pid)
            used = (after.cpu_seconds - before.cpu_seconds) / IDLE_SECONDS * 100
            yield figure(f"{NAME}: share of a core in {IDLE_SECONDS:.0f} s of idleness", [used], unit="%", at_most=0.3)
            yield figure(f"{NAME}: memory", [after.resident_mib], unit="MiB", at_most=80)
            writes = float(_version(api) != version)
            yield figure(f"{NAME}: writes in {IDLE_SECONDS:.0f} s of idleness", [writes], unit="", at_most=0)
            whole = dict(api.create(paths.pods("default"), a_pod("whole", 16)))
            counter = folder / "sysfs" / "neuron7" / "stats" / "hardware" / COUNTERS[0]
            took = []
            for at in range(CHANGES):
                time.sleep(0.137)
                began = time.monotonic()
                counter.write_text("0\n" if at % 2 else "1\n")
                wait_for(partial(_answers, allocator, whole, refused=not at % 2), "it is known")
                took.append(time.monotonic() - began)
            yield figure(f"{NAME}: error counter to the allocator's answer", took, unit="s", p99_at_most=2.0)
        finally:
            process.terminate()
            process.wait(30)


def _started(folder: Path, kubeconfig: Path) -> subprocess.Popen[bytes]:
    kind = INSTANCE_TYPES["trn1.32xlarge"]
    listed = [
        {
            "neuron_device": at,
            "nc_count": 2,
            "memory_size": 32 << 30,
            "connected_to": list(linked),
            "bdf": f"10:{at:x}.0",
        }
        for at, linked in enumerate(kind.fabric.neighbours)
    ]
    for at in range(kind.devices):
        place = folder / "sysfs" / f"neuron{at}" / "stats" / "hardware"
        place.mkdir(parents=True)
        for name in COUNTERS:
            (place / name).write_text("0\n")
    (folder / "listed.json").write_text(json.dumps(listed))
    _monitor(folder / "neuron-monitor")
    (folder / "agent.yaml").write_text(
        json.dumps(
            {
                "node": "n1",
                "sysfsRoot": str(folder / "sysfs"),
                "kubeletDirectory": str(folder),
                "neuronLs": {"command": ["/bin/cat", str(folder / "listed.json")]},
                "neuronMonitor": {"command": [str(folder / "neuron-monitor")]},
                "listen": {"host": "127.0.0.1", "port": free_port()},
            }
        )
    )
    arguments = ["neuron", "agent", "--config", str(folder / "agent.yaml"), "--kubeconfig", str(kubeconfig)]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hami_plugins.cli", *arguments],
            cwd=ROOT,
            stderr=log,
            stdout=log,
            env=dict(os.environ),
        )


def _monitor(path: Path) -> None:
    """A program that reports sixteen devices every five seconds, as neuron-monitor does by default."""
    counters = [
        {"neuron_device_index": at, "mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 0}
        for at in range(16)
    ]
    line = json.dumps({"neuron_runtime_data": [], "system_data": {"neuron_hw_counters": {"neuron_devices": counters}}})
    path.write_text(f"#!/bin/sh\nwhile echo '{line}'; do sleep 5; done\n")
    path.chmod(0o755)


def _answers(allocator: Client, pod: dict[str, Any], *, refused: bool) -> bool:
    return bool(allocator.predicate(pod, "n1")) == refused


def _annotations(api: KubeClient) -> dict[str, str]:
    return api.get(paths.node("n1"))["metadata"].get("annotations") or {}


def _version(api: KubeClient) -> str:
    return str(api.get(paths.node("n1"))["metadata"]["resourceVersion"])
