"""Who uses which device, and who was given it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import PodUid
from hami_plugins.wire.cgroups import ProcessOwner
from neuron_topology.core.agent.processes import (
    DeviceProcess,
    Stranger,
    StrangerReason,
    device_of,
    pods_of,
    processes_of,
    strangers,
)

ID = "d" * 64


def a_pod(uid: str = "u1", *, asks: str = "aws.amazon.com/neuron", **annotations: str) -> dict[str, Any]:
    container = {"name": "train", "resources": {"limits": {asks: "2"}} if asks else {}}
    status = {"phase": "Running", "containerStatuses": [{"name": "train", "containerID": f"containerd://{ID}"}]}
    metadata = {"namespace": "ml", "name": f"pod-{uid}", "uid": uid, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": status}


def found(
    *pods: dict[str, Any], uses: tuple[int, ...], owner: ProcessOwner | None, kubelet: dict[str, set[int]] | None = None
) -> tuple[Stranger, ...]:
    given = {PodUid(uid): frozenset(devices) for uid, devices in (kubelet or {}).items()}
    held = [DeviceProcess(device=device, pid=7, command="python3 train.py") for device in uses]
    return strangers(held, lambda _: owner, pods_of(pods, given, cores=2))


OF_U1 = ProcessOwner(frozenset({PodUid("u1")}), ID)


def test_a_pod_may_use_what_the_plugin_handed_to_it() -> None:
    assert not found(a_pod(), uses=(0, 1), owner=OF_U1, kubelet={"u1": {0, 1}})


def test_a_pod_that_uses_more_than_it_was_given_is_a_stranger_there() -> None:
    (stranger,) = found(a_pod(), uses=(0, 1, 5), owner=OF_U1, kubelet={"u1": {0, 1}})
    assert (stranger.devices, stranger.reason, stranger.container) == ((5,), StrangerReason.NOT_ALLOCATED, "train")
    assert str(stranger) == (
        "process 7 (python3 train.py) uses Neuron device 5; it is in container train of pod ml/pod-u1, "
        "which was not given that"
    )


def test_the_kubelets_record_wins_over_the_annotation() -> None:
    pod = a_pod(AWS_NEURON_IDS="4,5")
    assert not found(pod, uses=(0,), owner=OF_U1, kubelet={"u1": {0, 1}})
    assert found(pod, uses=(4,), owner=OF_U1, kubelet={"u1": {0, 1}})
    assert pods_of([pod], {PodUid("u1"): frozenset({0, 1})}, cores=2)[PodUid("u1")].differs


def test_without_a_record_the_annotation_says_what_was_given() -> None:
    pod = a_pod(AWS_NEURON_IDS="4, 5")
    assert not found(pod, uses=(4, 5), owner=OF_U1)
    assert found(pod, uses=(6,), owner=OF_U1)
    assert not pods_of([pod], {}, cores=2)[PodUid("u1")].differs


def test_core_numbers_are_devices_by_their_cores() -> None:
    pod = a_pod(AWS_NEURON_IDS="5", NEURON_RESOURCE_TYPE="aws.amazon.com/neuroncore")
    assert not found(pod, uses=(2,), owner=OF_U1)
    assert found(pod, uses=(5,), owner=OF_U1)
    assert pods_of([pod], {}, cores=0)[PodUid("u1")].annotated is None


@pytest.mark.parametrize("written", ["", "a", "1,,2", "1234567"])
def test_a_pod_whose_devices_nobody_wrote_down_may_use_any(written: str) -> None:
    assert not found(a_pod(AWS_NEURON_IDS=written), uses=(9,), owner=OF_U1)


def test_a_pod_that_asks_for_none_may_use_none() -> None:
    (stranger,) = found(a_pod(asks=""), uses=(9,), owner=ProcessOwner(OF_U1.pods, ""))
    assert str(stranger).endswith("; it is in pod ml/pod-u1, which was not given that")


def test_a_process_of_the_host_is_a_stranger_on_every_device() -> None:
    (stranger,) = found(a_pod(), uses=(3, 1), owner=ProcessOwner())
    assert (stranger.devices, stranger.reason) == ((1, 3), StrangerReason.OUTSIDE)
    assert "uses Neuron devices 1, 3; it is in no pod" in str(stranger)


def test_a_pod_that_the_node_does_not_have_is_told_so() -> None:
    gone = {**a_pod(), "status": {"phase": "Succeeded"}}
    (stranger,) = found(gone, uses=(3,), owner=OF_U1)
    assert stranger.reason is StrangerReason.UNKNOWN
    assert "no such pod" in str(stranger)


def test_a_process_that_has_ended_is_none() -> None:
    assert not found(uses=(3,), owner=None)


def test_the_processes_of_neuron_ls_are_read_and_odd_entries_left_out() -> None:
    listed = [
        {
            "neuron_device": 2,
            "neuron_processes": [
                {"pid": 11, "command": "python3 -m torch" + "x" * 200, "neuron_runtime_version": "2.15.11"},
                {"pid": "12"},
                None,
            ],
        },
        {"neuron_device": 3, "neuron_processes": None},
        {"neuron_processes": [{"pid": 13}]},
        "garbage",
    ]
    (process,) = processes_of("neuron-ls", json.dumps(listed))
    assert (process.device, process.pid, process.runtime) == (2, 11, "2.15.11")
    assert process.command.startswith("python3 -m torch")
    assert len(process.command) == 120


def test_the_list_may_stand_in_an_object() -> None:
    listed = [{"neuron_device": 0, "neuron_processes": [{"pid": 4}]}]
    (process,) = processes_of("neuron-ls", json.dumps({"instance_id": "i-1", "devices": listed, "notes": ["a"]}))
    assert (process.pid, process.command) == (4, "")


@pytest.mark.parametrize("printed", ['[{"neuron_device": 0,', "{}", "null", '{"a": ["x"]}', "no devices found"])
def test_anything_else_is_refused(printed: str) -> None:
    with pytest.raises(WireError):
        processes_of("neuron-ls", printed)


@pytest.mark.parametrize(
    ("path", "device"), [("/dev/neuron0", 0), ("/dev/neuron15", 15), ("/dev/neuron", None), ("/dev/nvidia0", None)]
)
def test_a_device_file_names_its_device(path: str, device: int | None) -> None:
    assert device_of(path) == device
