"""Which waiting pods are tried again: those that fit now, the most important first, as many as there is room for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.requeue import Chosen, RequeuePlanner, exhaustive
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from tests.unit.allocations.test_quotas import REGISTRY, a_node, a_pod, a_quota, asking

N1, N2 = NodeName("n1"), NodeName("n2")
LATER = 6.0
"""Seconds after which pods that were never asked about may be chosen."""


@pytest.fixture
def cache() -> AllocationCache:
    made = AllocationCache(Decider(REGISTRY))
    for name in (N1, N2):
        made.see_node(objects.node_object(a_node(name, cards=1)))
    return made


@dataclass
class View:
    """The cluster as the server has it."""

    cache: AllocationCache
    allowed: Collection[str] | None = None

    def fitting(self, intake: PodInfo, nodes: Sequence[NodeName] | None) -> list[NodeEntry]:
        entries = sorted(self.cache.entries(), key=lambda each: each.name)
        asked = [each for each in entries if nodes is None or each.name in nodes]
        return [each for each in asked if isinstance(self.cache.answer(each.name, intake), Fit)]

    def left(self, namespace: str) -> Mapping[VendorName, Headroom]:
        return dict(self.cache.left(namespace))

    def allows(self, node: NodeName, intake: PodInfo) -> bool:
        return self.allowed is None or node in self.allowed


@pytest.fixture
def planner() -> RequeuePlanner:
    return RequeuePlanner(Decider(REGISTRY))


def waits(name: str, memory: int = 30_000, priority: int = 0) -> PodInfo:
    found = asking(a_pod(name, memory))
    return replace(found, pod=replace(found.pod, priority=priority))


def refused(planner: RequeuePlanner, *pods: PodInfo, nodes: tuple[NodeName, ...] = (N1, N2), at: float = 0.0) -> None:
    for each in pods:
        planner.asked(each.pod.uid, nodes, at, fits=False)


def names(chosen: Chosen) -> list[str]:
    return [each.pod.name for each in chosen.pods]


def test_as_many_are_chosen_as_there_is_room_for_and_the_most_important_first(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    pods = [waits("a"), waits("b", priority=5), waits("c", priority=9), waits("too-large", 50_000, priority=99)]
    refused(planner, *pods)
    assert names(planner.choose(pods, View(cache), 1.0)) == ["c", "b"]


def test_a_pod_that_does_not_fit_is_never_chosen(cache: AllocationCache, planner: RequeuePlanner) -> None:
    pods = [waits(f"p{at}", 41_000) for at in range(3)]
    refused(planner, *pods)
    assert planner.choose(pods, View(cache), 1.0) == Chosen(())


def test_a_chosen_pod_takes_its_room_until_its_scheduler_asks_and_is_not_chosen_twice(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    pods = [waits("a"), waits("b"), waits("c")]
    refused(planner, *pods)
    assert names(planner.choose(pods, View(cache), 1.0)) == ["a", "b"]
    assert names(planner.choose(pods, View(cache), 2.0)) == []
    refused(planner, *pods[:2], at=3.0)
    assert names(planner.choose(pods[1:], View(cache), 4.0)) == ["b", "c"]


def test_a_pod_whose_scheduler_never_asks_is_chosen_less_and_less_often_and_keeps_no_room(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    stuck = waits("a", priority=9)
    refused(planner, stuck)
    times = [at for at in map(float, range(1, 1_000)) if names(planner.choose([stuck], View(cache), at))]
    assert times[:6] == [1.0, 16.0, 46.0, 106.0, 226.0, 466.0]
    assert times[6:] == [766.0]
    others = [waits("b"), waits("c")]
    refused(planner, *others)
    chosen = planner.choose([stuck, *others], View(cache), 1_000.0)
    assert names(chosen) == ["b", "c"]
    assert chosen.again == 1_066.0


def test_when_a_pod_that_fits_may_be_chosen_again_is_told(cache: AllocationCache, planner: RequeuePlanner) -> None:
    stuck = waits("a")
    refused(planner, stuck)
    planner.choose([stuck], View(cache), 1.0)
    assert planner.choose([stuck], View(cache), 16.0).pods
    assert planner.choose([stuck], View(cache), 40.0).again == 46.0


def test_a_new_pod_is_left_to_its_scheduler_for_a_while(cache: AllocationCache, planner: RequeuePlanner) -> None:
    pods = [waits("a")]
    assert planner.choose(pods, View(cache), 1.0) == Chosen((), 6.0)
    assert names(planner.choose(pods, View(cache), 1.0 + LATER)) == ["a"]


def test_a_pod_that_is_about_to_be_bound_takes_its_room_and_is_not_chosen(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    pods = [waits("a"), waits("b"), waits("c")]
    refused(planner, *pods)
    planner.asked(PodUid("uid-c"), (N1, N2), 1.0, fits=True)
    assert names(planner.choose(pods, View(cache), 2.0)) == ["a"]
    assert names(planner.choose([pods[2]], View(cache), 32.0)) == ["c"]


def test_only_nodes_that_its_scheduler_asks_about_count_where_those_are_all(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    elsewhere, anywhere = waits("a"), waits("b")
    refused(planner, elsewhere, nodes=(NodeName("full"), NodeName("gone")))
    planner.asked(anywhere.pod.uid, exhaustive([N1] * 100), 0.0, fits=False)
    assert names(planner.choose([elsewhere, anywhere], View(cache), 1.0)) == ["b"]
    assert exhaustive([N1] * 99) is not None


def test_what_else_is_in_the_way_on_a_node_counts(cache: AllocationCache, planner: RequeuePlanner) -> None:
    pods = [waits("a"), waits("b")]
    refused(planner, *pods)
    assert names(planner.choose(pods, View(cache, allowed={N2}), 1.0)) == ["a"]


def test_a_quota_leaves_room_for_as_many_as_it_says(cache: AllocationCache, planner: RequeuePlanner) -> None:
    cache.see_quota("q", objects.resource_quota(a_quota(50_000)))
    pods = [waits("a"), waits("b")]
    refused(planner, *pods)
    assert names(planner.choose(pods, View(cache), 1.0)) == ["a"]


def test_no_more_are_chosen_at_a_time_than_the_api_server_should_bear(
    cache: AllocationCache, planner: RequeuePlanner
) -> None:
    for at in range(20):
        cache.see_node(objects.node_object(a_node(f"m{at}")))
    pods = [waits(f"p{at:03}", 4_000) for at in range(200)]
    refused(planner, *pods, nodes=tuple(NodeName(f"m{at}") for at in range(20)))
    first = planner.choose(pods, View(cache), 100.0)
    assert len(first.pods) == 50
    assert first.again == pytest.approx(100.05)
    assert len(planner.choose(pods, View(cache), 101.0).pods) == 20
