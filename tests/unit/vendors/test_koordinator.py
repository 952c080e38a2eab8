"""Cards under Koordinator: its Device objects, its words, its record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceRequest, Percent
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import AllocationView
from hami_plugins.vendors.koordinator import ISOLATION, SPEC, asked_by
from hami_plugins.wire import koordinator_hints
from tests.builders import a_container, a_device, a_node_object, a_pod, a_share
from tests.unit.vendors.placing import place

REGISTRY = Registry([SPEC])
CORE, MEMORY, RATIO, SHARED = (
    f"koordinator.sh/{name}" for name in ("gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")
)
GPU = "koordinator.sh/gpu"
RECORD = SPEC.keys.allocated


def a_card(minor: int, **changes: Any) -> dict[str, Any]:
    resources = {CORE: "100", MEMORY: "24564Mi", RATIO: "100"}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources, **changes}


def a_node(*cards: dict[str, Any], labels: dict[str, str] | None = None) -> NodeObject:
    published = {
        "metadata": {"name": "node-0", "labels": {"node.koordinator.sh/gpu-model": "NVIDIA-A10"}},
        "spec": {"devices": list(cards) or [a_card(0), a_card(1)]},
    }
    return a_node_object(labels=labels)._replace(published=published)


def a_container_of(kind: ContainerKind = ContainerKind.APP, name: str = "c", **amounts: int | str) -> Container:
    names = {
        "core": CORE,
        "memory": MEMORY,
        "ratio": RATIO,
        "shared": SHARED,
        "gpu": GPU,
        "rdma": "koordinator.sh/rdma",
    }
    asked = {names[each]: amount for each, amount in amounts.items()}
    return a_container(asked, requests=asked, name=name, kind=kind)


def a_pod_of(*containers: Container, labels: dict[str, str] | None = None, **about: Any) -> Pod:
    return replace(a_pod(*containers, scheduler="koord-scheduler", **about), labels=labels or {})


def asked_of(pod: Pod) -> tuple[DeviceRequest | None, ...]:
    """The request of each container."""
    return tuple(each.requests[0] if each.requests else None for each in demand_of(pod, REGISTRY).containers)


def record_of(found: object) -> list[Any]:
    assert isinstance(found, dict)
    gpus: list[Any] = json.loads(found[RECORD])["gpu"]
    return gpus


def a_running_pod(*items: dict[str, Any], name: str = "running") -> Pod:
    return a_pod_of(a_container_of(gpu=50), name=name, annotations={RECORD: json.dumps({"gpu": list(items)})})


def test_a_node_without_a_device_object_has_no_cards() -> None:
    assert SPEC.inventory(SPEC, a_node_object()).ids == ()


def test_cards_are_those_of_the_device_object_and_only_cards_are() -> None:
    place_ = {"socketID": -1, "nodeID": 1, "pcieID": "p"}
    rdma = {"type": "rdma", "minor": 0, "health": True, "resources": {"koordinator.sh/rdma": "100"}}
    found = SPEC.inventory(SPEC, a_node(a_card(0), rdma, a_card(3, health=False, id="", topology=place_)))
    assert found.ids == ("GPU-0", "node-0-gpu-3")
    first, second = found.devices
    assert (first.model, first.memory, first.cores, first.index, first.healthy) == ("NVIDIA-A10", 24564, 100, 0, True)
    assert (second.index, second.numa, second.healthy) == (3, 1, False)


def test_a_card_that_cannot_be_read_is_told_and_hides_no_other() -> None:
    found = SPEC.inventory(SPEC, a_node(a_card(0), {**a_card(1), "minor": None}))
    assert found.ids == ("GPU-0",)
    (remark,) = found.remarks
    assert "devices[1].minor" in remark


@pytest.mark.parametrize(
    ("amounts", "count", "memory", "cores"),
    [
        ({"gpu": 50}, 1, Percent(50), 50),
        ({"gpu": 200}, 2, Percent(100), 100),
        ({"shared": 2, "core": 80, "memory": "16Gi"}, 2, Absolute(8192), 40),  # type: ignore[arg-type]
        ({"ratio": 200}, 2, Percent(100), 0),
        ({"memory": "8Gi"}, 1, Absolute(8192), 0),  # type: ignore[arg-type]
        ({"core": 200, "memory": "32Gi"}, 2, Absolute(16384), 100),  # type: ignore[arg-type]
    ],
)
def test_a_request_is_what_koordinators_webhook_and_scheduler_make_of_it(
    amounts: dict[str, int | str], count: int, memory: object, cores: int
) -> None:
    (found,) = asked_of(a_pod_of(a_container_of(ContainerKind.APP, "c", **amounts)))
    assert found is not None
    assert (found.count, found.memory, found.cores) == (count, memory, cores)


def test_two_halves_in_two_containers_are_one_whole_card_of_the_first() -> None:
    halves = (a_container_of(name="a", gpu=50), a_container_of(name="b", gpu=50))
    first, second = asked_of(a_pod_of(*halves))
    assert first is not None
    assert (first.count, first.memory, first.cores) == (1, Percent(100), 100)
    assert second is None


def test_the_webhook_completes_application_containers_and_leaves_init_containers_as_they_are() -> None:
    init = a_container_of(ContainerKind.INIT, name="i", core=70, ratio=70)
    pod = a_pod_of(init, a_container_of(name="a", gpu=50), a_container_of(name="b", shared=1, core=10, ratio=10))
    assert asked_by(pod, completed=True) == {SHARED: 2, CORE: 70, RATIO: 70}


def test_an_init_container_asks_beside_nobody_and_an_application_has_the_card() -> None:
    init = a_container_of(ContainerKind.INIT, name="i", shared=1, ratio=70)
    first, second = asked_of(a_pod_of(init, a_container_of(name="a", shared=1, ratio=30)))
    assert first is None
    assert second is not None
    assert second.memory == Percent(70)


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"core": 50}, "invalid resource device requests"),
        ({"gpu": 150}, "invalid resource unit koordinator.sh/gpu: 150"),
        ({"gpu": 150}, r"100 \(1 card\) or 200 \(2 cards\); or .* for 75 % of 2 cards"),
        ({"gpu": 250}, r"200 \(2 cards\) or 300 \(3 cards\)$"),
        ({"memory": 8000}, "the amount is in bytes; write 8000Mi"),
        ({"shared": 2, "memory": 16000}, "the amount is in bytes; write 16000Mi"),
        ({"memory": "9000Pi"}, "more than any card has; ask for less"),
        ({"memory": -1}, "no amount of it"),
        ({"shared": 3_000_000_000, "memory": "9000Pi"}, "more cards than any node has"),
    ],
)
def test_what_koordinator_refuses_is_refused_in_its_words(amounts: dict[str, int | str], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        asked_of(a_pod_of(a_container_of(ContainerKind.APP, "c", **amounts)))


def test_templates_of_npus_are_left_to_koordinator() -> None:
    asked: dict[str, int | str] = {SHARED: 1, "huawei.com/npu-core": 2, "huawei.com/npu-cpu": 2, MEMORY: "6Gi"}
    assert asked_of(a_pod_of(a_container(asked, requests=asked))) == (None,)
    wrong = {**asked, "huawei.com/npu-dvpp": 101}
    with pytest.raises(InvalidRequestError, match="invalid resource device requests"):
        asked_of(a_pod_of(a_container(wrong, requests=wrong)))


def test_zeros_ask_for_nothing() -> None:
    assert asked_of(a_pod_of(a_container_of(gpu=0))) == (None,)


def test_the_record_is_what_the_real_scheduler_writes() -> None:
    found = record_of(place(SPEC, a_node(), a_pod_of(a_container_of(shared=1, core=50, ratio=50))))
    resources = {CORE: "50", MEMORY: "12282Mi", RATIO: "50"}
    assert found == [{"minor": 0, "resources": resources, "id": "GPU-0"}]


def test_cards_are_recorded_by_their_numbers_without_cores_that_nobody_asked_for() -> None:
    pod = a_pod_of(a_container_of(shared=2, memory="2Gi"))
    found = record_of(place(SPEC, a_node(a_card(1, id=""), a_card(0)), pod))
    assert [each["minor"] for each in found] == [0, 1]
    assert found[0]["resources"] == {MEMORY: "1Gi", RATIO: "4"}
    assert "id" not in found[1]


def test_a_card_whose_memory_is_no_whole_mib_is_recorded_by_the_byte() -> None:
    odd = a_card(0, resources={CORE: "100", MEMORY: "25757220867", RATIO: "100"})
    (found,) = record_of(place(SPEC, a_node(odd), a_pod_of(a_container_of(gpu=50))))
    assert found["resources"][MEMORY] == "12878610433"


def test_what_was_given_out_for_a_request_that_means_nothing_is_recorded_as_it_is() -> None:
    card = a_device(memory=20_480)
    share = a_share("GPU-0", memory=5_120, cores=30)
    view = AllocationView(
        spec=SPEC,
        pod=a_pod_of(a_container({SHARED: 1}, requests={SHARED: "1500m"})),
        node=NodeName("n"),
        containers=((share,),),
        indexes={share.device: 0},
        devices={share.device: card},
        now_ns=0,
    )
    assert SPEC.records.annotate is not None
    (found,) = record_of(SPEC.records.annotate(view))
    assert found["resources"] == {CORE: "30", MEMORY: "5Gi", RATIO: "25"}


def test_parts_of_cards_are_counted_whoever_wrote_the_record() -> None:
    held = a_running_pod({"minor": 0, "resources": {CORE: "60", MEMORY: "20Gi", RATIO: "83"}, "id": "GPU-0"})
    (found,) = record_of(place(SPEC, a_node(), a_pod_of(a_container_of(gpu=50)), [held]))
    assert found["minor"] == 1
    assert place(SPEC, a_node(), a_pod_of(a_container_of(gpu=200)), [held]) == "Insufficient GPU Devices"


def test_a_card_without_id_or_memory_is_found_by_its_number() -> None:
    old = a_running_pod({"minor": 1, "resources": {MEMORY: "8Gi"}}, {"minor": 0, "resources": {RATIO: 50}, "id": "x"})
    entry = NodeBuilder(REGISTRY).entry(a_node(), NodeFacts())
    record, problems = RecordReader(REGISTRY).record(old)
    (allocation,) = settled(record, entry).allocations
    assert problems == ()
    assert [(each.device, each.memory) for each in allocation.shares] == [("GPU-1", 8192), ("GPU-0", 12282)]


def test_a_card_that_the_node_does_not_have_is_kept_as_a_stranger() -> None:
    entry = NodeBuilder(REGISTRY).entry(a_node(), NodeFacts())
    record, _ = RecordReader(REGISTRY).record(a_running_pod({"minor": 7, "resources": {MEMORY: "8Gi"}}))
    (stranger,) = settled(record, entry).strangers
    assert (stranger.device, stranger.memory) == ("number 7", 8192)


@pytest.mark.parametrize("text", ["incorrect", '{"gpu":[{"minor":0,"resources":{}}]}', '{"gpu":[{"minor":-1}]}'])
def test_a_record_that_means_nothing_is_a_problem_of_its_pod(text: str) -> None:
    record, problems = RecordReader(REGISTRY).record(a_pod_of(a_container_of(gpu=50), annotations={RECORD: text}))
    assert [problem.place for problem in problems] == ["pod default/p"]
    assert record.allocations[0].shares == ()


def test_a_pod_that_wants_limits_goes_only_where_they_are_enforced() -> None:
    half = a_pod_of(a_container_of(gpu=50), labels={ISOLATION: "HAMi-core"})
    assert place(SPEC, a_node(), half) == "GPUIsolationProviderHAMICore not found on the node"
    assert record_of(place(SPEC, a_node(labels={ISOLATION: "HAMi-core"}), half))
    whole = a_pod_of(a_container_of(gpu=100), labels={ISOLATION: "HAMi-core"})
    assert record_of(place(SPEC, a_node(), whole))


def test_a_whole_card_is_one_that_nobody_has_a_small_part_of() -> None:
    small = a_running_pod({"minor": 0, "resources": {MEMORY: "100Mi", RATIO: "0"}, "id": "GPU-0"})
    pod = a_pod_of(a_container_of(gpu=100))
    assert place(SPEC, a_node(a_card(0)), pod, [small]) == "Insufficient GPU Devices"


def test_more_cards_than_a_node_has_are_told_apart_from_cards_that_are_taken() -> None:
    assert place(SPEC, a_node(), a_pod_of(a_container_of(gpu=300))) == "Insufficient gpu devices"


def hinted(**hint: Any) -> Pod:
    return a_pod_of(a_container_of(gpu=50), annotations={koordinator_hints.KEY: json.dumps({"gpu": hint})})


def by_id(operator: str, *ids: str) -> dict[str, Any]:
    return {"selector": {"matchExpressions": [{"key": "gpu-uuid", "operator": operator, "values": list(ids)}]}}


def test_a_hint_chooses_cards_by_id_where_device_objects_say_it() -> None:
    labelled = [a_card(at, labels={"gpu-uuid": f"GPU-{at}", "zone": "ab"[at]}) for at in range(2)]
    assert record_of(place(SPEC, a_node(*labelled), hinted(**by_id("In", "GPU-1"))))[0]["minor"] == 1
    assert record_of(place(SPEC, a_node(*labelled), hinted(**by_id("NotIn", "GPU-0"))))[0]["minor"] == 1
    assert record_of(place(SPEC, a_node(*labelled), hinted(selector={"matchLabels": {"zone": "b"}})))[0]["minor"] == 1
    assert place(SPEC, a_node(), hinted(**by_id("In", "GPU-1"))) == "Insufficient GPU Devices"
    assert place(SPEC, a_node(), hinted(selector={"matchLabels": {"zone": "b"}})) == "Insufficient GPU Devices"


def test_cards_within_one_numa_node_are_on_one() -> None:
    cards = [a_card(at, topology={"socketID": -1, "nodeID": at // 2, "pcieID": "p"}) for at in range(4)]
    held = a_running_pod({"minor": 0, "resources": {CORE: "1", MEMORY: "1Gi", RATIO: "4"}, "id": "GPU-0"})
    hint = {koordinator_hints.KEY: '{"gpu":{"requiredTopologyScope":"NUMANode"}}'}
    two = a_pod_of(a_container_of(gpu=200), annotations=hint)
    assert [each["minor"] for each in record_of(place(SPEC, a_node(*cards), two, [held]))] == [2, 3]
    three = a_pod_of(a_container_of(gpu=300), annotations=hint)
    assert place(SPEC, a_node(*cards), three) == "Insufficient Topology Scoped GPU Devices"


def test_a_hint_that_means_nothing_keeps_the_pod_waiting() -> None:
    said = place(SPEC, a_node(), hinted(requiredTopologyScope="Rack"))
    assert isinstance(said, str)
    assert "requiredTopologyScope" in said


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu"])
def test_whole_cards_of_a_device_plugin_go_with_none_of_koordinators_names(name: str) -> None:
    asked: dict[str, int | str] = {SHARED: 1, CORE: 50, RATIO: 50, name: 1}
    container = a_container(asked, requests=asked)
    with pytest.raises(InvalidRequestError, match=f"invalid resource device requests: .* {name}") as refused:
        demand_of(a_pod_of(container), REGISTRY)
    assert f"leave {name} out" in refused.value.remedy
    assert demand_of(a_pod(container, scheduler="hami-scheduler"), REGISTRY).wants_devices
    none: dict[str, int | str] = {**asked, name: 0}
    assert demand_of(a_pod_of(a_container(none, requests=none)), REGISTRY).wants_devices
