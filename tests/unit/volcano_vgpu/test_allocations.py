"""What Volcano allocated to a container, and what is refused with which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.vendors.volcano import SPEC, configured
from hami_plugins.wire.volcano import decode_assignment
from hami_plugins.wire.volcano_config import Geometry, VolcanoConfig
from tests.unit.volcano_vgpu.allocated_pods import IDS, LEFT, card, container, instances, offer, pod, question
from volcano_vgpu.core.allocations import allocations_of, is_static
from volcano_vgpu.core.assignments import allocated_cards, record_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer

MORE = SPEC.keys.more


def answer(
    raw: dict[str, Any], name: str = "main", *, held: Any = None, on: NodeOffer | None = None, **more: Any
) -> Any:
    return allocations_of(raw, question(held, **more), on or offer())[name]


def record(raw: dict[str, Any], served: dict[str, str] | None = None) -> PodRecord:
    """What the pod holds on node n1; ``served`` are the cards that were handed to its containers."""
    handed = {name: decode_assignment(IDS, text)[0] for name, text in (served or {}).items()}
    found = record_of(raw, offer(), handed or None)
    assert found is not None
    return found


def refused(raw: dict[str, Any], name: str = "main", **more: Any) -> ContainerRefusal:
    found = answer(raw, name, **more)
    assert isinstance(found, ContainerRefusal), found
    return found


def cards(found: object) -> list[tuple[str, int, int]]:
    assert isinstance(found, AllocatedContainer), found
    return [(share.card, share.assigned.memory, share.assigned.cores) for share in found.shares]


def other(ids: str, name: str = "other", **more: Any) -> PodRecord:
    return record(pod(ids=ids, name=name, **more))


def test_a_container_gets_what_volcano_wrote_for_it() -> None:
    assert cards(answer(pod(ids="GPU-b,NVIDIA,2000,30:"))) == [("GPU-b", 2000, 30)]


def test_cards_keep_the_order_of_the_allocation() -> None:
    raw = pod(container("main", count=2), ids="GPU-b,NVIDIA,10,0:GPU-a,NVIDIA,20,0:")
    assert cards(answer(raw, held={"main": 2})) == [("GPU-b", 10, 0), ("GPU-a", 20, 0)]


def test_segments_belong_to_the_containers_that_ask_in_their_order() -> None:
    raw = pod(
        container("one", count=1, memory=2000),
        container("plain"),
        container("cores-only", cores=10),
        container("two", count=1, memory=3000),
        ids="GPU-a,NVIDIA,2000,0:;GPU-b,NVIDIA,3000,0:",
    )
    found = allocations_of(raw, question({"one": 1, "two": 1}), offer())
    assert cards(found["one"]) == [("GPU-a", 2000, 0)]
    assert cards(found["two"]) == [("GPU-b", 3000, 0)]


def test_a_container_that_names_only_memory_has_a_segment_and_one_of_zero_cards_an_empty_one() -> None:
    raw = pod(
        container("memory", memory=100),
        container("none", count=0),
        container("main", count=1),
        ids="GPU-a,NVIDIA,100,0:;;GPU-b,NVIDIA,40960,0:",
    )
    assert cards(answer(raw)) == [("GPU-b", 40960, 0)]


@pytest.mark.parametrize("left", [None, "", ";", ";GPU-b,NVIDIA,3000,0:"])
def test_segments_that_were_served_before_do_not_matter(left: str | None) -> None:
    raw = pod(container("one", count=1), container("main", count=1), ids="GPU-a,NVIDIA,2000,0:;GPU-b,NVIDIA,3000,0:")
    if left is None:
        del raw["metadata"]["annotations"][LEFT]
    else:
        raw["metadata"]["annotations"][LEFT] = left
    assert cards(answer(raw)) == [("GPU-b", 3000, 0)]


@pytest.mark.parametrize("left", ["GPU-b,NVIDIA,2000,30:", "GPU-a,NVIDIA,2000,30:;GPU-b,NVIDIA,1,0:"])
def test_what_is_left_to_serve_must_agree_with_the_allocation(left: str) -> None:
    found = refused(pod(devices_to_allocate=left))
    assert found.code is RefusalCode.CONTRADICTED
    assert not found.heals


def test_every_refusal_names_the_pod() -> None:
    assert refused(pod(ids=None)).text.startswith("pod team/p: ")
    assert refused(pod(ids="GPU-x,NVIDIA,1,0:")).text.startswith("pod team/p, container main: ")


def test_a_pod_that_volcano_bound_without_an_allocation_is_told_why() -> None:
    found = refused(pod(ids=None))
    assert found.code is RefusalCode.NO_ALLOCATION
    assert "delete this one" in found.text


def test_a_pod_of_another_scheduler_is_told_which_to_name() -> None:
    found = refused(pod(ids=None, scheduler="default-scheduler"))
    assert found.code is RefusalCode.NOT_VOLCANO
    assert "schedulerName: volcano" in found.text


@pytest.mark.parametrize("key", ["kubernetes.io/config.mirror", "kubernetes.io/config.source"])
def test_a_static_pod_has_no_allocation(key: str) -> None:
    raw = pod()
    raw["metadata"]["annotations"][key] = "file"
    assert is_static(raw)
    assert refused(raw).code is RefusalCode.STATIC_POD


def test_the_allocation_of_another_node_is_not_served() -> None:
    found = refused(pod(allocated_for="n2"))
    assert (found.code, found.heals) == (RefusalCode.OTHER_NODE, False)
    assert "n2" in found.text
    assert refused(pod(node="n2")).code is RefusalCode.OTHER_NODE


def test_a_pod_that_was_made_again_under_its_name_is_not_the_one_that_starts() -> None:
    assert refused(pod(), uid="uid-of-before").code is RefusalCode.POD_GONE


@pytest.mark.parametrize(
    "ids", ["GPU-a", "GPU-a,NVIDIA,2000:", "GPU-a,NVIDIA,x,0:", "GPU-a,NVIDIA,-1,0:", ",NVIDIA,1,0:"]
)
def test_an_allocation_that_nobody_can_read_is_not_served(ids: str) -> None:
    found = refused(pod(ids=ids))
    assert found.code in {RefusalCode.MALFORMED, RefusalCode.COUNT}
    assert not found.heals


def test_an_allocation_of_no_memory_is_not_taken_for_all_of_it() -> None:
    assert refused(pod(ids="GPU-a,NVIDIA,0,0:")).code is RefusalCode.MALFORMED


def test_a_card_named_twice_is_not_served() -> None:
    raw = pod(container("main", count=2), ids="GPU-a,NVIDIA,1,0:GPU-a,NVIDIA,1,0:")
    assert refused(raw, held={"main": 2}).code is RefusalCode.MALFORMED


@pytest.mark.parametrize("ids", ["GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:", ";;", ""])
def test_there_is_one_segment_for_each_container_that_asks(ids: str) -> None:
    raw = pod(container("main", count=1), ids=ids) if ids else pod(container("main", count=1), container("b", count=1))
    found = refused(raw)
    assert (found.code, found.heals) == (RefusalCode.SEGMENTS, False)


def test_as_many_cards_as_the_kubelet_gave_slots() -> None:
    found = refused(pod(), held={"main": 2})
    assert (found.code, found.heals) == (RefusalCode.COUNT, False)
    assert "kubelet gave 2 slots, Volcano allocated 1 cards (GPU-a,NVIDIA,2000,30:)" in found.text


def test_an_unknown_card_is_named_with_the_nearest_that_there_is() -> None:
    node = offer(card("GPU-5bb1e1d8-a"))
    found = refused(pod(ids="GPU-5bb1e1d9-a,NVIDIA,1,0:"), on=node)
    assert found.code is RefusalCode.UNKNOWN_CARD
    assert "the nearest is GPU-5bb1e1d8-a" in found.text


def test_a_card_that_is_passed_over_is_named_with_the_reason() -> None:
    node = offer(passed_over={"GPU-x": "excluded by the settings"})
    assert "excluded by the settings" in refused(pod(ids="GPU-x,NVIDIA,1,0:"), on=node).text


def test_an_unhealthy_card_is_refused_until_it_is_well() -> None:
    node = offer(card("GPU-a", problems=("XID 79: fallen off the bus",)), card("GPU-b"))
    found = refused(pod(), on=node)
    assert (found.code, found.heals) == (RefusalCode.UNHEALTHY_CARD, True)
    assert "XID 79" in found.text


def test_more_than_a_card_has_is_refused() -> None:
    assert refused(pod(ids="GPU-a,NVIDIA,40961,0:")).code is RefusalCode.CARD_MEMORY
    assert refused(pod(ids="GPU-a,NVIDIA,1,101:")).code is RefusalCode.CARD_CORES


def test_containers_of_a_pod_may_fill_a_card_and_no_more() -> None:
    def two(second: int) -> Any:
        raw = pod(
            container("main", count=1), container("b", count=1), ids=f"GPU-a,NVIDIA,40000,0:;GPU-a,NVIDIA,{second},0:"
        )
        return answer(raw, held={"main": 1, "b": 1})

    assert isinstance(two(960), AllocatedContainer)
    assert two(961).code is RefusalCode.CARD_FULL
    assert "for this pod alone" in two(961).text
    assert two(961).text.endswith("Delete the pod")
    assert not two(961).heals


@pytest.mark.parametrize(
    ("held", "asked", "word"),
    [("38961,0", "2000,30", "memory"), ("1,71", "2000,30", "cores")],
)
def test_a_card_that_others_had_first_is_not_promised_again(held: str, asked: str, word: str) -> None:
    found = refused(pod(ids=f"GPU-a,NVIDIA,{asked}:"), others=(other(f"GPU-a,NVIDIA,{held}:"),))
    assert (found.code, found.heals) == (RefusalCode.CARD_FULL, True)
    assert word in found.text
    assert "team/other" in found.text
    assert "This pod starts when there is room" in found.text
    assert isinstance(
        answer(pod(ids="GPU-b,NVIDIA,2000,30:"), others=(other(f"GPU-a,NVIDIA,{held}:"),)), AllocatedContainer
    )


def test_no_more_containers_than_a_card_has_slots() -> None:
    others = tuple(other("GPU-a,NVIDIA,1,0:", name=f"o{at}") for at in range(2))
    assert isinstance(answer(pod(), on=offer(slots=3), others=others), AllocatedContainer)
    assert refused(pod(), on=offer(slots=2), others=others).code is RefusalCode.CARD_FULL


def test_a_pod_that_was_served_keeps_what_it_has_whatever_came_after() -> None:
    raw = pod(bind_phase="failed")
    full = (other("GPU-a,NVIDIA,40960,100:"),)
    assert isinstance(answer(raw, others=full, served=frozenset({"main"})), AllocatedContainer)


def test_a_container_that_was_not_served_with_the_others_has_to_wait_for_room() -> None:
    raw = pod(container("main", count=1), container("b", count=1), ids="GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:")
    full = (other("GPU-b,NVIDIA,40960,0:"),)
    found = refused(raw, "b", held={"main": 1, "b": 1}, others=full, served=frozenset({"main"}))
    assert found.code is RefusalCode.CARD_FULL


def test_a_pod_that_was_marked_as_failed_is_not_served() -> None:
    assert refused(pod(bind_phase="failed")).code is RefusalCode.MARKED_FAILED


def test_pods_that_have_ended_hold_nothing() -> None:
    assert record_of(pod(phase="Succeeded"), offer()) is None
    assert record_of(pod(node="n2"), offer()) is None
    assert record_of({"metadata": 1}, offer()) is None


def test_a_pod_that_was_served_holds_what_each_container_was_handed_and_not_what_it_says_now() -> None:
    side = container("side", count=1, memory=9000) | {"restartPolicy": "Always"}
    raw = pod(
        container("main", count=1, memory=2000),
        container("plain"),
        init=[container("first", count=1, memory=2000), container("idle"), side],
        ids="GPU-b,NVIDIA,1,0:",
    )
    lent = "GPU-a,NVIDIA,2000,0:"
    held = record(raw, {"main": lent, "first": lent, "side": "GPU-b,NVIDIA,9000,0:"})
    by_container = [[(share.device, share.memory) for share in allocation.shares] for allocation in held.allocations]
    assert by_container == [[("GPU-a", 2000)], [], [("GPU-b", 9000)], [("GPU-a", 2000)], []]


def test_an_init_container_gets_the_slice_of_the_container_that_uses_its_ids() -> None:
    raw = pod(
        container("main", count=2, memory=2000),
        init=[container("init", count=1, memory=1000)],
        ids="GPU-a,NVIDIA,2000,0:GPU-b,NVIDIA,2000,0:",
    )
    found = answer(raw, "init", held={"init": ["s0"], "main": ["s0", "s1"]})
    assert cards(found) == [("GPU-a", 2000, 0)]
    assert found.lender == "main"


def test_an_init_container_that_names_no_amount_takes_the_slice_as_it_is() -> None:
    raw = pod(init=[container("init", count=1)])
    assert cards(answer(raw, "init", held={"init": ["s0"], "main": ["s0"]})) == [("GPU-a", 2000, 30)]


@pytest.mark.parametrize("more", [{"memory": 2001}, {"cores": 31}])
def test_an_init_container_that_asks_for_more_than_the_slice_is_told_so(more: Any) -> None:
    raw = pod(init=[container("init", count=1, **more)])
    found = refused(raw, "init", held={"init": ["s0"], "main": ["s0"]})
    assert (found.code, found.heals) == (RefusalCode.INIT_CONTAINER, False)
    assert "2000 of memory, 30 cores" in found.text


def test_an_init_container_may_name_any_cores_where_the_slice_is_not_limited() -> None:
    raw = pod(ids="GPU-a,NVIDIA,2000,0:", init=[container("init", count=1, cores=50)])
    assert isinstance(answer(raw, "init", held={"init": ["s0"], "main": ["s0"]}), AllocatedContainer)


def test_an_init_container_with_ids_that_no_application_uses_gets_nothing() -> None:
    raw = pod(init=[container("init", count=2)])
    found = allocations_of(raw, question({"init": ["s0", "s1"], "main": ["s0"]}), offer())
    assert isinstance(found["main"], AllocatedContainer)
    init = found["init"]
    assert isinstance(init, ContainerRefusal)
    assert init.code is RefusalCode.INIT_CONTAINER


def test_an_init_container_that_asks_for_nothing_gets_nothing_of_a_slice() -> None:
    raw = pod(init=[container("init")])
    found = refused(raw, "init", held={"init": ["s0"], "main": ["s0"]})
    assert (found.code, found.heals) == (RefusalCode.INIT_CONTAINER, False)


@pytest.mark.parametrize("always", [{}, {"restartPolicy": "Always"}], ids=["init container", "sidecar"])
def test_who_is_no_application_gets_what_is_listed_for_it_by_name(always: dict[str, str]) -> None:
    raw = pod(init=[container("first", count=1, memory=9000) | always])
    raw["metadata"]["annotations"][MORE] = "first=GPU-b,NVIDIA,9000,0:"
    found = allocations_of(raw, question({"first": ["s0"], "main": ["s0"]}), offer())
    assert cards(found["first"]) == [("GPU-b", 9000, 0)]
    assert cards(found["main"]) == [("GPU-a", 2000, 30)]
    assert allocated_cards(raw, offer()) == {"main": ("GPU-a",), "first": ("GPU-b",)}


def test_a_pod_of_which_only_the_sidecar_has_cards_is_served() -> None:
    raw = pod(container("main"), init=[container("side", count=1) | {"restartPolicy": "Always"}], ids="")
    raw["metadata"]["annotations"][MORE] = "side=GPU-b,NVIDIA,9000,0:"
    assert cards(answer(raw, "side", held={"side": 1})) == [("GPU-b", 9000, 0)]


def test_a_sidecar_is_served_beside_an_application_that_asks_for_no_card_at_all() -> None:
    raw = pod(container("main", count=0), init=[container("side", count=1) | {"restartPolicy": "Always"}], ids="")
    raw["metadata"]["annotations"][MORE] = "side=GPU-b,NVIDIA,9000,0:"
    assert cards(answer(raw, "side", held={"side": 1})) == [("GPU-b", 9000, 0)]


def test_a_list_by_name_of_more_cards_than_slots_is_refused() -> None:
    raw = pod(init=[container("side", count=1) | {"restartPolicy": "Always"}])
    raw["metadata"]["annotations"][MORE] = "side=GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:"
    assert refused(raw, "side", held={"side": 1}).code is RefusalCode.COUNT


@pytest.mark.parametrize("more", ["nobody=GPU-b,NVIDIA,1,0:", "main=GPU-b,NVIDIA,1,0:", "side"])
def test_a_list_by_name_that_means_nothing_is_refused(more: str) -> None:
    raw = pod()
    raw["metadata"]["annotations"][MORE] = more
    assert refused(raw).code is RefusalCode.MALFORMED
    assert allocated_cards(raw, offer()) == {}


def test_a_sidecar_gets_nothing_and_is_told_what_to_write_instead() -> None:
    raw = pod(init=[container("side", count=1) | {"restartPolicy": "Always"}])
    found = allocations_of(raw, question({"side": 1, "main": 1}), offer())
    assert isinstance(found["main"], AllocatedContainer)
    side = found["side"]
    assert isinstance(side, ContainerRefusal)
    assert side.code is RefusalCode.SIDECAR
    assert "ordinary container" in side.text


GEOMETRY = Geometry(
    ("T4",),
    (
        Profile("2g.10gb", MiB(10240), CoreShare(0), 1, (SlicePlacement(0, 1), SlicePlacement(1, 1)), group="group2"),
        Profile("1g.5gb", MiB(5120), CoreShare(0), 1, (SlicePlacement(2, 1),), group="group2"),
        Profile("7g.40gb", MiB(40960), CoreShare(0), 1, (SlicePlacement(0, 1),), group="group4"),
    ),
)
MIG_SPEC = configured(VolcanoConfig(geometries=(GEOMETRY,)))


def mig(*profiles: str) -> NodeOffer:
    return offer(card("GPU-a", mig=True, instances=instances(*profiles)), mode="mig", spec=MIG_SPEC)


@pytest.mark.parametrize(("position", "uuid"), [(0, "MIG-1"), (1, "MIG-2"), (2, "MIG-0")])
def test_a_mig_slot_means_the_instance_in_its_place(position: int, uuid: str) -> None:
    found = answer(pod(ids=f"GPU-a[group2-{position}],NVIDIA,5000,0:"), on=mig("1g.5gb", "2g.10gb", "2g.10gb"))
    assert isinstance(found, AllocatedContainer)
    assert [share.visible for share in found.shares] == [uuid]


@pytest.mark.parametrize(
    ("ids", "profiles", "code"),
    [
        ("GPU-a[group2-0],NVIDIA,5000,0:", ("7g.40gb",), RefusalCode.PARTITION),
        ("GPU-a[group2-3],NVIDIA,5000,0:", ("1g.5gb", "2g.10gb", "2g.10gb"), RefusalCode.PARTITION),
        ("GPU-a[group9-0],NVIDIA,5000,0:", ("7g.40gb",), RefusalCode.PARTITION),
        ("GPU-a,NVIDIA,5000,0:", ("7g.40gb",), RefusalCode.MODE),
        ("GPU-a[group2],NVIDIA,5000,0:", ("7g.40gb",), RefusalCode.MALFORMED),
    ],
)
def test_a_mig_slot_that_the_card_does_not_have_is_refused(
    ids: str, profiles: tuple[str, ...], code: RefusalCode
) -> None:
    assert refused(pod(ids=ids), on=mig(*profiles)).code is code


def test_an_allocation_with_a_mig_slot_that_cannot_be_read_names_no_card() -> None:
    assert allocated_cards(pod(ids="GPU-a[group2-0],NVIDIA,5000,0:"), offer()) == {"main": ("GPU-a",)}
    assert allocated_cards(pod(ids="GPU-a[group2],NVIDIA,5000,0:"), offer()) == {}


def test_a_mig_slot_of_an_unknown_group_is_refused_with_the_groups_that_there_are() -> None:
    assert "(known groups: group2, group4)" in refused(pod(ids="GPU-a[group9-0],NVIDIA,5000,0:"), on=mig()).text
    models = (replace(card("GPU-a", mig=True), model="V100"), card("GPU-b", mig=True))
    node = offer(*models, mode="mig", spec=MIG_SPEC)
    assert "(known groups: none)" in refused(pod(ids="GPU-a[group9-0],NVIDIA,5000,0:"), on=node).text


def test_a_mig_slot_means_nothing_on_a_card_that_is_not_cut() -> None:
    assert refused(pod(ids="GPU-a[group2-0],NVIDIA,5000,0:")).code is RefusalCode.MODE


def test_a_mig_slot_is_held_by_one_pod() -> None:
    node = mig("7g.40gb")
    first = record_of(pod(ids="GPU-a[group4-0],NVIDIA,5000,0:", name="other"), node)
    assert first is not None
    found = refused(pod(ids="GPU-a[group4-0],NVIDIA,5000,0:"), on=node, others=(first,))
    assert found.code is RefusalCode.CARD_FULL
    assert "team/other" in found.text


def test_a_broken_pod_is_refused_and_not_a_crash() -> None:
    raw = pod()
    raw["spec"]["containers"] = "none"
    assert refused(raw).code is RefusalCode.MALFORMED


def test_a_container_that_the_pod_does_not_have_gets_nothing() -> None:
    found = allocations_of(pod(), question({"main": 1, "ghost": 1}), offer())
    ghost = found["ghost"]
    assert isinstance(ghost, ContainerRefusal)
    assert isinstance(found["main"], AllocatedContainer)


def test_the_offer_of_a_node_without_cards_refuses_everything() -> None:
    node = replace(offer(), entry=replace(offer().entry, ids=()))
    assert refused(pod(), on=node).code is RefusalCode.UNKNOWN_CARD


@pytest.mark.parametrize(
    ("held", "asked", "word"),
    [("1,100", "2000,0", "all cores"), ("1,0", "2000,100", "whole card")],
    ids=["next to an exclusive pod", "exclusive next to a pod"],
)
def test_a_card_whose_cores_are_all_allocated_is_shared_with_no_other_pod(held: str, asked: str, word: str) -> None:
    others = (other(f"GPU-a,NVIDIA,{held}:"),)
    found = refused(pod(ids=f"GPU-a,NVIDIA,{asked}:"), others=others)
    assert (found.code, found.heals) == (RefusalCode.CARD_FULL, True)
    assert word in found.text
    assert "team/other" in found.text
    assert isinstance(answer(pod(ids=f"GPU-b,NVIDIA,{asked}:"), others=others), AllocatedContainer)
    assert isinstance(answer(pod(ids=f"GPU-a,NVIDIA,{asked}:")), AllocatedContainer)


def test_a_card_with_some_cores_left_takes_a_pod_without_a_limit() -> None:
    assert isinstance(
        answer(pod(ids="GPU-a,NVIDIA,2000,0:"), others=(other("GPU-a,NVIDIA,1,99:"),)), AllocatedContainer
    )
    assert isinstance(
        answer(pod(ids="GPU-a,NVIDIA,2000,99:"), others=(other("GPU-a,NVIDIA,1,0:"),)), AllocatedContainer
    )
