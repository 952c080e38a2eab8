"""What the agent counts for pods whose slices were resized: what is booked, beyond the request as well."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.unit.volcano_vgpu.allocated_pods import offer, pod
from volcano_vgpu.core.assignments import record_of, resized_devices

BOOKED = "hami-plugins.io/booked-memory"
GIVEN = AssignedDevice(DeviceId("GPU-a"), "NVIDIA", MiB(2000), CoreShare(30))


def resized(text: str = "main=5000") -> dict[str, Any]:
    raw = pod()
    raw["metadata"]["annotations"][BOOKED] = text
    return raw


def held(raw: dict[str, Any], served: dict[str, tuple[AssignedDevice, ...]] | None) -> list[int]:
    record = record_of(raw, offer(), served)
    assert record is not None
    return [share.memory for each in record.allocations for share in each.shares]


@pytest.mark.parametrize("served", [None, {"main": (GIVEN,)}])
def test_what_is_booked_counts_whether_the_pod_was_served_or_not(
    served: dict[str, tuple[AssignedDevice, ...]] | None,
) -> None:
    assert held(resized(), served) == [5000]
    assert held(pod(), served) == [2000]


def test_devices_have_the_booked_memory_where_a_container_has_one_card() -> None:
    other = GIVEN._replace(device=DeviceId("GPU-b"))
    handed = {"main": (GIVEN,), "side": (GIVEN,), "two": (GIVEN, other)}
    assert resized_devices(resized("main=5000,two=7"), handed) == {
        **handed,
        "main": (GIVEN._replace(memory=MiB(5000)),),
    }
    assert resized_devices(pod(), handed) == handed
