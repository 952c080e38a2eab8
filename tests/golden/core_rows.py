"""Rows of the core vectors as our values: devices with what is promised of them, and requests of any type."""

from collections.abc import Mapping, Sequence
from typing import Any

from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NUMA_BIND_KEY, PolicyDefaults, policy_of
from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.policy import Policy, Weights
from hami_plugins.model.requests import Absolute, DeviceRequest, Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from tests import builders

Row = Mapping[str, Any]


def device(row: Row) -> tuple[Device, DeviceUsage]:
    """A card and what is promised of it."""
    return (
        builders.a_device(
            model=row["type"],
            slots=row["count"],
            memory=row["totalmem"],
            cores=row["totalcore"],
            numa=row.get("numa", 0),
        ),
        builders.used(row["used"], row["usedmem"], row["usedcores"]),
    )


def requests(rows: Sequence[Row]) -> list[DeviceRequest]:
    """A container's requests; a percentage of 0 or 101 means that memory is named."""
    return [
        DeviceRequest(
            vendor=VendorName(row["type"]),
            count=row["nums"],
            memory=Absolute(MiB(row["memreq"])) if row["pct"] in (0, 101) else Percent(row["pct"]),
            cores=CoreShare(row["cores"]),
        )
        for row in rows
    ]


def weights(row: Row) -> Weights:
    """The weights of slots, cores and memory."""
    return Weights(row["slot"], row["core"], row["memory"])


def policy(words: str, *, numa_bind: bool) -> Policy:
    """A pod's policy for devices."""
    return policy_of({DEVICE_POLICY_KEY: words, NUMA_BIND_KEY: str(numa_bind).lower()}, PolicyDefaults())
