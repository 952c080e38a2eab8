"""The webhook on new pods: who is marked, what is put into words, and what can never be."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.allocations.marks import mark
from hami_plugins.model.vendor import VendorOptions
from hami_plugins.vendors.volcano import PERCENTAGE, SPEC, without_number
from hami_plugins.wire import objects
from hami_plugins.wire.admission_review import Allowed, Denied
from hami_plugins.wire.fields import Json
from tests.unit.allocator.products import MARK, product, settings

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
PERCENT = "volcano.sh/vgpu-memory-percentage"
MARKED = {"op": "add", "path": "/metadata/annotations", "value": {MARK: "extender"}}


def a_pod(*limits: dict[str, str], scheduler: str = "volcano", init: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    def containers(name: str, told: tuple[dict[str, str], ...]) -> list[dict[str, Any]]:
        return [{"name": f"{name}{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(told)]

    spec = {"schedulerName": scheduler, "containers": containers("c", limits)}
    if init:
        spec["initContainers"] = containers("i", init)
    return {"metadata": {"name": "p", "namespace": "x"}, "spec": spec}


def marked(raw: dict[str, Any], spec: Any = SPEC) -> list[Json]:
    before = copy.deepcopy(raw)
    answer = mark(raw, product(spec))
    assert raw == before
    assert isinstance(answer, Allowed)
    return list(answer.operations)


def test_a_pod_that_asks_for_cards_is_marked_and_otherwise_left_alone() -> None:
    assert marked(a_pod({NUMBER: "1", MEMORY: "1000"})) == [MARKED]


def test_pods_of_every_scheduler_of_volcano_that_is_set_are_marked() -> None:
    found = product(found=settings(volcano={"schedulers": ["volcano", "batch"]}))
    for scheduler, operations in (("batch", 1), ("volcano", 1), ("other", 0)):
        answer = mark(a_pod({NUMBER: "1"}, scheduler=scheduler), found)
        assert isinstance(answer, Allowed)
        assert len(answer.operations) == operations


def test_annotations_that_are_there_stay() -> None:
    raw = a_pod({NUMBER: "1"})
    raw["metadata"]["annotations"] = {"a": "b"}
    assert marked(raw) == [
        {"op": "add", "path": "/metadata/annotations/hami-plugins.io~1allocator", "value": "extender"}
    ]


@pytest.mark.parametrize("asked", [{MEMORY: "1000"}, {CORES: "20"}, {MEMORY: "1k", CORES: "20"}])
def test_a_share_without_a_number_is_of_one_card(asked: dict[str, str]) -> None:
    number = {"op": "add", "path": "/spec/containers/1/resources/limits/volcano.sh~1vgpu-number", "value": "1"}
    assert number in marked(a_pod({"cpu": "1"}, asked))


def test_init_containers_are_put_into_words_too() -> None:
    number = {"op": "add", "path": "/spec/initContainers/0/resources/limits/volcano.sh~1vgpu-number", "value": "1"}
    assert number in marked(a_pod({"cpu": "1"}, init=({CORES: "5"},)))


def test_a_percentage_counts_where_volcano_reads_it() -> None:
    raw = a_pod({PERCENT: "50"})
    assert marked(raw) == []
    reading = replace(SPEC, options=VendorOptions(flags={PERCENTAGE: True}))
    assert len(marked(raw, reading)) == 2


@pytest.mark.parametrize(
    "raw",
    [
        a_pod({"cpu": "1"}),
        a_pod({NUMBER: "0"}),
        a_pod({MEMORY: "0"}),
        a_pod({NUMBER: "1"}, scheduler="default-scheduler"),
        a_pod({NUMBER: "1"}, scheduler=""),
        {"metadata": {}, "spec": {}},
    ],
)
def test_other_pods_are_left_alone(raw: dict[str, Any]) -> None:
    assert marked(raw) == []


def test_marking_twice_changes_nothing() -> None:
    raw = a_pod({CORES: "20", NUMBER: "1"})
    raw["metadata"]["annotations"] = {MARK: "extender"}
    assert marked(raw) == []


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({NUMBER: "1", MEMORY: "1.5"}, "not an amount of MiB"),
        ({NUMBER: "1500m"}, "not a number of devices"),
        ({NUMBER: "1", CORES: "-3"}, "use 0 to 100"),
    ],
)
def test_what_can_never_be_is_refused_with_the_reason(limits: dict[str, str], why: str) -> None:
    answer = mark(a_pod(limits), product())
    assert isinstance(answer, Denied)
    assert answer.code == 400
    assert why in answer.reason
    assert "container c0" in answer.reason


def test_a_pod_that_admission_denies_is_denied_with_its_status() -> None:
    raw = a_pod(init=({NUMBER: "1"},))
    answer = mark(raw, product())
    assert answer == Denied("admission denied: pod has no containers", 403)


def test_a_pod_that_cannot_be_read_is_refused_with_the_place() -> None:
    answer = mark(a_pod({NUMBER: "many"}), product())
    assert isinstance(answer, Denied)
    assert answer.code == 422
    assert "spec.containers[0].resources.limits[volcano.sh/vgpu-number]" in answer.reason


def test_cores_alone_get_nothing_from_a_kubelet_memory_alone_is_one_card_to_volcano() -> None:
    assert without_number(SPEC, objects.pod(a_pod({CORES: "20"}))) == "c0"
    assert without_number(SPEC, objects.pod(a_pod({MEMORY: "20", CORES: "20"}))) == ""
    assert without_number(SPEC, objects.pod(a_pod({NUMBER: "1", CORES: "20"}))) == ""
