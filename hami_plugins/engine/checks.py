"""The rules about one device, each a function, in the order in which a refusal is explained.

The order is that of HAMi's vendors (``Fit`` in HAMi 2.10.0 ``pkg/device/*/device.go``); a rule added here holds for
every vendor.
"""

from __future__ import annotations

from typing import Final

from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, Check, ContainerRequest, VendorSpec
from hami_plugins.model.verdicts import Reason

WHOLE_CORES: Final = 100
"""The cores of a device whose cores are percentages."""


def healthy(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """An unhealthy device takes no new shares."""
    return None if candidate.device.healthy else Reason.HEALTH


def not_cordoned(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A device that an administrator cordoned takes no new shares."""
    return Reason.CORDON if candidate.device.cordoned else None


def wanted_model(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The card model passes the pod's allow and deny lists (case-insensitive substrings), and its mode is accepted."""
    selector = ask.request.selector
    model = candidate.device.model.lower()
    if selector.use_models is not None and not any(word in model for word in selector.use_models):
        return Reason.MODEL
    if selector.avoid_models is not None and any(word in model for word in selector.avoid_models):
        return Reason.MODEL
    if selector.modes is not None and candidate.device.mode not in selector.modes:
        return Reason.MODEL
    return None


def same_mode(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The device's mode is the one that the pod names."""
    return None if candidate.device.mode == ask.request.selector.modes else Reason.MODE


def wanted_id(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The pod's id lists accept the device."""
    return None if candidate.wanted else Reason.ID


def slot_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Fewer containers than the device's split count use it."""
    return Reason.SLOTS if candidate.device.slots <= candidate.used.slots else None


def unshared(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Under the mutex policy only unused devices pass."""
    return Reason.EXCLUSIVE if candidate.used.slots > 0 else None


def memory_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The free memory holds the request."""
    device = candidate.device
    return Reason.MEMORY if device.memory - candidate.used.memory < memory_on(candidate, ask) else None


def cores_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The free cores hold the request."""
    return Reason.CORES if candidate.device.cores - candidate.used.cores < cores_on(candidate, ask) else None


def whole_device_is_idle(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A request for 100 % of a device's cores needs an idle device. Devices with other numbers of cores than 100
    (Moore Threads' 16) are compared by their free cores only, as HAMi does."""
    if candidate.used.slots > 0 and cores_on(candidate, ask) == candidate.device.cores == WHOLE_CORES:
        return Reason.EXCLUSIVE
    return None


def compute_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A device whose cores are all promised has none left for a request that names no cores either."""
    device = candidate.device
    if device.cores and candidate.used.cores == device.cores and cores_on(candidate, ask) == 0:
        return Reason.COMPUTE
    return None


def memory_on(candidate: Candidate, ask: ContainerRequest) -> MiB:
    """The memory that the request takes of one device."""
    if ask.memory_of is None:
        return ask.request.memory.on(candidate.device)
    return ask.memory_of(candidate.device, ask.request)


def cores_on(candidate: Candidate, ask: ContainerRequest) -> CoreShare:
    """The cores that the request takes of one device, in the device's own unit."""
    if ask.cores_of is None:
        return ask.request.cores
    return ask.cores_of(candidate.device, ask.request)


def card_checks(spec: VendorSpec, request: DeviceRequest) -> tuple[Check, ...]:
    """The checks of the card itself, which come before NUMA binding looks at it."""
    selector = request.selector
    selects = selector.use_models is not None or selector.avoid_models is not None or selector.modes is not None
    usable = (healthy, *spec.fitting.health_checks, not_cordoned)
    if selector.modes is not None and spec.fitting.exact_mode:
        return (*usable, same_mode, wanted_model)
    return (*usable, wanted_model) if selects else usable


def room_checks(spec: VendorSpec, request: DeviceRequest, *, exclusive: bool) -> tuple[Check, ...]:
    """The checks of what the pod may have of a card; those that cannot object to this request are left out."""
    checks: list[Check] = [*spec.fitting.early_checks]
    if request.selector.names_ids:
        checks.append(wanted_id)
    checks.append(slot_left)
    if exclusive:
        checks.append(unshared)
    checks.append(memory_left)
    if spec.fitting.takes_no_cores is None or not spec.fitting.takes_no_cores(request):
        checks += (cores_left, whole_device_is_idle, compute_left)
    return (*checks, *spec.fitting.late_checks)


def clamped(spec: VendorSpec, request: DeviceRequest) -> CoreShare:
    """Cores above 100 % mean 100 %, as HAMi reads them, for vendors whose cores are percentages."""
    return CoreShare(min(request.cores, 100)) if spec.fitting.clamps_cores else request.cores
