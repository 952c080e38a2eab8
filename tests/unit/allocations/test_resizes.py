"""Resizes as the cache books them: what fits, what counts meanwhile, and what a forged annotation changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hami_plugins.allocations.answers import AuditFindingKind, PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.resizes import next_step
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import MiB, PodUid
from hami_plugins.vendors import nvidia
from hami_plugins.wire import objects, resizes
from tests import raw_objects
from tests.unit.allocations.objects import N1, REGISTRY, Raw, a_node, a_pod, asking, bound

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"
CARD = "GPU-n1-0"
P = PodUid("uid-p")


def a_cache(*pods: Raw, text: str | None = None) -> AllocationCache:
    """A node with a card of 40,960 MiB."""
    cache = AllocationCache(Decider(REGISTRY))
    cache.see_node(objects.node_object(a_node("n1", text)))
    for raw in pods:
        see(cache, raw)
    return cache


def see(cache: AllocationCache, raw: Raw) -> None:
    cache.see_pod(objects.pod(raw), 0)


def holder(name: str = "p", memory: int = 10_000, annotations: Mapping[str, str] | None = None) -> Raw:
    return bound(a_pod(name, memory=memory, annotations=annotations), "n1", f"{CARD},NVIDIA,{memory},0:;")


def held(cache: AllocationCache, uid: str = "uid-p") -> int:
    ((_, allocations),) = cache.holdings(PodUid(uid))
    return sum(share.memory for each in allocations for share in each.shares)


def fits(cache: AllocationCache, memory: int) -> bool:
    return isinstance(cache.allocate(N1, asking(a_pod("new", memory=memory)), 0, dry=True), PodAllocation)


def a_resize(**annotations: str) -> resizes.PodResize:
    keys = {"ask": ASK, "booked": BOOKED, "in_force": IN_FORCE, "refused": REFUSED}
    found = resizes.decode({keys[name]: text for name, text in annotations.items()})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("annotations", "booked"),
    [
        ({"ask": "main=20"}, 20),
        ({"ask": "main=20", "booked": "main=20"}, None),
        ({"ask": "main=5"}, None),
        ({"ask": "main=5", "in_force": "main=7"}, 7),
        ({"ask": "main=5", "in_force": "main=5"}, 5),
        ({"ask": "main=5", "booked": "main=5", "in_force": "main=5"}, None),
        ({"ask": "main=20", "booked": "main=20", "refused": "main=20: no"}, 10),
        ({"ask": "main=20", "booked": "main=20", "in_force": "main=15", "refused": "main=20: no"}, 15),
        ({"ask": "main=20", "refused": "main=20: no"}, None),
        ({"ask": "main=5", "in_force": "main=5", "refused": "main=5: no"}, 5),
        ({"booked": "main=20", "in_force": "main=20"}, None),
        ({"booked": "main=20"}, None),
        ({"ask": "side=20"}, None),
        ({"ask": "main=5", "booked": "main=20", "in_force": "main=20"}, None),
    ],
)
def test_growth_is_booked_first_and_a_slice_shrinks_in_force_first(
    annotations: Mapping[str, str], booked: int | None
) -> None:
    step = next_step(a_resize(**annotations), {"main": MiB(10)})
    assert (None if step is None else step.memory) == booked


def test_growth_counts_at_once_and_leaves_less_to_others() -> None:
    cache = a_cache(holder())
    assert fits(cache, 30_960)
    assert cache.book(P, "main", MiB(20_000)) == ({"main": 20_000}, "")
    assert held(cache) == 20_000
    assert fits(cache, 20_960)
    assert not fits(cache, 20_961)


def test_growth_has_to_fit_beside_what_is_allocated_and_promised_on_that_very_card() -> None:
    two = "GPU-n1-0,10,40960,NVIDIA-A100,true,hami-core:GPU-n1-1,10,40960,NVIDIA-A100,true,hami-core:"
    cache = a_cache(holder(), holder("q", 20_000), text=two)
    cache.reserve(N1, asking(a_pod("promised", memory=5_000)), 0)
    on_card = [each for entry in cache.entries() for each in entry.pods if each.name == "promised"]
    promised = sum(share.memory for each in on_card for share in each.allocations[0].shares if share.device == CARD)
    most = 40_960 - 20_000 - promised
    amounts, why = cache.book(P, "main", MiB(most + 1))
    assert amounts == {}
    assert why == (
        f"card {CARD} has {most} of 40960 MiB for this pod, which would hold {most + 1} MiB; the rest is allocated or "
        "promised to other pods"
    )
    assert held(cache) == 10_000
    assert cache.book(P, "main", MiB(most))[1] == ""


def test_a_card_that_has_left_its_node_has_no_room_to_grow_into() -> None:
    cache = a_cache(holder())
    cache.see_node(objects.node_object(a_node("n1", "GPU-other,10,40960,NVIDIA-A100,true,hami-core:")))
    assert cache.book(P, "main", MiB(20_000)) == ({}, f"its card {CARD} is not registered")


def test_a_slice_that_shrinks_keeps_its_memory_until_the_watch_shows_the_write() -> None:
    cache = a_cache(holder())
    assert cache.book(P, "main", MiB(4_000)) == ({"main": 4_000}, "")
    assert held(cache) == 10_000
    see(cache, holder())
    assert held(cache) == 10_000
    see(cache, holder(annotations={BOOKED: "main=4000"}))
    assert held(cache) == 4_000
    assert fits(cache, 36_960)
    assert cache.findings() == ()


def test_growth_counts_on_while_the_watch_shows_the_pod_as_it_was_and_after_it_shows_the_write() -> None:
    cache = a_cache(holder())
    cache.book(P, "main", MiB(20_000))
    see(cache, holder())
    assert held(cache) == 20_000
    see(cache, holder(annotations={BOOKED: "main=20000"}))
    assert held(cache) == 20_000
    assert cache.findings() == ()


def test_what_was_never_written_ends_when_it_is_not_wanted_any_more() -> None:
    cache = a_cache(holder())
    cache.book(P, "main", MiB(20_000))
    before = cache.freed
    cache.unbook(P)
    assert (held(cache), cache.freed) == (10_000, before + 1)
    cache.unbook(P)
    cache.unbook(PodUid("gone"))
    assert cache.freed == before + 1


@pytest.mark.parametrize("booked", [20_000, 4_000])
def test_the_next_leader_counts_what_is_booked_and_finds_nothing_wrong(booked: int) -> None:
    cache = a_cache(holder(annotations={BOOKED: f"main={booked}"}))
    assert held(cache) == booked
    assert cache.findings() == ()


def test_another_writer_of_the_annotation_frees_nothing_and_is_found() -> None:
    cache = a_cache(holder(annotations={BOOKED: "main=20000"}))
    for forged in ({BOOKED: "main=1"}, {}):
        see(cache, holder(annotations=forged))
        assert held(cache) == 20_000
        assert [each.finding for each in cache.findings()] == [AuditFindingKind.CHANGED]
    see(cache, holder(annotations={BOOKED: "main=30000"}))
    assert held(cache) == 30_000


def test_a_pod_that_brings_an_amount_before_it_is_bound_is_allocated_what_it_requests() -> None:
    cache = a_cache()
    pod = a_pod(memory=10_000, annotations={BOOKED: "main=1"})
    carried = {**pod["metadata"]["annotations"], "volcano.sh/vgpu-ids-new": f"{CARD},NVIDIA,10000,0:;"}
    said = cache.allocate(N1, asking(pod), 0, carried=carried)
    assert isinstance(said, PodAllocation)
    assert [share.memory for share in said.shares()] == [10_000]


def test_an_amount_of_another_container_does_not_hide_the_first() -> None:
    cache = a_cache(holder(annotations={BOOKED: "main=20000"}))
    see(cache, holder(annotations={BOOKED: "side=30000"}))
    assert held(cache) == 20_000


def test_containers_that_cannot_be_resized_say_why() -> None:
    cache = a_cache(
        bound(a_pod("two", memory=100, count=2), "n1", f"{CARD},NVIDIA,100,0:GPU-x,NVIDIA,100,0:;"), holder()
    )
    assert cache.resizable(P) == {"main": 10_000}
    two = cache.resizable(PodUid("uid-two"))
    assert two == {"main": "it holds 2 cards; only a container with one card can be resized"}
    assert cache.resizable(PodUid("nobody")) == {}
    cache.forget_node(N1)
    assert cache.resizable(P) == {}
    assert cache.book(P, "main", MiB(5))[1] == "its node is not known"


def a_hami_pod(memory: int = 1000, **annotations: str) -> Raw:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    text = {"hami.io/vgpu-devices-allocated": f"GPU-h,NVIDIA,{memory},0:;", **annotations}
    return raw_objects.pod("h", asks, node="n1", metadata={"namespace": "team", "uid": "uid-h", "annotations": text})


@pytest.mark.parametrize("own", [True, False])
def test_devices_of_hamis_own_plugin_cannot_be_resized_and_those_of_our_agent_keep_to_the_quota(own: bool) -> None:
    cache = AllocationCache(Decider(Registry([nvidia.SPEC])))
    card = {"id": "GPU-h", "count": 10, "devmem": 40_960, "devcore": 100, "type": "NVIDIA-T4", "health": True}
    cache.see_node(objects.node_object(_hami_node(card, own=own)))
    see(cache, a_hami_pod())
    uid = PodUid("uid-h")
    quota: dict[str, Any] = {"metadata": {"namespace": "team", "name": "q"}}
    cache.see_quota("q", objects.resource_quota({**quota, "spec": {"hard": {"limits.nvidia.com/gpumem": "2000"}}}))
    if not own:
        why = "no node agent of this project gives devices of NVIDIA to containers on n1"
        assert cache.resizable(uid) == {"main": why}
        return
    assert cache.resizable(uid) == {"main": 1000}
    assert cache.book(uid, "main", MiB(2001))[1] == "limits.nvidia.com/gpumem: asks 2,001, 2,000 left"
    assert cache.book(uid, "main", MiB(2000))[1] == ""


def _hami_node(card: dict[str, Any], *, own: bool) -> Raw:
    told = {**card, "agent": "volcano-vgpu"} if own else card
    annotations = {"hami.io/node-nvidia-register": json.dumps([told])}
    return {"kind": "Node", "metadata": {"name": "n1", "annotations": annotations}, "status": {}}
