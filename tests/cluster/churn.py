"""Pods and gangs that come and go, more than there is room for, while what decides about them is killed.

Every allocation is held against the API server's own objects as soon as it is seen: a list is one moment of the
cluster.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from signal import SIGKILL, SIGTERM
from typing import Final

from tests.cluster.allocator import Allocator
from tests.cluster.api import ApiError, Object
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import HEAL, Case
from tests.cluster.slices import gpu
from tests.cluster.waiting import PATIENCE, NotInTimeError

SIZES: Final = (4096, 10000, 20000, 30000, 40960)
GANG: Final = (30000, 3)
"""Memory of each member, and how many."""

GANGS: Final = 0.2
"""So many of what comes are gangs."""

WAITING: Final = 10
"""Pods that are there beyond what fits."""

STUCK: Final = 90.0 * PATIENCE
"""Seconds without a new pod on a node, after which something is wrong."""

PAUSE: Final = 0.05
Act = Callable[[], object]


@dataclass(slots=True)
class Tally:
    """What came of it: pods bound, what was wrong with any of them, and how often something was killed."""

    bound: set[str] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    acts: int = 0


def kills(allocator: Allocator) -> list[Act]:
    """The server and the scheduler are killed, and then ended as an upgrade would."""
    server, scheduler = allocator.replicas[0].component, allocator.volcano.scheduler
    return [partial(each.restart, number) for number in (SIGKILL, SIGTERM) for each in (server, scheduler)]


class Churn:
    """One namespace's pods on one pool; ``acts`` are done in turn, one after each ``every`` pods that are bound.

    ``heal`` writes the nodes every few seconds.
    """

    def __init__(
        self, case: Case, pool: Pool, *, acts: Sequence[Act], every: int, seed: int, heal: bool = False
    ) -> None:
        self._case = case
        self._pool = pool
        self._acts = acts
        self._every = every
        self._luck = random.Random(seed)
        self._tally = Tally()
        self._made = 0
        self._waiting: set[str] = set()
        self._acting: threading.Thread | None = None
        self._heal_at = time.monotonic() if heal else float("inf")

    def run(self, binds: int) -> Tally:
        """Goes on until so many pods have been bound. Raises ``NotInTimeError`` when none is for a long time."""
        progress = time.monotonic()
        while len(self._tally.bound) < binds:
            before = len(self._tally.bound)
            with suppress(ApiError):
                self._look()
            if len(self._tally.bound) > before:
                progress = time.monotonic()
            elif time.monotonic() - progress > STUCK:
                raise NotInTimeError(f"no pod is bound for {STUCK:g} s, and these wait: {sorted(self._waiting)}")
            self._act()
            self._heal()
            time.sleep(PAUSE)
        if self._acting is not None:
            self._acting.join()
        return self._tally

    def _look(self) -> None:
        """Notes bound pods, removes one and adds one."""
        placed = [each for each in self._case.pods() if each["spec"].get("nodeName")]
        self._tally.bound |= {each["metadata"]["uid"] for each in placed}
        self._tally.faults |= set(self._pool.faults(placed))
        self._waiting -= {each["metadata"]["name"] for each in placed}
        if self._waiting and placed:
            self._remove(self._luck.choice(placed))
        while len(self._waiting) < WAITING:
            self._add()

    def _add(self) -> None:
        """A pod, or a gang."""
        name = f"churn-{self._made}"
        self._made += 1
        if self._luck.random() < GANGS:
            memory, members = GANG
            self._case.submit_gang(name, memory=memory, members=members)
            self._waiting |= {f"{name}-worker-{at}" for at in range(members)}
        else:
            self._case.submit(name, gpu(memory=self._luck.choice(SIZES)))
            self._waiting.add(name)

    def _remove(self, pod: Object) -> None:
        job = pod["metadata"].get("labels", {}).get("volcano.sh/job-name")
        if job:
            self._case.remove_gang(job)
            self._waiting = {name for name in self._waiting if not name.startswith(f"{job}-")}
        else:
            self._case.remove(pod["metadata"]["name"])

    def _heal(self) -> None:
        """Writes the nodes when it is time for it."""
        if time.monotonic() >= self._heal_at:
            with suppress(ApiError):
                self._pool.touch()
            self._heal_at = time.monotonic() + HEAL

    def _act(self) -> None:
        """Begins the next act when it is time for it and the one before it is through."""
        due = len(self._tally.bound) // self._every > self._tally.acts
        if not self._acts or not due or (self._acting is not None and self._acting.is_alive()):
            return
        self._acting = threading.Thread(target=self._acts[self._tally.acts % len(self._acts)])
        self._acting.start()
        self._tally.acts += 1
