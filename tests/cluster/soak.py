"""``python -m tests.cluster.soak``: what ``make test-cluster`` does for a minute, for as long as one likes.

A thousand pods of one shape in bursts of ten, each held against its own annotation; then half an hour of agents that
start, stop, crash and clean under pods that keep arriving, while Volcano has to live. The report is printed and kept in
``build/soak.md``; the exit code is 1 where a slice was swapped or the scheduler died.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Final

from tests.cluster import building
from tests.cluster.agents import CallTimes, NodeAgent, Numbers, card
from tests.cluster.api import ApiError
from tests.cluster.building import tell
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.machine import Machine
from tests.cluster.node import Node
from tests.cluster.slices import amiss, gpu, pods, rejected, served, volcano_pod
from tests.cluster.volcano import Volcano

BURST: Final = 10
CARDS: Final = tuple(map(card, range(1, 7)))
REPORT: Final = Path("build") / "soak.md"


def swapped(agent: NodeAgent, namespace: str, total: int) -> tuple[list[str], int]:
    """Runs pods of one shape in bursts, each while the one before it is going.

    Every slice that is not as allocated, and how many pods Volcano bound without a card (see ``slices.served``).
    """
    plane, problems, refused = agent.plane, list[str](), 0
    for burst in range(total // BURST):
        bodies = [volcano_pod(f"b{burst}-{at}", gpu(memory=1000 + at)) for at in range(BURST)]
        found, anew = served(plane, namespace, bodies)
        refused += anew
        for each in found:
            problems += [f"{each['metadata']['name']}: {rejected(each)}"] if rejected(each) else amiss(plane, each)
            plane.api.delete(f"{pods(namespace)}/{each['metadata']['name']}")
    return problems, refused


def act(agent: NodeAgent, what: str) -> None:
    """Does something to the agent that a node lives through."""
    if what in ("start", "last card fails"):
        if not agent.component.running:
            agent.component.start()
        agent.cards(*(CARDS if what == "start" else (card(at, problems=["XID 79"]) for at in range(1, 7))))
    elif what == "clean":
        agent.stop()
        agent.clean()
    elif what == "stop":
        agent.stop()
    else:
        agent.kill()


def arrive(plane: ControlPlane, namespace: str, first: int) -> None:
    """Two pods, one of which fits nowhere and so is looked at in every session."""
    for at, memory in enumerate((1000, 99999)):
        try:
            plane.api.create(pods(namespace), volcano_pod(f"p{first + at}", gpu(memory=memory)))
        except ApiError:
            continue  # a webhook that is out of breath


def survived(agent: NodeAgent, volcano: Volcano, namespace: str, *, seconds: float, luck: random.Random) -> list[int]:
    """Starts, stops, crashes and cleans under arriving pods: how many acts, and how often the scheduler died."""
    acts = crashes = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        act(agent, luck.choice(("start", "start", "stop", "kill", "clean", "last card fails")))
        arrive(agent.plane, namespace, 2 * acts)
        acts += 1
        time.sleep(luck.uniform(0, 1.0))
        if acts % 10 == 0:
            agent.plane.api.delete(pods(namespace))
        if not volcano.scheduler.running:
            crashes += 1
            volcano.restart_scheduler()
    agent.cards(*CARDS)
    if not agent.component.running:
        agent.component.start()
    agent.wait_offering(60)
    return [acts, crashes]


def soak(machine: Machine, *, total: int, minutes: float, seed: int) -> Numbers:
    """Both parts, in one cluster."""
    plane = ControlPlane(machine, building.programs())
    node = Node(plane)
    volcano = Volcano(plane)
    agent = NodeAgent(node)
    agent.cards(*CARDS)
    agent.start(60)
    plane.create_namespace("soak")
    numbers, began, times = Numbers(), time.monotonic(), CallTimes(agent)
    tell(f"{total} pods in bursts of {BURST}")
    if total:
        problems, refused = swapped(agent, "soak", total)
        tell("\n".join(problems))
        numbers.add(f"swapped or lost among {total} pods of one shape", str(len(problems)), "0")
        numbers.add("of them bound by Volcano without a card: refused, and made anew", str(refused), "-")
        bound = f"<= {times.quantile(0.5) * 1e3:g} / {times.quantile(0.99) * 1e3:g} ms"
        numbers.add("Allocate + PreStartContainer p50 / p99", bound, "p99 <= 20 ms")
        numbers.add("pods per second", f"{total / (time.monotonic() - began):.1f}", "")
        plane.clear_namespace("soak")
    tell(f"{minutes:g} minutes of agents that come and go, seed {seed}")
    acts, crashes = survived(agent, volcano, "soak", seconds=60 * minutes, luck=random.Random(seed))
    numbers.add(f"Volcano crashes over {acts} acts in {minutes:g} minutes", str(crashes), "0")
    numbers.add("agent RSS at the end", f"{agent.resident() / 2**20:.0f} MiB", "<= 100 MiB")
    return numbers


def main() -> int:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=1000, help="pods of one shape (default: 1000)")
    parser.add_argument("--minutes", type=float, default=30.0, help="of agents that come and go (default: 30)")
    parser.add_argument("--seed", type=int, default=5, help="of what happens when (default: 5)")
    asked = parser.parse_args()
    machine = Machine(hosts=[NODE], programs=list(building.programs().values()))
    try:
        numbers = soak(machine, total=asked.pods, minutes=asked.minutes, seed=asked.seed)
    finally:
        machine.close()
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(numbers.table() + "\n")
    tell(numbers.table())
    return int(any(measured != "0" for measured, target in numbers.rows.values() if target == "0"))


if __name__ == "__main__":
    sys.exit(main())
