"""``python -m tests.cluster.pace``: how long pods take to be bound, with us and without, on the real components.

All forms of a comparison take turns in one run. The report is printed and kept in ``build/pace.md``; the exit code is 1
where a target is missed.

    ratio     200 bare pods at 20/s on 10 nodes: `webhook`, and `extender` with the flags that `conf` prints, against
              Volcano alone with its own flags; and `extender` with those, too
    large     60 bare pods at 20/s on 200 nodes, `extender` with the flags that `conf` prints
    thousand  the same on 1,000 nodes
    gang      one gang of four that had to wait, from room to bound, in `extender`
    binds-extender, binds-webhook, binds-none
              1,000 pods and gangs that come and go while server and scheduler are killed
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from hami_plugins.allocations.manifests.volcano_configuration import FLAGS
from tests.bench.measuring import Figure, figure, machine, printed
from tests.cluster import building
from tests.cluster.allocator import MARKER, Allocator
from tests.cluster.arrivals import Arrivals
from tests.cluster.building import tell
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import MEMBERS, Case, seconds_to_bound, submit_waiting
from tests.cluster.churn import Churn, kills
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.machine import Machine
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

REPORT: Final = Path("build") / "pace.md"
SPACE: Final = "pace"
RATE: Final = 20.0
CARDS: Final = 8
QUIET: Final = "-v=2"
"""Says when a configuration is read, and nothing of each node."""
USUAL: Final = ("--schedule-period=1s",)
"""Volcano's defaults."""

RECOMMENDED: Final = tuple(FLAGS)
PODGROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{SPACE}/podgroups"


@dataclass(frozen=True, slots=True)
class Form:
    """How a cluster is run: one of our modes or ``none``, and the scheduler's flags."""

    name: str
    mode: str
    flags: Sequence[str] = USUAL


NONE: Final = Form("none", "none")
SAME: Final = Form("none with extender's flags", "none", RECOMMENDED)
EXTENDER: Final = Form("extender", "extender", RECOMMENDED)


class Held(NamedTuple):
    """One form against another: the ratio of the medians of a round, and what its median may be."""

    ours: str
    base: str
    at_most: float | None


class Bench:
    """A cluster with Volcano, and what is measured in it."""

    def __init__(self, machine: Machine, *, rounds: int, total: int) -> None:
        self.plane = ControlPlane(machine, building.programs())
        self.volcano = Volcano(self.plane)
        self.plane.create_namespace(SPACE)
        self.rounds = rounds
        self.total = total

    @contextmanager
    def run_as(self, form: Form, case: Case) -> Iterator[Allocator | None]:
        """The cluster, run so; Volcano alone has seen the cards of the case's nodes."""
        if form.mode != "none":
            with Allocator(self.volcano, form.mode, flags=[*form.flags, QUIET]) as server:
                yield server
            return
        self.volcano.set_flags(*form.flags, QUIET)
        self.volcano.restart_scheduler()
        case.wait_counting()
        yield None

    def seconds(self, case: Case, number: int) -> list[float]:
        """From the request that makes a pod until it is on a node, for bare pods that come at a fixed rate."""
        made: dict[str, float] = {}
        begin = time.monotonic() + 0.2

        def make(at: int) -> None:
            time.sleep(max(0.0, begin + at / RATE - time.monotonic()))
            made[name := f"p{at}"] = time.monotonic()
            case.submit(name)

        with Arrivals(self.plane, SPACE) as arrivals, ThreadPoolExecutor(8) as threads:
            list(threads.map(make, range(number)))
            arrivals.last_of(made, 120)
        found = [arrivals.bound[name] - made[name] for name in made]
        assert not (faults := case.pool.faults()), faults
        self.clear()
        return found

    def clear(self) -> None:
        """Every pod and its group are gone."""
        self.plane.clear_namespace(SPACE, 180)
        wait_until(lambda: not self.plane.api.items(PODGROUPS), "the groups are gone", 120)

    def compare(self, forms: Sequence[Form], held: Sequence[Held], *, nodes: int, count: int) -> Iterator[Figure]:
        """Each form in turn, round after round, on so many nodes; then the comparisons."""
        what = f"{nodes:,} nodes, {count} pods at {RATE:g}/s"
        times: dict[str, list[float]] = {form.name: [] for form in forms}
        middles: dict[str, list[float]] = {form.name: [] for form in forms}
        with Pool(self.plane) as pool:
            pool.add(nodes, cards=CARDS)
            case = Case(self.plane, pool, SPACE)
            for turn in range(self.rounds):
                for form in forms:
                    with self.run_as(form, case):
                        self.seconds(case, 10)
                        found = self.seconds(case, count)
                    times[form.name] += found
                    middles[form.name].append(statistics.median(found))
                    tell(f"{what}, round {turn + 1}, {form.name}: p50 {middles[form.name][-1]:.3f} s")
        for form in forms:
            yield figure(f"{what}: created to bound, {form.name}", times[form.name], unit="s")
        for ours, base, target in held:
            ratios = [one / other for one, other in zip(middles[ours], middles[base], strict=True)]
            yield figure(f"{what}: p50, {ours} : {base}", ratios, unit="", at_most=target)

    def ratio(self) -> Iterator[Figure]:
        """Ten nodes."""
        forms = [NONE, Form("webhook", "webhook"), EXTENDER, SAME, Form("extender with Volcano's flags", "extender")]
        held = [
            Held("webhook", NONE.name, 1.15),
            Held(EXTENDER.name, NONE.name, 1.15),
            Held(EXTENDER.name, SAME.name, None),
            Held("extender with Volcano's flags", NONE.name, None),
        ]
        yield from self.compare(forms, held, nodes=10, count=200)

    def large(self, nodes: int = 200, target: float | None = 1.3) -> Iterator[Figure]:
        """Many nodes."""
        held = [Held(EXTENDER.name, NONE.name, target), Held(EXTENDER.name, SAME.name, None)]
        yield from self.compare([NONE, SAME, EXTENDER], held, nodes=nodes, count=60)

    def gang(self) -> Iterator[Figure]:
        """One gang at a time."""
        for flags, told in ((RECOMMENDED, "recommended flags"), (USUAL, "Volcano's own")):
            found: list[float] = []
            with Pool(self.plane) as pool:
                pool.add(MEMBERS)
                case = Case(self.plane, pool, SPACE)
                with self.run_as(Form("extender", "extender", flags), case):
                    for turn in range(5 * self.rounds):
                        submit_waiting(case, f"gang-{turn}")
                        found.append(seconds_to_bound([(case, f"gang-{turn}")], heal=False))
                        assert not (faults := pool.faults()), faults
                        self.clear()
            target = 2 if flags is RECOMMENDED else None
            what = f"gang of four that had to wait, room to bound, extender, {told}"
            yield figure(what, found, unit="s", at_most=target, p99_at_most=target)

    def binds(self, mode: str) -> Iterator[Figure]:
        """The work while all deciding processes are killed."""
        with Pool(self.plane) as pool:
            pool.add(4, cards=2)
            case = Case(self.plane, pool, SPACE, {MARKER: mode})
            with self.run_as(Form(mode, mode, RECOMMENDED[:1]), case) as server:
                acts = [self.volcano.restart_scheduler] if server is None else kills(server)
                began = time.monotonic()
                tally = Churn(case, pool, acts=acts, every=50, seed=6, heal=server is None).run(self.total)
                took = time.monotonic() - began
                self.clear()
        what = f"wrong allocations among {len(tally.bound)} binds, {tally.acts} restarts, {took:.0f} s, {mode}"
        tell(what + ": " + ("; ".join(sorted(tally.faults)[:20]) or "none"))
        yield figure(what, [len(tally.faults)], unit="", at_most=None if server is None else 0)


PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "ratio": Bench.ratio,
    "large": Bench.large,
    "thousand": partial(Bench.large, nodes=1000, target=None),
    "gang": Bench.gang,
    **{f"binds-{mode}": partial(Bench.binds, mode=mode) for mode in ("extender", "webhook", "none")},
}


def main() -> int:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.pace", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each form (default: 3)")
    parser.add_argument("--binds", type=int, default=1000, help="pods bound in each of the last three (default: 1000)")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    private = Machine(hosts=[NODE], programs=list(building.programs().values()))
    figures: list[Figure] = []
    try:
        bench = Bench(private, rounds=asked.rounds, total=asked.binds)
        for name in asked.parts or PARTS:
            figures += PARTS[name](bench)
    finally:
        private.close()
    said = ", ".join(f"{key}: {value}" for key, value in machine().items()) + "\n" + printed(figures)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(f"{said}\n")
    tell(said)
    return 0 if all(each.met for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
