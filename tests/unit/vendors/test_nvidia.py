"""NVIDIA's cards: which take no new work, and which MIG places are held."""

from __future__ import annotations

import json
from dataclasses import replace

from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Instance
from hami_plugins.vendors.nvidia import SPEC
from tests.builders import a_node_object
from tests.unit.vendors.placing import holder


def test_a_card_in_the_cordon_list_takes_no_new_work() -> None:
    cards = [{"id": f"GPU-{at}", "count": 10, "devmem": 24_576, "devcore": 100, "health": True} for at in range(2)]
    register = {"hami.io/node-nvidia-register": json.dumps(cards)}

    def cordoned(annotations: dict[str, str]) -> list[bool]:
        return [each.cordoned for each in SPEC.inventory(SPEC, a_node_object(annotations=annotations)).devices]

    assert cordoned(register) == [False, False]
    assert cordoned({**register, "hami.io/device-cordon": " GPU-1 ,GPU-9"}) == [False, True]


def a_place(device: int, start: int, gpu: str = "GPU-0") -> dict[str, object]:
    where = {"start": start, "size": 1}
    return {"containerIndex": 0, "deviceIndex": device, "gpuUUID": gpu, "profile": "1g.6gb", "placement": where}


def test_a_mig_place_that_is_reserved_beyond_the_listed_shares_is_held_too() -> None:
    running = holder(SPEC, "GPU-0,NVIDIA,6144,0:;")
    places = [a_place(0, 0), a_place(1, 1), a_place(2, 2, "GPU-1")]
    annotated = {**running.annotations, "hami.io/vgpu-mig-allocations": json.dumps(places)}
    record, problems = RecordReader(Registry([SPEC])).record(replace(running, annotations=annotated))
    assert problems == ()
    held = [
        (share.device, share.mark.placement.start, int(share.memory))
        for allocation in record.allocations
        for share in allocation.shares
        if isinstance(share.mark, Instance)
    ]
    assert held == [("GPU-0", 0, 6144), ("GPU-0", 1, 0), ("GPU-1", 2, 0)]
