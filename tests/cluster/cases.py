"""What tests of allocations do with pods: submit, wait until they are bound or told something, keep them coming."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from tests.cluster.api import ApiError, Object
from tests.cluster.arrivals import Arrivals
from tests.cluster.card_nodes import WHOLE, Pool, devices
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod_spec, task, vcjob
from tests.cluster.slices import IDS, gpu, jobs, pods, volcano_pod
from tests.cluster.waiting import wait_until

MEMBERS: Final = 4
SMALL: Final = 4096
HEAL: Final = 3.0
"""Seconds between two writes of the nodes, where Volcano alone would not find the freed room."""


class Case:
    """One test's pods, on one pool of nodes. All of them carry the ``annotations``."""

    def __init__(
        self, plane: ControlPlane, pool: Pool, namespace: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        self.plane, self.pool, self.namespace = plane, pool, namespace
        self.annotations = dict(annotations or {})

    def submit(self, name: str, *containers: Object, **more: Any) -> None:
        """A pod; one card of 4096 MiB where no containers are given."""
        asked = containers or (gpu(memory=SMALL),)
        usual = {"nodeSelector": dict(self.pool.selector), "annotations": self.annotations}
        body = volcano_pod(name, *asked, **{**usual, **more})
        self.plane.api.create(pods(self.namespace), body)

    def submit_gang(self, name: str, *, memory: int, members: int = MEMBERS, minimum: int | None = None) -> None:
        spec = pod_spec(gpu(memory=memory), nodeSelector=dict(self.pool.selector), schedulerName="volcano")
        workers = task("worker", members, spec)
        workers["template"]["metadata"] = {"annotations": self.annotations}
        self.plane.api.create(jobs(self.namespace), vcjob(name, workers, minimum=minimum))

    def pods(self) -> list[Object]:
        """All of them, as they are in one moment."""
        return self.plane.api.items(pods(self.namespace))

    def see(self, name: str) -> Object:
        return self.plane.api.get(f"{pods(self.namespace)}/{name}")

    def node_of(self, name: str) -> str:
        return str(self.see(name)["spec"].get("nodeName") or "")

    def allocated(self, name: str) -> list[tuple[str, int, int]]:
        return devices(self.see(name)["metadata"].get("annotations", {}).get(IDS, ""))

    def told(self, name: str) -> str:
        """The messages for the pod, in its conditions and its events."""
        conditions = self.see(name)["status"].get("conditions", [])
        texts = [str(each.get("message", "")) for each in conditions]
        return "\n".join([*texts, *self.plane.events(self.namespace, name)])

    def wait_bound(self, *names: str, timeout: float = 60.0) -> None:
        def story() -> str:
            return "\n".join(f"{name}: {self.node_of(name)} {self.told(name)}" for name in names)

        wait_until(lambda: all(map(self.node_of, names)), f"{names} are bound", timeout, show=story)

    def wait_counting(self) -> None:
        """Until Volcano, left to itself after a restart, knows the cards of its nodes and hands them out."""
        names = map("probe-{}".format, count())

        def counts() -> bool:
            self.pool.touch()
            self.submit(name := next(names), gpu(memory=1))
            self.wait_bound(name)
            found = self.allocated(name)
            self.remove(name)
            return bool(found)

        wait_until(counts, "Volcano hands out cards")
        self.pool.touch()

    def wait_told(self, name: str, text: str) -> str:
        def found() -> str:
            said = self.told(name)
            return said if text in said else ""

        return wait_until(found, f"{name} is told {text!r}", 60, show=lambda: self.told(name))

    def remove(self, name: str) -> None:
        self.plane.api.delete(f"{pods(self.namespace)}/{name}", grace=0)

    def remove_gang(self, name: str) -> None:
        self.plane.api.delete(f"{jobs(self.namespace)}/{name}")

    def members(self, job: str) -> list[Object]:
        return [each for each in self.pods() if each["metadata"].get("labels", {}).get("volcano.sh/job-name") == job]

    def placed(self, job: str) -> int:
        return sum(bool(each["spec"].get("nodeName")) for each in self.members(job))


def submit_waiting(case: Case, name: str) -> None:
    """A gang of four for four cards, of which another pod holds one; seen to wait, and tried over several sessions."""
    case.submit(f"{name}-holder", gpu(memory=WHOLE))
    case.wait_bound(f"{name}-holder")
    case.submit_gang(name, memory=30000)
    wait_until(lambda: len(case.members(name)) == MEMBERS, "the gang's pods exist")
    wait_until(
        lambda: any(case.told(each["metadata"]["name"]) for each in case.members(name)),
        "Volcano has tried the gang",
        show=lambda: str(case.members(name)),
    )


def seconds_to_bound(gangs: Sequence[tuple[Case, str]], *, heal: bool) -> float:
    """Makes room for all the gangs of a namespace at once, and waits until the last member is bound.

    There is room when the pods that held it are gone from the API server. ``heal`` changes the nodes every few seconds,
    without which Volcano's own cache may never find the room.
    """
    assert [case.placed(name) for case, name in gangs] == [0] * len(gangs)
    members = [each["metadata"]["name"] for case, name in gangs for each in case.members(name)]
    first = gangs[0][0]
    with Arrivals(first.plane, first.namespace) as arrivals:
        for case, name in gangs:
            case.remove(f"{name}-holder")
        room = time.monotonic()
        if heal:
            _heal_until(lambda: arrivals.bound.keys() >= set(members), gangs)
        return arrivals.last_of(members, 120, show=lambda: "\n".join(map(first.told, members))) - room


def _heal_until(done: Callable[[], bool], gangs: Sequence[tuple[Case, str]]) -> None:
    """Changes the nodes every few seconds until it is done."""
    healed = time.monotonic()

    def seen() -> bool:
        nonlocal healed
        if time.monotonic() - healed > HEAL:
            for case, _name in gangs:
                case.pool.touch()
            healed = time.monotonic()
        return done()

    wait_until(seen, "the gangs are bound", 120)


def arrive(case: Case, total: int, pause: float) -> list[str]:
    """Pods one after another, each asked for until it is there."""
    names = [f"load-{at}" for at in range(total)]
    for name in names:
        wait_until(partial(_is_there, case, name), f"{name} is accepted")
        time.sleep(pause)
    return names


def _is_there(case: Case, name: str) -> bool:
    try:
        case.submit(name)
    except ApiError as error:
        if error.status != 409:
            raise
    return True


def under_load(case: Case, what: Callable[[], object]) -> list[str]:
    """Sixty pods arrive while something is done; their names."""
    done = threading.Thread(target=what)
    done.start()
    names = arrive(case, 60, 0.05)
    done.join()
    return names
