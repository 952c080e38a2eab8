"""What a look at the regions of a node costs: 100 containers with 8 processes each, on two cards."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.bench.measuring import Figure, figure
from tests.shared_regions import GIB, Booked, Made, Slot, uuid
from volcano_vgpu.core.edits import cache_name
from volcano_vgpu.core.monitor.join import Known
from volcano_vgpu.monitor import metrics as usage_metrics
from volcano_vgpu.monitor.files import RegionFiles
from volcano_vgpu.monitor.processes import HostProcesses
from volcano_vgpu.monitor.scrape import Scraper
from volcano_vgpu.monitor.writer import FeedbackWriter, WriterLock

_CONTAINERS = 100
_PROCESSES = 8
_CARDS = (uuid(1), uuid(2))


def figures(repeats: int = 30) -> Iterator[Figure]:
    """CPU time of one scrape, text for Prometheus included, and of one step of the feedback loop."""
    with tempfile.TemporaryDirectory(prefix="vg") as root:
        for name, share in (("busy", 40), ("idle, so read three times", 0)):
            scraper = _node(Path(root) / name[:4], share)
            metrics = Metrics("volcano_vgpu")
            usage_metrics.read_from(metrics, scraper.scrape)
            found = scraper.scrape().containers
            if sum(each.processes for each in found) != _CONTAINERS * _PROCESSES:
                raise RuntimeError("not every process was counted")
            title = f"regions of {_CONTAINERS} containers x {_PROCESSES} processes, {name}, CPU time of a scrape"
            yield figure(title, _spent(metrics.text, repeats), at_most=100)
        containers = Path(root) / "busy" / "containers"
        writer = FeedbackWriter(RegionFiles([containers]), WriterLock(Path(root) / "lock"), tuple)
        yield figure("feedback for the same containers, CPU time of a step", _spent(writer.step, repeats))
        writer.let_go()


def _spent(action: Callable[[], object], repeats: int) -> list[float]:
    """CPU milliseconds of each call, the kernel's part included."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        found.append((time.process_time() - start) * 1000)
    return found


def _node(root: Path, share: int) -> Scraper:
    """Containers whose processes compute for that share of the time, as HAMi-core 1.2 and the kernel show them."""
    proc = root / "proc"
    _process(proc, 2, 2, "")
    (proc / "2" / "comm").write_text("kthreadd\n")
    pods, allocations = [], {}
    for number in range(_CONTAINERS):
        uid = str(UUID(int=number + 1))
        pods.append({"metadata": {"namespace": "ml", "name": f"p{number}", "uid": uid}, "status": {"phase": "Running"}})
        allocations[PodUid(uid), "main"] = tuple(
            AssignedDevice(DeviceId(card), "NVIDIA", MiB(20 * 1024), CoreShare(50)) for card in _CARDS
        )
        hosts = range(10_000 + number * _PROCESSES, 10_000 + (number + 1) * _PROCESSES)
        booked = [Booked(data=GIB, context=GIB // 4, utilization=share)] * len(_CARDS)
        slots = [Slot(pid=at + 1, hostpid=host, seqlock=2, booked=booked) for at, host in enumerate(hosts)]
        folder = root / "containers" / f"{uid}_main"
        folder.mkdir(parents=True)
        Made(uuids=_CARDS, slots=slots).write(folder / cache_name(folder.name))
        for at, host in enumerate(hosts):
            _process(proc, host, at + 1, uid)
    known = Known(pods=tuple(pods), allocations=allocations, sizes={DeviceId(card): 80 * GIB for card in _CARDS})
    return Scraper(RegionFiles([root / "containers"]), HostProcesses(proc), lambda: known)


def _process(proc: Path, hostpid: int, inner: int, pod: str) -> None:
    folder = proc / str(hostpid)
    folder.mkdir(parents=True)
    lines = [f"Name:\tpython\nState:\tS (sleeping)\nPid:\t{hostpid}\n", f"NSpid:\t{hostpid}\t{inner}\n"]
    (folder / "status").write_text("".join(lines) + "VmRSS:\t1 kB\n" * 40)
    (folder / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{pod.replace('-', '_')}.slice/cri-1.scope\n")
