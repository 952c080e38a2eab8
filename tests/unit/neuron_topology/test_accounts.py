"""Laws of the one account of devices, cores and the old name, over histories of pods that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.holdings import demand_again
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import CoreMask
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import NodeName
from neuron_topology.core.hardware.fabric import mask_of
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES
from neuron_topology.core.nodes import HEALTH_KEY, wiring_of
from neuron_topology.core.vendor import SPEC
from tests.builders import a_container, a_pod, a_snapshot
from tests.unit.neuron_topology.nodes import INF1, INF2, TRN1, TRN2, a_neuron_node

REGISTRY = Registry([SPEC])
NOW_NS = 1_790_000_000_000_000_000


class Step(NamedTuple):
    """A pod that comes, one container for each amount of a resource, or (without amounts) one that goes."""

    resource: str
    amounts: tuple[int, ...]
    goes: int


steps = st.builds(
    Step,
    resource=st.sampled_from([DEVICES, CORES, LEGACY_DEVICES]),
    amounts=st.one_of(
        st.just(()), st.lists(st.sampled_from([1, 1, 2, 3, 4, 8, 16]), min_size=1, max_size=3).map(tuple)
    ),
    goes=st.integers(0, 99),
)
machines = st.builds(
    a_neuron_node,
    st.sampled_from([TRN1, TRN2, INF1, INF2, "inf2.24xlarge", "trn2.3xlarge", "trn9.48xlarge"]),
    family=st.sampled_from(["aws", "linked"]),
    annotations=st.sampled_from([{}, {HEALTH_KEY: '{"devices": [1], "links": [[0, 1], [2, 3]], "repaired": [0, 2]}'}]),
)


def rebuilt(node: NodeObject, pods: list[Pod]) -> NodeEntry:
    """The node after a restart: from nothing but the objects."""
    reader = RecordReader(REGISTRY)
    entry = NodeBuilder(REGISTRY).entry(node, NodeFacts())
    return with_pods(entry, [settled(reader.record(pod)[0], entry) for pod in pods])


def arrived(node: NodeObject, running: list[Pod], step: Step, name: str) -> Pod | None:
    """The pod as it runs, or ``None`` where it does not fit; what is read back of it is what was decided."""
    wanted = a_pod(
        *(a_container({step.resource: each}, name=f"c{at}") for at, each in enumerate(step.amounts)), name=name
    )
    intake = take_in(wanted, REGISTRY, Rules())
    entry = rebuilt(node, running)
    decider = Decider(REGISTRY, uncounted=REGISTRY.resources)
    decision = decider.decide(a_snapshot(entry), intake.demand, intake.policy)
    if not isinstance(decision, Placed):
        return None
    written = annotations_of(intake.pod, decision, entry, REGISTRY, now_ns=NOW_NS)
    pod = a_pod(*wanted.containers, name=name, annotations=written)
    record, problems = RecordReader(REGISTRY).record(pod)
    assert (record.allocations, problems) == (decision.containers, ())
    return pod


def histories(node: NodeObject, taken: list[Step]) -> Iterator[list[Pod]]:
    running: list[Pod] = []
    for number, step in enumerate(taken):
        if step.amounts:
            pod = arrived(node, running, step, f"p{number}")
            running = running if pod is None else [*running, pod]
        elif running:
            gone = step.goes % len(running)
            running = running[:gone] + running[gone + 1 :]
        yield running


def cores_of(record: PodRecord, entry: NodeEntry) -> list[tuple[int, int]]:
    """Every (device, core) that a pod holds, as often as it holds it."""
    devices = dict(zip(entry.ids, entry.state.shape.devices, strict=True))
    held = []
    for allocation in record.allocations:
        for share in allocation.shares:
            device = devices[share.device]
            bits = share.mark.bits if isinstance(share.mark, CoreMask) else 0
            held += [(device.index, core) for core in range(device.cores) if bits >> core & 1]
    return held


@settings(max_examples=60, deadline=None)
@given(node=machines, taken=st.lists(steps, max_size=10))
def test_no_core_is_ever_allocated_twice_and_none_of_a_sick_device(node: NodeObject, taken: list[Step]) -> None:
    for running in histories(node, taken):
        entry = rebuilt(node, running)
        held = [core for record in entry.pods for core in cores_of(record, entry)]
        assert len(held) == len(set(held))
        sick = {device.index for device in entry.state.shape.devices if not device.healthy}
        assert sick.isdisjoint(device for device, _ in held)


@settings(max_examples=60, deadline=None)
@given(node=machines, taken=st.lists(steps, max_size=10))
def test_several_devices_of_a_container_are_a_set_of_the_nodes_family(node: NodeObject, taken: list[Step]) -> None:
    for running in histories(node, taken):
        entry = rebuilt(node, running)
        sets = wiring_of(entry.state.shape).tables.sets
        index = {name: device.index for name, device in zip(entry.ids, entry.state.shape.devices, strict=True)}
        for record in entry.pods:
            for allocation in record.allocations:
                devices = [index[share.device] for share in allocation.shares]
                assert not devices or mask_of(devices) in sets[len(devices)]


@settings(max_examples=40, deadline=None)
@given(node=machines, taken=st.lists(steps, min_size=1, max_size=8), seed=st.randoms(use_true_random=False))
def test_the_account_is_the_sum_of_the_pods_in_any_order(node: NodeObject, taken: list[Step], seed: object) -> None:
    *_, running = histories(node, taken)
    shuffled = sorted(running, key=lambda _: seed.random())  # type: ignore[attr-defined]
    assert rebuilt(node, shuffled).state.usage == rebuilt(node, running).state.usage


@settings(max_examples=40, deadline=None)
@given(node=machines, taken=st.lists(steps, min_size=1, max_size=8), more=steps)
def test_a_pod_that_fits_still_fits_when_another_goes(node: NodeObject, taken: list[Step], more: Step) -> None:
    *_, running = histories(node, taken)
    if more.amounts and running and arrived(node, running, more, "more") is not None and len(more.amounts) == 1:
        gone = more.goes % len(running)
        assert arrived(node, running[:gone] + running[gone + 1 :], more, "more") is not None


@settings(max_examples=40, deadline=None)
@given(node=machines, taken=st.lists(steps, min_size=1, max_size=8), told=st.booleans())
def test_what_a_pod_holds_fits_again_when_it_is_gone(node: NodeObject, taken: list[Step], told: bool) -> None:
    *_, running = histories(node, taken)
    decider = Decider(REGISTRY, uncounted=REGISTRY.resources)
    for pod in (each for each in running if len(each.containers) == 1):
        kept = {key: text for key, text in pod.annotations.items() if told or key != SPEC.keys.allocated}
        record = rebuilt(node, [replace(pod, annotations=kept, node=NodeName("n"))]).pods[0]
        others = rebuilt(node, [each for each in running if each is not pod])
        assert isinstance(decider.decide(a_snapshot(others), PodDemand(demand_again(record)), DEFAULT_POLICY), Placed)
