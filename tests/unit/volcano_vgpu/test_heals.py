"""Which refusals end without a new pod, because the kubelet asks again, and which need the pod to be deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.volcano_vgpu.allocated_pods import card, container, offer, pod, question
from tests.unit.volcano_vgpu.test_allocations import MORE, answer, mig, other, refused
from volcano_vgpu.core.allocations import allocations_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import NodeOffer

TWO_CARDS = "GPU-a,NVIDIA,1,0:GPU-a,NVIDIA,1,0:"


def broken() -> dict[str, Any]:
    raw = pod()
    raw["spec"]["containers"] = "none"
    return raw


def static() -> dict[str, Any]:
    raw = pod()
    raw["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "file"
    return raw


def meaningless() -> dict[str, Any]:
    """The init container names an amount that is not a whole number."""
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1.5"}
    return pod(init=[{"name": "init", "resources": {"limits": limits, "requests": limits}}])


def listed_by_name(text: str) -> dict[str, Any]:
    raw = pod()
    raw["metadata"]["annotations"][MORE] = text
    return raw


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (pod(ids="GPU-a[group2],NVIDIA,5000,0:"), RefusalCode.MALFORMED),
        (pod(ids="GPU-a,NVIDIA,40961,0:"), RefusalCode.CARD_MEMORY),
        (pod(ids="GPU-a,NVIDIA,1,101:"), RefusalCode.CARD_CORES),
        (pod(ids="GPU-a,NVIDIA,0,0:"), RefusalCode.MALFORMED),
        (pod(ids="GPU-a[group2-0],NVIDIA,5000,0:"), RefusalCode.MODE),
        (broken(), RefusalCode.MALFORMED),
        (static(), RefusalCode.STATIC_POD),
        (pod(ids=None, scheduler="default-scheduler"), RefusalCode.NOT_VOLCANO),
        (pod(ids=None), RefusalCode.NO_ALLOCATION),
        (listed_by_name("nobody=GPU-b,NVIDIA,1,0:"), RefusalCode.MALFORMED),
        (pod(bind_phase="failed"), RefusalCode.MARKED_FAILED),
    ],
)
def test_an_allocation_that_no_wait_repairs_is_refused_for_good(raw: dict[str, Any], code: RefusalCode) -> None:
    found = refused(raw)
    assert (found.code, found.heals) == (code, False)


@pytest.mark.parametrize(
    ("ids", "node", "code"),
    [
        ("GPU-a,NVIDIA,5000,0:", mig("7g.40gb"), RefusalCode.MODE),
        ("GPU-a[group2-3],NVIDIA,5000,0:", mig("1g.5gb", "2g.10gb", "2g.10gb"), RefusalCode.PARTITION),
        ("GPU-a[group9-0],NVIDIA,5000,0:", mig("7g.40gb"), RefusalCode.PARTITION),
    ],
)
def test_a_slot_that_no_cut_of_the_card_gives_is_refused_for_good(ids: str, node: NodeOffer, code: RefusalCode) -> None:
    found = refused(pod(ids=ids), on=node)
    assert (found.code, found.heals) == (code, False)


@pytest.mark.parametrize("profiles", [("7g.40gb",), ("2g.10gb", "2g.10gb"), ("1g.5gb", "1g.5gb", "2g.10gb")])
def test_a_slot_is_served_once_the_card_is_cut_as_its_group_says(profiles: tuple[str, ...]) -> None:
    for position in range(3):
        found = refused(pod(ids=f"GPU-a[group2-{position}],NVIDIA,5000,0:"), on=mig(*profiles))
        assert (found.code, found.heals) == (RefusalCode.PARTITION, True)


def test_a_card_named_twice_stays_named_twice() -> None:
    found = refused(pod(container("main", count=2), ids=TWO_CARDS), held={"main": 2})
    assert (found.code, found.heals) == (RefusalCode.MALFORMED, False)


def test_one_slot_for_two_containers_of_a_pod_stays_taken() -> None:
    raw = pod(container("main", count=1), container("b", count=1), ids=";".join(["GPU-a[group4-0],NVIDIA,5000,0:"] * 2))
    found = refused(raw, held={"main": 1, "b": 1}, on=mig("7g.40gb"))
    assert (found.code, found.heals) == (RefusalCode.CARD_FULL, False)
    assert "two containers" in found.text


def test_init_containers_and_sidecars_without_a_slice_get_none_later() -> None:
    raw = pod(init=[container("side", count=1) | {"restartPolicy": "Always"}, container("init", count=2)])
    found = allocations_of(raw, question({"side": 1, "init": ["s0", "s1"], "main": ["s0"]}), offer())
    assert [
        (each.code, each.heals) for each in (found["side"], found["init"]) if isinstance(each, ContainerRefusal)
    ] == [
        (RefusalCode.SIDECAR, False),
        (RefusalCode.INIT_CONTAINER, False),
    ]


def test_an_init_container_whose_request_means_nothing_is_refused_for_good() -> None:
    found = refused(meaningless(), "init", held={"init": ["s0"], "main": ["s0"]})
    assert (found.code, found.heals) == (RefusalCode.REQUEST, False)


def test_an_init_container_waits_with_the_container_whose_slice_it_uses() -> None:
    raw = pod(init=[container("init", count=1)])
    node = offer(card("GPU-a", problems=("XID 79",)), card("GPU-b"))
    found = refused(raw, "init", held={"init": ["s0"], "main": ["s0"]}, on=node)
    assert (found.code, found.heals) == (RefusalCode.UNHEALTHY_CARD, True)
    full = (other("GPU-a,NVIDIA,40960,0:"),)
    assert answer(raw, "init", held={"init": ["s0"], "main": ["s0"]}, others=full).heals


def test_a_card_that_is_still_listed_by_the_node_is_not_handed_over_while_it_is_broken() -> None:
    broken_now = offer(card("GPU-a", problems=("XID 79",)), card("GPU-b")).inventory
    found = refused(pod(), on=replace(offer(), inventory=broken_now))
    assert (found.code, found.heals) == (RefusalCode.UNHEALTHY_CARD, True)


def test_an_init_container_may_ask_for_just_the_slice() -> None:
    raw = pod(init=[container("init", count=1, memory=2000, cores=30)])
    assert not isinstance(answer(raw, "init", held={"init": ["s0"], "main": ["s0"]}), ContainerRefusal)
