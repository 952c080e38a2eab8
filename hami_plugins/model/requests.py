"""What a pod asks for, in one form for every vendor and every dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hami_plugins.model.devices import Device
from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName


@dataclass(frozen=True, slots=True)
class Absolute:
    """A fixed amount of device memory on each device."""

    mib: MiB

    def on(self, device: Device) -> MiB:  # noqa: ARG002 - a percentage needs it
        """The amount that this means on one device."""
        return self.mib


@dataclass(frozen=True, slots=True)
class Percent:
    """A share of each device's memory, 0 to 100; 100 is the whole device."""

    of_device: int

    def on(self, device: Device) -> MiB:
        """The amount on one device, truncated as HAMi does (int32 arithmetic, ``Totalmem * pct / 100``)."""
        return MiB(device.memory * self.of_device // 100)


MemoryDemand = Absolute | Percent


class ContainerKind(StrEnum):
    """When a container runs: before the others, with all of them from the start, or with the other applications."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """Which devices a pod accepts, from its annotations. ``None`` is "no constraint"; an empty allow list matches none.

    ``use_models``/``avoid_models`` are lower-case words, matched as substrings of the card model; ``modes`` is the
    text that must contain the device's mode (HAMi) or equal it (Volcano).
    """

    use_ids: frozenset[DeviceId] | None = None
    avoid_ids: frozenset[DeviceId] | None = None
    use_models: tuple[str, ...] | None = None
    avoid_models: tuple[str, ...] | None = None
    modes: str | None = None

    @property
    def names_ids(self) -> bool:
        """Whether the answer depends on device ids, and so on a mask in addition to the node's state."""
        return self.use_ids is not None or self.avoid_ids is not None

    def accepts_id(self, device: DeviceId) -> bool:
        """Whether one device id passes the allow and deny lists; the deny list wins."""
        if self.use_ids is not None and device not in self.use_ids:
            return False
        return self.avoid_ids is None or device not in self.avoid_ids


ANY_DEVICE = DeviceSelector()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one container asks of one vendor: ``count`` devices, and memory and cores on each of them.

    ``slices`` asks for a hardware profile of that many slices instead (Enflame DRS); ``options`` are vendor words from
    the pod's annotations that the vendor's hooks understand (``qos``, ``app-class``, ``vnpu-mode``, ``group``).
    ``alike`` are the sets of device indexes that other members of the gang were given for the same.
    """

    vendor: VendorName
    count: int
    memory: MemoryDemand
    cores: CoreShare = CoreShare(0)
    slices: int = 0
    selector: DeviceSelector = ANY_DEVICE
    options: tuple[tuple[str, str], ...] = ()
    alike: tuple[tuple[int, ...], ...] = ()

    def option(self, name: str) -> str | None:
        """One vendor word, or ``None``."""
        for key, value in self.options:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """The requests of one container; empty for a container without devices."""

    kind: ContainerKind
    requests: tuple[DeviceRequest, ...] = ()


@dataclass(frozen=True, eq=False)
class DeviceDemand:
    """What a whole pod asks of devices: its containers in the pod's order (init containers first).

    It is the key of the verdict cache, so the hash is computed once.
    """

    containers: tuple[ContainerDemand, ...]
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.containers))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, DeviceDemand) and self._hash == other._hash and self.containers == other.containers

    @property
    def vendors(self) -> tuple[VendorName, ...]:
        """Whose devices are asked for, each once."""
        return tuple(dict.fromkeys(each.vendor for container in self.containers for each in container.requests))

    @property
    def wants_devices(self) -> bool:
        """Whether any container asks for any device."""
        return any(container.requests for container in self.containers)

    @property
    def names_ids(self) -> bool:
        """Whether any request selects devices by id."""
        return any(request.selector.names_ids for container in self.containers for request in container.requests)
