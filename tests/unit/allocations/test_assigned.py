"""What HAMi's own scheduler has assigned and not bound yet is held: at most the request, for the time of a Binding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.allocations.answers import Declined, PodAllocation
from hami_plugins.allocations.assigned import ForeignAssignment, foreign_assignment
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.product import Product
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import objects
from tests import raw_objects
from tests.unit.allocations.objects import Raw, asking

MARK = "hami-plugins.io/allocator"
N1, N2 = NodeName("n1"), NodeName("n2")
REGISTRY = Registry([nvidia.SPEC, volcano.SPEC])


def a_node(name: str) -> Raw:
    """A node with one card of 40,960 MiB."""
    cards = raw_objects.registered_cards(f"GPU-{name}")
    metadata = {"name": name, "annotations": {"hami.io/node-nvidia-register": json.dumps(cards)}}
    return {"kind": "Node", "metadata": metadata, "status": {}}


def a_pod(name: str = "p", memory: int = 30_000, annotations: Mapping[str, str] | None = None) -> Raw:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    metadata = {"namespace": "team", "uid": f"uid-{name}", "annotations": dict(annotations or {})}
    return raw_objects.pod(name, asks, metadata=metadata, phase="Pending", schedulerName="hami-scheduler")


def assigned(raw: Raw, node: str = "n1", memory: int = 30_000, time: int = 1) -> Raw:
    """The pod as HAMi's ``filter`` leaves it."""
    text = f"GPU-{node},NVIDIA,{memory},0:;"
    written = {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": str(time),
        "hami.io/vgpu-devices-to-allocate": text,
        "hami.io/vgpu-devices-allocated": text,
    }
    metadata = {**raw["metadata"], "annotations": {**raw["metadata"]["annotations"], **written}}
    return {**raw, "metadata": metadata}


@pytest.fixture
def cache() -> AllocationCache:
    made = AllocationCache(Decider(REGISTRY))
    for name in ("n1", "n2"):
        made.see_node(objects.node_object(a_node(name)))
    return made


def see(cache: AllocationCache, raw: Raw, now: float = 0) -> None:
    pod = objects.pod(raw)
    cache.see_pod(pod, now)
    if pod.node is None:
        cache.see_assigned(pod, foreign_assignment(pod, REGISTRY, marker=MARK), now)


def held(cache: AllocationCache, node: NodeName = N1) -> int:
    entry = cache.entry(node)
    assert entry is not None
    return sum(used.memory for used in entry.state.usage)


def given(cache: AllocationCache, raw: Raw, node: NodeName = N1, now: float = 0) -> PodAllocation | Declined:
    return cache.allocate(node, asking(raw, REGISTRY), now)


def test_what_hami_has_assigned_is_given_to_no_other_pod(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()))
    assert held(cache) == 30_000
    assert isinstance(given(cache, a_pod("other")), Declined)
    assert cache.statistics().foreign == 1
    assert (cache.statistics().reservations, cache.statistics().answered) == (0, 0)


def test_it_becomes_what_the_pod_holds_with_the_binding(cache: AllocationCache) -> None:
    raw = assigned(a_pod())
    see(cache, raw)
    see(cache, {**raw, "spec": {**raw["spec"], "nodeName": "n1"}}, 1)
    assert cache.expire(1_000) == ()
    assert held(cache) == 30_000
    assert cache.statistics().foreign == 0


def test_it_ends_after_the_time_that_a_binding_takes_and_is_not_held_again(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()), 0)
    see(cache, assigned(a_pod()), 60)
    assert cache.expire(89) == ()
    (ended,) = cache.expire(90)
    assert (ended.state, held(cache)) == ("foreign", 0)
    see(cache, assigned(a_pod()), 91)
    assert held(cache) == 0


def test_an_assignment_anew_is_held_where_it_is_now(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()), 0)
    see(cache, assigned(a_pod(), "n2", time=2), 80)
    assert (held(cache, N1), held(cache, N2)) == (0, 30_000)
    assert cache.expire(100) == ()


def test_no_more_is_held_than_the_pod_requests(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod(memory=1_000), memory=40_960))
    assert held(cache) == 1_000


def test_nothing_is_held_once_the_assignment_or_the_pod_is_gone(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()))
    see(cache, a_pod())
    assert held(cache) == 0
    see(cache, assigned(a_pod("q")))
    cache.forget_pod(PodUid("uid-q"), 0)
    assert held(cache) == 0


def test_what_this_allocator_has_answered_for_the_node_stays(cache: AllocationCache) -> None:
    assert isinstance(given(cache, a_pod(memory=5_000)), PodAllocation)
    see(cache, assigned(a_pod(memory=5_000), memory=5_000))
    assert (held(cache), cache.statistics().answered) == (5_000, 1)


def test_what_this_allocator_answers_for_the_pod_takes_its_place(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()))
    assert isinstance(given(cache, a_pod(), now=50), PodAllocation)
    assert (held(cache), cache.statistics().answered) == (30_000, 1)
    assert isinstance(cache.reserve(N1, asking(a_pod("r", memory=10), REGISTRY), 50), PodAllocation)


def test_a_reservation_after_it_is_a_reservation(cache: AllocationCache) -> None:
    see(cache, assigned(a_pod()))
    assert isinstance(cache.reserve(N1, asking(a_pod(), REGISTRY), 5), PodAllocation)
    assert cache.statistics().reservations == 1


def test_it_is_never_overdue_and_no_reason_to_cut_what_comes_bound(cache: AllocationCache) -> None:
    raw = assigned(a_pod(memory=1_000), memory=9_000)
    see(cache, raw)
    assert cache.overdue(1_000, after=0) == ()
    see(cache, {**raw, "spec": {**raw["spec"], "nodeName": "n1"}}, 1)
    assert held(cache) == 9_000


@pytest.mark.parametrize(
    "raw",
    [
        a_pod(),
        assigned(a_pod(annotations={MARK: "extender"})),
        assigned(a_pod(), node=""),
        a_pod(annotations={"hami.io/vgpu-node": "n1", "hami.io/vgpu-time": "1"}),
        a_pod(annotations={"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": ""}),
        a_pod(annotations={"hami.io/vgpu-node": "n1", "volcano.sh/vgpu-ids-new": "GPU-n1,NVIDIA,1,0:"}),
    ],
    ids=["nothing", "marked", "no node", "no devices", "empty list", "another dialect"],
)
def test_nothing_is_assigned_by_less(raw: Raw) -> None:
    assert foreign_assignment(objects.pod(raw), REGISTRY, marker=MARK) is None


def test_a_pod_that_is_being_deleted_is_not_bound_any_more() -> None:
    raw: dict[str, Any] = assigned(a_pod())
    raw["metadata"]["deletionTimestamp"] = "2026-11-24T00:00:00Z"
    assert foreign_assignment(objects.pod(raw), REGISTRY, marker=MARK) is None


def test_an_assignment_is_its_node_its_time_and_its_lists() -> None:
    found = foreign_assignment(objects.pod(assigned(a_pod())), REGISTRY, marker=MARK)
    assert found == ForeignAssignment(
        N1, (("hami.io/vgpu-time", "1"), ("hami.io/vgpu-devices-allocated", "GPU-n1,NVIDIA,30000,0:;"))
    )


def a_product() -> Product:
    return Product(registry=REGISTRY, rules=Rules(), marker=(MARK, "extender"))


@pytest.mark.parametrize(
    ("raw", "is_hamis"),
    [
        (a_pod(), True),
        (a_pod(annotations={MARK: "extender"}), False),
        (raw_objects.pod("p", raw_objects.container(limits={"volcano.sh/vgpu-number": "1"})), False),
    ],
    ids=["HAMi's words", "marked", "Volcano's words"],
)
def test_hamis_scheduler_allocates_to_unmarked_pods_in_its_words(raw: Raw, is_hamis: bool) -> None:
    assert a_product().of_hami(objects.pod(raw)) is is_hamis


def test_a_binding_carries_what_hami_assigned_on_that_node_alone() -> None:
    product, intake = a_product(), asking(assigned(a_pod()), REGISTRY)
    assert product.carried(N1, intake, {}) == intake.pod.annotations
    assert product.carried(N2, intake, {}) is None
    marked = asking(assigned(a_pod(annotations={MARK: "extender"})), REGISTRY)
    assert product.carried(N1, marked, {}) is None


def test_what_another_scheduler_carries_counts_first() -> None:
    product = replace(a_product(), carries=lambda _node, _intake, annotations: annotations)
    assert product.carried(N1, asking(assigned(a_pod()), REGISTRY), {"a": "b"}) == {"a": "b"}
