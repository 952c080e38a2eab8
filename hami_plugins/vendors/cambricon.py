"""Cambricon MLUs in dynamic sMLU mode.

Source: HAMi 2.10.0 ``pkg/device/cambricon/device.go``. A node says only how many cores (100 per card) and memory units
(256 MiB) it has. The annotation ``CAMBRICON_DSMLU_PROFILE`` holds one slice per pod: that of the first card of the
first container with one, because the vendor's plugin reads no more.

Deviations from HAMi 2.10, on purpose: an unusable amount is refused (HAMi takes the container for one without MLUs),
negative cores are refused, and a capacity that HAMi would let overflow is a problem of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine.inventories import cards_by_cores
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import AllocationRecords, AllocationView, RequestRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.vendors import facts

MEMORY_UNIT: Final = MiB(256)
CARD_CORES: Final = CoreShare(100)
ASSIGNED_KEY: Final = "CAMBRICON_DSMLU_ASSIGNED"
PROFILE_KEY: Final = "CAMBRICON_DSMLU_PROFILE"


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the node's capacity of cores and memory."""
    return cards_by_cores(spec, node, infix="cambricon-mlu", card_cores=CARD_CORES, memory_unit=MEMORY_UNIT)


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The slice for the vendor's plugin: card index, cores, memory units."""
    first = next(shares[0] for shares in view.containers if shares)
    profile = f"{view.indexes[first.device]}_{first.cores}_{first.memory // MEMORY_UNIT}"
    return {ASSIGNED_KEY: "false", PROFILE_KEY: profile}


SPEC: Final = VendorSpec(
    name=VendorName("MLU"),
    title="Cambricon MLU",
    vendor="Cambricon",
    resources=ResourceNames(
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
    ),
    keys=AnnotationKeys(
        allocated="hami.io/cambricon-mlu-devices-allocated",
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        use_ids=("cambricon.com/use-gpuuuid",),
        avoid_ids=("cambricon.com/nouse-gpuuuid",),
        lock="cambricon.com/dsmlu.lock",
        lock_names_pod=False,
        lock_expiry=120,
        extra=(ASSIGNED_KEY, PROFILE_KEY),
    ),
    inventory=inventory,
    requests=RequestRules(memory_unit=MEMORY_UNIT, cores_default=CARD_CORES),
    records=AllocationRecords(annotate=annotate),
    counted_by_scheduler=("cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    memory_step="256 MiB",
    several="meant as whole cards; HAMi allocates slices",
    facts=facts.MLU,
)
