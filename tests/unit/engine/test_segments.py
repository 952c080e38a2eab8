"""A list of allocated devices that cannot be read still holds the devices that it names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.segments import salvaged
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import objects
from tests import raw_objects

REGISTRY = Registry([nvidia.SPEC, volcano.SPEC])
ALLOCATED = "hami.io/vgpu-devices-allocated"


def a_pod(text: str, containers: int = 1, key: str = ALLOCATED) -> dict[str, Any]:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"})
    named = [{**asks, "name": f"c{at}"} for at in range(containers)]
    return raw_objects.pod("p", *named, metadata={"namespace": "team", "annotations": {key: text}}, node="n1")


def a_node() -> NodeEntry:
    cards = raw_objects.registered_cards("GPU-0", "GPU-1")
    metadata = {"name": "n1", "annotations": {"hami.io/node-nvidia-register": json.dumps(cards)}}
    node = objects.node_object({"kind": "Node", "metadata": metadata, "status": {}})
    return NodeBuilder(REGISTRY).entry(node, NodeFacts())


def held(text: str, containers: int = 1) -> list[tuple[int, int, int]]:
    """Slots, memory and cores that are held of each card."""
    record, problems = RecordReader(REGISTRY).record(objects.pod(a_pod(text, containers)))
    assert len(problems) == 1
    node = a_node()
    entry = with_pods(node, [settled(record, node)])
    return [(used.slots, used.memory, used.cores) for used in entry.state.usage]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU-0,NVIDIA,1000,-1:;", [(1, 40_960, 100), (0, 0, 0)]),
        ("GPU-0,NVIDIA,many,10:GPU-1,NVIDIA,500,5:;", [(1, 40_960, 100), (1, 500, 5)]),
        ("GPU-1,NVIDIA:;", [(0, 0, 0), (1, 40_960, 100)]),
        (" GPU-1 ,NVIDIA,x,y:;", [(0, 0, 0), (1, 40_960, 100)]),
        (",NVIDIA,1000,10:;", [(0, 0, 0), (0, 0, 0)]),
        ("GPU-0,NVIDIA,1000,10:;GPU-1,NVIDIA,500,5:;", [(1, 1000, 10), (1, 500, 5)]),
    ],
    ids=["negative", "no number", "cut short", "blanks", "no id", "too many containers"],
)
def test_records_count_as_they_are_and_others_as_their_whole_device(
    text: str, expected: list[tuple[int, int, int]]
) -> None:
    assert held(text) == expected


def test_what_is_listed_for_containers_that_the_pod_lacks_counts_for_the_last_one() -> None:
    raw = a_pod("GPU-0,NVIDIA,1,1:;GPU-0,NVIDIA,2,2:;GPU-1,N,3,3:;", 2)
    record, _ = RecordReader(REGISTRY).record(objects.pod(raw))
    assert [[share.memory for share in each.shares] for each in record.allocations] == [[1], [2, 3]]


def test_segments_of_idle_containers_that_hami_forgot_are_put_in() -> None:
    raw = a_pod("GPU-0,NVIDIA,x,1:GPU-1,NVIDIA,7,7:;", 2)
    del raw["spec"]["containers"][0]["resources"]
    record, _ = RecordReader(REGISTRY).record(objects.pod(raw))
    assert [each.container for each in record.unlocated] == [1]
    assert [[share.memory for share in each.shares] for each in record.allocations] == [[], [7]]


def test_a_device_that_the_node_does_not_have_is_shown_as_such() -> None:
    record, _ = RecordReader(REGISTRY).record(objects.pod(a_pod("GPU-9,NVIDIA,x,1:;")))
    found = settled(record, a_node())
    assert [share.device for share in found.strangers] == ["GPU-9"]


def test_nothing_is_made_of_other_lists_or_of_a_pod_without_containers() -> None:
    pod = objects.pod(a_pod("GPU-0,NVIDIA,x,1:;"))
    assert salvaged(volcano.SPEC, pod, "GPU-0,NVIDIA,x,1:") == ((), ())
    bare = objects.pod({**a_pod(""), "spec": {"nodeName": "n1", "containers": []}})
    assert salvaged(nvidia.SPEC, bare, "GPU-0,NVIDIA,x,1:;") == ((), ())
