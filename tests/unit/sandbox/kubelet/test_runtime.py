"""The container runtime: CDI, what it refuses, and how containers end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.sandbox.kubelet import specs
from hami_plugins.sandbox.kubelet.cdi import Cdi, CdiError, CdiMount, Edits
from hami_plugins.sandbox.kubelet.devices import Counts
from hami_plugins.sandbox.kubelet.nodes import status_changes
from hami_plugins.sandbox.kubelet.pod_resources import Limiter, Rate
from hami_plugins.sandbox.kubelet.runtime import Configuration, CreationError, Runtime
from hami_plugins.sandbox.kubelet.specs import PodSpec

KIND = "example.com/slot"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_pod(command: list[str] | None = None) -> PodSpec:
    spec = {"containers": [{"name": "c", "command": command or []}]}
    return specs.read({"metadata": {"uid": "u", "name": "p", "namespace": "ns"}, "spec": spec})


def write(directory: Path, file: str, devices: dict[str, Any], common: dict[str, Any] | None = None) -> None:
    listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": listed, "containerEdits": common or {}}
    (directory / file).write_text(json.dumps(spec))


def test_edits_of_a_file_come_once_and_before_those_of_its_devices(tmp_path: Path) -> None:
    write(tmp_path, "a.json", {"one": {"env": ["A=1"]}, "two": {"env": ["A=2", "B=x=y"]}}, {"env": ["C=3"]})
    found = Cdi(tmp_path).resolve([f"{KIND}=one", f"{KIND}=two"])
    assert found.env == (("C", "3"), ("A", "1"), ("A", "2"), ("B", "x=y"))


def test_device_nodes_and_mounts_are_read(tmp_path: Path) -> None:
    mount = {"hostPath": "/h", "containerPath": "/c", "options": ["ro", "bind"]}
    write(tmp_path, "a.json", {"one": {"deviceNodes": [{"path": "/dev/x"}], "mounts": [mount]}})
    found = Cdi(tmp_path).resolve([f"{KIND}=one"])
    assert found == Edits(mounts=(CdiMount("/h", "/c", read_only=True),), devices=(("/dev/x", "/dev/x"),))


def test_yaml_is_read_and_a_broken_or_unfinished_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: example.com/slot\ndevices: [{name: one, containerEdits: {env: [A=1]}}]\n")
    (tmp_path / "b.json").write_text('{"kind": ')
    write(tmp_path, "c.json.tmp", {"one": {}})
    assert Cdi(tmp_path).resolve([f"{KIND}=one"]).env == (("A", "1"),)


def test_all_names_that_mean_nothing_are_named(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=r"^CDI device injection failed: unresolvable CDI devices x, y$"):
        Cdi(tmp_path / "missing").resolve(["x", "y"])


def test_a_name_that_two_files_give_means_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.json", {"one": {}})
    write(tmp_path, "b.json", {"one": {}, "two": {}})
    assert Cdi(tmp_path).resolve([f"{KIND}=two"]) == Edits()
    with pytest.raises(CdiError, match="unresolvable"):
        Cdi(tmp_path).resolve([f"{KIND}=one"])


def test_a_path_that_cdi_mounts_has_to_be_there(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, "a.json", {"one": {"mounts": [{"hostPath": str(tmp_path / "no"), "containerPath": "/c"}]}})
    runtime, pod = Runtime(tmp_path, clock=clock), a_pod()
    made = runtime.create(pod, pod.containers[0], Configuration(edits=Edits(), cdi=(f"{KIND}=one",)))
    with pytest.raises(CreationError, match=r'error mounting ".*/no" to rootfs at "/c"') as found:
        runtime.start(made)
    assert found.value.reason == "RunContainerError"
    assert runtime.newest("u", "c") is None


def test_a_path_that_the_kubelet_mounts_is_made(tmp_path: Path, clock: Clock) -> None:
    runtime, pod = Runtime(tmp_path, clock=clock), a_pod()
    wanted = Configuration(edits=Edits(mounts=(CdiMount(str(tmp_path / "new"), "/c", made=True),)))
    runtime.start(runtime.create(pod, pod.containers[0], wanted))
    assert (tmp_path / "new").is_dir()


def test_a_device_node_that_is_missing_stops_the_creation(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path, "a.json", {"one": {"deviceNodes": [{"path": "/dev/nvidia0"}]}})
    runtime, pod = Runtime(tmp_path, clock=clock, device_exists=lambda path: False), a_pod()
    with pytest.raises(CreationError, match=r'failed to stat CDI host device "/dev/nvidia0"'):
        runtime.create(pod, pod.containers[0], Configuration(edits=Edits(), cdi=(f"{KIND}=one",)))


def test_a_container_ends_by_itself_when_its_time_is_up(tmp_path: Path, clock: Clock) -> None:
    runtime, pod = Runtime(tmp_path, clock=clock), a_pod(["sh", "-c", "sleep 5; exit 3"])
    runtime.start(runtime.create(pod, pod.containers[0], Configuration(edits=Edits())))
    clock.now += 4
    newest = runtime.newest("u", "c")
    assert newest is not None
    assert newest.running
    clock.now += 10
    newest = runtime.newest("u", "c")
    assert newest is not None
    assert (newest.ended, newest.exit_code) == (1005.0, 3)
    assert not runtime.finish("u", "c", 0)


def test_starts_are_counted_and_kept_until_the_pod_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    runtime, pod = Runtime(tmp_path, clock=clock), a_pod(["false"])
    for _ in range(3):
        runtime.start(runtime.create(pod, pod.containers[0], Configuration(edits=Edits())))
    assert [container.attempt for container in runtime.history("u", "c")] == [0, 1, 2]
    runtime.forget("u")
    assert runtime.history("u", "c") == ()


def test_a_limit_lets_a_burst_through_and_then_its_rate(clock: Clock) -> None:
    limiter = Limiter(Rate(per_second=10, burst=3), clock)
    assert [limiter.allow() for _ in range(5)] == [True, True, True, False, False]
    clock.now += 0.2
    assert [limiter.allow() for _ in range(3)] == [True, True, False]


def test_nothing_is_patched_where_the_status_is_right() -> None:
    right = {"cpu": "16", "example.com/slot": "4"}
    assert status_changes(right, right, {"example.com/slot": Counts(4, 4)}) == {}


def test_devices_decide_their_own_resource_and_capacity_everything_else() -> None:
    capacity = {"cpu": "16", "example.com/slot": "4", "example.com/memory": "320k"}
    allocatable = {"cpu": "16", "example.com/slot": "4", "example.com/memory": "100", "example.com/old": "1"}
    assert status_changes(capacity, allocatable, {"example.com/slot": Counts(4, 3)}) == {
        "allocatable": {"example.com/slot": "3", "example.com/memory": "320k", "example.com/old": None}
    }
