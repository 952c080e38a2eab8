"""AMD GPUs, shared by compute units.

Source: HAMi 2.10.0 ``pkg/device/amd/device.go``. ``amd.com/gpucores`` is a percentage; a card's cores are its compute
units, and that is what is booked. The assignment string carries the card model where other vendors carry their word.

Deviations from HAMi 2.10, on purpose: an unusable amount, or memory and cores without a count, is refused (HAMi takes
the container for one without GPUs); a card registered here counts even if its model is not spelled ``AMD``; a quota
on ``amd.com/gpucores`` counts percentages (HAMi adds compute units to them).
"""

from __future__ import annotations

from typing import Final

from hami_plugins.engine.demand import invalid, standard_request
from hami_plugins.engine.inventories import capacity_of, json_register
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, VendorName
from hami_plugins.model.vendor import AllocationRecords, ContainerAdmission, FittingRules, RequestRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.vendors import facts


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the JSON register, unless the node reports that it can run none: there is no other health signal."""
    if capacity_of(node, spec.resources.count) is None:
        return NO_DEVICES
    return json_register(spec, node)


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """Any of the three resources among the limits claims the container; cores together with a count must be a
    percentage.
    """
    names, limits = spec.resources, container.limits
    cores = limits.get(names.cores)
    if names.count in limits and cores is not None and not _is_percentage(cores):
        raise AdmissionDeniedError(f"{names.cores} must be an integer percentage between 1 and 100", 500)
    return ContainerAdmission(claimed=any(name in limits for name in names.all()))


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and per card memory in MiB and a percentage of its compute units; only limits count."""
    cores = container.limits.get(spec.resources.cores)
    if cores is not None and spec.resources.count in container.limits and not _is_percentage(cores):
        raise invalid(container, spec.resources.cores, cores, "not a percentage", "use a whole number from 1 to 100")
    return standard_request(spec, container, pod)


def units_of(device: Device, request: DeviceRequest) -> CoreShare:
    """The compute units that a percentage means on one card: rounded down, at least one."""
    return CoreShare(max(device.cores * request.cores // 100, 1))


def percent_of(device: Device, units: CoreShare) -> CoreShare:
    """What a ResourceQuota on percentages counts for compute units of one card, rounded up."""
    return CoreShare(-(-units * 100 // max(device.cores, 1)))


def _is_percentage(amount: Quantity) -> bool:
    return amount.whole is not None and 1 <= amount.whole <= 100


SPEC: Final = VendorSpec(
    name=VendorName("AMD"),
    title="AMD GPU",
    vendor="AMD",
    resources=ResourceNames(count="amd.com/gpu", memory="amd.com/gpumem", cores="amd.com/gpucores"),
    keys=AnnotationKeys(
        allocated="hami.io/amd-devices-allocated",
        to_allocate="hami.io/amd-devices-to-allocate",
        register="hami.io/node-amd-register",
        use_ids=("amd.com/use-gpu-uuid",),
        avoid_ids=("amd.com/nouse-gpu-uuid",),
        use_models="amd.com/use-gputype",
        avoid_models="amd.com/nouse-gputype",
    ),
    inventory=inventory,
    requests=RequestRules(cores_default=CoreShare(100), requests_too=False, read=request),
    admit=admit,
    fitting=FittingRules(cores_of=units_of, cores_in_quota=percent_of),
    records=AllocationRecords(word_is_model=True),
    core_step="1 %, in whole compute units",
    facts=facts.AMD,
)
