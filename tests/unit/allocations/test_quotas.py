"""What a namespace's quotas leave: the limits and sums of plans, over holders that come, change and go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.allocations.answers import AllocationSource, Declined, PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.marks import mark
from hami_plugins.engine import quota
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit, NoFit, Reason
from hami_plugins.vendors import nvidia
from hami_plugins.wire import objects
from hami_plugins.wire.admission_review import Allowed, Denied
from tests import raw_objects
from tests.unit.allocator.products import product

REGISTRY = Registry([nvidia.SPEC])
N1, N2 = NodeName("n1"), NodeName("n2")
NVIDIA = nvidia.SPEC.name
Raw = dict[str, Any]


def a_node(name: str, cards: int = 2) -> Raw:
    devices = raw_objects.registered_cards(*(f"{name}-{at}" for at in range(cards)))
    notes = {"hami.io/node-nvidia-register": json.dumps(devices)}
    return {"metadata": {"name": name, "annotations": notes}, "status": {}}


def a_pod(name: str = "p", memory: int = 1_000, namespace: str = "team") -> Raw:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    return raw_objects.pod(name, asks, metadata={"namespace": namespace, "uid": f"uid-{name}"}, phase="Pending")


def asking(raw: Raw) -> PodInfo:
    return take_in(objects.pod(raw), REGISTRY, Rules())


def a_quota(memory: int, namespace: str = "team", **more: str) -> Raw:
    hard = {"limits.nvidia.com/gpumem": str(memory), **more}
    return {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": hard}}


@pytest.fixture
def cache() -> AllocationCache:
    made = AllocationCache(Decider(REGISTRY))
    for name in (N1, N2):
        made.see_node(objects.node_object(a_node(name)))
    return made


def limit(cache: AllocationCache, memory: int, uid: str = "q", **more: str) -> None:
    cache.see_quota(uid, objects.resource_quota(a_quota(memory, **more)))


def hold(cache: AllocationCache, name: str, memory: int, node: NodeName = N1, namespace: str = "team") -> Raw:
    raw = a_pod(name, memory, namespace)
    assert isinstance(cache.allocate(node, asking(raw), 0.0), PodAllocation)
    return raw


def memory_left(cache: AllocationCache, uid: str = "") -> int | None:
    found = dict(cache.left("team", PodUid(uid)))
    return found[NVIDIA].memory if found else None


def test_a_pod_is_refused_by_what_is_left_and_the_refusal_has_the_numbers(cache: AllocationCache) -> None:
    limit(cache, 3_000)
    hold(cache, "holder", 2_000)

    fits, refused = (cache.answer(N2, asking(a_pod(memory=memory))) for memory in (1_000, 1_001))

    assert isinstance(fits, Fit)
    assert isinstance(refused, NoFit)
    assert dict(refused.reasons) == {Reason.QUOTA: 2}
    why = cache.why_not(N2, asking(a_pod(memory=1_001)), refused)
    assert why is not None
    (reason,) = why.reasons
    assert (reason.headroom and reason.headroom.memory) == 1_000  # type: ignore[union-attr]
    declined = cache.allocate(N2, asking(a_pod(memory=1_001)), 0.0)
    assert isinstance(declined, Declined)
    assert isinstance(cache.allocate(N2, asking(a_pod(memory=1_000)), 0.0), PodAllocation)


def test_devices_that_a_scheduler_chose_are_not_taken_beyond_what_is_left(cache: AllocationCache) -> None:
    limit(cache, 1_000)
    for memory, source in ((1_000, AllocationSource.CARRIED), (1_001, None)):
        carried = {"hami.io/vgpu-devices-allocated": f"n1-0,NVIDIA,{memory},0:;"}
        found = cache.allocate(N1, asking(a_pod(memory=memory)), 0.0, carried=carried, dry=True)
        assert (found.source if isinstance(found, PodAllocation) else None) is source


def test_what_the_pod_holds_itself_does_not_count_for_it(cache: AllocationCache) -> None:
    limit(cache, 2_000)
    hold(cache, "p", 2_000)
    assert (memory_left(cache), memory_left(cache, "uid-p")) == (0, 2_000)
    assert isinstance(cache.allocate(N2, asking(a_pod("p", 2_000)), 1.0), PodAllocation)


def test_other_namespaces_and_limits_of_other_things_do_not_count(cache: AllocationCache) -> None:
    cache.see_quota(
        "cpu", objects.resource_quota({"metadata": {"name": "c", "namespace": "x"}, "spec": {"hard": {"cpu": "1"}}})
    )
    limit(cache, 2_000)
    hold(cache, "theirs", 20_000, namespace="other")
    assert memory_left(cache) == 2_000
    assert cache.left("other") == cache.left("x") == ()


def test_quotas_of_one_namespace_hold_together_until_each_is_gone(cache: AllocationCache) -> None:
    limit(cache, 3_000)
    limit(cache, 2_000, "other")
    assert memory_left(cache) == 2_000
    cache.forget_quota("other")
    cache.forget_quota("never-there")
    assert memory_left(cache) == 3_000
    cache.forget_quota("q")
    assert memory_left(cache) is None


def test_sums_are_those_of_plans_whatever_happens_to_holders_and_nodes(cache: AllocationCache) -> None:
    hold(cache, "before", 500)
    limit(cache, 30_000, **{"limits.nvidia.com/gpucores": "100"})
    raws = [hold(cache, f"p{at}", 1_000 * (at + 1), (N1, N2)[at % 2]) for at in range(4)]

    def agree() -> None:
        snapshot = cache.snapshot()
        used = quota.used_by(snapshot, "team", REGISTRY)
        limits = objects.resource_quota(a_quota(30_000, **{"limits.nvidia.com/gpucores": "100"}))
        assert cache.left("team") == quota.headroom(limits, used, REGISTRY)

    agree()
    cache.forget_pod(PodUid("uid-p0"), 1.0)
    agree()
    cache.see_node(objects.node_object(a_node("n1", cards=3)))
    agree()
    bound = {**raws[1], "spec": {**raws[1]["spec"], "nodeName": "n1"}}
    notes = {"hami.io/vgpu-devices-allocated": "n1-0,NVIDIA,7000,0:;"}
    cache.see_pod(objects.pod({**bound, "metadata": {**bound["metadata"], "annotations": notes}}), 2.0)
    agree()
    cache.expire(1_000.0)
    agree()


def test_a_holder_on_a_node_that_is_not_known_counts_all_the_same(cache: AllocationCache) -> None:
    limit(cache, 10_000)
    hold(cache, "p", 4_000)
    cache.forget_node(N1)
    assert memory_left(cache) == 6_000


@pytest.mark.parametrize(("memory", "more"), [(2_000, True), (1_000, True), (3_000, False)])
def test_another_limit_counts_as_room_and_the_same_again_does_not(
    cache: AllocationCache, memory: int, *, more: bool
) -> None:
    limit(cache, 3_000)
    before = cache.freed
    limit(cache, memory)
    assert (cache.freed > before) is more


def test_a_pod_above_what_its_namespace_has_left_is_refused_when_it_is_created_with_the_numbers_and_a_remedy() -> None:
    def left(namespace: str) -> dict[VendorName, Headroom]:
        return {NVIDIA: Headroom(memory=MiB(1_000))} if namespace == "team" else {}

    found = product(nvidia.SPEC)
    refused = mark(a_pod(memory=1_001), found, left)
    assert isinstance(refused, Denied)
    assert refused.code == 403
    assert "limits.nvidia.com/gpumem: asks 1,001, 1,000 left" in refused.reason
    assert "; ask for less, raise the namespace's ResourceQuota, or wait" in refused.reason
    for fits in (a_pod(memory=1_000), a_pod(memory=1_001, namespace="other")):
        assert isinstance(mark(fits, found, left), Allowed)
