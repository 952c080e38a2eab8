"""The checks, in their order; each says what it expected and what it measured."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.wire import resizes
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.hardware import rows
from tests.hardware.machine import Slice, listed, running
from tests.hardware.rows import OUT_OF_MEMORY, Card, CheckRow
from volcano_vgpu.core.health import XidFilter
from volcano_vgpu.core.monitor.regions import Region
from volcano_vgpu.discovery.nvml import NvmlDiscovery
from volcano_vgpu.monitor.files import RegionFiles, read
from volcano_vgpu.monitor.resizer import SliceResizer

LIMIT: Final = 4096
HALF: Final = 2048
CORES: Final = 30
BURN_SECONDS: Final = 10
CONTEXT: Final = 1024
"""MiB that a CUDA context may take."""

Check = Callable[[Path, Path], Iterator[CheckRow]]
"""A check of a library, with a folder for regions."""


def discovery(_library: Path, _root: Path) -> Iterator[CheckRow]:
    """Our discovery against ``nvidia-smi``."""
    found = NvmlDiscovery(counts=XidFilter(), recovery=60.0)
    found.open()
    try:
        ours = [Card(each.index, each.uuid, each.model, each.memory) for each in found.inventory().cards]
    finally:
        found.close()
    yield rows.discovered(ours, listed())


def memory_limit(library: Path, root: Path) -> Iterator[CheckRow]:
    """A slice of 4 GiB: what the program and ``nvidia-smi`` see, and that more than it is refused."""
    held = Slice(library, root, "limit", memory=LIMIT)
    with running(held.env) as program:
        yield rows.equal("total memory in the program", LIMIT, program.call("info")[2])
        yield rows.code("2 of 4 GiB are allocated", 0, program.call("allocate", HALF)[0])
        yield rows.code("4 more GiB are refused", OUT_OF_MEMORY, program.call("allocate", LIMIT)[0])
        shown = listed(held.env)
        yield rows.equal("nvidia-smi shows the slice", LIMIT, shown[0].memory if shown else None)
        content = read(held.directory)
        region = content if isinstance(content, Region) else None
        layout = "unreadable" if region is None else region.header.layout.name
        yield CheckRow("layout of the region", "a known one", layout, region is not None)
        limit = None if region is None else region.header.memory_limits[0] >> 20
        yield rows.equal("limit in the region", LIMIT, limit)
        booked = (
            None if region is None else sum(each.devices[0].total for each in region.processes if each.counts) >> 20
        )
        yield rows.equal("booked memory as the monitor reads it", HALF + CONTEXT // 2, booked, within=CONTEXT // 2)


def core_limit(library: Path, root: Path) -> Iterator[CheckRow]:
    """How many kernels end in ten seconds with 30 per cent of the cores, of those without a limit."""
    counts = []
    for cores in (0, CORES):
        held = Slice(library, root, f"cores-{cores}", memory=LIMIT, cores=cores)
        with running(held.env) as program:
            program.call("allocate", 64)
            program.call("burn", 2)
            code, count = program.call("burn", BURN_SECONDS)
            counts.append(count)
            if code:
                yield rows.code(f"kernels with {cores or 100} % of the cores", 0, code)
    yield rows.share("kernels with 30 % of the cores", counts[1], counts[0], percent=CORES)


def two_programs(library: Path, root: Path) -> Iterator[CheckRow]:
    """Two slices of one card at once: each has its own limit."""
    one, other = (Slice(library, root, name, memory=size) for name, size in (("one", HALF), ("other", LIMIT)))
    with running(one.env) as small, running(other.env) as large:
        yield rows.equal("total memory in the first of two", HALF, small.call("info")[2])
        yield rows.equal("total memory in the second", LIMIT, large.call("info")[2])
        yield rows.code("3 GiB in the first are refused", OUT_OF_MEMORY, small.call("allocate", 3072)[0])
        yield rows.code("3 GiB in the second are allocated", 0, large.call("allocate", 3072)[0])
        yield rows.code("1 GiB in the first is still allocated", 0, small.call("allocate", 1024)[0])


def resize(library: Path, root: Path) -> Iterator[CheckRow]:
    """A slice grows and shrinks while its program runs; the agent's own code writes the region."""
    folder = root / "resize"
    held = Slice(library, folder, "pod", memory=HALF)
    card = listed()[0]
    with running(held.env) as program:
        yield rows.code("1 of 2 GiB is allocated", 0, program.call("allocate", 1024)[0])
        yield rows.code("2 more are refused", OUT_OF_MEMORY, program.call("allocate", HALF)[0])
        agent = PodOfOne(folder, card, given=HALF)
        agent.ask(LIMIT, booked=LIMIT)
        yield rows.equal("total memory after it has grown", LIMIT, program.call("info")[2])
        yield rows.code("2 more are allocated now", 0, program.call("allocate", HALF)[0])
        agent.ask(1024, booked=LIMIT)
        refused = agent.annotations.get(resizes.REFUSED_KEY, "not refused")
        yield CheckRow("less than is used is refused", "... in use now", refused[-60:], "in use now" in refused)
        program.call("free")
        agent.ask(HALF, booked=LIMIT)
        yield rows.equal("total memory after it has shrunk", HALF, program.call("info")[2])
        yield rows.code("2 more are refused again", OUT_OF_MEMORY, program.call("allocate", HALF)[0])


CHECKS: Final[tuple[Check, ...]] = (discovery, memory_limit, core_limit, two_programs, resize)


class PodOfOne:
    """The part of the agent that resizes, with one pod and no API server."""

    def __init__(self, folder: Path, card: Card, *, given: int) -> None:
        self.annotations: dict[str, str] = {}
        device = AssignedDevice(DeviceId(card.uuid), "NVIDIA", MiB(given), CoreShare(0))
        self._resizer = SliceResizer(
            self,
            RegionFiles([folder]),
            pods=lambda: [{"metadata": {"uid": "pod", "annotations": copy.copy(self.annotations)}}],
            allocations=lambda: {(PodUid("pod"), "main"): (device,)},
            factor=1,
        )

    def merge_patch(self, _path: str, body: Any) -> Any:
        """Keeps what is written on the pod."""
        self.annotations |= body["metadata"]["annotations"]
        return body

    def ask(self, memory: int, *, booked: int) -> None:
        """Asks, with what the allocator would have booked, and looks as often as the agent would in half a minute."""
        self.annotations |= {
            resizes.ASKED_KEY: f"main={memory} {time.monotonic()}",
            resizes.BOOKED_KEY: f"main={booked}",
        }
        for _ in range(6):
            self._resizer.look()
