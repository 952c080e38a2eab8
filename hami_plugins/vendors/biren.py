"""Biren cards: whole cards or partitions that the vendor's side has made, shared by count alone.

Source: HAMi 2.10.0 ``pkg/device/biren/device.go``. Nothing of memory or cores is booked. Deviations from HAMi 2.10, on
purpose: an unusable count is refused (HAMi takes the container for one without cards).
"""

from __future__ import annotations

from typing import Final

from hami_plugins.engine.inventories import json_register
from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import FittingRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.vendors import facts

CARD_CORES: Final = CoreShare(100)
"""Whatever the register says; it only makes the device score work."""


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the JSON register."""
    return json_register(spec, node, cores=CARD_CORES)


def no_memory(device: Device, request: DeviceRequest) -> MiB:
    """A slot on the card is all that is taken; the percentage of a request only ranks cards, as in HAMi."""
    return MiB(0)


def no_cores(request: DeviceRequest) -> bool:
    """Cores are not counted here."""
    return True


SPEC: Final = VendorSpec(
    name=VendorName("Biren"),
    title="Biren GPU",
    vendor="Biren",
    resources=ResourceNames(count="birentech.com/gpu"),
    keys=AnnotationKeys(
        allocated="hami.io/Biren-devices-allocated",
        to_allocate="hami.io/Biren-devices-to-allocate",
        register="hami.io/node-biren-register",
        handshake="hami.io/node-handshake-biren",
        use_ids=("birentech.com/use-gpuuuid",),
        avoid_ids=("birentech.com/nouse-gpuuuid",),
    ),
    inventory=inventory,
    fitting=FittingRules(memory_of=no_memory, takes_no_cores=no_cores),
    memory_step="none: whole card or partition",
    core_step="none",
    several="whole cards or partitions",
    facts=facts.BIREN,
)
