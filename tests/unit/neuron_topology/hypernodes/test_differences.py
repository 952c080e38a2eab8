"""From HyperNodes that are there to those that should be, without two parents at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given

from hami_plugins.errors import WireError
from neuron_topology.core.hypernodes import differences, generator, objects, reader
from neuron_topology.core.hypernodes.differences import Comparison, HyperNodeStep, Verb
from neuron_topology.core.hypernodes.machines import TopologyNode
from tests.unit.neuron_topology.hypernodes import nodes
from tests.unit.neuron_topology.hypernodes.nodes import a_machine, a_node

Store = dict[str, dict[str, Any]]


def stored(machines: list[TopologyNode]) -> Store:
    return {each.name: {**objects.encode(each)} for each in generator.tree(machines).hypernodes}


def compared(
    machines: list[TopologyNode], store: Mapping[str, Any], *, prune: bool = True, labels: Any = None
) -> Comparison:
    found = [objects.decode(raw) for raw in store.values()]
    return differences.compare(generator.tree(machines).hypernodes, found, labels or {}, prune=prune)


def made(step: HyperNodeStep, store: Store) -> Store:
    if step.verb is Verb.DELETE:
        return {name: raw for name, raw in store.items() if name != step.name}
    assert (step.name in store) is (step.verb is Verb.UPDATE)
    return {**store, step.name: {**step.body}}


def members(raw: Mapping[str, Any]) -> list[str]:
    return [each["selector"]["exactMatch"]["name"] for each in raw["spec"]["members"]]


def a_hypernode(name: str, *members: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"tier": 1, "members": list(members)}}


def exactly(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


@given(nodes.machines(), nodes.machines())
def test_the_steps_lead_to_what_is_wanted_and_nothing_ever_has_two_parents(
    before: list[TopologyNode], after: list[TopologyNode]
) -> None:
    store = stored(before)
    for step in compared(after, store).steps:
        store = made(step, store)
        held = Counter(member for raw in store.values() for member in members(raw))
        assert set(held.values()) <= {1}
        assert all(members(raw) for raw in store.values())
    assert {name: objects.spec_of(raw) for name, raw in store.items()} == {
        name: objects.spec_of(raw) for name, raw in stored(after).items()
    }
    assert compared(after, store) == Comparison(())


@given(nodes.machines(), nodes.machines())
def test_without_pruning_nothing_is_lost_or_nothing_is_written(
    before: list[TopologyNode], after: list[TopologyNode]
) -> None:
    store = stored(before)
    found = compared(after, store, prune=False)
    kept = store.keys() - stored(after).keys()
    assert set(found.kept) == kept
    if found.conflicts:
        assert found.steps == ()
        assert all(each.remedy == "prune" for each in found.conflicts)
    for step in found.steps:
        assert step.name not in kept


def test_a_node_that_moves_leaves_before_it_arrives() -> None:
    before = [a_machine(name, zone="z", network_layer_3=part) for name, part in (("a", "l"), ("b", "l"), ("c", "m"))]
    after = [a_machine(name, zone="z", network_layer_3=part) for name, part in (("a", "l"), ("b", "m"), ("c", "m"))]
    steps = compared(after, stored(before)).steps
    assert [(step.verb, members(step.body)) for step in steps] == [
        (Verb.UPDATE, ["a"]),
        (Verb.UPDATE, ["b", "c"]),
    ]


def test_what_others_wrote_on_our_objects_stays() -> None:
    store = stored([a_machine("a", zone="z"), a_machine("b", zone="z")])
    for raw in store.values():
        raw["metadata"] |= {"annotations": {"x": "y"}, "labels": {**raw["metadata"]["labels"], "mine": "too"}}
        raw["metadata"] |= {"resourceVersion": "7", "finalizers": ["theirs/wait"], "ownerReferences": [{"uid": "u"}]}
    (step,) = compared([a_machine("a", zone="z")], store).steps
    assert step.version == "7"
    assert step.body["metadata"]["annotations"] == {"x": "y"}
    assert step.body["metadata"]["finalizers"] == ["theirs/wait"]
    assert step.body["metadata"]["ownerReferences"] == [{"uid": "u"}]
    assert step.body["metadata"]["labels"]["mine"] == "too"


@pytest.mark.parametrize(
    "member",
    [
        exactly("a"),
        {"type": "Node", "selector": {"regexMatch": {"pattern": "^a"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "7"}}}},
        {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}}},
    ],
    ids=["name", "pattern", "label", "expression"],
)
def test_a_node_that_somebody_elses_hypernode_holds_is_a_conflict(member: dict[str, Any]) -> None:
    theirs = {"theirs": a_hypernode("theirs", member)}
    found = compared([a_machine("a", zone="z")], theirs, labels={"a": {"rack": "7"}})
    assert found.steps == ()
    assert [(each.name, each.why) for each in found.conflicts] == [("theirs", "is not ours and holds a")]


def test_somebody_elses_hypernodes_elsewhere_are_let_alone() -> None:
    theirs = {"theirs": a_hypernode("theirs", exactly("gpu-1"), {"type": "Node", "selector": {}})}
    assert [step.verb for step in compared([a_machine("a", zone="z")], theirs).steps] == [Verb.CREATE]


def test_a_second_parent_for_one_of_our_hypernodes_is_a_conflict_and_one_above_all_is_not() -> None:
    machines = [a_machine("a", zone="z", network_layer_3="l")]
    leaf, zone = generator.tree(machines).hypernodes
    store = stored(machines)
    above = {"top": a_hypernode("top", exactly(zone.name, "HyperNode"))}
    beside = {"top": a_hypernode("top", exactly(leaf.name, "HyperNode"))}
    assert compared(machines, store | above) == Comparison(())
    assert [each.name for each in compared(machines, store | beside).conflicts] == ["top"]


def test_what_volcanos_discovery_made_has_its_own_remedy() -> None:
    labels = {objects.SOURCE_LABEL: "label"}
    names = ("a", "b", "c", "d")
    theirs = {"h": a_hypernode("h", *(exactly(name) for name in names), labels=labels)}
    (conflict,) = compared([a_machine(name, zone="z") for name in names], theirs).conflicts
    assert conflict.why == "is not ours and holds a, b, c and 1 more"
    assert "discovery by label off" in conflict.remedy


def test_a_name_that_somebody_else_took_is_a_conflict() -> None:
    machines = [a_machine("a", zone="z")]
    ((name, raw),) = stored(machines).items()
    raw["metadata"]["labels"] = {}
    raw["spec"]["members"] = [exactly("other")]
    (conflict,) = compared(machines, {name: raw}).conflicts
    assert "to hand it over" in conflict.remedy


def test_members_by_pattern_in_one_of_ours_are_written_out() -> None:
    machines = [a_machine("a", zone="z")]
    store = stored(machines)
    (raw,) = store.values()
    raw["spec"]["members"] = [{"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}]
    assert [step.verb for step in compared(machines, store).steps] == [Verb.DELETE, Verb.CREATE]


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}},
        {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
        "a",
    ],
)
def test_a_broken_hypernode_hides_no_other(broken: Any) -> None:
    cluster = reader.read(
        [
            {"kind": "HyperNode", **a_hypernode("bad", broken)},
            {"kind": "HyperNode", **a_hypernode("good", exactly("x"))},
            {"kind": "Node", "metadata": {}},
            a_node("n", zone="z"),
            {"kind": "Service"},
        ]
    )
    assert [each.name for each in cluster.found] == ["good"]
    assert [each.name for each in cluster.machines] == ["n"]
    assert [problem.partition(":")[0] for problem in cluster.problems] == ["hypernode bad", "node"]


@pytest.mark.parametrize("tier", ["3", 1.5, True])
def test_a_hypernode_of_ours_whose_tier_is_no_number_is_told_and_hides_no_other(tier: Any) -> None:
    bad, good = (
        {"kind": "HyperNode", **a_hypernode(name, exactly("x"), labels={objects.MANAGED_LABEL: objects.MANAGED_BY})}
        for name in ("bad", "good")
    )
    bad["spec"]["tier"] = tier
    cluster = reader.read([bad, good, a_node("n", zone="z")])
    assert [each.name for each in cluster.found] == ["good"]
    (problem,) = cluster.problems
    assert problem.startswith("hypernode bad: spec.tier: expected an integer")


def test_a_hypernode_of_ours_without_a_tier_is_pruned_like_any_other() -> None:
    stale = a_hypernode("old", exactly("gone"), labels={objects.MANAGED_LABEL: objects.MANAGED_BY})
    stale["spec"]["tier"] = None
    steps = compared([a_machine("a", zone="z")], {"old": stale}).steps
    assert (steps[0].verb, steps[0].name) == (Verb.DELETE, "old")


def test_what_nothing_wants_goes_from_the_top_down_so_that_nothing_names_what_is_gone() -> None:
    before = stored([a_machine("a", zone="z", network_layer_3="l")])
    gone = [step.name for step in compared([a_machine("a")], before).steps if step.verb is Verb.DELETE]
    assert [before[name]["spec"]["tierName"] for name in gone] == ["zone", "network-layer-3"]


def test_nodes_of_others_and_pods_that_are_nowhere_do_not_matter() -> None:
    plain: dict[str, Any] = {"kind": "Node", "metadata": {"name": "c5"}}
    labels = {"labels": {"volcano.sh/job-name": "train"}}
    pods: list[dict[str, Any]] = [
        {"kind": "Pod", "metadata": {"name": "a", **labels}, "spec": {"nodeName": "n"}},
        {"kind": "Pod", "metadata": {"name": "b", **labels}, "spec": {}},
        {"kind": "Pod", "metadata": {"name": "c"}, "spec": {"nodeName": "n"}},
        {"kind": "Pod", "metadata": 3, "spec": 3},
    ]
    cluster = reader.read([plain, *pods])
    assert (cluster.machines, cluster.problems) == ((), ())
    assert [(pod.namespace, pod.name) for pod in cluster.pods] == [("default", "a")]


def test_an_object_without_a_name_is_told_so() -> None:
    with pytest.raises(WireError, match=r"hypernode \?"):
        objects.decode({"metadata": {}, "spec": 3})
