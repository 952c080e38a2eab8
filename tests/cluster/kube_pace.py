"""``python -m tests.cluster.kube_pace``: how many pods a second the real kube-scheduler binds, with and without us.

The nodes are objects without a kubelet; an agent of this project registered their cards, so that no plugin has to
remove locks. Pods wait while the scheduler is away, and are counted from the first that it binds to the last.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.bench.measuring import Figure, figure, machine, printed
from tests.cluster import building
from tests.cluster.api import Object
from tests.cluster.arrivals import Arrivals
from tests.cluster.building import tell
from tests.cluster.card_nodes import NODES
from tests.cluster.hami import SCHEDULER, HamiAllocator, hami_gpu
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.machine import Machine
from tests.cluster.objects import container, pod
from tests.cluster.processes import Component
from tests.unit.volcano_vgpu.cards import card, inventory, settings
from volcano_vgpu.core import register

SPACE: Final = "kube-pace"
ALONE: Final = "alone-scheduler"
"""A kube-scheduler without an extender."""

CARDS: Final = 8
PLAIN: Final = 4
"""Plain pods for each pod with a slice: they are bound so much faster, and a window of a second says little."""

UNLIMITED: Final = {"qps": 10_000, "burst": 10_000}
REPORT: Final = Path("build") / "pace.md"
"""Added to what ``tests.cluster.pace`` has written there."""


def figures(plane: ControlPlane, *, nodes: int, pods: int, rounds: int, answer: str) -> Iterator[Figure]:
    """The three forms in turn, round after round, each round beginning with another one."""
    plane.apply("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    made = add_nodes(plane, nodes)
    rates: dict[str, list[float]] = {"plain, alone": [], "plain, with the extender": [], "vGPU": []}
    with HamiAllocator(plane, nodes=answer) as allocator:
        alone = scheduler_alone(plane)
        unlimited(plane)
        forms: dict[str, tuple[Component, Callable[[str], Object]]] = {
            "plain, alone": (alone, partial(a_pod, scheduler=ALONE)),
            "plain, with the extender": (allocator.scheduler, partial(a_pod, scheduler=SCHEDULER)),
            "vGPU": (allocator.scheduler, partial(a_pod, scheduler=SCHEDULER, slices=True)),
        }
        allocator.scheduler.stop()
        for turn in range(rounds):
            order = [*forms][turn % len(forms) :] + [*forms][: turn % len(forms)]
            for name in order:
                scheduler, make = forms[name]
                rates[name].append(rate(plane, scheduler, make, pods if name == "vGPU" else PLAIN * pods))
                tell(f"{nodes:,} nodes, round {turn + 1}, {name}: {rates[name][-1]:.1f} pods/s")
        if alone.running:
            alone.stop()
    for name in made:
        plane.api.delete(f"{NODES}/{name}")
    what = f"{nodes:,} nodes, {pods} pods, {PLAIN * pods:,} plain ones, filter names {answer}"
    for name, found in rates.items():
        yield figure(f"{what}: bound a second, {name}", found, unit="/s")
    for name, target in (("vGPU", 0.5), ("plain, with the extender", 0.97)):
        ratios = [one / other for one, other in zip(rates[name], rates["plain, alone"], strict=True)]
        yield figure(f"{what}: {name} : plain, alone", ratios, unit="", at_least=target if nodes <= 1_000 else None)


def rate(plane: ControlPlane, scheduler: Component, make: Callable[[str], Object], number: int) -> float:
    """Pods bound in a second, of so many that wait when the scheduler starts."""
    names = [f"p{at}" for at in range(number)]
    place = f"/api/v1/namespaces/{SPACE}/pods"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: plane.api.create(place, make(name)), names))
    with Arrivals(plane, SPACE) as arrivals:
        scheduler.start()
        last = arrivals.last_of(names, 600)
        first = min(arrivals.bound.values())
    scheduler.stop()
    plane.clear_namespace(SPACE, 300)
    return (number - 1) / max(last - first, 1e-3)


def a_pod(name: str, *, scheduler: str, slices: bool = False) -> Object:
    """A pod that asks for a CPU's tenth, or for a slice of a card as well."""
    asks = hami_gpu(memory=2_000) if slices else container()
    asks = {**asks, "resources": {**asks.get("resources", {}), "requests": {"cpu": "100m"}}}
    return pod(name, asks, schedulerName=scheduler, hostNetwork=False)


def add_nodes(plane: ControlPlane, number: int) -> list[str]:
    """Nodes whose cards an agent of ours has registered; their names."""
    words = register.desired(inventory(*map(card, range(CARDS))), settings(dialect="hami"), handshake=False)
    amounts = {"cpu": "96", "memory": "1024Gi", "pods": "500", "nvidia.com/gpu": str(10 * CARDS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}

    def add(name: str) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": dict(words.annotations)}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        plane.api.create(NODES, body)
        # The API server taints new nodes, and accepts later changes of taints.
        plane.api.merge_patch(f"{NODES}/{name}", {"spec": {"taints": None}})

    names = [f"pace-{at}" for at in range(number)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, names))
    return names


def scheduler_alone(plane: ControlPlane) -> Component:
    """A kube-scheduler without an extender, not started yet."""
    path = plane.machine.root / f"{ALONE}.yaml"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.admin_kubeconfig)},
        "profiles": [{"schedulerName": ALONE}],
    }
    path.write_text(yaml.safe_dump(config))
    return plane.scheduler(ALONE, f"--config={path}")


def unlimited(plane: ControlPlane) -> None:
    """Both schedulers may ask the API server as often as they like."""
    for name in (ALONE, SCHEDULER):
        path = plane.machine.root / f"{name}.yaml"
        config: Any = yaml.safe_load(path.read_text())
        config["clientConnection"] |= UNLIMITED
        path.write_text(yaml.safe_dump(config))


def main() -> int:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.kube_pace", description=__doc__.partition("\n")[0])
    parser.add_argument("nodes", nargs="*", type=int, default=[1_000], help="clusters of so many nodes (default: 1000)")
    parser.add_argument("--pods", type=int, default=400, help="pods with slices of each round (default: 400)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each form (default: 3)")
    parser.add_argument("--answer", choices=["all", "best"], default="all", help="nodes that filter names")
    asked = parser.parse_args()
    found: list[Figure] = []
    private = Machine(hosts=[NODE], programs=list(building.programs().values()))
    try:
        plane = ControlPlane(private, building.programs())
        for nodes in asked.nodes:
            began = time.monotonic()
            found += figures(plane, nodes=nodes, pods=asked.pods, rounds=asked.rounds, answer=asked.answer)
            tell(f"{nodes:,} nodes: {time.monotonic() - began:.0f} s")
    finally:
        private.close()
    said = ", ".join(f"{key}: {value}" for key, value in machine().items()) + "\n" + printed(found)
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("a", encoding="utf-8") as report:
        report.write(f"{said}\n")
    tell(said)
    return 0 if all(each.met for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
