"""The agent hands over nothing larger than what the container requests."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.vendors.volcano import configured
from hami_plugins.wire.volcano_config import VolcanoConfig
from tests.unit.volcano_vgpu.allocated_pods import COUNT, container, offer, pod, question
from tests.unit.volcano_vgpu.test_allocations import MORE, mig
from volcano_vgpu.core.allocations import allocations_of
from volcano_vgpu.core.assignments import record_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer

PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
SIDECAR = {"restartPolicy": "Always"}


def answer(raw: dict[str, Any], held: Any = None, name: str = "main", *, on: NodeOffer | None = None) -> Any:
    return allocations_of(raw, question(held), on or offer())[name]


def larger(raw: dict[str, Any], held: Any = None, name: str = "main", *, on: NodeOffer | None = None) -> str:
    found = answer(raw, held, name, on=on)
    assert isinstance(found, ContainerRefusal), found
    assert (found.code, found.heals) == (RefusalCode.LARGER, False)
    return found.text


def test_a_larger_allocation_names_pod_container_key_both_amounts_and_the_remedy() -> None:
    raw = pod(container("main", count=1, memory=1), ids="GPU-a,NVIDIA,40960,0:")
    text = larger(raw)
    assert text.startswith("pod team/p, container main: volcano.sh/vgpu-ids-new allocates 40960 of ")
    assert "volcano.sh/vgpu-memory on GPU-a, and 1 requested" in text
    assert text.endswith("Delete the pod, so that a scheduler places it again")


@pytest.mark.parametrize(
    ("amounts", "ids"),
    [
        ({"memory": 1000}, "GPU-a,NVIDIA,1001,0:"),
        ({"memory": 1000}, "GPU-a,NVIDIA,1000,1:"),
        ({"memory": 1000, "cores": 30}, "GPU-a,NVIDIA,1000,31:"),
        ({"memory": 1000, "cores": 30}, "GPU-a,NVIDIA,1000,0:"),
        ({"memory": 1000, "cores": 30}, "GPU-a,NVIDIA,1000,100:"),
        ({"cores": 30}, "GPU-a,NVIDIA,40960,31:"),
    ],
)
def test_an_application_gets_no_more_memory_and_cores_than_it_requests(amounts: Any, ids: str) -> None:
    larger(pod(container("main", count=1, **amounts), ids=ids))


@pytest.mark.parametrize(
    ("amounts", "ids"),
    [
        ({"memory": 1000}, "GPU-a,NVIDIA,1000,0:"),
        ({"memory": 1000}, "GPU-a,NVIDIA,900,0:"),
        ({"memory": 1000, "cores": 30}, "GPU-a,NVIDIA,1000,30:"),
        ({"cores": 100}, "GPU-a,NVIDIA,40960,100:"),
        ({"memory": 0}, "GPU-a,NVIDIA,40960,0:"),
    ],
)
def test_an_allocation_by_the_schedulers_rules_is_handed_over(amounts: Any, ids: str) -> None:
    assert isinstance(answer(pod(container("main", count=1, **amounts), ids=ids)), AllocatedContainer)


def test_memory_that_is_not_named_is_the_whole_card_and_cores_that_are_not_named_are_none() -> None:
    main = {"name": "main", "resources": {"limits": {COUNT: "1"}, "requests": {COUNT: "1"}}, "env": []}

    def bound(ids: str) -> dict[str, Any]:
        raw = pod(ids=ids)
        raw["spec"]["containers"] = [main]
        return raw

    assert isinstance(answer(bound("GPU-a,NVIDIA,40960,0:")), AllocatedContainer)
    larger(bound("GPU-a,NVIDIA,40960,100:"))


def test_each_of_several_cards_is_compared() -> None:
    raw = pod(container("main", count=2, memory=10), ids="GPU-a,NVIDIA,10,0:GPU-b,NVIDIA,11,0:")
    assert "on GPU-b" in larger(raw, {"main": 2})


def test_each_container_is_compared_with_its_own_request() -> None:
    raw = pod(
        container("main", count=1, memory=10),
        container("b", count=1, memory=20),
        ids="GPU-a,NVIDIA,20,0:;GPU-a,NVIDIA,10,0:",
    )
    held = {"main": 1, "b": 1}
    larger(raw, held)
    assert isinstance(answer(raw, held, "b"), AllocatedContainer)


@pytest.mark.parametrize("more", [{}, SIDECAR], ids=["init container", "sidecar"])
def test_init_containers_and_sidecars_get_no_more_than_they_request(more: dict[str, str]) -> None:
    def first(memory: int) -> Any:
        raw = pod(init=[container("first", count=1, memory=9000) | more])
        raw["metadata"]["annotations"][MORE] = f"first=GPU-b,NVIDIA,{memory},0:"
        return raw, {"first": ["s0"], "main": ["s1"]}, "first"

    assert isinstance(answer(*first(9000)), AllocatedContainer)
    assert MORE in larger(*first(9001))


def test_an_init_container_borrows_no_slice_that_is_larger_than_its_lender_requests() -> None:
    raw = pod(container("main", count=1, memory=2000), init=[container("init", count=1)], ids="GPU-a,NVIDIA,2001,0:")
    assert "slice of container main" in larger(raw, {"init": ["s0"], "main": ["s0"]}, "init")


PERCENT_SPEC = configured(VolcanoConfig(memory_percentage=PERCENTAGE))


def of_percent(ids: str) -> dict[str, Any]:
    limits = {COUNT: "1", PERCENTAGE: "50"}
    return pod({"name": "main", "resources": {"limits": limits, "requests": limits}, "env": []}, ids=ids)


def test_a_percentage_is_compared_with_the_memory_of_the_card() -> None:
    node = offer(spec=PERCENT_SPEC)
    assert isinstance(answer(of_percent("GPU-a,NVIDIA,20480,0:"), on=node), AllocatedContainer)
    larger(of_percent("GPU-a,NVIDIA,20481,0:"), on=node)


def test_a_mig_slot_may_be_larger_than_the_request_and_the_memory_in_it_may_not() -> None:
    raw = pod(container("main", count=1, memory=5000), ids="GPU-a[group4-0],NVIDIA,5000,0:")
    assert isinstance(answer(raw, on=mig("7g.40gb")), AllocatedContainer)
    larger(pod(container("main", count=1, memory=5000), ids="GPU-a[group4-0],NVIDIA,5001,0:"), on=mig("7g.40gb"))


def test_a_request_that_means_nothing_is_refused() -> None:
    limits = {COUNT: "1", "volcano.sh/vgpu-memory": "1.5"}
    found = answer(pod({"name": "main", "resources": {"limits": limits, "requests": limits}}, ids="GPU-a,NVIDIA,1,0:"))
    assert isinstance(found, ContainerRefusal)
    assert found.code is RefusalCode.REQUEST


def test_what_is_allocated_for_a_request_that_means_nothing_holds_no_card() -> None:
    limits = {COUNT: "1", "volcano.sh/vgpu-memory": "1.5"}
    raw = pod({"name": "main", "resources": {"limits": limits, "requests": limits}}, ids="GPU-a,NVIDIA,40960,0:")
    found = record_of(raw, offer())
    assert found is not None
    assert [allocation.shares for allocation in found.allocations] == [()]


def test_a_container_that_was_served_keeps_what_it_has() -> None:
    raw = pod(container("main", count=1, memory=1000), ids="GPU-a,NVIDIA,30000,0:")
    assert isinstance(allocations_of(raw, question(served=frozenset({"main"})), offer())["main"], AllocatedContainer)
