"""Hygon DCUs.

Source: HAMi 2.10.0 ``pkg/device/hygon/device.go``. Deviations from HAMi 2.10, on purpose: an unusable amount is refused
(HAMi takes the container for one without DCUs).
"""

from __future__ import annotations

from typing import Final

from hami_plugins.engine.inventories import colon_register
from hami_plugins.model.units import CoreShare, VendorName
from hami_plugins.model.vendor import OnBadMemory, RequestRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.vendors import facts

SPEC: Final = VendorSpec(
    name=VendorName("DCU"),
    title="Hygon DCU",
    vendor="Hygon",
    resources=ResourceNames(count="hygon.com/dcunum", memory="hygon.com/dcumem", cores="hygon.com/dcucores"),
    keys=AnnotationKeys(
        allocated="hami.io/dcu-devices-allocated",
        to_allocate="hami.io/dcu-devices-to-allocate",
        register="hami.io/node-dcu-register",
        handshake="hami.io/node-handshake-dcu",
        use_ids=("hygon.com/use-gpuuuid",),
        avoid_ids=("hygon.com/nouse-gpuuuid",),
        use_models="hygon.com/use-dcutype",
        avoid_models="hygon.com/nouse-dcutype",
    ),
    inventory=colon_register,
    requests=RequestRules(cores_default=CoreShare(100), bad_memory=OnBadMemory.IGNORE),
    several="meant as whole cards; HAMi allocates slices",
    facts=facts.DCU,
)
