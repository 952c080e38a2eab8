"""From a pod to what it asks of devices. An unusable request is refused here; it is never taken for "no request"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import (
    ANY_DEVICE,
    Absolute,
    ContainerDemand,
    DeviceDemand,
    DeviceRequest,
    DeviceSelector,
    MemoryDemand,
    Percent,
)
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import OnBadMemory, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys

WHOLE: Final = Percent(100)
WHOLE_CORES: Final = 100
"""Percent of the cores of a card."""


def demand_of(pod: Pod, registry: Registry) -> DeviceDemand:
    """What each container of a pod asks of each vendor, in the registry's order of vendors.

    Raises ``InvalidRequestError`` for the first request that cannot mean anything (upstream takes such a request for
    none and lets the pod start without any accounting).
    """
    return DeviceDemand(
        tuple(
            ContainerDemand(
                container.kind,
                tuple(
                    request
                    for spec in registry.asked_by(container)
                    if (request := request_of(spec, container, pod)) is not None
                ),
            )
            for container in pod.containers
        )
    )


def request_of(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """What one container asks of one vendor, or ``None`` when it asks for nothing."""
    make = spec.requests.read or standard_request
    return make(spec, container, pod)


def standard_request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """The request of vendors that count cards and take memory and cores per card (``GenerateResourceRequests`` in HAMi
    2.10.0 ``pkg/device/*/device.go``)."""
    count = count_of(spec, container)
    if count is None:
        return None
    rules, names = spec.requests, spec.resources
    memory = memory_of(spec, container)
    cores = cores_of(container, names.cores, requests_too=rules.requests_too)
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=Absolute(memory) if memory else WHOLE,
        cores=rules.cores_default if cores is None else cores,
        selector=selector_of(spec.keys, pod.annotations),
        options=spec.requests.options_of(spec, pod.annotations) if spec.requests.options_of is not None else (),
    )


def count_of(spec: VendorSpec, container: Container) -> int | None:
    """How many devices a container asks for; ``None`` without the resource, or when it is an explicit zero.

    A zero with no other resource of the vendor is "none wanted"; together with memory or cores it is a contradiction.
    """
    names = spec.resources
    found = container.amount(names.count, requests_too=spec.requests.requests_too)
    others = [
        name
        for name in (names.memory, names.memory_percentage, names.cores)
        if name
        and (other := container.amount(name, requests_too=spec.requests.requests_too)) is not None
        and other.nano
    ]
    if found is None:
        if others:
            raise invalid(
                container, others[0], container.amount(others[0]), f"{names.count} is missing", f"add {names.count}: 1"
            )
        return None
    count = found.whole
    if count is None or not 0 <= count <= INT32_MAX:
        raise invalid(container, names.count, found, "not a number of devices", "use a whole number from 1")
    if count == 0 and others and not (others == [names.cores] and _all_cores(container, names.cores)):
        raise invalid(
            container, names.count, found, f"zero devices but {others[0]} is asked", "ask for 1 device or drop both"
        )
    return count or None


def _all_cores(container: Container, name: str) -> bool:
    """Whether cores are those that HAMi's webhook adds to every number of cards without memory, also to none."""
    found = container.amount(name)
    return found is not None and found.whole == WHOLE_CORES


def memory_of(spec: VendorSpec, container: Container) -> MiB:
    """The memory per device that a container names, in MiB; 0 when it names none."""
    name = spec.resources.memory
    found = container.amount(name, requests_too=spec.requests.requests_too) if name else None
    if found is None:
        return MiB(0)
    factor = spec.memory_factor()
    amount = found.whole
    if amount is None and spec.requests.bad_memory is OnBadMemory.IGNORE and found.nano > 0:
        return MiB(0)
    if amount is None or amount < 0 or amount * factor > INT32_MAX:
        unit = "MiB" if factor == 1 else f"units of {factor} MiB"
        raise invalid(container, name, found, f"not an amount of {unit}", _memory_remedy(found, factor))
    return MiB(amount * factor)


def cores_of(container: Container, name: str, *, requests_too: bool = True) -> CoreShare | None:
    """The cores per device that a container names, or ``None``."""
    found = container.amount(name, requests_too=requests_too) if name else None
    if found is None or found.whole is None:
        return None
    if not 0 <= found.whole <= INT32_MAX:
        raise invalid(container, name, found, "not a share of a device's cores", "use 0 to 100")
    return CoreShare(found.whole)


def selector_of(keys: AnnotationKeys, annotations: Mapping[str, str]) -> DeviceSelector:
    """Which devices the annotations allow. Where a vendor has two sets of id keys, a device must pass both."""
    if not annotations:
        return ANY_DEVICE
    use: frozenset[DeviceId] | None = None
    for key in keys.use_ids:
        ids = _ids(annotations.get(key, ""))
        if ids is not None:
            use = ids if use is None else use & ids
    avoid: frozenset[DeviceId] | None = None
    for key in keys.avoid_ids:
        ids = _ids(annotations.get(key, ""))
        if ids is not None:
            avoid = ids if avoid is None else avoid | ids
    use_models = _words(annotations.get(keys.use_models, "")) if keys.use_models else None
    avoid_models = _words(annotations.get(keys.avoid_models, "")) if keys.avoid_models else None
    modes = annotations.get(keys.mode) if keys.mode else None
    found = DeviceSelector(use, avoid, use_models, avoid_models, modes)
    return ANY_DEVICE if found == ANY_DEVICE else found


def invalid(container: Container, resource: str, value: Quantity | None, why: str, remedy: str) -> InvalidRequestError:
    """The refusal of one resource amount."""
    return InvalidRequestError(container=container.name, resource=resource, value=str(value), why=why, remedy=remedy)


def _ids(text: str) -> frozenset[DeviceId] | None:
    """A comma list of exact ids; blank text does not constrain (HAMi 2.10.0 ``pkg/device/devices.go``)."""
    if not text.strip():
        return None
    return frozenset(DeviceId(part.strip()) for part in text.split(","))


def _words(text: str) -> tuple[str, ...] | None:
    """A comma list of model words, lower case, blanks dropped; no constraint if blank, no match if only commas."""
    if not text.strip():
        return None
    return tuple(word for part in text.lower().split(",") if (word := part.strip()))


def _memory_remedy(found: Quantity, factor: int) -> str:
    mebibytes = found.ceiling >> 20
    if mebibytes:
        return f"write {max(mebibytes // factor, 1)} if {found} was meant in bytes"
    return "use a whole number from 0"


def percentage(memory: MiB, percent: int | None, default: MiB) -> MemoryDemand:
    """Memory wins over a percentage; without either, the default amount, else the whole device."""
    if memory:
        return Absolute(memory)
    if percent:
        return Percent(min(percent, 100))
    return Absolute(default) if default else WHOLE
