"""Pods on nodes with Neuron devices, from the API objects to what is written on the pod."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.alike import wishing
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.demand import request_of
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry, replaced
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.decisions import Placed
from hami_plugins.model.device_links import Relabelled
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts, NodeShape
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors import awsneuron, nvidia
from hami_plugins.wire.quantity import parse
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES
from neuron_topology.core.nodes import FAMILY_LABEL, HEALTH_KEY, LINKS_KEY, wiring_of
from neuron_topology.core.vendor import ALIKE_GAINS, SPEC, on_node, together
from tests.builders import a_container, a_node_object, a_pod, a_snapshot
from tests.unit.neuron_topology.hardware.printed import TRN1_TABLE, as_json
from tests.unit.neuron_topology.nodes import INF1, INF2, TRN1, TRN2, a_neuron_node
from tests.unit.vendors.placing import NOW_NS, holder, place

IDS, KIND, LIST = "AWS_NEURON_IDS", "NEURON_RESOURCE_TYPE", SPEC.keys.allocated
DEVICE_MAP, CORE_MAP = "NEURON_DEV_USAGE_MAP", "NEURON_CORE_USAGE_MAP"


def asking(*containers: Mapping[str, int | str], annotations: Mapping[str, str] | None = None, name: str = "p") -> Pod:
    made = (a_container(each, name=f"c{at}") for at, each in enumerate(containers))
    return a_pod(*made, name=name, annotations=annotations or {})


def holding(*devices: int, mask: int = 3, name: str = "running") -> Pod:
    listed = "".join(f"n-AWSNeuron-{device},AWSNeuron,0,{mask}:" for device in devices)
    return holder(SPEC, f"{listed};", name=name)


def told(node: NodeObject, pod: Pod, *running: Pod, remarked: bool = False) -> str:
    """The numbers for AWS's plugin, or the message of the refusal; see ``place``."""
    written = place(SPEC, node, pod, running, remarked=remarked)
    return written if isinstance(written, str) else written[IDS]


def problems_of(node: NodeObject) -> list[str]:
    return [each.what for each in NodeBuilder(Registry([SPEC])).entry(node, NodeFacts()).problems]


def shape_of(node: NodeObject) -> NodeShape:
    return NodeBuilder(Registry([SPEC])).entry(node, NodeFacts()).state.shape


@pytest.mark.parametrize(
    ("kind", "family", "count", "ids"),
    [
        (TRN1, "", 1, "0"),
        (TRN1, "", 4, "0,1,2,3"),
        (TRN1, "aws", 8, "0,1,2,3,4,5,6,7"),
        (TRN1, "", 16, ",".join(map(str, range(16)))),
        (TRN1, "linked", 2, "0,1"),
        (TRN1, "linked", 4, "0,1,13,12"),
        (TRN2, "linked", 2, "0,3"),
        (TRN2, "linked", 8, "0,1,2,3,15,14,13,12"),
        (INF2, "linked", 3, "8,9,10"),
        (INF2, "", 3, "0,1,2"),
        ("trn1.2xlarge", "", 1, "0"),
        ("trn3.48xlarge", "", 7, "0,1,2,3,4,5,6"),
        ("trn3e.24xlarge", "linked", 3, "0,1,2"),
    ],
)
def test_devices_come_in_linked_sets_in_the_order_of_their_links(kind: str, family: str, count: int, ids: str) -> None:
    written = place(SPEC, a_neuron_node(kind, family=family), asking({DEVICES: count}))
    assert not isinstance(written, str)
    assert written[IDS] == ids
    assert KIND not in written
    assert (written["NEURON_ALLOC_TIME"], written["NEURON_ALLOCATED"]) == (str(NOW_NS), "false")


@pytest.mark.parametrize(
    ("kind", "family", "resources", "words"),
    [
        (
            TRN1,
            "",
            {DEVICES: 7},
            f"Instance type {TRN1} does not support requests for device: 7; the nearest supported: 4 or 8",
        ),
        (
            TRN1,
            "",
            {DEVICES: 17},
            f"Instance type {TRN1} does not support requests for device: 17; the nearest supported: 16",
        ),
        (
            "trn1.2xlarge",
            "linked",
            {DEVICES: 2},
            "Instance type trn1.2xlarge does not support requests for device: 2; the nearest supported: 1",
        ),
        (
            TRN1,
            "",
            {CORES: 4},
            f"4 cores are 2 devices here: Instance type {TRN1} does not support requests for "
            "device: 2; the nearest supported: 2 or 8 cores",
        ),
    ],
)
def test_counts_that_the_family_does_not_have_are_refused_with_the_nearest_ones(
    kind: str, family: str, resources: dict[str, int | str], words: str
) -> None:
    assert told(a_neuron_node(kind, family=family), asking(resources)) == words


def test_a_refusal_for_want_of_a_linked_set_names_what_is_free() -> None:
    words = told(a_neuron_node(family="linked"), asking({DEVICES: 4}), holding(0, 2, 5, 11, 13))
    assert words == "no linked set of 4 among the 11 devices that are free: 1, 3, 4, 6, 7, 8, 9, 10, 12, 14, 15"


def test_a_refusal_for_want_of_one_of_awss_sets_says_whether_linked_ones_would_help() -> None:
    column = told(a_neuron_node(), asking({DEVICES: 4}), holding(0, 4, 8, 12))
    assert column == (
        "none of AWS's sets of 4 among the 12 devices that are free: 1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15; "
        "a node pool with the label hami-plugins.io/neuron-sets=linked would have one"
    )
    apart = told(a_neuron_node(), asking({DEVICES: 4}), holding(0, 2, 5, 7, 8, 10, 13))
    assert apart == "none of AWS's sets of 4 among the 9 devices that are free: 1, 3, 4, 6, 9, 11, 12, 14, 15"


def test_too_few_free_devices_are_counted() -> None:
    words = told(a_neuron_node(), asking({DEVICES: 16}), holding(0))
    assert words == "1/16 ExclusiveDeviceAllocateConflict, 15/16 AllocatedCardsInsufficientRequest"
    assert told(a_node_object("n"), asking({DEVICES: 1})) == "node unregistered"


def test_a_node_with_devices_of_others_alone_has_too_few() -> None:
    registry = Registry([SPEC, nvidia.SPEC])
    entry = NodeBuilder(Registry([nvidia.SPEC])).entry(_with_a_gpu(), NodeFacts())
    intake = take_in(asking({DEVICES: 1}), registry, Rules())
    decided = Decider(registry, uncounted=registry.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
    assert not isinstance(decided, Placed)
    assert decided.by_node[0][1].words == "NodeInsufficientDevice"


def _with_a_gpu() -> NodeObject:
    card = {"id": "GPU-a", "count": 10, "devmem": 1000, "devcore": 100, "type": "NVIDIA", "health": True}
    return a_node_object("n", annotations={"hami.io/node-nvidia-register": json.dumps([card])})


@pytest.mark.parametrize(
    ("kind", "cores", "ids"),
    [
        (TRN1, 1, "0"),
        (TRN1, 2, "0,1"),
        (TRN1, 8, "0,1,2,3,4,5,6,7"),
        (TRN2, 3, "0,1,2"),
        (TRN2, 16, ",".join(map(str, range(16)))),
        (INF1, 4, "0,1,2,3"),
        (INF1, 9, "0,1,2,3,4,5,6,7,8"),
        (INF2, 5, "0,1,2,3,4"),
    ],
)
def test_cores_are_neighbours_and_told_by_number(kind: str, cores: int, ids: str) -> None:
    written = place(SPEC, a_neuron_node(kind), asking({CORES: cores}))
    assert not isinstance(written, str)
    assert (written[IDS], written[KIND]) == (ids, CORES)


def test_cores_of_a_linked_set_are_one_range() -> None:
    assert told(a_neuron_node(family="linked"), asking({CORES: 8})) == "0,1,2,3,4,5,6,7"
    assert told(a_neuron_node(TRN2, family="linked"), asking({CORES: 8})) == "0,1,2,3,4,5,6,7"
    worn = a_neuron_node(TRN2, family="linked", annotations={HEALTH_KEY: '{"repaired": [0, 6]}'})
    assert told(worn, asking({CORES: 7})) == "4,5,6,7,8,9,10"
    taken = [holding(at, name=f"h{at}", mask=1) for at in (1, 4, 7, 10)]
    ends = told(a_neuron_node(INF2, family="linked"), asking({CORES: 6}), *taken)
    assert ends == (
        "6 cores are 3 devices here: no linked set with neighbouring numbers of 3 among the 8 devices that are free: "
        "0, 2, 3, 5, 6, 8, 9, 11"
    )
    wraps = [holding(at, name=f"h{at}", mask=1) for at in range(1, 10)]
    assert told(a_neuron_node(INF2, family="linked"), asking({DEVICES: 3}), *wraps) == "10,11,0"
    assert told(a_neuron_node(INF2, family="linked"), asking({CORES: 6}), *wraps).startswith("6 cores are 3 devices")


def test_halves_of_one_device_go_to_two_containers_and_to_two_pods() -> None:
    written = place(SPEC, a_neuron_node(), asking({CORES: 1}, {}, {CORES: 1}))
    assert not isinstance(written, str)
    assert written[LIST] == "n-AWSNeuron-0,AWSNeuron,0,1:;;n-AWSNeuron-0,AWSNeuron,0,2:;"
    assert told(a_neuron_node(), asking({CORES: 1}), holding(5, mask=1)) == "11"


def test_the_lnc_setting_of_the_node_decides_how_many_cores_a_device_has() -> None:
    pod = asking({CORES: 8})
    assert told(a_neuron_node(TRN2, cores=8), pod) == "0,1,2,3,4,5,6,7"
    assert told(a_neuron_node(TRN2, cores=4), pod).startswith("8 cores are 2 devices here")


def test_begun_devices_are_filled_up_before_others_are_begun() -> None:
    node = a_neuron_node(TRN2)
    assert told(node, asking({CORES: 1}), holding(3, mask=1), holding(9, mask=7, name="b")) == "39"
    assert told(node, asking({CORES: 2}), holding(3, mask=0b0101)) == "0,1"


def test_a_whole_device_is_one_that_nobody_uses_and_is_booked_whole() -> None:
    written = place(SPEC, a_neuron_node(TRN2), asking({DEVICES: 1}), [holding(0, mask=1)])
    assert not isinstance(written, str)
    assert written[LIST] == "n-AWSNeuron-1,AWSNeuron,0,15:;"
    after = holder(SPEC, written[LIST], name="after")
    assert told(a_neuron_node(TRN2), asking({CORES: 2}), holding(0, mask=1), after) == "2,3"


def test_the_old_name_of_devices_means_devices() -> None:
    assert told(a_neuron_node(), asking({LEGACY_DEVICES: 4})) == "0,1,2,3"
    old = a_node_object("n", capacity={LEGACY_DEVICES: 16}, labels={"node.kubernetes.io/instance-type": TRN1})
    assert told(old, asking({LEGACY_DEVICES: 4})) == "0,1,2,3"
    assert told(old, asking({CORES: 2})) == "0,1"


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        ([{DEVICES: 1, CORES: 2}], f"{CORES} is also requested"),
        ([{DEVICES: 1, LEGACY_DEVICES: 1}], f"{LEGACY_DEVICES} is also requested; leave {LEGACY_DEVICES} out"),
        ([{DEVICES: "1500m"}], "not a number of devices or cores"),
        ([{CORES: -1}], "not a number of devices or cores"),
        ([{DEVICES: 2**31}], "not a number of devices or cores"),
        ([{DEVICES: 1}, {CORES: 1}], "container c1 uses the other unit"),
    ],
)
def test_requests_that_mean_nothing_are_refused_when_the_pod_is_made(
    containers: list[dict[str, int | str]], why: str
) -> None:
    pod = asking(*containers)
    assert why in told(a_neuron_node(), pod)
    with pytest.raises(InvalidRequestError, match=why):
        request_of(SPEC, pod.containers[0], pod)


def test_zero_is_nothing() -> None:
    pod = asking({DEVICES: 0, CORES: 2}, {DEVICES: 0})
    assert told(a_neuron_node(), pod) == "0,1"
    assert request_of(SPEC, pod.containers[1], pod) is None
    assert place(SPEC, a_neuron_node(), asking({DEVICES: 0})) == {}


def test_unhealthy_devices_and_links_leave_the_graph_and_the_rest_stays_useful() -> None:
    node = a_neuron_node(annotations={HEALTH_KEY: '{"devices": [1], "links": [[4, 5]]}'})
    assert told(node, asking({DEVICES: 4})) == "8,9,10,11"
    assert told(node, asking({DEVICES: 8})) == "8,9,10,11,12,13,14,15"
    assert told(node, asking({DEVICES: 16})) == (
        f"Instance type {TRN1} does not support requests for device: 16; the nearest supported: 8; "
        "links 4-5 do not work"
    )
    assert told(node, asking({DEVICES: 1})) != "1"


def test_a_linked_pool_keeps_a_node_with_a_dead_link_for_whole_jobs() -> None:
    node = a_neuron_node(family="linked", annotations={HEALTH_KEY: '{"links": [[0, 1]]}'})
    assert len(told(node, asking({DEVICES: 16})).split(",")) == 16


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_broken_devices_are_no_load_and_make_a_node_the_second(policy: str) -> None:
    broken = a_neuron_node(annotations={HEALTH_KEY: '{"devices": [15]}'})
    running = {name: [holding(0, 1, 2, 3, 8, 9, 10, 11)] for name in ("broken", "sound")}
    assert _chosen({"broken": broken, "sound": a_neuron_node()}, {DEVICES: 1}, policy, running) == "sound"


def test_a_node_is_as_full_as_its_devices_that_work() -> None:
    """Half of them are held, and what is left of the row loses nothing more."""
    registry = Registry([SPEC])
    scores = []
    for broken in ("[]", "[14, 15]"):
        node = a_neuron_node(annotations={HEALTH_KEY: f'{{"devices": {broken}}}'})
        entry = NodeBuilder(registry).entry(node, NodeFacts())
        used = [*range(8), 12] if broken == "[]" else [*range(7)]
        entry = with_pods(entry, [RecordReader(registry).record(_of("n", holding(*used)))[0]])
        intake = take_in(asking({DEVICES: 1}), registry, Rules())
        fit = Decider(registry, uncounted=registry.resources).answer(entry, intake.demand, intake.policy)
        assert isinstance(fit, Fit)
        wiring = wiring_of(entry.state.shape)
        free = wiring.free(entry.state.shape, entry.state.usage)
        (share,) = fit.containers[0].shares()
        left = free & ~(1 << share.position)
        lost = (wiring.tables.value(free) - wiring.tables.value(left)) / wiring.worth
        scores.append(fit.score - 10 * (1 - lost))
    assert scores == pytest.approx([10 * 9 / 16, 10 * 7 / 14 - 2])


@pytest.mark.parametrize(("policy", "gained"), [(None, ALIKE_GAINS), ("spread", -ALIKE_GAINS)])
def test_a_node_that_has_the_set_of_the_others_comes_before_equal_ones(policy: str | None, gained: float) -> None:
    registry = Registry([SPEC])
    entry = NodeBuilder(registry).entry(a_neuron_node(), NodeFacts())
    annotations = {"hami.io/node-scheduler-policy": policy} if policy else {}
    intake = take_in(asking({DEVICES: 4}, annotations=annotations), registry, Rules())
    scores = []
    for preferred in ((), ((4, 5, 6, 7),), ((5, 6, 9, 10),)):
        devices = intake.demand.devices
        asked = {request: preferred for each in devices.containers for request in each.requests}
        demand = replace(intake.demand, devices=wishing(devices, asked))
        fit = Decider(registry, uncounted=registry.resources).answer(entry, demand, intake.policy)
        assert isinstance(fit, Fit)
        scores.append(fit.score)
    alone, alike, unlinked = scores
    assert (alike - alone, unlinked) == pytest.approx((gained, alone))


def test_repaired_errors_make_a_device_the_last_choice_and_a_node_the_second() -> None:
    worn = a_neuron_node(annotations={HEALTH_KEY: '{"repaired": [0]}'})
    assert told(worn, asking({DEVICES: 4})) == "4,5,6,7"
    assert told(worn, asking({DEVICES: 16})).startswith("0,1")
    assert told(worn, asking({DEVICES: 1})) == "1"
    assert told(worn, asking({CORES: 1}), holding(0, mask=1), holding(9, mask=1, name="b")) == "19"
    for policy, best in (("binpack", "sound"), ("spread", "sound")):
        assert _chosen({"worn": worn, "sound": a_neuron_node()}, {DEVICES: 16}, policy) == best


def test_the_node_that_loses_the_fewest_sets_is_chosen_and_spread_takes_the_emptiest() -> None:
    begun = {"empty": a_neuron_node(), "begun": a_neuron_node()}
    running = {"begun": [holding(0, 1, 2, 3)]}
    assert _chosen(begun, {DEVICES: 4}, "binpack", running) == "begun"
    assert _chosen(begun, {DEVICES: 4}, "spread", running) == "empty"
    single = {"one": a_neuron_node("trn1.2xlarge"), "many": a_neuron_node()}
    assert _chosen(single, {DEVICES: 1}, "binpack") == "one"


def test_of_nodes_that_lose_nothing_the_fullest_is_chosen() -> None:
    nodes = {"a": a_neuron_node(), "fuller": a_neuron_node(), "z": a_neuron_node()}
    running = {name: [holding(0, mask=1)] for name in nodes}
    running["fuller"].append(holding(4, 5, 6, 7, name="row"))
    assert _chosen(nodes, {CORES: 1}, "binpack", running) == "fuller"


def _chosen(
    nodes: dict[str, NodeObject],
    resources: dict[str, int | str],
    policy: str,
    running: dict[str, list[Pod]] | None = None,
) -> str:
    registry = Registry([SPEC])
    builder, reader = NodeBuilder(registry), RecordReader(registry)
    entries = [
        with_pods(
            builder.entry(node._replace(name=name), NodeFacts()),  # type: ignore[arg-type]
            [reader.record(_of(name, pod))[0] for pod in (running or {}).get(name, ())],
        )
        for name, node in nodes.items()
    ]
    pod = asking(resources, annotations={"hami.io/node-scheduler-policy": policy})
    intake = take_in(pod, registry, Rules())
    decision = Decider(registry, uncounted=registry.resources).decide(
        a_snapshot(*entries), intake.demand, intake.policy
    )
    assert isinstance(decision, Placed)
    return decision.node


def _of(node: str, pod: Pod) -> Pod:
    listed = {key: text.replace("n-AWSNeuron", f"{node}-AWSNeuron") for key, text in pod.annotations.items()}
    return a_pod(*pod.containers, name=pod.name, annotations=listed)


@pytest.mark.parametrize("word", ["neuron-uuid", "gpuuuid"], ids=["HAMi's code", "HAMi's documents"])
def test_the_id_lists_of_a_pod_are_obeyed_by_sets_too(word: str) -> None:
    pod = asking({DEVICES: 4}, annotations={f"aws.amazon.com/nouse-{word}": "n-AWSNeuron-2"})
    assert told(a_neuron_node(), pod) == "4,5,6,7"
    pod = asking({DEVICES: 1}, annotations={f"aws.amazon.com/use-{word}": "n-AWSNeuron-9"})
    assert told(a_neuron_node(), pod) == "9"


def test_what_the_machine_shows_wins_over_its_type() -> None:
    pod = asking({DEVICES: 4})
    unknown = a_neuron_node("trn9.32xlarge", devices=16, annotations={LINKS_KEY: TRN1_TABLE})
    entry = NodeBuilder(Registry([SPEC])).entry(unknown, NodeFacts())
    assert entry.state.shape.links[0][1] == 1
    assert wiring_of(entry.state.shape).topology.fabric.shape == "torus"
    cut = a_neuron_node(annotations={LINKS_KEY: as_json(cut=[(0, 1)])})
    entry = NodeBuilder(Registry([SPEC])).entry(cut, NodeFacts())
    intake = take_in(pod, Registry([SPEC]), Rules())
    registry = Registry([SPEC])
    placed = Decider(registry, uncounted=registry.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
    assert isinstance(placed, Placed)
    assert [share.device for share in placed.containers[0].shares] == [f"n-AWSNeuron-{at}" for at in (4, 5, 6, 7)]
    assert problems_of(cut) == [f"neuron-ls differs from the table of {TRN1}: no link 0-1"]


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (a_neuron_node("trn9.32xlarge"), "instance type trn9.32xlarge is not known"),
        (a_neuron_node(devices=12), f"the node has 12 devices, {TRN1} has 16"),
        (a_neuron_node(cores=3), f"the node has 3 cores a device, {TRN1} has 2"),
        (a_neuron_node(family="wide"), f"label {FAMILY_LABEL}=wide is not aws or linked; aws it is"),
        (a_neuron_node(annotations={LINKS_KEY: "?"}), f"ignored: {LINKS_KEY}: neither JSON nor a table"),
        (a_neuron_node(annotations={HEALTH_KEY: "?"}), f"ignored: {HEALTH_KEY}: not JSON"),
        (a_neuron_node(annotations={HEALTH_KEY: '{"devices": [44]}'}), "health names device 44, the node has 16"),
        (
            a_neuron_node(annotations={DEVICE_MAP: "true,false"}),
            f"{DEVICE_MAP} has 2 words, and the node has 16 devices",
        ),
        (a_neuron_node(annotations={CORE_MAP: "true"}), f"{CORE_MAP} has 1 words, and the node has 32 cores"),
        (a_neuron_node(annotations={DEVICE_MAP: "1,0"}), f"{DEVICE_MAP} is not a list of true and false: '1,0'"),
    ],
)
def test_what_cannot_be_taken_at_its_word_is_told_and_the_devices_stay(node: NodeObject, problem: str) -> None:
    (said,) = problems_of(node)
    assert said.startswith(problem)
    assert SPEC.inventory(SPEC, node).devices


@pytest.mark.parametrize(("family", "other"), [("aws", "linked"), ("linked", "aws")])
def test_with_the_label_of_the_other_family_a_node_is_as_one_of_that_pool(family: str, other: str) -> None:
    assert SPEC.topology.relabelled is not None
    (found,) = SPEC.topology.relabelled(shape_of(a_neuron_node(TRN2, family=family)))
    assert found == Relabelled("hami-plugins.io/neuron-sets", other, shape_of(a_neuron_node(TRN2, family=other)))


@pytest.mark.parametrize("gone", [3, 15])
@pytest.mark.parametrize("counted", [15, 16])
def test_a_node_with_a_device_gone_from_the_bus_stays_useful(gone: int, counted: int) -> None:
    node = a_neuron_node(devices=counted, annotations={LINKS_KEY: as_json(without=[gone])})
    assert problems_of(node) == [f"neuron-ls does not list device {gone}"]
    ours = replace(asking({DEVICES: 8}), name="eight")
    lacking = node._replace(allocatable={DEVICES: parse("15", key="k")})
    assert len(problems_of(lacking)) == 1
    placed = _chosen_devices(node, ours)
    assert placed in (list(range(8)), list(range(8, 16)))
    assert gone not in placed
    singles = SPEC.inventory(SPEC, node)
    assert [device.index for device in singles.devices if device.healthy] == [at for at in range(16) if at != gone]


def _chosen_devices(node: NodeObject, pod: Pod) -> list[int]:
    registry = Registry([SPEC])
    entry = NodeBuilder(registry).entry(node, NodeFacts())
    intake = take_in(pod, registry, Rules())
    placed = Decider(registry, uncounted=registry.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
    assert isinstance(placed, Placed)
    return [int(share.device.rpartition("-")[2]) for share in placed.containers[0].shares]


def test_cores_that_cannot_be_read_hide_no_device() -> None:
    node = a_neuron_node()
    odd = node._replace(capacity={**node.capacity, CORES: parse("1500m", key="k")})
    (said,) = problems_of(odd)
    assert said.startswith("ignored")
    assert {device.cores for device in SPEC.inventory(SPEC, odd).devices} == {2}


def test_devices_that_nobody_may_have_are_not_free() -> None:
    node = a_neuron_node(annotations={HEALTH_KEY: '{"devices": [3]}'})
    entry = NodeBuilder(Registry([SPEC])).entry(node, NodeFacts())
    shape = entry.state.shape
    cordoned = replace(shape.devices[5], cordoned=True)
    shape = NodeShape((*shape.devices[:5], cordoned, *shape.devices[6:]), shape.links, shape.traits)
    assert wiring_of(shape).free(shape, entry.state.usage) == (1 << 16) - 1 - (1 << 3) - (1 << 5)


def with_allocatable(devices: int, name: str = DEVICES, **annotations: str) -> NodeObject:
    """A trn1.32xlarge of whose devices so many are allocatable."""
    amount, written = parse("16", key="k"), {HEALTH_KEY: annotations["health"]} if annotations else {}
    node = a_neuron_node(annotations=written)
    return node._replace(capacity={name: amount}, allocatable={name: parse(f"{devices}", key="k")})


@pytest.mark.parametrize("name", [DEVICES, LEGACY_DEVICES])
def test_devices_that_are_not_allocatable_are_told_until_somebody_says_which(name: str) -> None:
    assert problems_of(with_allocatable(15, name)) == [
        "1 of 16 devices are not allocatable, and the node does not name them: as many free ones are reserved; "
        "name them in hami-plugins.io/neuron-health"
    ]
    assert problems_of(with_allocatable(15, name, health='{"devices": [7]}')) == []


def test_a_name_that_the_node_has_no_devices_under_says_nothing_of_those_that_it_has() -> None:
    node = with_allocatable(16, LEGACY_DEVICES)
    none = {DEVICES: parse("0", key="k")}
    both = node._replace(capacity=none | dict(node.capacity), allocatable=none | dict(node.allocatable))
    assert told(both, asking({DEVICES: 16})).count(",") == 15


WITHHELD = (
    "{} of 16 devices are not allocatable, and the node does not name them: as many of the {} free ones are reserved"
)


@pytest.mark.parametrize(
    ("counts", "held", "ids"),
    [
        ((16,), (), WITHHELD.format(2, 16)),
        ((8, 8), (), WITHHELD.format(2, 8)),
        ((8, 4), (), "0,1,2,3,4,5,6,7,8,9,10,11"),
        ((1,), range(13), "13"),
        ((1,), range(14), WITHHELD.format(2, 2)),
    ],
)
def test_as_many_devices_stay_free_as_are_broken_where_nobody_says_which(
    counts: Sequence[int], held: Sequence[int], ids: str
) -> None:
    running = (holding(*held),) if held else ()
    assert told(with_allocatable(14), asking(*({DEVICES: each} for each in counts)), *running, remarked=True) == ids


def test_devices_that_are_known_to_be_broken_do_not_have_to_stay_free_once_more() -> None:
    node = with_allocatable(14, health='{"devices": [0]}')
    assert told(node, asking({DEVICES: 1}), holding(*range(1, 14)), remarked=True) == "14"
    assert told(node, asking({DEVICES: 1}), holding(*range(1, 15)), remarked=True) == WITHHELD.format(1, 1)


def test_cores_of_a_device_that_is_in_use_are_had_where_no_other_device_may_be() -> None:
    node = with_allocatable(15)._replace(capacity=a_neuron_node().capacity)
    begun = (holding(*range(14)), holding(14, mask=1, name="half"))
    assert told(node, asking({CORES: 1}), *begun, remarked=True) == "29"
    assert told(node, asking({CORES: 2}), *begun, remarked=True) == WITHHELD.format(1, 1)
    assert told(node, asking({CORES: 1}), holding(*range(15)), remarked=True) == WITHHELD.format(1, 1)
    assert told(node, asking({CORES: 1}), holding(*range(14)), remarked=True) == "28"


def test_devices_without_known_links_are_allocated_singly_or_all_together() -> None:
    node = a_neuron_node("", devices=4)
    registry = Registry([SPEC])
    shape = NodeBuilder(registry).entry(node, NodeFacts()).state.shape
    assert wiring_of(shape).tables.counts == (1, 4)
    assert wiring_of(shape).name == ""


def test_devices_behind_switches_go_together_in_any_set_but_as_one_range_of_cores() -> None:
    def sets(kind: str, asks: Mapping[str, int | str]) -> Sequence[Sequence[int]] | None:
        shape, pod = shape_of(a_neuron_node(kind)), asking(asks)
        request = request_of(SPEC, pod.containers[0], pod)
        assert request is not None
        found = together(on_node(request, shape), shape)
        return None if found is None else found.sets

    switched, linked = "trn3.48xlarge", TRN1
    assert sets(switched, {DEVICES: 4}) is None
    assert sets(switched, {CORES: 4 * 4}) == [tuple(range(at, at + 4)) for at in range(13)]
    assert sets(linked, {DEVICES: 5}) == []
    assert [sorted(each) for each in sets(linked, {DEVICES: 16}) or ()] == [list(range(16))]


def test_more_devices_than_any_machine_has_are_a_mistake() -> None:
    with pytest.raises(WireError, match="more than the 64 of any machine"):
        SPEC.inventory(SPEC, a_neuron_node("", devices=65))


def test_a_device_whose_cores_nobody_knows_is_allocated_whole_only() -> None:
    node = a_neuron_node("trn1.2xlarge", cores=0)._replace(labels={})
    assert told(node, asking({DEVICES: 1})) == "0"
    assert told(node, asking({CORES: 1})) == "1/1 CardInsufficientCore"


def elsewhere(*containers: Mapping[str, int | str], **annotations: str) -> Pod:
    return replace(asking(*containers, annotations=annotations, name="elsewhere"), node=NodeName("n"))


def test_what_awss_extension_allocated_is_held_without_hamis_list() -> None:
    theirs = elsewhere({DEVICES: 4}, {}, {DEVICES: 1}, AWS_NEURON_IDS="4,5,6,7,9", NEURON_ALLOCATED="false")
    record, problems = RecordReader(Registry([SPEC])).record(theirs)
    assert problems == ()
    held = [[share.device for share in allocation.shares] for allocation in record.allocations]
    assert held == [[f"n-AWSNeuron-{at}" for at in (4, 5, 6, 7)], [], ["n-AWSNeuron-9"]]
    assert told(a_neuron_node(), asking({DEVICES: 4}), theirs) == "0,1,2,3"
    assert told(a_neuron_node(), asking({DEVICES: 8}), theirs).startswith(
        "none of AWS's sets of 8 among the 11 devices"
    )
    assert told(a_neuron_node(TRN2), asking({CORES: 1}), replace(theirs, name="x")) != "16"


@pytest.mark.parametrize(
    ("asked", "listed", "ids", "held"),
    [
        ({DEVICES: 1}, "n-AWSNeuron-2,AWSNeuron,0,3:;", "7", [2, 7]),
        ({DEVICES: 2}, "n-AWSNeuron-0,AWSNeuron,0,3:;", "0,1", [0, 1]),
        ({DEVICES: 2}, "other-AWSNeuron-0,AWSNeuron,0,3:other-AWSNeuron-1,AWSNeuron,0,3:;", "0,1", [0, 0, 1, 1]),
        ({DEVICES: 4}, "n-AWSNeuron-0,AWSNeuron,0,3:;", "0,1,2,3", [0, 1, 2, 3]),
        ({CORES: 2}, "n-AWSNeuron-1,AWSNeuron,0,3:;", "6,7", [1, 3]),
    ],
)
def test_what_awss_plugin_is_told_is_held_beside_a_list_that_says_something_else(
    asked: dict[str, int | str], listed: str, ids: str, held: list[int]
) -> None:
    kind = {KIND: CORES} if CORES in asked else {}
    found, (problem, *_) = kept_by(elsewhere(asked, **{LIST: listed, IDS: ids, **kind}), a_neuron_node())
    assert sorted(found) == held
    assert f"names what {LIST} does not" in problem


@pytest.mark.parametrize(
    ("asked", "listed", "written", "held"),
    [
        ({DEVICES: 2}, "n-AWSNeuron-2,AWSNeuron,0,3:n-AWSNeuron-3,AWSNeuron,0,3:;", {IDS: "3,2"}, [2, 3]),
        ({DEVICES: 1}, "n-AWSNeuron-2,AWSNeuron,0,3:;", {}, [2]),
        ({CORES: 1}, "n-AWSNeuron-3,AWSNeuron,0,2:;", {IDS: "7", KIND: CORES}, [3]),
    ],
)
def test_a_list_that_covers_what_awss_plugin_is_told_stands(
    asked: dict[str, int | str], listed: str, written: dict[str, str], held: list[int]
) -> None:
    assert kept_by(elsewhere(asked, **{LIST: listed, **written}), a_neuron_node()) == (held, [])


@pytest.mark.parametrize("written", [{IDS: "1,2"}, {LIST: "n-AWSNeuron-2,AWSNeuron,0,3:;"}])
def test_a_pod_that_asks_for_nothing_holds_nothing_whatever_it_carries(written: dict[str, str]) -> None:
    found, (problem,) = kept_by(elsewhere({}, **written), a_neuron_node())
    assert found == []
    assert "requests no Neuron devices" in problem
    assert kept_by(elsewhere({}), a_neuron_node()) == ([], [])


def kept_by(pod: Pod, node: NodeObject) -> tuple[list[int], list[str]]:
    """The indexes of the devices that a foreign pod holds on its node, and the note about it."""
    registry = Registry([SPEC])
    entry = NodeBuilder(registry).entry(node, NodeFacts())
    record, problems = RecordReader(registry).record(pod)
    shares = [share for allocation in settled(record, entry).allocations for share in allocation.shares]
    return [int(share.device.rpartition("-")[2]) for share in shares], [each.what for each in problems]


NOBODY_KNOWS = f"hold all devices of the node; annotate it with {IDS}"


@pytest.mark.parametrize("asked", [{DEVICES: 16}, {DEVICES: 1}, {CORES: 2}, {LEGACY_DEVICES: 4}])
@pytest.mark.parametrize("written", [{}, {IDS: ""}, {IDS: "none"}, {LIST: "n-AWSNeuron-3,AWSNeuron,0,x:;"}])
def test_a_pod_of_which_nobody_wrote_down_devices_holds_every_device(
    asked: dict[str, int | str], written: dict[str, str]
) -> None:
    pod = elsewhere(asked, **written)
    held, problems = kept_by(pod, a_neuron_node())
    assert held == list(range(16))
    assert NOBODY_KNOWS in problems[-1]
    for wanted in ({CORES: 2}, {DEVICES: 1}):
        assert isinstance(place(SPEC, a_neuron_node(), asking(wanted), [pod]), str)
    entry = NodeBuilder(Registry([SPEC])).entry(a_neuron_node(), NodeFacts())
    full = with_pods(entry, [settled(RecordReader(Registry([SPEC])).record(pod)[0], entry)]).state.usage
    assert {(used.slots, used.cores) for used in full} == {(1, 2)}


@pytest.mark.parametrize(
    ("pod", "held", "why"),
    [
        (elsewhere({DEVICES: 2}, AWS_NEURON_IDS="3,4,4"), [3, 4], "not a list of different numbers"),
        (elsewhere({DEVICES: 1}, AWS_NEURON_IDS="a,3"), [3], "not a list of different numbers"),
        (elsewhere({DEVICES: 1}, AWS_NEURON_IDS="1,2"), [1, 2], "names 2, and the pod asks for 1"),
        (elsewhere({DEVICES: -1}, {DEVICES: 3}, AWS_NEURON_IDS="1,2,5"), [1, 2, 5], None),
        (elsewhere({DEVICES: -1}, {DEVICES: 2}, {DEVICES: 1}, AWS_NEURON_IDS="1,2,5"), [1, 2, 5], None),
        (elsewhere({DEVICES: 1}, AWS_NEURON_IDS="3", **{LIST: "n-AWSNeuron-3,AWSNeuron,0,x:;"}), [3], LIST),
        (elsewhere({DEVICES: 2}, AWS_NEURON_IDS="3,3"), list(range(16)), "not a list of different numbers"),
        (elsewhere({DEVICES: 8}, AWS_NEURON_IDS="0,1,2,3"), list(range(16)), "names 4, and the pod asks for 8"),
        (elsewhere({DEVICES: 1}, AWS_NEURON_IDS="2", NEURON_RESOURCE_TYPE=CORES), list(range(16)), NOBODY_KNOWS),
        (elsewhere({DEVICES: 1}, AWS_NEURON_IDS="9" * 5000), list(range(16)), "not a list of different numbers"),
    ],
)
def test_what_others_wrote_is_held_and_what_is_odd_about_it_is_told(pod: Pod, held: list[int], why: str | None) -> None:
    found, problems = kept_by(pod, a_neuron_node())
    assert sorted(found) == held
    assert (why is None) is (problems == [])
    assert why is None or why in problems[0]


def test_cores_that_awss_extension_allocated_are_held_on_the_devices_of_their_node() -> None:
    theirs = elsewhere({CORES: 3}, AWS_NEURON_IDS="0,1,2", NEURON_RESOURCE_TYPE=CORES)
    assert kept_by(theirs, a_neuron_node()) == ([0, 1], [])
    assert kept_by(theirs, a_neuron_node(TRN2)) == ([0], [])
    assert told(a_neuron_node(), asking({CORES: 1}), theirs) == "3"
    assert told(a_neuron_node(TRN2), asking({CORES: 1}), theirs) == "3"
    assert told(a_neuron_node(), asking({DEVICES: 4}), theirs) == "4,5,6,7"
    beyond = elsewhere({CORES: 1}, AWS_NEURON_IDS="32", NEURON_RESOURCE_TYPE=CORES)
    assert kept_by(beyond, a_neuron_node())[0] == list(range(16))


def test_init_containers_run_on_the_devices_of_the_others() -> None:
    init = replace(a_container({DEVICES: 4}, name="init"), kind=ContainerKind.INIT)
    for running, ids in (([a_container({DEVICES: 4}, name="app")], "0,1,2,3"), ([], "0,1,2,3")):
        pod = replace(a_pod(init, *running, annotations={IDS: ids}), node=NodeName("n"))
        assert kept_by(pod, a_neuron_node()) == ([0, 1, 2, 3], [])
        assert told(a_neuron_node(), asking({DEVICES: 4}), pod) == "4,5,6,7"


@pytest.mark.parametrize(
    ("init", "app", "ids"),
    [
        ({DEVICES: 4}, {DEVICES: 4}, "0,1,2,3"),
        ({DEVICES: 1}, {DEVICES: 4}, "0,1,2,3"),
        ({DEVICES: 4}, {}, "0,1,2,3"),
        ({CORES: 2}, {CORES: 2}, "0,1"),
    ],
)
def test_an_init_container_is_told_the_devices_of_the_others_once(
    init: dict[str, int | str], app: dict[str, int | str], ids: str
) -> None:
    first = replace(a_container(init, name="init"), kind=ContainerKind.INIT)
    assert told(a_neuron_node(), a_pod(first, a_container(app, name="app"))) == ids
    idle = a_container(name="idle")
    alone = told(a_neuron_node(), a_pod(first, idle))
    assert alone.replace(",", "").isdecimal()
    assert told(a_neuron_node(), a_pod(first, replace(first, name="b"), idle)) == alone


def test_an_init_container_is_told_no_device_that_the_others_do_not_have() -> None:
    first = replace(a_container({DEVICES: 1}, name="init"), kind=ContainerKind.INIT)
    pod = a_pod(first, a_container({DEVICES: 4}, name="app"))
    assert told(a_neuron_node(), pod, holding(4)) == "0,1,2,3"


def test_an_init_container_that_asks_for_more_than_the_others_is_refused() -> None:
    first = replace(a_container({DEVICES: 8}, name="init"), kind=ContainerKind.INIT)
    pod = a_pod(first, a_container({DEVICES: 4}, name="app"))
    assert "the others of the pod ask for 4 together" in told(a_neuron_node(), pod)
    enough = a_pod(first, *(a_container({DEVICES: 4}, name=name) for name in "ab"))
    assert told(a_neuron_node(), enough) == "0,1,2,3,4,5,6,7"


def test_a_pod_that_waits_or_asks_for_nothing_holds_nothing() -> None:
    reader = RecordReader(Registry([SPEC]))
    for pod in (asking({DEVICES: 1}, annotations={IDS: "3"}), elsewhere({}), elsewhere({DEVICES: 0}), elsewhere()):
        record, problems = reader.record(pod)
        assert problems == ()
        assert not record.unlocated
        assert not any(allocation.shares for allocation in record.allocations)


def test_devices_that_two_pods_hold_by_hand_are_free_when_both_are_gone() -> None:
    one, other = elsewhere({DEVICES: 4}, AWS_NEURON_IDS="0,1,2,3"), holding(3, 4)
    assert told(a_neuron_node(), asking({DEVICES: 4}), one, other) == "8,9,10,11"
    assert told(a_neuron_node(), asking({DEVICES: 4}), one) == "4,5,6,7"
    assert told(a_neuron_node(), asking({DEVICES: 4}), other) == "8,9,10,11"


def test_the_old_name_may_be_the_only_one() -> None:
    renamed = replace(
        awsneuron.SPEC, resources=replace(awsneuron.SPEC.resources, count=LEGACY_DEVICES, cores="example.com/core")
    )
    (spec,) = replaced([renamed], [SPEC])
    assert spec.resources.all() == (LEGACY_DEVICES, "example.com/core")
    assert spec.counted_by_scheduler == (LEGACY_DEVICES, "example.com/core")
    pod = asking({LEGACY_DEVICES: 4})
    asked = request_of(spec, pod.containers[0], pod)
    assert asked is not None
    assert asked.count == 4


def test_a_device_that_the_node_does_not_have_is_set_apart() -> None:
    record, _ = RecordReader(Registry([SPEC])).record(elsewhere({DEVICES: 2}, AWS_NEURON_IDS="1,99"))
    entry = NodeBuilder(Registry([SPEC])).entry(a_neuron_node(), NodeFacts())
    apart = settled(record, entry)
    assert [share.device for share in apart.strangers] == ["n-AWSNeuron-99"]
    assert sum(used.slots for used in with_pods(entry, [apart]).state.usage) == 1


def test_a_dead_link_of_a_device_beyond_those_of_the_node_is_nobodys() -> None:
    both = {LINKS_KEY: TRN1_TABLE, HEALTH_KEY: '{"links": [[0, 1], [2, 3]]}'}
    shape = NodeBuilder(Registry([SPEC])).entry(a_neuron_node(devices=2, annotations=both), NodeFacts()).state.shape
    assert wiring_of(shape).topology.dead == ((0, 1),)
    assert wiring_of(shape).tables.counts == (1,)
