"""Declared fleets: the Node objects that clusters of known machines would show."""

import json
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given

from hami_plugins import examples
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import fleets
from hami_plugins.inputs.fleets import Fleet, NodeGroup
from hami_plugins.inputs.fleets.shapes import SHAPES
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import Taint
from hami_plugins.vendors import builtin
from hami_plugins.wire import node_devices, objects, volcano
from hami_plugins.wire.node_devices import RegisteredDevice
from tests.unit.wire import mutations

HAMI = "hami.io/node-nvidia-register"
SCORES = "hami.io/node-nvidia-score"
VOLCANO = "volcano.sh/node-vgpu-register"
NVIDIA = ("t4x1", "a100-80x8", "h100x8", "h100x8-mig", "l40sx4")
BASE: dict[str, Any] = {
    "name": "lab",
    "nodes": [
        {
            "shape": "h100x8",
            "count": 2,
            "labels": {"pool": "a"},
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "advertise": {"example.com/fpga": 2},
            "unhealthy": [1],
            "unschedulable": True,
            "agents": "hami",
        }
    ],
}

every_shape = pytest.mark.parametrize("shape", SHAPES)
every_nvidia_shape = pytest.mark.parametrize("shape", NVIDIA)


def a_node(shape: str, **group: Any) -> dict[str, Any]:
    group = {"agents": (Dialect.HAMI, Dialect.VOLCANO), **group}
    (node,) = fleets.nodes_of(Fleet(name="x", groups=(NodeGroup(shape=shape, **group),)))
    return node


def annotations(shape: str, **group: Any) -> dict[str, str]:
    return dict(objects.node_object(a_node(shape, **group)).annotations)


def registered(shape: str, **group: Any) -> tuple[RegisteredDevice, ...]:
    return node_devices.decode_json(HAMI, annotations(shape, **group)[HAMI])


def parse(**fleet: Any) -> Fleet:
    return fleets.parse(json.dumps(fleet), source="f.yaml")


def fault(**group: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        parse(nodes=[{"shape": "h100x8", **group}])
    return str(caught.value)


def test_every_shape_that_is_promised_exists() -> None:
    promised = (
        "t4x1 a100-80x8 h100x8 h100x8-mig l40sx4 910bx8 310px4 mlu370x8 dcu-z100x4 trn1.32xlarge trn1n.32xlarge "
        "trn2.48xlarge inf2.48xlarge"
    )
    assert fleets.shape_names() == tuple(promised.split())
    assert set(examples.fleet_names()) == {*fleets.shape_names(), "mixed", "koordinator"}


@every_shape
def test_a_node_reads_back_as_a_ready_node_with_room(shape: str) -> None:
    node = objects.node_object(a_node(shape))
    facts = objects.node_facts(a_node(shape))
    host = SHAPES[shape].host
    assert facts.ready
    assert not facts.unschedulable
    assert facts.labels["kubernetes.io/hostname"] == node.name
    assert facts.labels["node.kubernetes.io/instance-type"] == host.instance
    assert node.capacity["cpu"].whole == host.cpus
    for resource in ("cpu", "memory", "ephemeral-storage"):
        assert 0 < facts.allocatable[resource].nano < node.capacity[resource].nano
    assert facts.allocatable["pods"].whole == 110


@every_shape
def test_the_same_fleet_gives_the_same_nodes_and_other_names_give_other_ids(shape: str) -> None:
    def text(fleet: str, count: int = 2) -> list[bytes]:
        nodes = fleets.nodes_of(Fleet(name=fleet, groups=(NodeGroup(shape=shape, count=count),)))
        return [orjson.dumps(node) for node in nodes]

    assert text("a") == text("a")
    assert text("a", 3)[:2] == text("a")
    assert len({*text("a"), *text("b")}) == 4


@every_nvidia_shape
def test_both_registers_name_the_same_cards(shape: str) -> None:
    written = annotations(shape)
    hami = node_devices.decode_json(HAMI, written[HAMI])
    vgpu = volcano.decode_register(VOLCANO, written[VOLCANO])
    assert len(hami) == len(vgpu) == SHAPES[shape].devices
    assert [card.id for card in hami] == [card.id for card in vgpu]
    assert [(card.slots, card.memory, card.mode) for card in hami] == [
        (card.slots, card.memory, card.mode) for card in vgpu
    ]
    assert all(card.healthy and card.index == at for at, card in enumerate(hami))
    assert all("NVIDIA" in card.model for card in (*hami, *vgpu))
    assert written["hami.io/node-handshake"].startswith("Requesting_")
    assert written["volcano.sh/node-vgpu-handshake"].startswith("Reported")


@every_nvidia_shape
def test_volcano_finds_its_three_resources_in_the_status(shape: str) -> None:
    cards = volcano.decode_register(VOLCANO, annotations(shape)[VOLCANO])
    allocatable = objects.node_object(a_node(shape)).allocatable
    assert allocatable["volcano.sh/vgpu-number"].whole == sum(card.slots for card in cards)
    assert allocatable["volcano.sh/vgpu-memory"].whole == sum(card.memory for card in cards)
    assert allocatable["volcano.sh/vgpu-cores"].whole == 100 * len(cards)


@every_nvidia_shape
def test_hamis_agents_run_unless_told_otherwise(shape: str) -> None:
    for agents, key in ((None, HAMI), (Dialect.VOLCANO, VOLCANO)):
        fleet = fleets.add_nodes(shape) if agents is None else fleets.add_nodes(shape, agents=agents)
        (node,) = fleets.nodes_of(fleet)
        assert {HAMI, VOLCANO} & objects.node_object(node).annotations.keys() == {key}
    assert parse(nodes=[{"shape": shape}]).groups[0].agents == (Dialect.HAMI,)


@pytest.mark.parametrize(
    ("written", "keys"), [("hami", {HAMI}), ("volcano", {VOLCANO}), ("both", {HAMI, VOLCANO}), ("koordinator", set())]
)
def test_a_file_names_the_agents_of_its_nodes(written: str, keys: set[str]) -> None:
    (node,) = fleets.nodes_of(parse(nodes=[{"shape": "t4x1", "agents": written}]))
    assert {HAMI, VOLCANO} & objects.node_object(node).annotations.keys() == keys


@every_nvidia_shape
def test_only_the_agent_that_runs_says_anything(shape: str) -> None:
    assert VOLCANO not in annotations(shape, agents=(Dialect.HAMI,))
    assert "volcano.sh/vgpu-number" not in objects.node_object(a_node(shape, agents=(Dialect.HAMI,))).allocatable
    assert HAMI not in annotations(shape, agents=(Dialect.VOLCANO,))
    assert "nvidia.com/gpu" not in objects.node_object(a_node(shape, agents=(Dialect.VOLCANO,))).allocatable


@pytest.mark.parametrize(
    ("shape", "same_switch", "same_socket", "other_socket"),
    [("a100-80x8", 1250, 1220, 1210), ("h100x8", None, 1820, 1810), ("l40sx4", None, 20, 10)],
)
def test_pair_scores_follow_switches_and_sockets(
    shape: str, same_switch: int | None, same_socket: int, other_socket: int
) -> None:
    cards = registered(shape)
    scores = node_devices.decode_pair_scores(SCORES, annotations(shape)[SCORES])
    half = len(cards) // 2
    assert [card.numa for card in cards] == [0] * half + [1] * half
    for one in cards:
        for other in cards:
            if one.id == other.id:
                assert other.id not in scores[one.id]
                continue
            expected = same_socket if one.numa == other.numa else other_socket
            if same_switch is not None and one.index // 2 == other.index // 2:
                expected = same_switch
            assert scores[one.id][other.id] == scores[other.id][one.id] == expected


def test_a_single_card_has_no_pair_scores() -> None:
    assert SCORES not in annotations("t4x1")


def test_mig_cards_register_profiles_with_placements() -> None:
    for card in registered("h100x8-mig"):
        assert (card.mode, card.slots) == ("mig", 7)
        assert [(each.name, each.memory, each.cores, each.slices) for each in card.profiles] == [
            ("1g.10gb", 9856, 13, 1),
            ("2g.20gb", 20096, 25, 2),
            ("3g.40gb", 40448, 46, 3),
            ("7g.80gb", 80896, 100, 7),
        ]
        for profile in card.profiles:
            assert all(place.start + place.size <= 8 for place in profile.placements)


@pytest.mark.parametrize(
    ("shape", "word", "memory", "slots", "rings"),
    [
        ("910bx8", "Ascend910B3", 65536, 4, [0] * 4 + [1] * 4),
        ("310px4", "Ascend310P", 21527, 7, [None] * 4),
    ],
)
def test_ascend_cards_tell_their_ring(shape: str, word: str, memory: int, slots: int, rings: list[int | None]) -> None:
    key = f"hami.io/node-register-{word}"
    cards = node_devices.decode_json(key, annotations(shape)[key])
    assert [card.custom.get("NetworkID") for card in cards] == rings
    assert {(card.memory, card.slots, card.model) for card in cards} == {(memory, slots, word)}
    assert objects.node_object(a_node(shape)).allocatable[f"huawei.com/{word}"].whole == slots * len(cards)


def test_dcu_cards_register_in_text() -> None:
    key = "hami.io/node-dcu-register"
    cards = node_devices.decode_csv(key, annotations("dcu-z100x4")[key])
    assert [(card.memory, card.cores, card.slots, card.index) for card in cards] == [
        (16384, 100, 4, at) for at in range(4)
    ]
    assert len({card.id for card in cards}) == 4


@pytest.mark.parametrize(
    ("shape", "resources"),
    [
        ("mlu370x8", {"cambricon.com/mlu.smlu.vcore": 800, "cambricon.com/mlu.smlu.vmemory": 1536}),
        ("dcu-z100x4", {"hygon.com/dcunum": 16}),
        ("h100x8", {"nvidia.com/gpu": 80}),
        ("h100x8-mig", {"nvidia.com/gpu": 56}),
        ("trn1.32xlarge", {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32, "vpc.amazonaws.com/efa": 8}),
        ("trn1n.32xlarge", {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32, "vpc.amazonaws.com/efa": 16}),
        ("trn2.48xlarge", {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 64, "vpc.amazonaws.com/efa": 16}),
        ("inf2.48xlarge", {"aws.amazon.com/neuron": 12, "aws.amazon.com/neuroncore": 24}),
    ],
)
def test_a_node_advertises_what_its_vendors_plugin_does(shape: str, resources: dict[str, int]) -> None:
    node = objects.node_object(a_node(shape, agents=(Dialect.HAMI,)))
    extended = {name: amount.whole for name, amount in node.capacity.items() if "/" in name}
    assert extended == resources
    assert {name: node.allocatable[name].whole for name in resources} == resources


def test_a_failed_device_is_out_of_allocatable_and_marked_in_the_registers() -> None:
    node = objects.node_object(a_node("h100x8", unhealthy=frozenset({5})))
    assert [at for at, card in enumerate(registered("h100x8", unhealthy=frozenset({5}))) if not card.healthy] == [5]
    assert (node.capacity["nvidia.com/gpu"].whole, node.allocatable["nvidia.com/gpu"].whole) == (80, 70)
    vgpu = volcano.decode_register(VOLCANO, node.annotations[VOLCANO])
    assert [card.healthy for card in vgpu].count(False) == 1


def test_a_fleet_file_says_everything_about_its_nodes() -> None:
    fleet = parse(**BASE)
    assert fleet.name == "lab"
    node = fleets.nodes_of(fleet)[1]
    facts = objects.node_facts(node)
    read = objects.node_object(node)
    assert (read.name, facts.labels["pool"]) == ("h100x8-1", "a")
    assert facts.taints == (Taint("k", "v", "NoSchedule"),)
    assert facts.unschedulable
    assert (read.capacity["example.com/fpga"].whole, read.allocatable["nvidia.com/gpu"].whole) == (2, 70)
    assert VOLCANO not in read.annotations


def test_groups_of_one_shape_count_on() -> None:
    fleet = parse(
        nodes=[{"shape": "trn1.32xlarge", "count": 2}, {"shape": "t4x1", "name": "edge"}, {"shape": "trn1.32xlarge"}]
    )
    names = [objects.node_object(node).name for node in fleets.nodes_of(fleet)]
    assert names == ["trn1-32xlarge-0", "trn1-32xlarge-1", "edge-0", "trn1-32xlarge-2"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("h100x8=2",), ["added-h100x8-0", "added-h100x8-1"]),
        (("t4x1",), ["added-t4x1-0"]),
        (("t4x1=1, trn2.48xlarge", "t4x1"), ["added-t4x1-0", "added-t4x1-1", "added-trn2-48xlarge-0"]),
        (("t4x1=0",), []),
    ],
)
def test_nodes_can_be_added_by_shape_and_number(words: tuple[str, ...], names: list[str]) -> None:
    assert [objects.node_object(node).name for node in fleets.nodes_of(fleets.add_nodes(*words))] == names


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("h200x8=1", "'h200x8=1': no shape 'h200x8'; known are t4x1, a100-80x8"),
        ("", "'': no shape ''; known are"),
        ("=3", "'=3': no shape ''; known are"),
        ("h100x8=-1", "'h100x8=-1': the count has to be a whole number up to 20000"),
        ("h100x8=", "'h100x8=': the count has to be a whole number up to 20000"),
        ("h100x8=1.5", "'h100x8=1.5': the count has to be a whole number up to 20000"),
        ("h100x8=999999", "999999 nodes are more than 20000"),
    ],
)
def test_what_cannot_be_added_is_refused(words: str, why: str) -> None:
    with pytest.raises(ManifestError) as caught:
        fleets.add_nodes(words)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"shape": "h200x8"}, "nodes[0].shape: no shape 'h200x8'; known are t4x1, a100-80x8, h100x8,"),
        ({"shape": None}, "nodes[0]: neither a shape nor devices"),
        ({"count": -1}, "nodes[0].count: -1 is negative"),
        ({"count": 30_000}, "nodes[0].count: 30000 is more than 20000"),
        ({"counts": 3}, "nodes[0].counts: means nothing here; known are shape, count,"),
        ({"agents": "both of them"}, "nodes[0].agents: 'both of them' is none of hami, volcano, both, koordinator"),
        ({"unhealthy": [8]}, "nodes[0].unhealthy[0]: has to be the number of a device, 0 to 7"),
        ({"unhealthy": [True]}, "nodes[0].unhealthy[0]: has to be the number of a device"),
        ({"unhealthy": 3}, "nodes[0].unhealthy: has to be a list"),
        ({"advertise": {"a/b": 0.5}}, 'nodes[0].advertise["a/b"]: extended resources are whole numbers'),
        ({"advertise": {"a/b": "x"}}, 'nodes[0].advertise["a/b"]: not a quantity'),
        ({"taints": [{"key": "a"}]}, "nodes[0].taints[0]: effect has to be"),
        ({"taints": [{"kay": "a"}]}, "nodes[0].taints[0].kay: means nothing here"),
        ({"labels": {"a": 1}}, "nodes[0].labels.a: has to be text"),
        ({"unschedulable": "yes"}, "nodes[0].unschedulable: has to be true or false"),
    ],
)
def test_a_mistake_in_a_fleet_file_is_named_with_its_place(group: dict[str, Any], words: str) -> None:
    message = fault(**group)
    assert message.startswith("f.yaml: document 1, line 1, column ")
    assert words in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one document, this has 0"),
        ("nodes: []\n---\nnodes: []\n", "one document, this has 2"),
        ("name: x\n", "a fleet needs nodes"),
        ("nodes: 3\n", "nodes: has to be a list"),
        ("shapes: []\n", "shapes: means nothing here"),
        ("- h100x8\n", "has to be a mapping"),
        ("nodes: [{shape: t4x1, count: 15000}, {shape: t4x1, count: 15000}]\n", "30000 nodes are more than 20000"),
    ],
)
def test_what_is_no_fleet_is_refused(text: str, words: str) -> None:
    with pytest.raises(ManifestError, match="document") as caught:
        fleets.parse(text, source="f.yaml")
    assert words in str(caught.value)


@given(mutations.damaged(BASE))
def test_only_manifest_errors_come_out_of_any_fleet_file(fleet: Any) -> None:
    with suppress(ManifestError):
        for group in fleets.parse(json.dumps(fleet), source="f").groups:
            for node in fleets.nodes_of(Fleet(name="x", groups=(group,)))[:3]:
                objects.node_object(node)


@every_nvidia_shape
def test_koordinators_agent_publishes_the_cards_in_an_object_of_their_own(shape: str) -> None:
    fleet = Fleet(name="x", groups=(NodeGroup(shape=shape, agents=(Dialect.KOORDINATOR,), unhealthy=frozenset({0})),))
    node, device = fleets.objects_of(fleet)
    assert objects.node_object(node).annotations == {}
    assert device["kind"] == "Device"
    (entry,) = snapshot_of([node, device], builtin()).nodes
    assert [each.healthy for each in entry.state.shape.devices] == [at > 0 for at in range(SHAPES[shape].devices)]
    assert entry.facts.allocatable["koordinator.sh/gpu.shared"].whole == 100 * (SHAPES[shape].devices - 1)
    assert fleets.objects_of(Fleet(name="x", groups=(NodeGroup(shape=shape),))) == fleets.nodes_of(
        Fleet(name="x", groups=(NodeGroup(shape=shape),))
    )
