"""The shipped fleets and workloads: every file reads, and together they tell the demo's story."""

import pytest

from hami_plugins import examples
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import fleets, list_reader, manifests, workloads
from hami_plugins.inputs.fleets.shapes import SHAPES
from hami_plugins.inputs.workloads import Submission
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects


@pytest.fixture(scope="module")
def submission() -> Submission:
    documents = [document for name, text in examples.workload_files() for document in manifests.read(text, source=name)]
    return workloads.read(documents)


@pytest.mark.parametrize("name", examples.fleet_names())
def test_every_fleet_is_called_as_its_file_and_gives_nodes(name: str) -> None:
    fleet = fleets.parse(examples.fleet_text(name), source=f"{name}.yaml")
    assert fleet.name == name
    names = [objects.node_object(node).name for node in fleets.nodes_of(fleet)]
    assert len(names) == len(set(names)) >= 2


@pytest.mark.parametrize("name", examples.fleet_names())
def test_every_device_of_a_fleet_is_known_to_its_vendor(name: str) -> None:
    fleet = fleets.parse(examples.fleet_text(name), source=f"{name}.yaml")
    snapshot = list_reader.snapshot_of(fleets.objects_of(fleet), builtin())
    assert not snapshot.problems
    devices = [device for entry in snapshot.nodes for device in entry.state.shape.devices]
    assert len(devices) == sum(SHAPES[group.shape].devices * group.count for group in fleet.groups)
    assert sum(not device.healthy for device in devices) == sum(len(group.unhealthy) for group in fleet.groups)


def test_the_mixed_fleet_has_sixteen_nodes_of_every_kind_but_one() -> None:
    fleet = fleets.parse(examples.fleet_text("mixed"), source="mixed.yaml")
    assert len(fleets.nodes_of(fleet)) == 16
    assert set(fleets.shape_names()) - {group.shape for group in fleet.groups} == {"trn1n.32xlarge"}


@pytest.mark.parametrize("name", examples.workload_names())
def test_every_workload_reads_alone_and_its_pods_decode(name: str) -> None:
    found = workloads.read(manifests.read(examples.workload_text(name), source=name))
    for workload in found.workloads:
        for pod in workload.pods:
            assert objects.pod(pod.raw).containers


def test_there_are_about_a_dozen_workloads_with_a_gang_a_queue_and_a_quota(submission: Submission) -> None:
    assert 12 <= len(submission.workloads) <= 16
    gangs = {workload.name: workload.gang for workload in submission.workloads if workload.gang is not None}
    assert gangs["llama-finetune"].min_member == 4
    assert gangs["llama-finetune"].queue in submission.queues
    assert "vision" in submission.quotas
    assert [it.kind for it in submission.ignored] == ["Namespace"]


def test_the_workloads_ask_for_the_devices_of_at_least_six_vendors(submission: Submission) -> None:
    resources = {
        resource
        for workload in submission.workloads
        for pod in workload.pods
        for container in objects.pod(pod.raw).containers
        for resource in container.limits
    }
    assert resources >= {
        "nvidia.com/gpu",
        "volcano.sh/vgpu-number",
        "huawei.com/Ascend910B3",
        "huawei.com/Ascend310P",
        "cambricon.com/vmlu",
        "hygon.com/dcunum",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
    }


@pytest.mark.parametrize("read", [examples.fleet_text, examples.workload_text])
@pytest.mark.parametrize("name", ["nobody", "../__init__", ""])
def test_an_unknown_example_is_an_error_that_lists_the_known(read: object, name: str) -> None:
    assert callable(read)
    with pytest.raises(ManifestError, match="known are"):
        read(name)
