"""Whether the scheduler looks at a node at all."""

import pytest

from hami_plugins.engine.eligibility import UNSCHEDULABLE, objection, repelling, tolerated_by_request
from hami_plugins.model.nodes import NodeEntry, NodeFacts, Taint
from hami_plugins.model.pods import NodeConstraints, Requirement, Toleration
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import NodeName
from tests.builders import a_node, amounts

ZONED = NodeFacts(labels={"zone": "a", "cards": "8"})
DEDICATED = Taint("dedicated", "ml", "NoSchedule")


def words(entry: NodeEntry, constraints: NodeConstraints, *uncounted: str) -> str:
    found = objection(entry, constraints, uncounted)
    return "" if found is None else str(found)


def test_a_pod_without_wishes_may_go_anywhere() -> None:
    assert words(a_node(), NodeConstraints()) == ""


def test_a_pinned_pod_goes_to_its_node_only() -> None:
    pinned = NodeConstraints(node=NodeName("node-1"))
    assert words(a_node("node-1"), pinned) == ""
    assert words(a_node("node-2"), pinned) == "node(s) didn't match the requested node name"


def test_every_selected_label_must_be_there() -> None:
    node = a_node(facts=ZONED)
    assert words(node, NodeConstraints(selector=(("zone", "a"), ("cards", "8")))) == ""
    mismatch = "node(s) didn't match Pod's node affinity/selector"
    assert words(node, NodeConstraints(selector=(("zone", "a"), ("cards", "4")))) == mismatch
    assert words(node, NodeConstraints(selector=(("disk", ""),))) == mismatch


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("disk", "In", ("ssd",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("disk", "NotIn", ("ssd",)), True),
        (Requirement("zone", "Exists"), True),
        (Requirement("disk", "Exists"), False),
        (Requirement("disk", "DoesNotExist"), True),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("cards", "Gt", ("7",)), True),
        (Requirement("cards", "Gt", ("8",)), False),
        (Requirement("cards", "Lt", ("9",)), True),
        (Requirement("cards", "Lt", ("8",)), False),
        (Requirement("cards", "Gt", ("1", "2")), False),
        (Requirement("cards", "Gt", ("many",)), False),
        (Requirement("zone", "Lt", ("9",)), False),
        (Requirement("disk", "Gt", ("1",)), False),
        (Requirement("zone", "Like", ("a",)), False),
        (Requirement("metadata.name", "In", ("node-0",), on_field=True), True),
        (Requirement("metadata.name", "NotIn", ("node-0",), on_field=True), False),
        (Requirement("metadata.uid", "In", ("node-0",), on_field=True), False),
    ],
)
def test_one_requirement_of_node_affinity(requirement: Requirement, met: bool) -> None:
    assert (words(a_node(facts=ZONED), NodeConstraints(affinity=((requirement,),))) == "") is met


def test_affinity_is_an_or_of_ands() -> None:
    here, there = Requirement("zone", "In", ("a",)), Requirement("zone", "In", ("b",))
    node = a_node(facts=ZONED)
    assert words(node, NodeConstraints(affinity=((there,), (here,)))) == ""
    assert words(node, NodeConstraints(affinity=((here, there),))) != ""
    assert words(node, NodeConstraints(affinity=())) != ""
    assert words(node, NodeConstraints(affinity=((), (there,)))) != ""


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("dedicated", "Equal", "ml"), True),
        (Toleration("dedicated", "Equal", "web"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "ml"), False),
        (Toleration("dedicated", "Exists", "", "NoSchedule"), True),
        (Toleration("dedicated", "Exists", "", "NoExecute"), False),
    ],
)
def test_a_taint_is_tolerated_by_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    facts = NodeFacts(taints=(DEDICATED,))
    assert (repelling(facts, NodeConstraints(tolerations=(toleration,))) is None) is tolerated


def test_taints_that_only_prefer_keep_nobody_away() -> None:
    assert repelling(NodeFacts(taints=(Taint("slow", "", "PreferNoSchedule"),)), NodeConstraints()) is None
    assert repelling(NodeFacts(taints=(Taint("gone", "", "NoExecute"),)), NodeConstraints()) == Taint(
        "gone", "", "NoExecute"
    )


def test_the_untolerated_taint_is_named() -> None:
    assert words(a_node(facts=NodeFacts(taints=(DEDICATED,))), NodeConstraints()) == (
        "node(s) had untolerated taint {dedicated: ml}"
    )
    bare = NodeFacts(taints=(Taint("dedicated", "", "NoSchedule"),))
    assert words(a_node(facts=bare), NodeConstraints()) == "node(s) had untolerated taint {dedicated}"


def test_a_cordoned_node_counts_as_tainted() -> None:
    cordoned = a_node(facts=NodeFacts(unschedulable=True))
    assert words(cordoned, NodeConstraints()) == "node(s) were unschedulable"
    daemon = NodeConstraints(tolerations=(Toleration(UNSCHEDULABLE.key, "Exists"),))
    assert words(cordoned, daemon) == ""


def test_plain_resources_must_be_left() -> None:
    node = a_node(facts=NodeFacts(allocatable=amounts({"cpu": 4})), requested={"cpu": 3 * NANO})
    assert words(node, NodeConstraints(requests=(("cpu", NANO),))) == ""
    assert words(node, NodeConstraints(requests=(("cpu", NANO + 1),))) == "Insufficient cpu"


def test_ordinary_resources_that_a_listing_leaves_out_say_nothing() -> None:
    assert words(a_node(), NodeConstraints(requests=(("memory", NANO),))) == ""
    assert words(a_node(), NodeConstraints(requests=(("example.com/fpga", NANO),))) == "Insufficient example.com/fpga"


def test_resources_that_an_extender_answers_for_are_not_summed_up() -> None:
    asks = NodeConstraints(requests=(("nvidia.com/gpu", NANO),))
    assert words(a_node(), asks, "nvidia.com/gpu") == ""
    assert words(a_node(), NodeConstraints(requests=(("nvidia.com/gpu", 0),))) == ""


def test_a_node_holds_no_more_pods_than_it_says() -> None:
    facts = NodeFacts(allocatable=amounts({"pods": 2}))
    assert words(a_node(facts=facts, requested={"pods": NANO}), NodeConstraints()) == ""
    assert words(a_node(facts=facts, requested={"pods": 2 * NANO}), NodeConstraints()) == "Too many pods"


def test_a_node_that_other_pods_bar_is_out_in_their_words() -> None:
    barred = NodeConstraints(barred=(("no neighbours", frozenset({NodeName("node-1")})),))
    assert words(a_node("node-1"), barred) == "no neighbours"
    assert words(a_node("node-2"), barred) == ""


NEURON = "aws.amazon.com/neuron"


@pytest.mark.parametrize(
    ("requests", "effect", "tolerated", "passes"),
    [
        (((NEURON, NANO),), "NoSchedule", {NEURON}, True),
        (((NEURON, NANO),), "NoSchedule", set(), False),
        (((NEURON, NANO),), "NoExecute", {NEURON}, False),
        (((NEURON, 0),), "NoSchedule", {NEURON}, False),
        ((("aws.amazon.com/neuroncore", NANO),), "NoSchedule", {NEURON}, False),
        ((), "NoSchedule", {NEURON}, False),
    ],
)
def test_where_the_api_server_adds_it_a_pod_tolerates_the_taint_of_the_resource_that_it_requests(
    requests: tuple[tuple[str, int], ...], effect: str, tolerated: set[str], passes: bool
) -> None:
    taint = Taint(NEURON, "true", effect)
    facts = NodeFacts(taints=(taint,), tolerated=frozenset(tolerated))
    constraints = NodeConstraints(requests=requests)
    assert (repelling(facts, constraints) is None) is passes
    assert list(tolerated_by_request(facts, constraints)) == ([taint] if passes else [])


def test_a_toleration_that_the_pod_has_is_not_one_by_its_request() -> None:
    facts = NodeFacts(taints=(Taint(NEURON, "true", "NoSchedule"),), tolerated=frozenset({NEURON}))
    written = NodeConstraints(requests=((NEURON, NANO),), tolerations=(Toleration(NEURON, "Exists"),))
    assert repelling(facts, written) is None
    assert not list(tolerated_by_request(facts, written))


def test_where_the_settings_say_that_it_is_not_added_the_nodes_do_not_decide() -> None:
    facts = NodeFacts(taints=(Taint(NEURON, "true", "NoSchedule"),), tolerated=frozenset({NEURON}))
    without = NodeConstraints(requests=((NEURON, NANO),), tolerates_requests=False)
    assert repelling(facts, without) is not None
    assert not list(tolerated_by_request(facts, without))
