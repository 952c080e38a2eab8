"""What a bound pod holds, compared with what it requests.

Both stand on the same pod, and its owner may write the annotations. Where node agents hand over at most the request, a
larger allocation counts with the request, so that it takes nothing from other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.excess import DeviceExcess, excess_of, needs_devices, within
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import AllocatedShare, Device
from hami_plugins.model.pods import Container, Pod, PodRecord
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.units import DeviceId
from hami_plugins.model.vendor import VendorSpec

DeviceOf = Callable[[DeviceId], Device | None]


class Compared(NamedTuple):
    """What is allocated to one container (``at`` its place in the pod) of one vendor's devices, and what it requests.

    ``wrong`` is why its request means nothing.
    """

    at: int
    container: Container
    spec: VendorSpec
    shares: tuple[AllocatedShare, ...]
    asked: DeviceRequest | None = None
    wrong: str = ""

    def excess(self, device_of: DeviceOf) -> str:
        """The amount that is larger than the request; empty where none is."""
        if self.wrong:
            return self.wrong if self.shares else ""
        found = excess_of(self.spec, self.asked, self.shares, device_of)
        return f"container {self.container.name}: {found}" if found else ""

    @property
    def needs_devices(self) -> bool:
        """Whether the answer depends on the node's devices."""
        return self.asked is not None and needs_devices(self.spec, self.asked)

    @property
    def cores(self) -> int:
        """How many cores are requested of all devices together."""
        return 0 if self.asked is None else self.asked.cores * self.asked.count


def compared(pod: Pod, record: PodRecord, registry: Registry) -> tuple[Compared, ...]:
    """All containers of a pod with the devices of each vendor that it holds any of.

    ``record`` is what the pod's annotations say.
    """
    held = {share.vendor for allocation in record.allocations for share in allocation.shares}
    held.update(each.share.vendor for each in record.unlocated)
    specs = [spec for spec in registry if spec.name in held]
    found: list[Compared] = []
    for at, (container, allocation) in enumerate(zip(pod.containers, record.allocations, strict=True)):
        for spec in specs:
            shares = tuple(share for share in allocation.shares if share.vendor == spec.name)
            try:
                found.append(Compared(at, container, spec, shares, request_of(spec, container, pod)))
            except (InvalidRequestError, WireError) as error:
                found.append(Compared(at, container, spec, shares, wrong=str(error)))
    return tuple(found)


def excess(containers: Sequence[Compared], record: PodRecord, device_of: DeviceOf) -> str:
    """The first amount of a pod that is larger than its request; empty where none is."""
    texts = (each.excess(device_of) for each in containers)
    return next(filter(None, texts), "") or _of_numbers(containers, record)


def cut(record: PodRecord, containers: Iterable[Compared], *, every: bool = False) -> PodRecord:
    """The record with no amount larger than requested, of vendors whose node agents hand over no more than that.

    With ``every`` that is so of all vendors. A percentage is left as it is: it was taken of the memory that the device
    had then.
    """
    kept: dict[int, list[AllocatedShare]] = {}
    for each in containers:
        capped = every or each.spec.allocation.at_most_requested
        shares = within(each.asked, each.shares, lambda _device: None) if capped else each.shares
        kept.setdefault(each.at, []).extend(shares)
    allocations = (
        replace(allocation, shares=tuple(kept.get(at, ()))) for at, allocation in enumerate(record.allocations)
    )
    return replace(record, allocations=tuple(allocations))


def _of_numbers(containers: Sequence[Compared], record: PodRecord) -> str:
    """Cores that the pod knows by number alone, over all of its containers."""
    for held in record.unlocated:
        of_vendor = [each for each in containers if each.spec.name == held.share.vendor]
        running = sum(each.cores for each in of_vendor if each.container.kind is not ContainerKind.INIT)
        most = max(running, *(each.cores for each in of_vendor))
        if len(held.numbers) > most:
            return f"{DeviceExcess(of_vendor[0].spec.resources.cores, len(held.numbers), most)}"
    return ""
