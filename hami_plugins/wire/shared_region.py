"""HAMi-core's shared region: the file in which the processes of a container book what they use of its cards.

Bytes to values; who opens, reads and writes the files is elsewhere. Five layouts were ever released, and neither their
magic nor their size nor their version words alone tell them apart (HAMi 2.10.0 ``pkg/monitor/nvidia/cudevshr.go``): all
three have to agree. A library that was changed under a living file goes on in that file with its own offsets;
such a file is refused.

The workload can write every byte of it. Its values are fit to be shown, not to decide by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = 19920718
DEVICES: Final = 16
PROCESSES: Final = 1024
UUID_BYTES: Final = 96

HEADER_BYTES: Final = 2048
"""As much of the beginning holds the header of every layout."""

_LATEST: Final = 1 << 63
"""Unix seconds from here on are invalid."""

_UUID: Final = re.compile(rb"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PREFIXES: Final = (b"GPU-", b"MIG-")
_FIRST_WORDS: Final = Struct("<3I")
_AMOUNTS: Final = Struct(f"<{DEVICES}Q")
_NUMBER: Final = Struct("<Q")
_SIGNED: Final = Struct("<i")
_PIDS: Final = Struct("<2i")
_TAIL: Final = Struct("<4i")


class UnreadableReason(StrEnum):
    """Why a file is not read."""

    MAGIC = "magic"
    SIZE = "size"
    VERSION = "version"
    MIXED = "mixed"
    COUNTS = "counts"
    SHRUNK = "shrunk"
    NO_FILE = "not-a-file"
    NO_ACCESS = "no-access"


@dataclass(frozen=True, slots=True)
class UnreadableRegion:
    """A file that is not taken for a region; the text has its magic, size and version, and never its bytes."""

    reason: UnreadableReason
    text: str


@dataclass(frozen=True, slots=True)
class NotReady:
    """A region that is being made, or whose container has not used its cards yet; to be read again later."""

    text: str


class Status(IntEnum):
    """The state of a process."""

    EXITED = 0
    RUNNING = 1
    SUSPENDED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLayout:
    """Where things are, in bytes from the beginning of the file or, from ``used`` on, of a process's slot.

    ``size`` is that of the structure; the file is one byte longer. Without ``version`` the structure has no version
    fields.
    """

    name: str
    size: int
    version: tuple[int, int] | None
    owner: int
    device_num: int
    slots: int
    tail: int
    slot_size: int
    used: int
    used_size: int
    measured: int
    utilization: int | None
    utilization_size: int
    status: int
    seqlock: int | None

    def memory_limit_at(self, device: int) -> int:
        """Where the memory limit of a device is. The library reads it at each allocation and writes it once."""
        return self.device_num + 8 + DEVICES * UUID_BYTES + 8 * device

    @property
    def switch_at(self) -> int:
        """Where ``utilization_switch`` is, one of the two fields that belong to a monitor."""
        return self.tail + 4

    @property
    def recent_kernel_at(self) -> int:
        """Where ``recent_kernel`` is, the other one."""
        return self.tail + 8

    @property
    def tail_bytes(self) -> int:
        """How many bytes of the tail are read."""
        return _TAIL.size if self.version is None else _TAIL.size + _NUMBER.size


def _layout(  # noqa: PLR0913 - all that the layouts differ in
    name: str,
    size: int,
    version: tuple[int, int] | None,
    *,
    device_num: int,
    used: int,
    used_size: int,
    utilization_size: int,
    slot_size: int,
    seqlock: int | None,
) -> RegionLayout:
    """Everything else lies one after the other."""
    slots = device_num + 8 + DEVICES * (UUID_BYTES + 8 + 8)
    measured = used + DEVICES * used_size
    utilization = measured + DEVICES * 8
    return RegionLayout(
        name=name,
        size=size,
        version=version,
        owner=16 if version else 8,
        device_num=device_num,
        slots=slots,
        tail=slots + PROCESSES * slot_size,
        slot_size=slot_size,
        used=used,
        used_size=used_size,
        measured=measured,
        utilization=utilization if utilization_size else None,
        utilization_size=utilization_size,
        status=utilization + DEVICES * utilization_size,
        seqlock=seqlock,
    )


V0_EARLY: Final = _layout(
    "v0-early", 804680, None, device_num=48, used=8, used_size=40, utilization_size=0, slot_size=784, seqlock=None
)
V0: Final = _layout(
    "v0", 1197896, None, device_num=48, used=8, used_size=40, utilization_size=24, slot_size=1168, seqlock=None
)
V1_1: Final = _layout(
    # What 1.2 uses as its lock is an unused word of 1.1. It moves where a 1.2 library took the file over, which may be.
    "v1.1", 2008952, (1, 1), device_num=56, used=8, used_size=64, utilization_size=48, slot_size=1960, seqlock=1936
)  # fmt: skip
V1_1_INTERIM: Final = _layout(
    "v1.1-interim", 2008984, (1, 1),
    device_num=88, used=16, used_size=64, utilization_size=48, slot_size=1960, seqlock=8,
)  # fmt: skip
V1_2: Final = replace(V1_1, name="v1.2", version=(1, 2))

LAYOUTS: Final = (V0_EARLY, V0, V1_1, V1_1_INTERIM, V1_2)

_VERSIONS: Final = frozenset(layout.version for layout in LAYOUTS)


class DeviceUse(NamedTuple):
    """What a process books on one device, in bytes: ``total`` is the sum of the parts before it.

    ``measured`` is what the driver counts, ``utilization`` 0 to 100 or ``None`` where the layout has none.
    """

    context: int
    module: int
    data: int
    offset: int
    total: int
    measured: int
    utilization: int | None

    @property
    def booked(self) -> tuple[int, ...]:
        """The memory booked by the process itself. A counter that was taken below zero has wrapped: it is huge."""
        return self[:5]


class RegionProcess(NamedTuple):
    """A process as its slot has it. ``pid`` is the container's, ``hostpid`` the host's (0: not known)."""

    pid: int
    hostpid: int
    status: int
    seqlock: int | None
    devices: tuple[DeviceUse, ...]

    @property
    def counts(self) -> bool:
        """Whether it has not exited; what an exited one booked stays in its slot. A killed one looks alive."""
        return self.status != Status.EXITED and self.pid != 0


class Tail(NamedTuple):
    """What follows the slots. ``last_kernel_time`` is Unix seconds; ``None`` where the layout has none, or never."""

    proc_num: int
    utilization_switch: int
    recent_kernel: int
    priority: int
    last_kernel_time: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What precedes the slots. A device whose UUID is no UUID is ``None`` and has to be passed over.

    ``memory_limits`` are bytes (0: no limit), ``core_limits`` per cent; both have ``DEVICES`` entries.
    """

    layout: RegionLayout
    sm_init_flag: int
    owner_pid: int
    uuids: tuple[str | None, ...]
    memory_limits: tuple[int, ...]
    core_limits: tuple[int, ...]


def layout_of(head: bytes, size: int) -> RegionLayout | NotReady | UnreadableRegion:
    """Which layout a file of ``size`` bytes that begins with ``head`` has."""
    if not any(head[:4]):
        return NotReady("no process has filled it yet")
    words = _FIRST_WORDS.unpack(head[:12].ljust(12, b"\0"))
    magic, major, minor = words
    found = f"magic {magic}, {size} bytes, version words {major}.{minor}"
    if magic != MAGIC:
        return UnreadableRegion(UnreadableReason.MAGIC, f"not a region of HAMi-core: {found}; want magic {MAGIC}")
    of_size = [layout for layout in LAYOUTS if size in (layout.size, layout.size + 1)]
    if not of_size:
        return UnreadableRegion(UnreadableReason.SIZE, f"no known layout has that size: {found}")
    for layout in of_size:
        if layout.version == (major, minor) or (layout.version is None and major == 0):
            return _mixed(layout, head, found) or layout
    if (major, minor) in _VERSIONS or major == 0 or of_size[0].version is None:
        return UnreadableRegion(
            UnreadableReason.MIXED, f"two versions of the library have written it: {found}; delete the pod"
        )
    return UnreadableRegion(UnreadableReason.VERSION, f"no known layout has that version: {found}")


def _mixed(layout: RegionLayout, head: bytes, found: str) -> UnreadableRegion | None:
    """A file of the interim layout that another 1.x library used before, or uses now: size and version stay."""
    if layout is not V1_1_INTERIM or len(head) < layout.slots:
        return None
    own, other = layout.device_num + 8, V1_1.device_num + 8
    taken_over = head[own : own + 4] not in _PREFIXES and head[other : other + 4] in _PREFIXES
    # Every library fills all core limits with at least 1. Zeros are what lay elsewhere before the file grew.
    if taken_over or 0 in _amounts(head, own + DEVICES * (UUID_BYTES + 8)):
        return UnreadableRegion(
            UnreadableReason.MIXED, f"two versions of the library have written it: {found}; delete the pod"
        )
    return None


def header(head: bytes, size: int) -> Header | NotReady | UnreadableRegion:
    """The first ``HEADER_BYTES`` of a file of ``size`` bytes."""
    layout = layout_of(head, size)
    if not isinstance(layout, RegionLayout):
        return layout
    if len(head) < layout.slots:
        return UnreadableRegion(UnreadableReason.SHRUNK, f"only {len(head)} bytes of its header were there")
    (count,) = _NUMBER.unpack_from(head, layout.device_num)
    if count > DEVICES:
        return UnreadableRegion(
            UnreadableReason.COUNTS, f"{count} devices, there can be {DEVICES} ({size} bytes, {layout.name})"
        )
    if count == 0:
        return NotReady("its container has not looked at its cards yet")
    start = layout.device_num + 8
    texts = [head[at : at + UUID_BYTES] for at in range(start, start + count * UUID_BYTES, UUID_BYTES)]
    if not all(text[0] for text in texts):
        return NotReady("the names of its cards are being written")
    limits = start + DEVICES * UUID_BYTES
    return Header(
        layout=layout,
        sm_init_flag=_SIGNED.unpack_from(head, layout.owner - 4)[0],
        owner_pid=_NUMBER.unpack_from(head, layout.owner)[0],
        uuids=tuple(_uuid(text) for text in texts),
        memory_limits=_amounts(head, limits),
        core_limits=_amounts(head, limits + DEVICES * 8),
    )


def tail(layout: RegionLayout, data: bytes) -> Tail | UnreadableRegion:
    """The ``layout.tail_bytes`` from ``layout.tail`` on."""
    if len(data) < layout.tail_bytes:
        return UnreadableRegion(UnreadableReason.SHRUNK, f"only {len(data)} bytes of its end were there")
    proc_num, switch, recent, priority = _TAIL.unpack_from(data)
    if not 0 <= proc_num <= PROCESSES:
        return UnreadableRegion(
            UnreadableReason.COUNTS, f"{proc_num} processes, there can be {PROCESSES} ({layout.name})"
        )
    last = None if layout.version is None else _NUMBER.unpack_from(data, _TAIL.size)[0]
    return Tail(proc_num, switch, recent, priority, last if last and last < _LATEST else None)


def processes(found: Header, data: bytes) -> tuple[RegionProcess, ...]:
    """The processes in the slots that ``data`` begins with, exited ones included (see ``RegionProcess.counts``).

    Only as many slots as are in use should be handed over; what lies behind them is left over.
    """
    layout, count = found.layout, len(found.uuids)
    used, measured, utilization = _used(layout, count), Struct(f"<{count}Q"), _utilization(layout, count)
    nothing = (None,) * count
    read: list[RegionProcess] = []
    for at in range(0, len(data) - layout.slot_size + 1, layout.slot_size):
        pid, hostpid = _PIDS.unpack_from(data, at)
        parts = iter(used.unpack_from(data, at + layout.used))
        driver = measured.unpack_from(data, at + layout.measured)
        shares = utilization.unpack_from(data, at + (layout.utilization or 0)) if utilization else nothing
        (status,) = _SIGNED.unpack_from(data, at + layout.status)
        lock = None if layout.seqlock is None else _NUMBER.unpack_from(data, at + layout.seqlock)[0]
        devices = tuple(map(DeviceUse, parts, parts, parts, parts, parts, driver, shares))
        read.append(RegionProcess(pid, hostpid, status, lock, devices))
    return tuple(read)


def unsettled(layout: RegionLayout, before: bytes, after: bytes) -> frozenset[int]:
    """The slots, by their place, whose booked memory was being written while ``after`` was read.

    ``before`` are the same slots, read just before: numbers and lock have to be the same twice, and the lock even. A
    lock may stay odd for ever (its writer was killed), so this must not be waited for.
    """
    if layout.seqlock is None:
        return frozenset()
    found: set[int] = set()
    same = before == after
    for place in range(len(after) // layout.slot_size):
        at = place * layout.slot_size
        lock, start, end = at + layout.seqlock, at + layout.used, at + layout.measured
        if after[lock] & 1 or (
            not same and (before[start:end] != after[start:end] or before[lock : lock + 8] != after[lock : lock + 8])
        ):
            found.add(place)
    return frozenset(found)


def busiest(first: Sequence[RegionProcess], second: Sequence[RegionProcess]) -> tuple[RegionProcess, ...]:
    """``first`` with each device's utilisation as the higher of two reads.

    A watcher sets all of them to 0 before it asks the driver, so that a single 0 may be that gap.
    """
    again = {(process.pid, process.hostpid): process for process in second}
    return tuple(_busier(process, again.get((process.pid, process.hostpid))) for process in first)


def _busier(process: RegionProcess, again: RegionProcess | None) -> RegionProcess:
    if again is None or process.devices == again.devices:
        return process
    devices = tuple(
        one if one.utilization is None or other.utilization is None or one.utilization >= other.utilization
        else one._replace(utilization=other.utilization)
        for one, other in zip(process.devices, again.devices, strict=False)
    )  # fmt: skip
    return process._replace(devices=devices)


def _uuid(text: bytes) -> str | None:
    name = text.partition(b"\0")[0]
    return name.decode() if _UUID.fullmatch(name) else None


def _amounts(head: bytes, at: int) -> tuple[int, ...]:
    """One number for each device."""
    return _AMOUNTS.unpack_from(head, at)


def _used(layout: RegionLayout, count: int) -> Struct:
    """The parts of the memory on ``count`` devices, without what is unused."""
    return Struct("<" + f"5Q{layout.used_size - 40}x" * count)


def _utilization(layout: RegionLayout, count: int) -> Struct | None:
    """``sm_util`` of ``count`` devices: the third word of each element."""
    size = layout.utilization_size
    return Struct("<" + f"16xQ{size - 24}x" * count) if size else None
