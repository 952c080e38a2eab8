"""Pods on Neuron nodes: what HAMi answers and what we do instead, and what AWS's words and numbers say."""

from __future__ import annotations

from typing import Any

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Pod
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES, EFA, LEGACY_DEVICES
from neuron_topology.core.vendor import SPEC, on_node
from tests.builders import a_container, a_pod
from tests.golden import cases
from tests.golden.cases import Case
from tests.unit.neuron_topology.nodes import a_neuron_node
from tests.unit.vendors.placing import Written, holder, place

LIST = SPEC.keys.allocated

DEVIATIONS: dict[str, tuple[str, object]] = {
    "hamiprobe-singles": ("the lowest of the devices that leave the most sets", ["0", "1"]),
    "hamiprobe-after-singles": (
        "singles are taken from the lowest row, so that a row and the other half stay whole",
        ["0", "1", "4,5,6,7", "8,9,10,11,12,13,14,15", None],
    ),
    "hamiprobe-trn1-cores": ("the lowest device first, and its other half next", ["0", "1", "2", "4,5"]),
    "hamiprobe-trn2-double": ("a device that is allocated whole is nobody else's", ["0", "4,5"]),
    "hamiprobe-inf1-core4": ("four cores are one device of Inferentia 1", ["0,1,2,3"]),
    "hamiprobe-mixed-cluster": ("how many cores a device has is each node's own matter", ["0", "2,3"]),
    "hamiprobe-unsorted": ("devices in use are never allocated again", ["0,1,2,3"]),
    "hamisplit-3-2": ("any number of cores from 1; the rest of the last device stays with the pod", (2, 2)),
    "hamisplit-4-4": ("four cores are a whole device where it has four", (1, 4)),
}

SIZES = {"trn1.*": "trn1.32xlarge", "inf1.*": "inf1.6xlarge", "inf": "inf2.48xlarge"}
RESOURCES = {"neuron": DEVICES, "neuroncore": CORES}


def kind_of(name: str) -> str:
    return SIZES.get(name, name)


def numbers(pod: Pod, kind: str, running: list[Pod]) -> Written | None:
    found = place(SPEC, a_neuron_node(kind), pod, running)
    return None if isinstance(found, str) else found


def asked(case: Case) -> list[tuple[str | None, Pod]]:
    """The pods of a sequence, each with the numbers for AWS's plugin; those that fit stay."""
    kind = kind_of(case.given["instance_type"])
    machine = INSTANCE_TYPES[kind]
    free = range(machine.devices) if case.given["free"] == "all" else case.given["free"]
    busy = [at for at in range(machine.devices) if at not in free]
    mask = (1 << machine.logical_cores()) - 1
    running = [holder(SPEC, "".join(f"n-AWSNeuron-{at},AWSNeuron,0,{mask}:" for at in busy) + ";")] if busy else []
    answers: list[tuple[str | None, Pod]] = []
    for at, each in enumerate(case.given["requests"]):
        pod = a_pod(a_container({RESOURCES[each["resource"]]: each["count"]}), name=f"p{at}")
        written = numbers(pod, kind, running)
        answers.append((None if written is None else written["AWS_NEURON_IDS"], pod))
        if written is not None:
            running.append(a_pod(*pod.containers, name=pod.name, annotations=written))
    return answers


@cases.each("neuron/hami-probes.yaml")
def test_what_hami_refuses_and_allocations_rightly_is_refused_and_allocated(case: Case) -> None:
    ours = [ids for ids, _ in asked(case)]
    told = [_hamis(each) for each in case.expect["results"]]
    if case.id in DEVIATIONS:
        assert ours == DEVIATIONS[case.id][1]
        assert ours != told
    else:
        assert not case.about["hami_defect"]
        assert ours == told


def _hamis(result: dict[str, Any]) -> str | None:
    if result.get("fit") is False:
        return None
    if "AWS_NEURON_IDS_text" in result:
        first, _, last = result["AWS_NEURON_IDS_text"].partition("..")
        return ",".join(str(core) for core in range(int(first), int(last) + 1))
    ids = result.get("AWS_NEURON_IDS")
    return ids if ids is not None else ",".join(map(str, result["devices"]))


@cases.each("neuron/hami-core-split.yaml")
def test_cores_become_devices_as_each_node_has_them(case: Case) -> None:
    per_device = case.given["cores_per_device"] or 2
    kind = {2: "trn1.32xlarge", 4: "trn2.48xlarge"}[per_device]
    shape = NodeBuilder(Registry([SPEC])).entry(a_neuron_node(kind), NodeFacts()).state.shape
    pod = a_pod(a_container({CORES: case.given["cores"]}))
    request = request_of(SPEC, pod.containers[0], pod)
    assert request is not None
    here = on_node(request, shape)
    each = here.cores if here.count == 1 else shape.devices[0].cores
    told = None if case.refused else (case.expect["devices"], case.expect["cores_each"])
    if case.id in DEVIATIONS:
        assert (here.count, each) == DEVIATIONS[case.id][1] != told
    else:
        assert (here.count, each) == told


@cases.each("neuron/hami-annotations.yaml")
def test_numbers_are_told_as_hami_tells_them(case: Case) -> None:
    name, count = case.given["resource"], case.given["count"]
    written = numbers(a_pod(a_container({name: count})), "inf2.48xlarge", [])
    assert written is not None
    assert written["AWS_NEURON_IDS"] == case.expect["AWS_NEURON_IDS"]
    assert ("NEURON_RESOURCE_TYPE" in written) is case.expect["NEURON_RESOURCE_TYPE_written"]
    assert written.get("NEURON_RESOURCE_TYPE", CORES) == CORES


@cases.each("neuron/core-range.yaml")
def test_cores_of_several_devices_are_one_range(case: Case) -> None:
    written = numbers(a_pod(a_container({CORES: case.given["cores"]})), kind_of(case.given["instance_family"]), [])
    assert written is not None
    assert written["AWS_NEURON_IDS"] == ",".join(map(str, case.expect["core_ids"]))


@cases.each("neuron/runtime-errors.yaml")
def test_a_count_that_aws_does_not_support_is_refused_in_awss_words(case: Case) -> None:
    kind, _, count = case.given["situation"].partition(", ")
    if kind not in INSTANCE_TYPES:
        assert case.id in {"rterr-set", "rterr-plugin-default-scheduler"}  # errors of the runtime and of AWS's plugin
        return
    words = place(SPEC, a_neuron_node(kind), a_pod(a_container({DEVICES: int(count.split()[0])})))
    assert isinstance(words, str)
    assert any(words.startswith(message) for message in case.expect["messages"])


@cases.each("neuron/resources.yaml")
def test_resources_have_the_names_of_awss_plugin(case: Case) -> None:
    name = case.given["resource"]
    known = {SPEC.resources.count: "1 device", SPEC.resources.cores: "1 (logical) core", LEGACY_DEVICES: "1 device"}
    if name == EFA:
        assert name not in SPEC.resources.all()
        return
    assert known[name] == case.expect["unit"]
    assert (name in SPEC.resources.older) is not case.expect["advertised_by_plugin"]


@cases.each("neuron/core-degrees.yaml")
def test_core_counts_of_collectives_that_fill_devices_can_be_allocated(case: Case) -> None:
    if case.given["property"] == "names_only":
        # AWS's driver has the number of its devices since the case was recorded.
        assert INSTANCE_TYPES.keys() & set(case.expect["values"]) == {"trn3.48xlarge"}
        return
    kind = {"inf2": "inf2.48xlarge", "trn1": "trn1.32xlarge", "trn2": "trn2.48xlarge"}[case.given["instance_type"]]
    machine = INSTANCE_TYPES[kind]
    for cores in case.expect["values"]:
        written = numbers(a_pod(a_container({CORES: cores})), kind, [])
        if machine.name == "trn2.48xlarge" and cores == 8:
            assert written is None  # two devices, which AWS never allocates together
            continue
        assert written is not None, cores
        ids = [int(each) for each in written["AWS_NEURON_IDS"].split(",")]
        assert ids == list(range(ids[0], ids[0] + cores))
        assert ids[0] % cores == 0
