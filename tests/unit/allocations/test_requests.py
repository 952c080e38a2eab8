"""An allocation that is larger than its request is a finding, and counts with what the pod requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.allocations.answers import AuditFinding, AuditFindingKind, PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.requests import Compared
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.vendors.volcano import SPEC, configured
from hami_plugins.wire import objects
from hami_plugins.wire.volcano_config import VolcanoConfig
from neuron_topology.core.vendor import SPEC as NEURON
from tests.unit.allocations.objects import N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound, register
from tests.unit.neuron_topology.server.cluster import a_node as a_neuron_node
from tests.unit.neuron_topology.server.cluster import a_pod as a_neuron_pod

MORE = "hami-plugins.io/vgpu-more-ids"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"


BELIEVING = Registry([replace(SPEC, allocation=replace(SPEC.allocation, at_most_requested=False))])
"""Of node agents that hand over whatever the allocation says."""


def a_cache(registry: Registry = REGISTRY) -> AllocationCache:
    cache = AllocationCache(Decider(registry))
    for name in ("n1", "n2"):
        cache.see_node(objects.node_object(a_node(name)))
    return cache


def see(cache: AllocationCache, raw: Raw) -> None:
    cache.see_pod(objects.pod(raw), 0)


def used(cache: AllocationCache, at: int = 0) -> tuple[int, int, int]:
    """Slots, memory and cores of n1's card that count as allocated."""
    entry = cache.entry(N1)
    assert entry is not None
    held = entry.state.usage[at]
    return held.slots, held.memory, held.cores


def larger(cache: AllocationCache) -> AuditFinding:
    (found,) = cache.findings()
    assert found.finding is AuditFindingKind.LARGER, found
    return found


def forged(ids: str = "GPU-n1-0,NVIDIA,40960,100:", memory: int = 1, **more: Any) -> Raw:
    return bound(a_pod("forged", memory=memory, **more), "n1", ids)


def test_an_allocation_larger_than_its_request_is_told_with_both_amounts_and_the_remedy() -> None:
    cache = a_cache()
    see(cache, forged())
    found = larger(cache)
    assert (found.node, found.pods) == ("n1", ("team/forged",))
    assert found.text == (
        "pod team/forged on node n1 has an allocation larger than its request (container main: 40960 of "
        "volcano.sh/vgpu-memory on GPU-n1-0, and 1 requested). Delete it, so that it is placed anew"
    )


@pytest.mark.parametrize(
    ("ids", "counted"),
    [
        ("GPU-n1-0,NVIDIA,40960,0:", (1, 1, 0)),
        ("GPU-n1-0,NVIDIA,1,100:", (1, 1, 0)),
        ("GPU-n1-0,NVIDIA,1,0:GPU-n2-0,NVIDIA,1,0:", (1, 1, 0)),
    ],
)
def test_no_amount_counts_with_more_than_the_request(ids: str, counted: tuple[int, int, int]) -> None:
    cache = a_cache()
    see(cache, forged(ids))
    larger(cache)
    assert used(cache) == counted


def test_where_node_agents_do_not_compare_all_of_it_counts() -> None:
    cache = a_cache(BELIEVING)
    see(cache, forged())
    larger(cache)
    assert used(cache) == (1, 40_960, 100)


def test_a_pod_that_requests_nothing_holds_nothing() -> None:
    cache = a_cache()
    raw = forged()
    raw["spec"]["containers"][0]["resources"] = {}
    see(cache, raw)
    assert "1 of volcano.sh/vgpu-number, and 0 requested" in larger(cache).text
    assert used(cache) == (0, 0, 0)
    see(cache, raw)
    larger(cache)


def test_a_request_that_means_nothing_gets_nothing() -> None:
    cache = a_cache()
    raw = forged()
    raw["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] = "1.5"
    see(cache, raw)
    assert "volcano.sh/vgpu-memory=1500m: not an amount of MiB" in larger(cache).text
    assert used(cache) == (0, 0, 0)


@pytest.mark.parametrize("always", [{}, {"restartPolicy": "Always"}], ids=["init container", "sidecar"])
def test_init_containers_and_sidecars_are_compared_too(always: dict[str, str]) -> None:
    cache = a_cache()
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5"}
    raw = forged(memory=10, ids="GPU-n1-0,NVIDIA,10,0:")
    raw["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": limits}, **always}]
    raw["metadata"]["annotations"][MORE] = "first=GPU-n1-0,NVIDIA,30000,0:"
    see(cache, raw)
    assert "container first: 30000 of" in larger(cache).text
    assert used(cache)[1] in (10, 15)


def test_a_pod_that_is_raised_after_it_was_bound_counts_with_what_it_was_bound_with() -> None:
    cache = a_cache()
    see(cache, forged("GPU-n1-0,NVIDIA,1,0:"))
    see(cache, forged())
    (found,) = cache.findings()
    assert found.finding is AuditFindingKind.CHANGED
    assert used(cache) == (1, 1, 0)


def test_a_forged_allocation_that_is_forged_anew_is_told_as_changed_and_counts_as_before() -> None:
    cache = a_cache()
    see(cache, forged("GPU-n1-0,NVIDIA,2,0:"))
    see(cache, forged("GPU-n1-0,NVIDIA,3,0:"))
    (found,) = cache.findings()
    assert found.finding is AuditFindingKind.CHANGED
    assert used(cache) == (1, 1, 0)
    see(cache, forged("GPU-n1-0,NVIDIA,2,0:"))
    larger(cache)


@pytest.mark.parametrize("registry", [REGISTRY, BELIEVING])
def test_what_a_binding_was_answered_with_counts_where_the_pod_comes_bound_with_more(registry: Registry) -> None:
    cache = a_cache(registry)
    raw = a_pod("forged", memory=1000)
    assert isinstance(cache.allocate(N1, asking(raw), 0), PodAllocation)
    see(cache, bound(raw, "n1", "GPU-n2-0,NVIDIA,40960,0:"))
    assert used(cache) == (1, 1000, 0)
    larger(cache)


def test_what_was_answered_for_another_node_does_not_count() -> None:
    cache = a_cache(BELIEVING)
    raw = a_pod("forged", memory=1000)
    assert isinstance(cache.allocate(N2, asking(raw), 0), PodAllocation)
    see(cache, bound(raw, "n1", "GPU-n1-0,NVIDIA,40960,0:"))
    assert used(cache) == (1, 40_960, 0)


def of_percent(memory: int) -> tuple[Registry, Raw]:
    raw = forged(f"GPU-n1-0,NVIDIA,{memory},0:")
    limits = {"volcano.sh/vgpu-number": "1", PERCENTAGE: "50"}
    raw["spec"]["containers"][0]["resources"]["limits"] = limits
    return Registry([configured(VolcanoConfig(memory_percentage=PERCENTAGE))]), raw


def test_a_percentage_is_compared_with_the_card_also_where_the_node_comes_after_the_pod() -> None:
    registry, raw = of_percent(20_481)
    cache = AllocationCache(Decider(registry))
    see(cache, raw)
    cache.see_node(objects.node_object(a_node("n1")))
    assert "20481 of volcano.sh/vgpu-memory on GPU-n1-0, and 20480 requested" in larger(cache).text
    registry, raw = of_percent(20_480)
    cache = a_cache(registry)
    see(cache, raw)
    assert cache.findings() == ()


def test_a_percentage_larger_than_of_the_card_is_told_of_a_node_that_is_known() -> None:
    registry, raw = of_percent(20_481)
    cache = a_cache(registry)
    see(cache, raw)
    assert "20481 of volcano.sh/vgpu-memory on GPU-n1-0, and 20480 requested" in larger(cache).text


def test_a_percentage_that_was_right_when_it_was_taken_stays_right_when_the_card_is_registered_smaller() -> None:
    registry, raw = of_percent(20_480)
    cache = a_cache(registry)
    see(cache, raw)
    cache.see_node(objects.node_object(a_node("n1", register("GPU-n1-0", memory=30_000))))
    assert cache.findings() == ()


def test_a_request_that_means_nothing_is_no_larger_allocation_where_nothing_is_allocated() -> None:
    cache = a_cache()
    raw = bound(a_pod(), "n1")
    raw["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] = "1.5"
    see(cache, raw)
    assert [found.finding for found in cache.findings()] == [AuditFindingKind.UNALLOCATED]


def test_a_percentage_counts_with_what_is_allocated_because_a_node_may_change_its_scale() -> None:
    registry, raw = of_percent(30_000)
    cache = a_cache(registry)
    see(cache, raw)
    assert used(cache) == (1, 30_000, 0)


def test_a_pod_that_cannot_be_read_counts_with_what_its_annotations_say() -> None:
    cache = a_cache()
    pod = objects.pod(forged())
    containers = tuple(replace(each, limits={}, requests={}) for each in pod.containers)
    cache.see_pod(replace(pod, containers=containers), 0, fault="no limits")
    assert used(cache) == (1, 40_960, 100)


NEURON_REGISTRY = Registry([NEURON])


def neuron(limits: dict[str, str], *others: dict[str, Any], **annotations: str) -> list[AuditFinding]:
    """What is wrong with a pod of a container with these limits and of ``others``, some of them init containers."""
    cache = AllocationCache(Decider(NEURON_REGISTRY))
    cache.see_node(objects.node_object(a_neuron_node("n1")))
    raw = bound(a_neuron_pod(), "n1")
    raw["metadata"]["annotations"] = annotations
    raw["spec"]["containers"][0]["resources"] = {"limits": limits}
    raw["spec"]["containers"] += [each for each in others if each["name"] == "beside"]
    raw["spec"]["initContainers"] = [each for each in others if each["name"] != "beside"]
    cache.see_pod(objects.pod(raw), 0)
    return list(cache.findings())


DEVICES, CORES = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"


@pytest.mark.parametrize(
    ("limits", "annotations", "text"),
    [
        ({DEVICES: "1"}, {"AWS_NEURON_IDS": "0,1,2,3"}, "4 of aws.amazon.com/neuron, and 1 requested"),
        (
            {CORES: "1"},
            {"AWS_NEURON_IDS": "0,1,2", "NEURON_RESOURCE_TYPE": CORES},
            "3 of aws.amazon.com/neuroncore, and 1 requested",
        ),
        (
            {DEVICES: "1"},
            {"hami.io/aws-neuron-devices-allocated": "n1-AWSNeuron-0,AWSNeuron,0,3:n1-AWSNeuron-1,AWSNeuron,0,3:;"},
            "2 of aws.amazon.com/neuron, and 1 requested",
        ),
    ],
)
def test_neuron_devices_and_cores_beyond_the_request_are_told(
    limits: dict[str, str], annotations: dict[str, str], text: str
) -> None:
    (found,) = neuron(limits, **annotations)
    assert found.finding is AuditFindingKind.LARGER
    assert text in found.text


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({DEVICES: "4"}, {"AWS_NEURON_IDS": "0,1,2,3"}),
        ({CORES: "2"}, {"AWS_NEURON_IDS": "0,1", "NEURON_RESOURCE_TYPE": CORES}),
    ],
)
def test_neuron_devices_and_cores_as_requested_are_fine(limits: dict[str, str], annotations: dict[str, str]) -> None:
    assert neuron(limits, **annotations) == []


def of_cores(name: str, cores: int, **more: str) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {CORES: str(cores)} if cores else {}}, **more}


def test_cores_of_several_devices_are_requested_of_each() -> None:
    pod = objects.pod(a_neuron_pod())
    asked = DeviceRequest(vendor=NEURON.name, count=3, memory=Absolute(MiB(0)), cores=CoreShare(2))
    assert Compared(0, pod.containers[0], NEURON, (), asked).cores == 6


@pytest.mark.parametrize(
    ("main", "others", "most"),
    [
        (4, [of_cores("beside", 0)], 4),
        (4, [of_cores("beside", 2)], 6),
        (4, [of_cores("side", 2, restartPolicy="Always")], 6),
        (4, [of_cores("first", 2)], 4),
        (4, [of_cores("first", 3), of_cores("second", 3)], 4),
        (0, [of_cores("first", 3), of_cores("second", 2)], 3),
    ],
    ids=["idle beside", "beside", "sidecar", "init", "inits", "inits alone"],
)
def test_a_pod_has_as_many_cores_by_number_as_its_containers_request_at_once(
    main: int, others: list[dict[str, Any]], most: int
) -> None:
    def found(cores: int) -> list[AuditFinding]:
        numbers = ",".join(map(str, range(cores)))
        limits = {CORES: str(main)} if main else {}
        return neuron(limits, *others, AWS_NEURON_IDS=numbers, NEURON_RESOURCE_TYPE=CORES)

    assert AuditFindingKind.LARGER not in {each.finding for each in found(most)}
    (one,) = found(most + 1)
    assert f"{most + 1} of {CORES}, and {most} requested" in one.text
