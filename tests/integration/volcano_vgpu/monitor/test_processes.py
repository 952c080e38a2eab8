"""Whether a process exists, by the host's kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hami_plugins.model.units import PodUid
from tests.integration.volcano_vgpu.monitor.trees import OTHER, UID, host, process
from volcano_vgpu.core.monitor.regions import Presence
from volcano_vgpu.monitor.processes import HostProcesses


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return host(tmp_path / "proc")


def presence(proc: Path, hostpid: int = 4007, pid: int = 7) -> Presence:
    return HostProcesses(proc).presence(hostpid, pid, PodUid(UID))


def test_a_process_of_the_pod_with_that_number_inside_is_there(proc: Path) -> None:
    process(proc, 4007, 7)
    assert presence(proc) is Presence.RUNNING


def test_a_process_that_was_killed_is_gone(proc: Path) -> None:
    assert presence(proc) is Presence.GONE


def test_a_process_that_nobody_has_reaped_is_gone(proc: Path) -> None:
    process(proc, 4007, 7, state="Z")
    assert presence(proc) is Presence.GONE


def test_a_number_that_another_process_has_by_now_is_gone(proc: Path) -> None:
    process(proc, 4007, 8)
    assert presence(proc) is Presence.GONE


def test_a_number_that_a_process_of_another_pod_has_by_now_is_gone(proc: Path) -> None:
    process(proc, 4007, 7, pod=OTHER)
    assert presence(proc) is Presence.GONE


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods/burstable/pod{UID}/abc\n",
        f"12:memory:/kubepods/pod{UID}/abc\n0::/\n",
        f"0::/../../kubepods-pod{UID.replace('-', '_')}.slice/cri-o-1.scope\n",
        "0::/\n",
    ],
)
def test_every_way_to_write_the_pods_group_is_understood_and_none_says_nothing(proc: Path, cgroup: str) -> None:
    process(proc, 4007, 7, cgroup=cgroup)
    assert presence(proc) is Presence.RUNNING


def test_a_process_without_a_group_or_an_inner_number_is_taken_as_it_is(proc: Path) -> None:
    (proc / "4007").mkdir()
    (proc / "4007" / "status").write_text("Name:\tx\nState:\tR (running)\n")
    assert presence(proc) is Presence.RUNNING


@pytest.mark.parametrize("hostpid", [0, -1])
def test_a_process_whose_number_was_never_found_is_not_known(proc: Path, hostpid: int) -> None:
    assert presence(proc, hostpid) is Presence.UNKNOWN


def test_a_process_that_may_not_be_looked_at_is_not_known(proc: Path) -> None:
    (proc / "4007" / "status").mkdir(parents=True)
    assert presence(proc) is Presence.UNKNOWN


def test_processes_are_the_hosts_where_the_kernels_own_is_among_them(proc: Path, tmp_path: Path) -> None:
    assert HostProcesses(proc).visible()
    (proc / "2" / "comm").write_text("bash\n")
    assert not HostProcesses(proc).visible()
    assert not HostProcesses(tmp_path / "none").visible()


def test_a_real_process_is_known_by_its_number(tmp_path: Path) -> None:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    inner = next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
    found = HostProcesses(Path("/proc"))
    assert found.presence(os.getpid(), int(inner), PodUid("x")) in (Presence.RUNNING, Presence.GONE)
    assert found.presence(os.getpid(), int(inner) + 1, PodUid("x")) is Presence.GONE
