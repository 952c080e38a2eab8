"""Reports of neuron-monitor, and what containers use by them. The figures are ours, in the documented form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import MiB, NodeName, PodUid
from hami_plugins.wire.cgroups import ProcessOwner
from hami_plugins.wire.usage import ContainerUsage, MemoryUse
from neuron_topology.core.agent.monitor import MachineFacts, decode, usage_of
from neuron_topology.core.agent.processes import pods_of
from neuron_topology.core.agent.sensors import DeviceErrors
from tests.unit.neuron_topology.agent.test_processes import ID, a_pod

GIB = 1 << 30
FACTS = MachineFacts(node=NodeName("n"), cores=2, memory=MiB(32768))
OWNERS = {70: ProcessOwner(frozenset({PodUid("u1")}), ID), 80: ProcessOwner()}


def a_runtime(pid: int, cores: dict[int, float], memory: dict[int, dict[str, int]] | None = None, **more: Any) -> Any:
    used = {"host": 5, "neuron_device": sum(sum(each.values()) for each in (memory or {}).values())}
    if memory is not None:
        by_core = {str(core): kinds for core, kinds in memory.items()}
        used |= {"usage_breakdown": {"host": {"tensors": 5}, "neuroncore_memory_usage": by_core}}  # type: ignore[dict-item]
    report = {
        "neuroncore_counters": {
            "period": 5.0,
            "neuroncores_in_use": {str(core): {"neuroncore_utilization": busy} for core, busy in cores.items()},
            "error": "",
        },
        "memory_used": {"period": 5.0, "neuron_runtime_used_bytes": used, "error": ""},
        "execution_stats": {
            "error_summary": {"generic": 0, "numerical": 2, "hardware": 1},
            "execution_summary": {"completed": 40, "timed_out": 0},
        },
    }
    return {"pid": pid, "neuron_runtime_tag": "train", "error": "", "report": report, **more}


def a_line(*runtimes: Any, **more: Any) -> str:
    hardware = {"neuron_device_count": 16, "neuroncore_per_device_count": 2}
    return json.dumps({"neuron_runtime_data": list(runtimes), "neuron_hardware_info": hardware, **more})


def used(line: str, *pods: dict[str, Any], facts: MachineFacts = FACTS) -> tuple[ContainerUsage, ...]:
    return usage_of(decode("m", line), OWNERS.get, pods_of(pods, {}, cores=facts.cores), facts)


def test_a_container_is_told_busy_time_and_memory_of_each_device() -> None:
    memory = {
        4: {"constants": 1, "tensors": 2 * GIB, "model_code": 30, "runtime_memory": 400},
        5: {"model_shared_scratchpad": 7},
        6: {"tensors": 9},
    }
    (found,) = used(a_line(a_runtime(70, {4: 80.0, 5: 40.0, 6: 10.0}, memory)), a_pod(AWS_NEURON_IDS="2,3"))
    assert (found.full_name, found.container, found.processes) == ("ml/pod-u1", "train", 1)
    first, second = found.cards
    assert (first.card, first.allocated, first.cores_allocated) == ("n-AWSNeuron-2", 32 * GIB, 1.0)
    assert first.used == MemoryUse(context=400, module=30, data=2 * GIB + 1, other=7)
    assert first.utilization == pytest.approx(0.6)
    assert (second.card, second.used, second.utilization) == ("n-AWSNeuron-3", MemoryUse(0, 0, 9, 0), 0.1)


def test_a_container_with_one_core_is_allocated_its_share_of_the_memory() -> None:
    pod = a_pod(AWS_NEURON_IDS="5", NEURON_RESOURCE_TYPE="aws.amazon.com/neuroncore", asks="aws.amazon.com/neuroncore")
    (found,) = used(a_line(a_runtime(70, {5: 100.0})), pod)
    (card,) = found.cards
    assert (card.card, card.allocated, card.cores_allocated) == ("n-AWSNeuron-2", 16 * GIB, 0.5)


def test_an_allocated_container_without_a_process_uses_nothing() -> None:
    (found,) = used(a_line(), a_pod(AWS_NEURON_IDS="2"))
    (card,) = found.cards
    assert (found.processes, card.utilization, card.used) == (0, 0.0, MemoryUse(0, 0, 0, 0))


def test_processes_of_the_host_and_ended_ones_belong_to_no_container() -> None:
    assert not used(a_line(a_runtime(80, {0: 50.0}), a_runtime(90, {1: 50.0})))


def test_a_pod_that_is_not_known_is_told_by_its_uid() -> None:
    (found,) = used(a_line(a_runtime(70, {0: 50.0})))
    assert (found.full_name, found.container, found.cards[0].allocated) == ("pod u1", "", None)


def test_several_asking_containers_have_no_share_of_their_own() -> None:
    pod = a_pod(AWS_NEURON_IDS="2")
    pod["spec"]["containers"] += [{"name": "other", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}]
    other, train = used(a_line(a_runtime(70, {4: 10.0})), pod)
    assert (other.container, other.cards) == ("other", ())
    assert (train.container, train.cards[0].allocated) == ("train", None)


def test_a_container_whose_id_is_not_told_is_the_only_one_that_asks() -> None:
    pod = {**a_pod(AWS_NEURON_IDS="2"), "status": {"phase": "Running"}}
    (found,) = used(a_line(a_runtime(70, {4: 10.0})), pod)
    assert found.container == "train"


def test_memory_that_is_not_told_by_core_is_known_for_a_single_core() -> None:
    one = a_runtime(70, {4: 10.0})
    one["report"]["memory_used"]["neuron_runtime_used_bytes"]["neuron_device"] = 99
    (found,) = used(a_line(one), a_pod(AWS_NEURON_IDS="2"))
    assert found.cards[0].used == MemoryUse(0, 0, 0, 99)
    two = a_runtime(70, {4: 10.0, 5: 10.0})
    (found,) = used(a_line(two), a_pod(AWS_NEURON_IDS="2"))
    assert found.cards[0].used == MemoryUse(0, 0, 0, 0)


def test_executions_and_errors_since_the_report_before_are_read() -> None:
    (runtime,) = decode("m", a_line(a_runtime(70, {}))).runtimes
    assert (runtime.completed, runtime.errors) == (40, {"generic": 0, "numerical": 2, "hardware": 1})


def test_the_hardwares_counters_are_read() -> None:
    counters = [{"neuron_device_index": 3, "mem_ecc_uncorrected": 2, "sram_ecc_uncorrected": 1}, {"x": 1}, None]
    report = decode("m", a_line(system_data={"neuron_hw_counters": {"neuron_devices": counters, "error": ""}}))
    assert report.devices == (DeviceErrors(index=3, memory=2, sram=1),)
    assert report.cores == 2


@pytest.mark.parametrize("busy", ["80", None, True, -5.0])
def test_an_odd_figure_counts_nothing(busy: Any) -> None:
    (runtime,) = decode("m", a_line(a_runtime(70, {4: busy}), {"pid": "x"}, {"pid": 0}, "garbage")).runtimes
    assert runtime.cores == {4: 0.0}
    (runtime,) = decode("m", a_line(a_runtime(70, {4: 900.0}))).runtimes
    assert runtime.cores == {4: 1.0}


def test_a_core_without_a_number_is_left_out() -> None:
    raw = a_runtime(70, {})
    raw["report"]["neuroncore_counters"]["neuroncores_in_use"] = {"x": {}, "12345": {}, "1": None}
    raw["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"] = {
        "neuroncore_memory_usage": {"y": {}}
    }
    (runtime,) = decode("m", a_line(raw)).runtimes
    assert (runtime.cores, runtime.memory) == ({1: 0.0}, {})


@pytest.mark.parametrize("line", ['{"neuron_runtime_data": [{"pid"', "[]", '{"neuron_runtime_data": 7}', "Starting"])
def test_a_line_that_is_no_report_is_refused(line: str) -> None:
    with pytest.raises(WireError):
        decode("neuron-monitor", line)


def test_a_report_without_any_group_is_empty() -> None:
    assert decode("m", '{"neuron_runtime_data": [{"pid": 4}]}').runtimes[0].total is None
    assert decode("m", "{}").runtimes == ()
