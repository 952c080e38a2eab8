"""Regions of HAMi-core as a library leaves them: from the tables of HAMi-core
``src/multiprocess/multiprocess_memory_limit.h``, not from our reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

MAGIC: Final = 19920718
GIB: Final = 1 << 30
LAST_KERNEL: Final = 1_780_000_000

_V1 = {
    "major": 4, "sm_init_flag": 12, "owner_pid": 16, "sem": 24, "device_num": 56, "uuids": 64, "limit": 1600,
    "sm_limit": 1728, "procs": 1856, "slot": 1960, "used": 8, "used_size": 64, "monitorused": 1032, "device_util": 1160,
    "util_size": 48, "status": 1928, "proc_num": 2008896, "last_kernel_time": 2008912, "size": 2008952,
}  # fmt: skip
_V0 = {
    "sm_init_flag": 4, "owner_pid": 8, "sem": 16, "device_num": 48, "uuids": 56, "limit": 1592, "sm_limit": 1720,
    "procs": 1848, "slot": 1168, "used": 8, "used_size": 40, "monitorused": 648, "device_util": 776, "util_size": 24,
    "status": 1160, "proc_num": 1197880, "size": 1197896,
}  # fmt: skip
_NEVER = ("device_util", "util_size")

OFFSETS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "v0-early": {key: at for key, at in _V0.items() if key not in _NEVER}
        | {"slot": 784, "status": 776, "proc_num": 804664, "size": 804680},
        "v0": _V0,
        "v1.1": _V1,
        "v1.1-interim": _V1
        | {
            "sem_postinit": 56, "device_num": 88, "uuids": 96, "limit": 1632, "sm_limit": 1760, "procs": 1888,
            "seqlock": 8, "used": 16, "monitorused": 1040, "device_util": 1168, "status": 1936, "proc_num": 2008928,
            "last_kernel_time": 2008944, "size": 2008984,
        },
        "v1.2": _V1 | {"sem_postinit": 2008920, "seqlock": 1936},
    }
)  # fmt: skip
"""Where each field is, by layout (HAMi-core ``multiprocess_memory_limit.h``)."""

VERSIONS: Final = MappingProxyType({"v1.1": (1, 1), "v1.1-interim": (1, 1), "v1.2": (1, 2)})


def uuid(number: int) -> str:
    """The UUID of a card as NVIDIA writes them."""
    return f"GPU-{number:08x}-5bb1-4c3e-9d2a-{number:012x}"


@dataclass(frozen=True)
class Booked:
    """What a process books on one device; bytes, utilisation 0-100."""

    data: int = 0
    context: int = 0
    module: int = 0
    utilization: int = 0
    total: int | None = None
    measured: int = 0

    @property
    def words(self) -> tuple[int, ...]:
        """As they lie in the file."""
        whole = self.context + self.module + self.data if self.total is None else self.total
        return self.context, self.module, self.data, 0, whole


@dataclass(frozen=True)
class Slot:
    """A process."""

    pid: int = 7
    hostpid: int = 4007
    status: int = 1
    seqlock: int = 0
    booked: Sequence[Booked] = (Booked(),)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A region to be made."""

    layout: str = "v1.2"
    uuids: Sequence[str | bytes] = (uuid(1),)
    limits: Sequence[int] = (3 * GIB,)
    core_limits: Sequence[int] = (30,)
    slots: Sequence[Slot] = (Slot(),)
    switch: int = 1
    recent: int = 2
    priority: int = 1
    last_kernel: int = LAST_KERNEL
    counts: Mapping[str, int] = field(default_factory=dict)
    """``device_num`` or ``proc_num``, where they are to be something else than what is there."""

    def data(self) -> bytearray:
        """The whole file."""
        at = OFFSETS[self.layout]
        made = bytearray(at["size"] + 1)
        struct.pack_into("<i", made, 0, MAGIC)
        if self.layout in VERSIONS:
            struct.pack_into("<2I", made, at["major"], *VERSIONS[self.layout])
        for name in ("sem", "sem_postinit"):
            if name in at:
                struct.pack_into("<Qi", made, at[name], 1, 128)
        struct.pack_into("<Q", made, at["device_num"], self.counts.get("device_num", len(self.uuids)))
        for place, card in enumerate(self.uuids):
            text = card.encode() if isinstance(card, str) else card
            made[at["uuids"] + 96 * place : at["uuids"] + 96 * place + len(text)] = text
        struct.pack_into("<16Q", made, at["limit"], *_filled(self.limits))
        struct.pack_into("<16Q", made, at["sm_limit"], *_filled(self.core_limits))
        for place, slot in enumerate(self.slots):
            self._put(made, at, at["procs"] + place * at["slot"], slot)
        count = self.counts.get("proc_num", len(self.slots))
        struct.pack_into("<4i", made, at["proc_num"], count, self.switch, self.recent, self.priority)
        if "last_kernel_time" in at:
            struct.pack_into("<Q", made, at["last_kernel_time"], self.last_kernel)
        return made

    @staticmethod
    def _put(made: bytearray, at: Mapping[str, int], start: int, slot: Slot) -> None:
        struct.pack_into("<2i", made, start, slot.pid, slot.hostpid)
        struct.pack_into("<i", made, start + at["status"], slot.status)
        if "seqlock" in at:
            struct.pack_into("<Q", made, start + at["seqlock"], slot.seqlock)
        for place, booked in enumerate(slot.booked):
            struct.pack_into("<5Q", made, start + at["used"] + place * at["used_size"], *booked.words)
            struct.pack_into("<Q", made, start + at["monitorused"] + 8 * place, booked.measured)
            if "device_util" in at:
                struct.pack_into(
                    "<Q", made, start + at["device_util"] + place * at["util_size"] + 16, booked.utilization
                )

    def write(self, path: Path) -> Path:
        """The file, as sparse as the library leaves it."""
        whole, at = self.data(), OFFSETS[self.layout]
        with path.open("wb") as file:
            file.write(whole[: at["procs"] + max(len(self.slots), 1) * at["slot"]])
            file.seek(at["proc_num"])
            file.write(whole[at["proc_num"] :])
        return path


def _filled(values: Sequence[int]) -> tuple[int, ...]:
    """One for each of 16 devices; the last one is that of all others."""
    return (*values, *[values[-1]] * (16 - len(values)))
