"""No set of victims is cheaper than the one that is found: every set of small clusters of many vendors is tried."""

from __future__ import annotations

import random

import pytest

from hami_plugins.preemption import node_search
from hami_plugins.preemption import search as search_module
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan
from tests.unit.preemption.small_clusters import Cost, a_case, cheapest, cost_of, fits

SEEDS = range(75)


def members_of(seed: int, *, gang: bool) -> int:
    return random.Random(seed).choice((2, 3, 4)) if gang else 1


@pytest.mark.parametrize("queued", [False, True], ids=["kube-scheduler", "volcano"])
@pytest.mark.parametrize("gang", [False, True], ids=["pod", "gang"])
def test_no_allowed_set_of_pods_is_cheaper(gang: bool, queued: bool) -> None:
    numbers = set[int]()
    for seed in SEEDS:
        case = a_case(seed, members_of(seed, gang=gang), queued=queued)
        if case is None:
            continue
        found = VictimSearch(case.history.registry).find(case.snapshot, case.infos)
        mine: Cost | None = None
        if isinstance(found, EvictionPlan):
            mine = cost_of(victim.pod for victim in found.victims)
            numbers.add(len(found.victims))
        assert mine == cheapest(case), f"a_case({seed}, {len(case.infos)}, queued={queued})"
    assert len(numbers) > 2, "most cases have become trivial"


def test_a_gang_stays_whose_member_on_another_node_may_not_leave() -> None:
    """Its priority is not below that of the waiting pods, and no other set makes room."""
    case = a_case(11325, 2, queued=True)
    assert case is not None
    assert cheapest(case) is None
    assert not isinstance(VictimSearch(case.history.registry).find(case.snapshot, case.infos), EvictionPlan)


def test_a_search_that_remembers_finds_what_a_new_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "MOST_DEMANDS", 1)
    for seed in range(40):
        case = a_case(seed, 2)
        if case is None:
            continue
        search = VictimSearch(case.history.registry)
        snapshot = case.snapshot
        for info in case.infos:
            found = search.find(snapshot, [info])
            assert _told(found) == _told(VictimSearch(case.history.registry).find(snapshot, [info])), seed
            snapshot = found.after if isinstance(found, EvictionPlan) else snapshot


def test_a_search_that_is_given_up_has_a_set_of_which_nothing_can_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_search, "MOST_STEPS", 1)
    larger = 0
    for seed in range(60):
        case = a_case(seed)
        best = None if case is None else cheapest(case)
        if case is None or best is None:
            continue
        found = VictimSearch(case.history.registry).find(case.snapshot, case.infos)
        assert isinstance(found, EvictionPlan)
        chosen = [victim.pod for victim in found.victims]
        assert cost_of(chosen) >= best
        larger += cost_of(chosen) > best
        alone = [each for each in chosen if not each.group]
        assert not any(fits(case, [other for other in chosen if other is not each]) for each in alone)
    assert larger


def _told(found: object) -> object:
    if not isinstance(found, EvictionPlan):
        return found
    return [victim.pod.full_name for victim in found.victims], [placed.node for _, placed in found.places]
