"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, PodUid
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire.pod_devices import AssignedDevice
from tests import raw_objects
from tests.unit.volcano_vgpu.cards import card, inventory, settings, sick, uuid
from volcano_vgpu.agent.containers import DirectoryTotals
from volcano_vgpu.agent.devices import CurrentView
from volcano_vgpu.agent.metrics import AgentMetrics, MetricSources, stranded
from volcano_vgpu.core import register
from volcano_vgpu.core.model import DeviceMeasurement
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import NodeOffer
from volcano_vgpu.core.slots import Slots

MIB = 1 << 20


def sight() -> CurrentView:
    found = inventory(card(1), *sick(2))
    words = register.desired(found, settings(device_split_count=2))
    offer = NodeOffer.of(NodeName("n1"), words.annotations[register.REGISTER_KEY], found, spec=SPEC)
    return CurrentView(found, words, Slots.of(words.cards, 2), offer)


def pod(name: str, ids: str) -> dict[str, Any]:
    annotations = {"volcano.sh/vgpu-ids-new": ids, "volcano.sh/vgpu-node": "n1"}
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    asks = raw_objects.container(limits={"volcano.sh/vgpu-number": "1"})
    return raw_objects.pod(name, asks, metadata=metadata, node="n1", scheduler="volcano", phase="Running")


def exposed(**changes: Any) -> Mapping[str, float]:
    """Every sample of the agent's own by its full name with labels."""
    held: dict[tuple[PodUid, str], tuple[AssignedDevice, ...]] = {
        (PodUid("uid-one"), "main"): (AssignedDevice(uuid(1), "NVIDIA", MiB(1024), CoreShare(25)),),
        (PodUid("uid-gone"), "main"): (AssignedDevice(uuid(1), "NVIDIA", MiB(1), CoreShare(0)),),
    }
    sources = {
        "sight": sight,
        "pods": lambda: [pod("one", f"{uuid(1)},NVIDIA,1024,25:")],
        "allocations": lambda: held,
        "use": lambda found: (
            DeviceMeasurement(memory_used=5, utilization=0.5) if found == uuid(1) else DeviceMeasurement()
        ),
        "registered": lambda: True,
        "offered": lambda: 1,
        "unwritten": lambda: 3,
        "directories": lambda: {"in_use": DirectoryTotals(3, 5000, 1), "not_removed": DirectoryTotals(2, 7, 0)},
        "factor": 2,
    }
    metrics = AgentMetrics()
    metrics.read_from(MetricSources(**{**sources, **changes}))
    text, _ = metrics.metrics.text()
    lines = [line for line in text.decode().splitlines() if line.startswith("volcano_vgpu_")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_what_is_allocated_of_a_card_is_told_in_bytes() -> None:
    found = exposed()
    of_card = f'{{uuid="{uuid(1)}"}}'
    assert found[f"volcano_vgpu_card_memory_bytes{of_card}"] == 40960 * 2 * MIB
    assert found[f"volcano_vgpu_card_memory_allocated_bytes{of_card}"] == 1024 * 2 * MIB
    assert found[f"volcano_vgpu_card_memory_free_bytes{of_card}"] == (40960 - 1024) * 2 * MIB
    assert found[f"volcano_vgpu_card_cores_allocated_ratio{of_card}"] == 0.25
    assert (found[f"volcano_vgpu_card_slots{of_card}"], found[f"volcano_vgpu_card_slots_allocated{of_card}"]) == (2, 1)


def test_a_pod_that_was_served_counts_with_what_it_was_handed() -> None:
    found = exposed(pods=lambda: [pod("one", f"{uuid(1)},NVIDIA,1,0:")])
    assert found[f'volcano_vgpu_card_memory_allocated_bytes{{uuid="{uuid(1)}"}}'] == 1024 * 2 * MIB


def test_directories_of_containers_are_told_by_state_with_what_they_take() -> None:
    found = exposed()
    assert found['volcano_vgpu_container_directories{state="in_use"}'] == 3
    assert found['volcano_vgpu_container_directories{state="not_removed"}'] == 2
    assert found['volcano_vgpu_container_directories_bytes{state="in_use"}'] == 5000
    assert found['volcano_vgpu_container_directories_bytes{state="not_removed"}'] == 7
    assert found['volcano_vgpu_container_directories_unmeasured{state="in_use"}'] == 1


def test_health_and_use_are_told_card_by_card() -> None:
    found = exposed()
    assert found[f'volcano_vgpu_card_healthy{{uuid="{uuid(1)}"}}'] == 1
    assert found[f'volcano_vgpu_card_healthy{{uuid="{uuid(2)}"}}'] == 0
    assert found[f'volcano_vgpu_card_utilization_ratio{{uuid="{uuid(1)}"}}'] == 0.5
    assert f'volcano_vgpu_card_utilization_ratio{{uuid="{uuid(2)}"}}' not in found


def test_a_container_is_told_with_its_pod_and_one_that_is_gone_is_not() -> None:
    found = exposed()
    labels = f'{{container="main",namespace="default",pod="one",uuid="{uuid(1)}"}}'
    assert found[f"volcano_vgpu_container_memory_allocated_bytes{labels}"] == 1024 * 2 * MIB
    assert found[f"volcano_vgpu_container_cores_allocated_ratio{labels}"] == 0.25
    assert len([name for name in found if "container_memory_allocated_bytes" in name]) == 1


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (DeviceUsage(slots=1, memory=MiB(100), cores=CoreShare(50)), 0),
        (DeviceUsage(slots=2, memory=MiB(100), cores=CoreShare(50)), 900),
        (DeviceUsage(slots=1, memory=MiB(100), cores=CoreShare(100)), 900),
        (DeviceUsage(slots=2, memory=MiB(1100), cores=CoreShare(0)), 0),
    ],
)
def test_memory_is_stranded_where_no_slot_or_core_is_left_for_it(used: DeviceUsage, expected: int) -> None:
    device = Device(vendor=SPEC.name, index=0, slots=2, memory=MiB(1000), cores=CoreShare(100), model="NVIDIA")
    assert stranded(device, used) == expected


def test_calls_and_refusals_are_counted_by_what_came_of_them() -> None:
    metrics = AgentMetrics()
    metrics.called("Allocate", 0.001, "")
    metrics.called("PreStartContainer", 0.002, RefusalCode.NO_ALLOCATION)
    metrics.refused(ContainerRefusal(RefusalCode.NO_ALLOCATION, "text"))
    assert metrics.metrics.value("kubelet_calls_total", method="Allocate", code="ok") == 1
    assert metrics.metrics.value("kubelet_calls_total", method="PreStartContainer", code="no-allocation") == 1
    assert metrics.metrics.value("refusals_total", reason="no-allocation") == 1


def test_a_node_without_cards_is_told_as_such() -> None:
    empty = register.desired(inventory(), settings())
    offer = NodeOffer.of(NodeName("n1"), "", inventory(), spec=SPEC)
    found = exposed(
        sight=lambda: CurrentView(inventory(), empty, Slots.of((), 2), offer),
        pods=list,
        allocations=dict,
        directories=dict,
    )
    assert found == {
        "volcano_vgpu_registered": 1.0,
        "volcano_vgpu_cards_offered": 1.0,
        "volcano_vgpu_pods_unwritten": 3.0,
    }


def test_use_is_asked_only_for_cards_that_are_there() -> None:
    asked: list[DeviceId] = []

    def use(found: DeviceId) -> DeviceMeasurement:
        asked.append(found)
        return DeviceMeasurement()

    exposed(use=use)
    assert set(asked) == {uuid(1), uuid(2)}
