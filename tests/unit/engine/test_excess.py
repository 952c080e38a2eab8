"""An allocation that is larger than its request is found by each of its amounts, and one that is as large is not."""

from __future__ import annotations

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.excess import DeviceExcess, excess_of, needs_devices, within
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, Instance, Mark, SlicePlacement
from hami_plugins.model.pods import Container
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceRequest, MemoryDemand, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import amd, biren, kunlun, nvidia
from hami_plugins.vendors.awsneuron import SPEC as NEURON
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import objects, quantity
from tests import raw_objects

COUNT, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"


def share(memory: int, cores: int = 0, device: str = "GPU-a", mark: Mark | None = None) -> AllocatedShare:
    return AllocatedShare(
        device=DeviceId(device),
        vendor=SPEC.name,
        word="NVIDIA",
        memory=MiB(memory),
        cores=CoreShare(cores),
        mark=mark,
    )


def asked(count: int = 1, memory: MemoryDemand = Absolute(MiB(1000)), cores: int = 0) -> DeviceRequest:  # noqa: B008
    return DeviceRequest(vendor=SPEC.name, count=count, memory=memory, cores=CoreShare(cores))


def device_of(name: DeviceId) -> Device | None:
    if name == "GPU-x":
        return None
    return Device(vendor=SPEC.name, model="A", slots=10, memory=MiB(40_961), cores=CoreShare(100), index=0)


def found(request: DeviceRequest | None, *shares: AllocatedShare) -> DeviceExcess | None:
    return excess_of(SPEC, request, shares, device_of)


@pytest.mark.parametrize(
    ("request_", "shares", "expected"),
    [
        (asked(), [share(1001)], (MEMORY, 1001, 1000, "GPU-a")),
        (asked(count=2), [share(1000), share(1001, device="GPU-b")], (MEMORY, 1001, 1000, "GPU-b")),
        (asked(), [share(1001, device="GPU-x")], (MEMORY, 1001, 1000, "GPU-x")),
        (asked(memory=Percent(50)), [share(20_481)], (MEMORY, 20_481, 20_480, "GPU-a")),
        (asked(memory=Percent(100)), [share(40_962)], (MEMORY, 40_962, 40_961, "GPU-a")),
        (asked(cores=30), [share(1000, 31)], (CORES, 31, 30, "GPU-a")),
        (asked(), [share(1000, 1)], (CORES, 1, 0, "GPU-a")),
        (asked(cores=30), [share(1000, 0)], (CORES, 0, 30, "GPU-a")),
        (asked(), [share(1000), share(1000)], (COUNT, 2, 1, "")),
        (None, [share(1)], (COUNT, 1, 0, "")),
    ],
)
def test_an_amount_above_the_request_is_found(
    request_: DeviceRequest | None, shares: list[AllocatedShare], expected: tuple[object, ...]
) -> None:
    assert found(request_, *shares) == expected


@pytest.mark.parametrize(
    ("request_", "shares"),
    [
        (asked(), [share(1000)]),
        (asked(), [share(999)]),
        (asked(count=2), [share(1000)]),
        (asked(cores=100), [share(1000, 100)]),
        (asked(cores=30), [share(1000, 29)]),
        (asked(memory=Percent(50)), [share(20_480)]),
        (asked(memory=Percent(100)), [share(40_961)]),
        (asked(memory=Percent(1)), [share(40_961, device="GPU-x")]),
        (asked(), []),
        (None, []),
    ],
)
def test_an_allocation_as_large_as_the_request_is_none(
    request_: DeviceRequest | None, shares: list[AllocatedShare]
) -> None:
    assert found(request_, *shares) is None


def cores(*bits: int) -> list[AllocatedShare]:
    return [share(0, 0, f"n-{at}", CoreMask(mask)) for at, mask in enumerate(bits)]


@pytest.mark.parametrize(
    ("count", "amount", "shares", "expected"),
    [
        (1, 0, cores(3, 3), ("aws.amazon.com/neuron", 2, 1, "")),
        (2, 0, cores(3, 3), None),
        (1, 1, cores(3), ("aws.amazon.com/neuroncore", 2, 1, "")),
        (1, 2, cores(3), None),
        (1, 3, cores(3, 3), None),
        (1, 2, cores(3, 3), ("aws.amazon.com/neuroncore", 4, 2, "")),
        (1, 4, cores(3, 3, 3), ("aws.amazon.com/neuroncore", 6, 4, "")),
        (1, 5, cores(3, 3, 3), None),
    ],
)
def test_cores_beyond_a_device_are_whole_devices(
    count: int, amount: int, shares: list[AllocatedShare], expected: object
) -> None:
    assert excess_of(NEURON, asked(count=count, cores=amount), shares, device_of) == expected


@pytest.mark.parametrize(
    ("excess", "text"),
    [
        (DeviceExcess(MEMORY, 81_920, 1, DeviceId("GPU-a")), f"81920 of {MEMORY} on GPU-a, and 1 requested"),
        (DeviceExcess(COUNT, 2, 1), f"2 of {COUNT}, and 1 requested"),
        (DeviceExcess(CORES, 0, 30, DeviceId("GPU-a")), f"0 of {CORES} on GPU-a (no limit), and 30 requested"),
    ],
)
def test_an_excess_names_resource_device_and_both_amounts(excess: DeviceExcess, text: str) -> None:
    assert str(excess) == text


@pytest.mark.parametrize(
    ("request_", "shares", "expected"),
    [
        (asked(cores=30), [share(1001, 31)], [share(1000, 30)]),
        (asked(cores=30), [share(999, 0)], [share(999, 30)]),
        (asked(cores=30), [share(999, 29)], [share(999, 29)]),
        (asked(), [share(40_961, 100)], [share(1000, 0)]),
        (asked(), [share(1, 0), share(1, 0)], [share(1, 0)]),
        (asked(memory=Percent(50)), [share(40_961)], [share(20_480)]),
        (asked(memory=Percent(50)), [share(40_961, device="GPU-x")], [share(40_961, device="GPU-x")]),
        (None, [share(1)], []),
    ],
)
def test_an_allocation_is_cut_to_the_request(
    request_: DeviceRequest | None, shares: list[AllocatedShare], expected: list[AllocatedShare]
) -> None:
    assert within(request_, shares, device_of) == tuple(expected)


def found_of(
    spec: VendorSpec, memory: int, cores: int, mark: Mark | None = None, /, **limits: int
) -> DeviceExcess | None:
    """What is larger of an allocation on a device of 40,960 MiB and 50 cores than these limits (``count=1``)."""
    names = {getattr(spec.resources, kind): quantity.parse(amount, key=kind) for kind, amount in limits.items()}
    container = Container(name="c", kind=ContainerKind.APP, limits=names, requests=names)
    request = request_of(spec, container, objects.pod(raw_objects.pod("p", raw_objects.container())))
    held = AllocatedShare(
        device=DeviceId("d"), vendor=spec.name, word="w", memory=MiB(memory), cores=CoreShare(cores), mark=mark
    )
    known = Device(vendor=spec.name, model="A", slots=10, memory=MiB(40_960), cores=CoreShare(50), index=0)
    return excess_of(spec, request, [held], lambda name: known if name == "d" else None)


def test_cores_in_units_of_the_device_are_compared_in_these() -> None:
    assert found_of(amd.SPEC, 1000, 26, count=1, memory=1000, cores=50) == ("amd.com/gpucores", 26, 25, "d")
    assert found_of(amd.SPEC, 1000, 25, count=1, memory=1000, cores=50) is None


def test_cores_that_the_vendor_has_no_resource_for_are_not_compared() -> None:
    assert found_of(kunlun.SPEC, 40_960, 100, count=1) is None
    assert found_of(kunlun.SPEC, 40_961, 100, count=1) is not None


def test_memory_that_the_vendor_books_by_a_rule_of_its_own_is_compared_by_that() -> None:
    assert found_of(biren.SPEC, 0, 100, count=1) is None
    assert found_of(biren.SPEC, 1, 100, count=1) == ("", 1, 0, "d")


def test_a_mig_instance_has_amounts_of_its_own() -> None:
    instance = Instance("1g.6gb", SlicePlacement(0, 1))
    assert found_of(nvidia.SPEC, 5_952, 25, instance, count=1, memory=5_898) is None
    assert found_of(nvidia.SPEC, 5_952, 0, count=1, memory=5_898) == ("nvidia.com/gpumem", 5_952, 5_898, "d")


def test_amounts_in_units_of_a_device_that_is_unknown_are_not_compared() -> None:
    request = DeviceRequest(vendor=amd.SPEC.name, count=1, memory=Absolute(MiB(1)), cores=CoreShare(50))
    held = AllocatedShare(
        device=DeviceId("d"), vendor=amd.SPEC.name, word="w", memory=MiB(9), cores=CoreShare(9), mark=None
    )
    assert excess_of(amd.SPEC, request, [held], lambda _name: None) is None
    assert needs_devices(amd.SPEC, request)
