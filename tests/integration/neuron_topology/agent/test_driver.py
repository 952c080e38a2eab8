"""A machine with a driver: a tree as sysfs has it, programs that print, fail and hang, and processes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse, DeviceSpec
from hami_plugins.wire.cgroups import ProcessOwner
from neuron_topology.agent import config
from neuron_topology.agent.file import FileMachine
from neuron_topology.agent.machine import DriverMachine, MachineError
from neuron_topology.core.agent.sensors import DeviceErrors
from tests.integration.neuron_topology.agent.conftest import Host
from tests.integration.neuron_topology.server.servers import a_pod
from tests.waiting import wait_for

UID = "0a1b2c3d-0000-4000-8000-00000000000a"
ID = "e" * 64


def a_tree(folder: Path, devices: int = 2, **counters: str) -> Path:
    """What the driver shows of its devices."""
    root = folder / "sysfs"
    for at in range(devices):
        place = root / f"neuron{at}" / "stats" / "hardware"
        place.mkdir(parents=True, exist_ok=True)
        for name in ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_repairable_uncorrected"):
            (place / name).write_text("0\n")
    for name, text in counters.items():
        (root / "neuron1" / "stats" / "hardware" / name).write_text(text)
    return root


def a_program(folder: Path, text: str) -> str:
    """An executable script."""
    path = folder / "neuron-ls"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def machine(folder: Path, program: str = "", **more: Any) -> DriverMachine:
    listing = {"command": [program or "neuron-ls", "-j"], "timeoutSeconds": 0.3}
    places = {"sysfsRoot": str(folder / "sysfs"), "procRoot": str(folder / "proc")}
    return DriverMachine(config.load(json.dumps({"node": "n", "neuronLs": listing, **places, **more}), {}))


def test_the_drivers_counters_are_read(tmp_path: Path) -> None:
    a_tree(tmp_path, mem_ecc_uncorrected="3\n", sram_ecc_uncorrected="1", mem_ecc_repairable_uncorrected=" 2\n")
    first, second = machine(tmp_path).sensors().devices
    assert first == DeviceErrors(index=0)
    assert second == DeviceErrors(index=1, memory=3, sram=1, repairable=2)


def test_a_counter_that_is_missing_or_odd_counts_nothing(tmp_path: Path) -> None:
    root = a_tree(tmp_path, mem_ecc_uncorrected="unsupported\n")
    (root / "neuron1" / "stats" / "hardware" / "sram_ecc_uncorrected").unlink()
    (root / "power").mkdir()
    assert machine(tmp_path).sensors().devices == (DeviceErrors(index=0), DeviceErrors(index=1))


def test_a_machine_without_a_driver_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="the Neuron driver is not loaded; install aws-neuronx-dkms"):
        machine(tmp_path).sensors()


def test_a_missing_program_stops_the_agent_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neuronLs\.command: .*install aws-neuronx-tools"):
        machine(tmp_path, str(tmp_path / "nowhere")).check()
    machine(tmp_path, a_program(tmp_path, "true")).check()


def test_a_program_that_hangs_is_killed_in_time(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"no answer within 0\.3 s, killed"):
        machine(tmp_path, a_program(tmp_path, "exec sleep 30")).listing()
    assert time.monotonic() - began < 10


def test_a_program_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="exit code 3: no driver"):
        machine(tmp_path, a_program(tmp_path, "echo no driver >&2; exit 3")).listing()
    with pytest.raises(MachineError, match="exit code 1: it printed no reason"):
        machine(tmp_path, a_program(tmp_path, "exit 1")).listing()
    with pytest.raises(MachineError, match="No such file"):
        machine(tmp_path, str(tmp_path / "nowhere")).listing()


def test_a_process_is_matched_with_its_container(tmp_path: Path) -> None:
    for pid, text in ((7, f"0::/kubepods/pod{UID}/{ID}\n"), (8, "0::/system.slice/x.service\n")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "cgroup").write_text(text)
    found = machine(tmp_path)
    assert found.owner(7) == ProcessOwner(frozenset({PodUid(UID)}), ID)
    assert found.owner(8) == ProcessOwner()
    assert found.owner(9) is None
    (tmp_path / "proc" / "10" / "cgroup").mkdir(parents=True)
    with pytest.raises(MachineError, match="10/cgroup: Is a directory"):
        found.owner(10)


def test_a_machine_with_driver_and_tools_is_described_and_compared(host: Host, tmp_path: Path) -> None:
    root = a_tree(tmp_path, devices=1)
    pod = a_pod("trains", 1)
    pod["metadata"] |= {"annotations": {"AWS_NEURON_IDS": "0"}}
    pod["spec"]["nodeName"] = "n1"
    uid = host.api.create("/api/v1/namespaces/default/pods", pod)["metadata"]["uid"]
    record(tmp_path, uid, "/dev/neuron5")
    listed = [{"neuron_device": 0, "nc_count": 2, "memory_size": 34359738368, "connected_to": None, "bdf": "00:1e.0"}]
    program = a_program(tmp_path, f"echo '{json.dumps(listed)}'")
    more = {"machineFile": None, "sysfsRoot": str(root), "neuronLs": {"command": [program], "intervalSeconds": 0.2}}
    with host.agent(**more) as agent:
        wait_for(lambda: not agent.trouble, "the agent is ready")
        assert [device["neuron_device"] for device in host.annotation("neuron-ls")] == [0]
        (said,) = wait_for(lambda: host.messages("NeuronDevicesDiffer"), "the pod has an event")
        assert said == ("AWS's device plugin gave the pod device 5, its annotations name device 0; recreate the pod")
        a_program(tmp_path, "echo '[{\"neuron_device\": 0,'")
        wait_for(lambda: "not JSON" in agent.trouble, "cut off JSON is told")
        assert [device["neuron_device"] for device in host.annotation("neuron-ls")] == [0]


def record(folder: Path, uid: str, *paths: str) -> None:
    """The kubelet's record of one container."""
    answer = ContainerAllocateResponse(devices=[DeviceSpec(host_path=path) for path in ("/dev/null", *paths)])
    entry = CheckpointEntry(
        pod_uid=PodUid(uid),
        container="c",
        resource="aws.amazon.com/neuron",
        device_ids=frozenset({"x"}),
        response=answer,
    )
    (folder / "kubelet_internal_checkpoint").write_bytes(checkpoint.encode(Checkpoint((entry,))))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instance: trn9.huge", "trn9.huge is not one of inf1.xlarge"),
        ("instance: trn1.2xlarge\nbroken: true", "broken"),
        ("[", "machine.yaml"),
    ],
    ids=["unknown type", "unknown member", "no YAML"],
)
def test_a_file_that_describes_no_machine_stops_the_agent(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        FileMachine(path).check()


def test_a_file_that_breaks_later_is_told_and_heals(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text("instance: trn1.2xlarge")
    found = FileMachine(path)
    assert found.sensors().present == {0}
    path.unlink()
    with pytest.raises(MachineError, match="No such file"):
        found.sensors()
    path.write_text("instance: inf2.24xlarge")
    assert found.sensors().present == set(range(6))
