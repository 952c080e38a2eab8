"""Nodes and pods that mean something, nearly something, or nothing: every one of them gets an answer."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Pod
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL, LEGACY_DEVICES
from neuron_topology.core.nodes import FAMILY_LABEL, HEALTH_KEY, LINKS_KEY
from neuron_topology.core.vendor import SPEC
from tests.builders import a_container, a_node_object, a_pod, a_snapshot
from tests.strategies import json_values, words
from tests.unit.neuron_topology.hardware.printed import TRN1_TABLE, as_json

REGISTRY = Registry([SPEC])
indexes = st.integers(-1, 20)
ls_devices = st.fixed_dictionaries(
    {"neuron_device": indexes},
    optional={
        "connected_to": st.lists(indexes, max_size=5),
        "nc_count": st.integers(-2, 9),
        "numa_node": st.integers(-1, 3) | st.just("1"),
        "bdf": st.sampled_from(["", "10:1c.0", "0000:20:1b.0"]),
    },
)
printed = st.one_of(
    words,
    json_values.map(json.dumps),
    st.lists(ls_devices, max_size=18).map(json.dumps),
    st.sampled_from([TRN1_TABLE, as_json()]),
)
health = st.one_of(
    words,
    st.fixed_dictionaries(
        {},
        optional={
            "devices": st.lists(indexes),
            "links": st.lists(st.tuples(indexes, indexes)),
            "repaired": st.lists(indexes),
        },
    ).map(json.dumps),
)
nodes = st.builds(
    lambda kind, family, devices, cores, annotations: a_node_object(
        "n",
        labels={INSTANCE_LABEL: kind, FAMILY_LABEL: family},
        capacity={DEVICES: devices, CORES: cores},
        annotations=annotations,
    ),
    kind=st.sampled_from([*INSTANCE_TYPES, ""]) | words,
    family=st.sampled_from(["aws", "linked"]) | words,
    devices=st.sampled_from([0, 1, 4, 12, 16, 17, 64, 65]),
    cores=st.sampled_from([0, 1, 16, 32, 64, 128, 5_000]),
    annotations=st.fixed_dictionaries({}, optional={LINKS_KEY: printed, HEALTH_KEY: health}),
)
amounts = st.sampled_from(["0", "1", "2", "3", "4", "8", "16", "17", "64", "-1", "1500m", "1Ei"])
pods = st.lists(
    st.dictionaries(st.sampled_from([DEVICES, CORES, LEGACY_DEVICES]), amounts, max_size=2), min_size=1, max_size=3
).map(lambda each: a_pod(*(a_container(limits, name=f"c{at}") for at, limits in enumerate(each))))
held = st.fixed_dictionaries(
    {},
    optional={
        "AWS_NEURON_IDS": st.lists(st.integers(-1, 70) | st.integers(0, 9), max_size=5).map(
            lambda ids: ",".join(map(str, ids))
        )
        | words,
        "NEURON_RESOURCE_TYPE": st.just(CORES),
        SPEC.keys.allocated: words | st.integers(0, 2**31).map(lambda mask: f"n-AWSNeuron-3,AWSNeuron,0,{mask}:;"),
    },
)


@settings(max_examples=150, deadline=None)
@given(node=nodes, pod=pods, running=pods, annotations=held)
def test_every_pod_gets_an_answer_on_every_node(
    node: NodeObject, pod: Pod, running: Pod, annotations: dict[str, str]
) -> None:
    there = a_pod(*running.containers, name="running", annotations=annotations, node="n")
    entry = NodeBuilder(REGISTRY).entry(node, NodeFacts())
    record, _ = RecordReader(REGISTRY).record(there)
    entry = with_pods(entry, [settled(record, entry)])
    intake = take_in(pod, REGISTRY, Rules())
    if intake.refusal:
        assert "container" in intake.refusal
        return
    decider = Decider(REGISTRY, uncounted=REGISTRY.resources)
    decision = decider.decide(a_snapshot(entry), intake.demand, intake.policy)
    again = Decider(REGISTRY, uncounted=REGISTRY.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
    assert decision == again
    assert isinstance(decision, Placed) or decision.counted()
