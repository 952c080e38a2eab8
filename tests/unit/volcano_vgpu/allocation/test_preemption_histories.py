"""Random histories of clusters under Volcano with evictions: what holds after every step, and no pod leaves in vain."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hami_plugins.allocations.answers import Nomination
from hami_plugins.allocations.mode import PreemptionMode
from tests.unit.volcano_vgpu.allocation.volcano_model import CARD, Model, ModelPod, chosen

SIZES = (5_000, 10_000, 20_000, 30_000, 38_000)
PRIORITIES = (100, 500, 1000)


class History:
    """A cluster to which random things happen."""

    def __init__(self, seed: int, mode: PreemptionMode, *, kills: bool) -> None:
        self.rng = random.Random(seed)
        self.model = Model(self.rng.randint(1, 4), self.rng.randint(1, 2), mode)
        self.kills = kills
        self.jobs = 0
        self.owed: set[str] = set()
        self.died = False

    def step(self) -> None:
        """One thing happens, and then what holds is held against it."""
        model = self.model
        model.server.time += self.rng.random()
        chosen(
            self.rng,
            (self.session, 8),
            (self.submit, 6),
            (self.ends, 2),
            (self.removes, 1),
            (self.dies, 1 if self.kills else 0),
            (self.restarts, 1 if self.kills else 0),
        )
        self.check()

    def submit(self) -> None:
        self.jobs += 1
        members = self.rng.choice((1, 1, 1, 2, 3))
        self.model.submit(
            f"j{self.jobs}", members, self.rng.choice(SIZES), self.rng.choice(PRIORITIES), created=self.jobs
        )

    def ends(self) -> None:
        """A terminating pod has ended."""
        if ending := [pod for pod in self.model.pods.values() if pod.ending]:
            self.model.remove(self.rng.choice(ending))

    def removes(self) -> None:
        """A pod goes by itself, or its owner takes it away."""
        if pods := [pod for pod in self.model.pods.values() if not pod.ending]:
            pod = self.rng.choice(pods)
            self.model.minimum[pod.job] = max(1, self.model.minimum[pod.job] - 1)
            self.model.server.group(pod.job, self.model.minimum[pod.job])
            self.model.remove(pod)

    def dies(self) -> None:
        """The scheduler dies in its next session, and takes some seconds to start again."""
        self.model.dies_at = self.rng.randint(0, 30)
        self.session(died=True)
        self.model.dies_at = -1
        self.model.server.time += 3.0

    def restarts(self) -> None:
        """The server is another one."""
        self.model.start_server()

    def session(self, *, died: bool = False) -> None:
        model = self.model
        before = {each.record.name: each for each in model.server.cache.nominations()}
        running = dict(model.pods)
        evicted = model.session()
        kept = {each.record.name: each for each in model.server.cache.nominations()}
        new = kept.keys() - (() if self.died else before.keys())
        made = {name for name in new if kept[name].victims.intersection(f"uid-{pod.name}" for pod in evicted)}
        twice = [name for name in made if name in self.owed]
        assert died or self.died or not twice, f"pods have left for {twice} before"
        self.died = died
        self.owed |= made
        self.evictions(evicted, [running[name] for name in new if name in running], {**before, **kept})
        left = {victim for name in new for victim in kept[name].victims}
        for pod in evicted:
            mates = [each for each in (running.values() if self.died else evicted) if each.job == pod.job]
            of_gang = any(f"uid-{each.name}" in left for each in mates) or self.was_broken(pod.job, evicted)
            assert of_gang, f"{pod.name} left for no pod"
        for job in {pod.job for pod in evicted}:
            stay = [pod for pod in model.pods.values() if pod.job == job and pod.node and not pod.ending]
            assert died or not stay or len(stay) >= model.minimum[job], f"gang {job} is broken"

    def evictions(self, evicted: list[ModelPod], waiting: list[ModelPod], kept: Mapping[str, Nomination]) -> None:
        """Every evicted pod is worth less than some pod that gets its room, and cannot be spared; or it is of a gang of
        which others have left, whose room a pod may have by now.

        ``kept`` is all room that was kept in the session: a plan holds for one, so that it does not see that a pod is
        bound elsewhere meanwhile.
        """
        for victim in evicted:
            worth_more = any(victim.priority < each.priority and victim.job != each.job for each in waiting)
            assert worth_more or self.was_broken(victim.job, evicted), victim
        jobs = {each.job for each in waiting}
        if len(jobs) == 1 and not self.died:
            for spared in evicted:
                if self.was_broken(spared.job, evicted):
                    continue
                whole = self.model.minimum[spared.job] > 1
                gone = {each.name for each in evicted if each is not spared and not (whole and each.job == spared.job)}
                assert not self.fits_without(waiting, gone, kept), (
                    f"{spared.name} need not have left for {[each.name for each in waiting]}"
                )

    def was_broken(self, job: str, evicted: list[ModelPod]) -> bool:
        """Whether a gang had too few pods before these left, as after a session that died: then the rest leaves."""
        stay = [pod for pod in self.model.pods.values() if pod.job == job and pod.node and not pod.ending]
        return len(stay) + sum(pod.job == job for pod in evicted) < self.model.minimum[job]

    def fits_without(self, waiting: list[ModelPod], gone: set[str], kept: Mapping[str, Nomination]) -> bool:
        """Whether these pods fit together when those are gone, next to the room that is reserved for others."""
        model = self.model
        free = {f"GPU-{node}-{at}": CARD for node in model.names for at in range(model.cards)}
        for pod in model.pods.values():
            leaves = pod.ending and pod.name not in {each.name for each in model.evicted}
            if pod.node and pod.name not in gone and not leaves:
                free[pod.card] -= pod.memory
        names = {pod.name for pod in waiting}
        for each in kept.values():
            bound = model.pods.get(each.record.name)
            for share in (share for container in each.record.allocations for share in container.shares):
                if each.record.name not in names and (bound is None or bound.card != share.device):
                    free[share.device] -= share.memory
        return _pack(sorted((pod.memory for pod in waiting), reverse=True), list(free.values()))

    def check(self) -> None:
        """What holds at every moment."""
        model = self.model
        used: defaultdict[str, int] = defaultdict(int)
        for pod in model.pods.values():
            if pod.node:
                used[pod.card] += pod.memory
        assert all(amount <= CARD for amount in used.values()), f"a card is over its size: {dict(used)}"
        kept = model.server.cache.nominations()
        leaving = {victim for each in kept for victim in each.victims}
        promised: defaultdict[str, int] = defaultdict(int)
        for pod in model.pods.values():
            if pod.node and not pod.ending and f"uid-{pod.name}" not in leaving:
                promised[pod.card] += pod.memory
        for each in kept:
            for share in (share for container in each.record.allocations for share in container.shares):
                promised[share.device] += share.memory
        assert all(amount <= CARD for amount in promised.values()), f"more is promised than there is: {dict(promised)}"

    def settle(self) -> None:
        """No more happens from outside, until no pod for which others left waits any more."""
        waiting: list[str] = []
        for _ in range(60):
            self.model.server.time += 0.2
            for pod in [pod for pod in self.model.pods.values() if pod.ending]:
                self.model.remove(pod)
            self.session()
            self.check()
            waiting = [
                pod.name
                for pod in self.model.pods.values()
                if not pod.node and pod.name in self.owed and self.is_whole(pod.job)
            ]
            if not waiting and not any(pod.ending for pod in self.model.pods.values()):
                return
        raise AssertionError(f"pods left in vain: {waiting} wait")

    def is_whole(self, job: str) -> bool:
        """Whether a job has as many pods as start together; the model makes none anew."""
        return sum(pod.job == job for pod in self.model.pods.values()) >= self.model.minimum[job]


def _pack(sizes: list[int], free: list[int]) -> bool:
    if not sizes:
        return True
    return any(
        _pack(sizes[1:], [*free[:at], left - sizes[0], *free[at + 1 :]])
        for at, left in enumerate(free)
        if left >= sizes[0] and left not in free[:at]
    )


@pytest.mark.parametrize("kills", [False, True], ids=["", "kills"])
@pytest.mark.parametrize("mode", [PreemptionMode.FULL, PreemptionMode.SCHEDULER])
@given(seed=st.integers(0, 2**32))
@example(seed=8012).via("members took each other's room, and pods of others what was theirs")
@example(seed=187).via("a member with kept room also kept what a session tried for it")
@example(seed=900075).via("a planned pod left although another job's victim had made room enough")
@settings(deadline=None)
def test_in_any_history_nobody_leaves_who_need_not_and_nobody_leaves_in_vain(
    seed: int, mode: PreemptionMode, *, kills: bool
) -> None:
    history = History(seed, mode, kills=kills)
    for _ in range(50):
        history.step()
    history.settle()


def test_the_model_evicts() -> None:
    """So that the histories show something."""
    evicted = 0
    for seed in range(20):
        history = History(seed, PreemptionMode.FULL, kills=False)
        for _ in range(40):
            history.step()
            evicted += len(history.model.evicted)
    assert evicted > 20
