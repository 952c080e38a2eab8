"""Several demands of one gang, queue usage that is given, and what a search remembers: counted on fixed clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.quota import left_in
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota, PodGroup, Queue
from hami_plugins.model.quantity import NANO
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.proof import Proof
from hami_plugins.preemption.reclaim import divided_gate
from hami_plugins.preemption.running import RunningPodIndex
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims
from hami_plugins.queueing.queues import EnqueueAdmission
from tests.builders import MEMORY
from tests.unit.clusters import REGISTRY
from tests.unit.preemption.clusters import WEB, a_cluster, in_queue, running, waiting, web_budget


def victims(found: EvictionPlan | NoVictims) -> list[str]:
    assert isinstance(found, EvictionPlan), found
    return sorted(victim.pod.name for victim in found.victims)


def find(snapshot: ClusterSnapshot, *infos: PodInfo, gate: EnqueueAdmission | None = None) -> EvictionPlan | NoVictims:
    return VictimSearch(REGISTRY).find(snapshot, infos, gate)


class TestMembersWithDifferentDemands:
    def test_use_up_one_budget_together(self) -> None:
        nodes = [running("a", labels=WEB)], [running("b", labels=WEB)], [running("dear", priority=50)]
        pair = waiting(12_000), waiting(9_000, name="small")
        one = a_cluster(*nodes, cards=1, budgets=(web_budget(1),))
        assert victims(find(one, *pair)) in (["a", "dear"], ["b", "dear"])
        two = replace(one, budgets=(web_budget(2),))
        found = find(two, *pair)
        assert victims(found) == ["a", "b"]
        assert isinstance(found, EvictionPlan)
        assert found.after.budgets == two.budgets, "the API server counts evictions, not the plan"

    def test_count_once_in_the_share_of_their_queue(self) -> None:
        """10,000, 9,000 and twice 8,000 MiB: the queue deserves no more, and what has a place does not wait as well."""
        sizes = 10_000, 9_000, 8_000, 8_000
        infos = [in_queue(size, name=f"high-{at}") for at, size in enumerate(sizes)]
        assert isinstance(find(self.queues(35_000), *infos), EvictionPlan)
        assert isinstance(find(self.queues(34_999), *infos), NoVictims)

    def queues(self, deserved: int) -> ClusterSnapshot:
        records = [running(name, group=name) for name in "abcd"]
        groups = {f"default/{name}": PodGroup(namespace="default", name=name, queue="theirs") for name in "abcd"}
        queues = {
            "mine": Queue(name="mine", deserved={MEMORY: deserved * NANO}),
            "theirs": Queue(name="theirs", deserved={MEMORY: NANO}),
        }
        return a_cluster(*[[each] for each in records], cards=1, pod_groups=groups, queues=queues)

    @pytest.mark.parametrize(("limit", "fits"), [(15_999, False), (16_000, True)])
    def test_meet_the_limit_of_their_queue_together(self, limit: int, fits: bool) -> None:
        limited = {"mine": Queue(name="mine", capability={MEMORY: limit * NANO})}
        found = find(a_cluster([], queues=limited), in_queue(10_000), in_queue(6_000, name="small"))
        assert isinstance(found, EvictionPlan) is fits
        if isinstance(found, EvictionPlan):
            assert found.usage is not None
            assert found.usage.accounts["mine"].held == {MEMORY: 16_000 * NANO}


def test_queue_usage_that_is_given_counts_and_not_that_of_the_snapshot() -> None:
    free = a_cluster([], queues={"mine": Queue(name="mine", capability={MEMORY: 10_000 * NANO})})
    full = replace(free, queues={"mine": Queue(name="mine", capability={MEMORY: 9_999 * NANO})})
    info = in_queue()

    def gate_of(snapshot: ClusterSnapshot) -> EnqueueAdmission | None:
        return divided_gate(snapshot, Preemptor.of(snapshot, [info]), Rules(), RunningPodIndex.of(snapshot))

    assert isinstance(find(free, info, gate=gate_of(free)), EvictionPlan)
    assert isinstance(find(free, info, gate=gate_of(full)), NoVictims)
    assert isinstance(find(full, info, gate=gate_of(free)), EvictionPlan)


def test_no_member_returns_its_quota_twice_beside_its_whole_gang() -> None:
    """With one member counted twice the cheaper gang on n0 would return 12,000 MiB, and it returns 8,000."""
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": 20_000 * NANO})}
    gang = [running(name, 0, 4_000, group="g") for name in ("a", "b")]
    stays = running("stays", 0, 1_000, preemptable=False)
    other = [running("dear", 0, 11_000, priority=50)]
    groups = {"default/g": PodGroup(namespace="default", name="g", min_member=1, min_by_task={"": 1})}
    snapshot = a_cluster([*gang, stays], other, cards=1, quotas=quota, pod_groups=groups)
    left = left_in(snapshot, "default", REGISTRY)
    info = take_in(waiting(9_000).submitted, REGISTRY, Rules(), left, admitted=True)
    assert victims(find(snapshot, info)) == ["dear"]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes about which the decision function is asked while sets of victims are tried."""
    asked: list[str] = []
    takes = Proof.takes

    def noted(self: Proof, entry: Any, *arguments: Any) -> bool:
        asked.append(entry.name)
        return takes(self, entry, *arguments)

    monkeypatch.setattr(Proof, "takes", noted)
    return asked


def test_the_last_eight_demands_are_remembered(questions: list[str]) -> None:
    snapshot = a_cluster([running("a", 0, 16_000), running("b", 1, 16_000)])
    search = VictimSearch(REGISTRY)

    def asked(memory: int) -> bool:
        questions.clear()
        search.find(snapshot, [waiting(memory)])
        return bool(questions)

    sizes = range(10_000, 10_009)
    assert all(map(asked, sizes[:8]))
    assert not any(map(asked, sizes[:8])), "each of them is known"
    assert not asked(sizes[0]), "and is the latest now"
    assert asked(sizes[8])
    assert not asked(sizes[0])
    assert not any(map(asked, sizes[2:8]))
    assert asked(sizes[1]), "the one that was asked about longest ago is forgotten"


def test_a_search_that_remembers_goes_on_to_higher_priorities_as_the_first_one_did() -> None:
    """The pod of the lowest priority is not enough, alone or with others of its own."""
    snapshot = a_cluster([running("low", 0, 1_000), running("mid", 0, 12_000, priority=50)], cards=1)
    search = VictimSearch(REGISTRY)
    assert [victims(search.find(snapshot, [waiting()])) for _ in range(2)] == [["mid"], ["mid"]]
