"""One pass over a node: regions, processes and pods together, and the metrics about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.integration.volcano_vgpu.monitor.trees import OTHER, UID, WHOSE, host, process, put
from tests.shared_regions import GIB, LAST_KERNEL, Booked, Made, Slot, uuid
from volcano_vgpu.core.monitor.join import Known
from volcano_vgpu.monitor import metrics as usage_metrics
from volcano_vgpu.monitor.files import RegionFiles
from volcano_vgpu.monitor.processes import HostProcesses
from volcano_vgpu.monitor.scrape import LOOKS_AT_SILENCE, PAUSE_SECONDS, Scrape, Scraper

POD = {"metadata": {"namespace": "ml", "name": "p", "uid": UID}, "status": {"phase": "Running"}}
ALLOCATIONS = {
    (PodUid(UID), "main"): (AssignedDevice(DeviceId(uuid(1)), "NVIDIA", MiB(20 * 1024), CoreShare(50)),),
    (PodUid(UID), "idle"): (AssignedDevice(DeviceId(uuid(1)), "NVIDIA", MiB(1024), CoreShare(0)),),
}
BUSY = Slot(pid=7, hostpid=4007, booked=[Booked(data=2 * GIB, context=GIB, utilization=40)])


class Looking:
    """A node: directories, processes, pods; ``pauses`` is how long a look waited, ``then`` what happens meanwhile."""

    def __init__(self, root: Path) -> None:
        self.regions = root / "containers"
        self.proc = root / "proc"
        self.known = Known(pods=(POD,), allocations=ALLOCATIONS)
        self.pauses: list[float] = []
        self.then: Callable[[], object] = object
        self.scraper = Scraper(
            RegionFiles([self.regions]),
            HostProcesses(self.proc),
            lambda: self.known,
            clock=lambda: LAST_KERNEL + 90.0,
            pause=self._pause,
        )

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.then()

    def scrape(self) -> Scrape:
        return self.scraper.scrape()

    def exposed(self) -> Mapping[str, float]:
        """Every sample by its name with labels, as a scraper reads them."""
        metrics = Metrics("volcano_vgpu")
        usage_metrics.read_from(metrics, self.scraper.scrape)
        lines = [line for line in metrics.text()[0].decode().splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.fixture
def node(tmp_path: Path) -> Looking:
    return Looking(tmp_path)


def test_a_killed_process_does_not_count_where_the_host_is_seen_and_is_doubted_elsewhere(node: Looking) -> None:
    killed = Slot(pid=8, hostpid=4008, booked=[Booked(data=5 * GIB, utilization=30)])
    put(node.regions, Made(slots=[BUSY, killed]))
    used = next(each for each in node.scrape().containers if each.container == "main")
    assert (used.processes, used.unconfirmed, used.gone) == (2, 2, 0)
    host(node.proc)
    process(node.proc, 4007, 7)
    used = next(each for each in node.scrape().containers if each.container == "main")
    assert (used.processes, used.unconfirmed, used.gone) == (1, 0, 1)
    assert used.cards[0].used is not None
    assert used.cards[0].used.total == 3 * GIB


def test_a_process_that_seems_idle_is_looked_at_again_for_that_may_be_the_gap(node: Looking) -> None:
    put(node.regions, Made(slots=[Slot(booked=[Booked(utilization=0)])]))
    node.then = lambda: put(node.regions, Made(slots=[Slot(booked=[Booked(utilization=55)])]))
    used = next(each for each in node.scrape().containers if each.container == "main")
    assert used.cards[0].utilization == 0.55
    assert node.pauses == [PAUSE_SECONDS]


def test_who_stays_idle_is_idle(node: Looking) -> None:
    put(node.regions, Made(slots=[Slot()]))
    used = next(each for each in node.scrape().containers if each.container == "main")
    assert used.cards[0].utilization == 0
    assert node.pauses == [PAUSE_SECONDS] * LOOKS_AT_SILENCE


def test_a_region_that_goes_between_two_looks_stays_as_it_was(node: Looking) -> None:
    path = put(node.regions, Made(slots=[Slot(booked=[Booked(data=7)])]))
    node.then = lambda: path.unlink(missing_ok=True)
    used = next(each for each in node.scrape().containers if each.container == "main")
    assert used.cards[0].used is not None
    assert used.cards[0].used.total == 7


def test_metrics_are_bytes_seconds_and_ratios_with_the_containers_names(node: Looking) -> None:
    put(node.regions, Made(slots=[BUSY]))
    host(node.proc)
    process(node.proc, 4007, 7)
    found = node.exposed()
    whose = 'container="main",namespace="ml",pod="p"'
    card = f'{whose},uuid="{uuid(1)}"'
    kinds = {
        kind: found[
            f'volcano_vgpu_container_memory_used_bytes{{container="main",kind="{kind}",{card.partition(",")[2]}}}'
        ]
        for kind in ("context", "module", "data", "other")
    }
    assert kinds == {"context": GIB, "module": 0, "data": 2 * GIB, "other": 0}
    assert found[f"volcano_vgpu_container_memory_limit_bytes{{{card}}}"] == 3 * GIB
    assert found[f"volcano_vgpu_container_utilization_ratio{{{card}}}"] == 0.4
    assert found[f"volcano_vgpu_container_last_kernel_age_seconds{{{whose}}}"] == 90
    assert found[f'volcano_vgpu_container_processes{{{whose},state="running"}}'] == 1
    assert found['volcano_vgpu_region_files{state="read"}'] == 1
    assert found["volcano_vgpu_usage_scrape_seconds"] > 0
    assert not [name for name in found if "doubtful" in name or 'container="idle"' in name]


def test_doubts_are_told_by_name(node: Looking) -> None:
    put(node.regions, Made(slots=[BUSY]))
    found = node.exposed()
    whose = 'container="main",doubt="may-be-stale",namespace="ml",pod="p"'
    assert found[f"volcano_vgpu_container_usage_doubtful{{{whose}}}"] == 1
    assert found['volcano_vgpu_container_processes{container="main",namespace="ml",pod="p",state="unconfirmed"}'] == 1


def test_files_that_cannot_be_read_are_counted_by_reason_and_take_no_other_away(node: Looking) -> None:
    put(node.regions, Made(slots=[BUSY]))
    put(node.regions, None, whose=f"{OTHER}_a").write_bytes(b"\x01" * 100)
    put(node.regions, Made(counts={"proc_num": 70000}), whose=f"{OTHER}_b")
    put(node.regions, Made(uuids=()), whose=f"{OTHER}_c")
    put(node.regions, None, whose=f"{OTHER}_d")
    found = node.exposed()
    refused = {name: value for name, value in found.items() if "unreadable" in name and value and "reason" in name}
    assert refused == {
        'volcano_vgpu_region_files_unreadable{reason="magic"}': 1,
        'volcano_vgpu_region_files_unreadable{reason="counts"}': 1,
    }
    states = {name[name.index('"') + 1 : -2]: value for name, value in found.items() if "region_files{" in name}
    assert states == {"read": 1, "not-ready": 1, "no-file": 1, "unreadable": 2}


def test_no_bytes_of_a_container_become_a_label(node: Looking) -> None:
    put(node.regions, Made(uuids=(b"\x80\xff", b"G" * 96, uuid(2)), slots=[Slot(booked=[Booked(data=1)] * 3)]))
    found = node.exposed()
    assert {name.partition("uuid=")[2] for name in found if "uuid=" in name} == {f'"{uuid(2)}"}}'}


def test_only_cards_of_the_node_become_labels_and_other_names_are_counted(node: Looking) -> None:
    node.known = Known(pods=(POD,), allocations=ALLOCATIONS, cards=frozenset(map(DeviceId, (uuid(1), uuid(2)))))
    series: set[int] = set()
    for at in range(10, 70, 3):
        put(node.regions, Made(uuids=(uuid(1), uuid(2), *map(uuid, range(at, at + 3))), slots=[BUSY]))
        found = node.exposed()
        series.add(len(found))
        assert {name.rpartition("uuid=")[2] for name in found if "uuid=" in name} == {
            f'"{uuid(1)}"}}',
            f'"{uuid(2)}"}}',
        }
        assert found["volcano_vgpu_region_foreign_cards"] == 3
        assert [name for name in found if 'doubt="unnamed-cards"' in name]
    assert len(series) == 1


def test_without_a_name_of_another_card_none_is_counted(node: Looking) -> None:
    node.known = Known(pods=(POD,), allocations=ALLOCATIONS, cards=frozenset({DeviceId(uuid(1))}))
    put(node.regions, Made(slots=[BUSY]))
    found = node.exposed()
    assert found["volcano_vgpu_region_foreign_cards"] == 0
    assert not [name for name in found if "unnamed-cards" in name]


def test_a_pod_that_nobody_knows_is_told_by_its_uid_while_it_has_processes(node: Looking) -> None:
    node.known = Known()
    put(node.regions, Made(slots=[BUSY]))
    put(node.regions, Made(slots=[Slot(status=0)]), whose=f"{OTHER}_main")
    found = node.exposed()
    shown = {name for name in found if "container_utilization_ratio" in name}
    card = f'container="main",namespace="",pod="{UID}",uuid="{uuid(1)}"'
    assert shown == {f"volcano_vgpu_container_utilization_ratio{{{card}}}"}
    assert {each.pod_uid for each in node.scrape().containers} == {UID, OTHER}


def test_a_layout_that_does_not_tell_of_kernels_and_utilisation_has_no_such_sample(node: Looking) -> None:
    put(node.regions, Made(layout="v0-early", slots=[BUSY], limits=(0,)))
    found = node.exposed()
    assert not [name for name in found if "last_kernel" in name or "utilization" in name or "limit" in name]
    assert [name for name in found if "memory_used" in name]


def test_a_look_that_fails_takes_no_other_metric_away(node: Looking) -> None:
    def fails() -> Any:
        raise RuntimeError("broken")

    metrics = Metrics("volcano_vgpu")
    metrics.gauge("other", "Something else").set(1)
    usage_metrics.read_from(metrics, fails)
    with capture_logs() as logs:
        text = metrics.text()[0].decode()
    assert "volcano_vgpu_other 1.0" in text
    assert [each["event"] for each in logs] == ["usage_not_read"]


def test_the_directory_names_the_container(node: Looking) -> None:
    put(node.regions, Made(slots=[BUSY]), whose=f"{UID}_a-b")
    assert {each.container for each in node.scrape().containers} == {"a-b", "main", "idle"}
    assert WHOSE.endswith("_main")
