"""What pods hold of a node's devices by the list of the dialect that the node spoke before."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.engine.counterparts import counterpart
from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.model.pods import PodRecord
from hami_plugins.vendors import amd, builtin, nvidia, volcano
from hami_plugins.wire import objects
from tests import raw_objects

HAMI, VOLCANO = builtin()[nvidia.SPEC.name], builtin()[volcano.SPEC.name]
IDLE = {"name": "idle"}


def volcano_pod(ids: str) -> Any:
    main = {"name": "main", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}
    notes = {"volcano.sh/vgpu-ids-new": ids, "hami-plugins.io/vgpu-more-ids": "init=GPU-b,NVIDIA,9,0:"}
    return raw_objects.pod(
        "p", IDLE, main, metadata={"annotations": notes}, node="n1", initContainers=[{"name": "init"}]
    )


def hami_pod(ids: str, **notes: str) -> Any:
    main = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    written = {"hami.io/vgpu-devices-allocated": ids} | {
        f"hami.io/{key.replace('_', '-')}": text for key, text in notes.items()
    }
    return raw_objects.pod("p", IDLE, main, metadata={"annotations": written}, node="n1")


def held(record: PodRecord) -> list[list[tuple[str, str, int, bool]]]:
    return [
        [(share.vendor, share.device, share.memory, share.mark is not None) for share in each.shares]
        for each in record.allocations
    ]


def test_the_vendor_of_the_node_holds_what_volcano_listed_where_volcano_is_not_read() -> None:
    pod = objects.pod(volcano_pod("GPU-a,NVIDIA,2000,30:"))
    record, problems = RecordReader(Registry([HAMI])).record(pod)
    assert held(record) == [[("NVIDIA", "GPU-b", 9, False)], [], [("NVIDIA", "GPU-a", 2000, False)]]
    assert problems == ()


def test_the_same_holds_the_other_way_round() -> None:
    pod = objects.pod(hami_pod(";GPU-a,NVIDIA,2000,30:;"))
    record, _ = RecordReader(Registry([VOLCANO])).record(pod)
    assert held(record) == [[], [("Volcano-vGPU", "GPU-a", 2000, False)]]


@pytest.mark.parametrize("raw", [volcano_pod("GPU-a,NVIDIA,2000,30:"), hami_pod(";GPU-a,NVIDIA,2000,30:;")])
def test_nothing_is_held_twice_where_both_are_read(raw: Any) -> None:
    record, _ = RecordReader(Registry([HAMI, VOLCANO])).record(objects.pod(raw))
    assert [len(each.shares) for each in record.allocations][-1] == 1


def test_a_part_of_a_card_in_the_other_dialect_has_no_place() -> None:
    record, _ = RecordReader(Registry([HAMI])).record(objects.pod(volcano_pod("GPU-m[group1-3],NVIDIA,5000,0:")))
    assert held(record)[-1] == [("NVIDIA", "GPU-m", 5000, False)]
    places = (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1}}]'
    )
    raw = hami_pod(";GPU-a,NVIDIA,5120,14:;", vgpu_mig_allocations=places)
    assert held(RecordReader(Registry([VOLCANO])).record(objects.pod(raw))[0])[-1] == [
        ("Volcano-vGPU", "GPU-a", 5120, False)
    ]
    assert held(RecordReader(Registry([HAMI])).record(objects.pod(raw))[0])[-1] == [("NVIDIA", "GPU-a", 5120, True)]


def test_a_vendor_that_leaves_nothing_out_is_read_as_it_is() -> None:
    plain = amd.SPEC
    assert counterpart(nvidia.SPEC, plain).records.recall is None
    assert counterpart(plain, volcano.SPEC).name == "AMD"
