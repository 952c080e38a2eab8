"""Devices that go together: who keeps a set from a pod, and what would make one free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine import blockers
from hami_plugins.engine.blockers import Blocked
from hami_plugins.engine.decide import Decider, DecisionRequest
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, why_not
from hami_plugins.model.device_links import Relabelled, Together
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import DeviceRequest, DeviceSelector
from hami_plugins.model.units import DeviceId
from hami_plugins.model.vendor import Candidate, ContainerRequest, Unselectable, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.suggest.changes import ChangeKind, Labelled, Removed
from tests import acme
from tests.builders import a_device, a_request, a_snapshot
from tests.unit.suggest.questions import a_busy_node, a_pod_on, of_kind, offered, the, wanting

PAIRS = ((0, 1), (2, 3))
ANY_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
LABEL = "acme.example/pairs"
FREE, HELD = (0, 0), (16_384, 100)


def together(asked: DeviceRequest, shape: NodeShape) -> Together | None:
    """One device needs no set; two go as pairs, more never do."""
    if asked.count == 1:
        return None
    sets = ANY_PAIRS if shape.trait(LABEL) == "any" else PAIRS
    return Together(sets if asked.count == 2 else (), () if asked.count == 2 else (2,))


def select(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
    by_position = {each.position: each for each in candidates}
    found = together(ask.request, ask.shape)
    if found is None:
        return candidates[:1]
    for members in found.sets:
        if by_position.keys() >= set(members):
            return [by_position[at] for at in members]
    return Unselectable(Reason.TOPOLOGY, len(candidates))


def relabelled(shape: NodeShape) -> Sequence[Relabelled]:
    return [Relabelled(LABEL, "any", NodeShape(shape.devices, shape.links, ((LABEL, "any"),)))]


SPEC = replace(
    acme.SPEC,
    fitting=replace(acme.SPEC.fitting, select=select),
    topology=replace(acme.SPEC.topology, together=together),
)
LABELLED = replace(SPEC, topology=replace(SPEC.topology, relabelled=relabelled))
TWO = a_request(count=2, memory=16_384, cores=100)


def nearest(*entries: NodeEntry, request: DeviceRequest = TWO, spec: VendorSpec = SPEC) -> Blocked | None:
    return blockers.nearest(spec, request, DEFAULT_POLICY, entries)


def the_nearest(*entries: NodeEntry, request: DeviceRequest = TWO) -> Blocked:
    found = nearest(*entries, request=request)
    assert found is not None
    return found


class TestTheNearestSet:
    def test_is_the_one_that_the_fewest_pods_hold(self) -> None:
        found = the_nearest(a_busy_node("a", HELD, HELD, FREE, HELD))
        assert (found.members, found.free) == ((2, 3), (2,))
        assert [(each.pod.name, each.positions) for each in found.holders] == [("a-pod-3", (3,))]

    def test_is_on_the_node_where_the_least_would_have_to_go(self) -> None:
        both, one = a_busy_node("a", HELD, HELD, HELD, HELD), a_busy_node("b", HELD, FREE, HELD, HELD)
        assert the_nearest(both, one).entry is one

    def test_is_of_the_pod_that_is_going_anyway(self) -> None:
        entry = a_busy_node("a", HELD, FREE, FREE, HELD)
        going = replace(entry, pods=(entry.pods[0], replace(entry.pods[1], terminating=True)))
        assert the_nearest(going).members == (2, 3)

    def test_holds_no_device_that_is_unhealthy_or_not_wanted(self) -> None:
        sick = a_busy_node("a", HELD, FREE, FREE, FREE)
        devices = tuple(replace(each, healthy=at != 3) for at, each in enumerate(sick.state.shape.devices))
        entry = replace(sick, state=NodeState(NodeShape(devices), sick.state.usage))
        assert the_nearest(entry).members == (0, 1)
        avoiding = a_request(count=2, selector=DeviceSelector(avoid_ids=frozenset({DeviceId("a-0")})))
        assert the_nearest(sick, request=avoiding).members == (2, 3)

    def test_does_not_exist_where_no_pod_holds_what_is_taken(self) -> None:
        entry = a_busy_node("a", HELD, FREE)
        assert nearest(replace(entry, pods=())) is None

    def test_does_not_exist_where_any_devices_go_together(self) -> None:
        entry = a_busy_node("a", HELD, FREE)
        assert nearest(entry, request=a_request(count=1)) is None
        assert nearest(entry, spec=acme.SPEC) is None

    def test_names_the_counts_next_to_one_that_never_goes_together(self) -> None:
        found = the_nearest(a_busy_node("a", FREE, FREE, FREE, FREE), request=a_request(count=3))
        assert (found.members, found.nearest) == ((), (2,))

    def test_is_asked_for_as_the_node_counts_it(self) -> None:
        doubled = replace(
            SPEC, requests=replace(SPEC.requests, on_node=lambda asked, _shape: replace(asked, count=2 * asked.count))
        )
        found = nearest(a_busy_node("a", HELD, FREE, HELD, HELD), request=replace(TWO, count=1), spec=doubled)
        assert found is not None
        assert found.members == (0, 1)


class TestAReasonOfSets:
    def test_counts_whatever_is_wrong_with_other_cards(self) -> None:
        nodes = a_snapshot(a_busy_node("a", FREE, HELD, FREE, HELD, device=a_device()))
        question = DecisionRequest(wanting(TWO), DEFAULT_POLICY)
        decider = Decider(Registry([SPEC]))
        (reason,) = why_not(question, decider.answers(nodes, *question), decider.registry).reasons
        assert isinstance(reason, CardShortage)
        assert reason.reason is Reason.TOPOLOGY
        assert reason.blocked is not None
        assert reason.blocked.members == (0, 1)


class TestWhatIsOffered:
    def test_several_pods_go_where_no_single_one_would_do(self) -> None:
        nodes = a_snapshot(a_busy_node("a", HELD, HELD, HELD, HELD))
        found = the(offered(nodes, wanting(TWO), specs=(SPEC,)), ChangeKind.VICTIM, ChangeKind.VICTIM)
        assert [each.pod.name for each in found.changes if isinstance(each, Removed)] == ["a-pod-0", "a-pod-1"]

    def test_a_single_pod_goes_where_that_does(self) -> None:
        found = offered(a_snapshot(a_busy_node("a", HELD, HELD, FREE, HELD)), wanting(TWO), specs=(SPEC,))
        assert the(found, ChangeKind.VICTIM).changes
        assert of_kind(found, ChangeKind.VICTIM, ChangeKind.VICTIM) is None

    def test_a_pod_of_another_node_goes_where_a_vendors_rule_makes_the_nearest_one_dearer(self) -> None:
        """By arithmetic two free cards are enough on the first node; the rule wants a pair."""
        ruled = replace(SPEC, topology=acme.SPEC.topology)
        first, small = a_busy_node("a", HELD, FREE, FREE, HELD), a_busy_node("b", (8_000, 50), FREE, HELD, HELD)
        found = the(offered(a_snapshot(first, small), wanting(TWO), specs=(ruled,)), ChangeKind.VICTIM)
        assert [(each.pod.name, each.node) for each in found.changes if isinstance(each, Removed)] == [("b-pod-0", "b")]

    @pytest.mark.parametrize("stays", ["priority", "spared"])
    def test_no_pod_goes_that_has_to_stay(self, stays: str) -> None:
        entry = a_busy_node("a", HELD, HELD, HELD, HELD)
        above = [replace(each, priority=9) if stays == "priority" else each for each in entry.pods]
        nodes = a_snapshot(replace(entry, pods=tuple(above)))
        spared = (lambda _pod: True) if stays == "spared" else None
        found = offered(nodes, wanting(TWO), specs=(SPEC,), spared=spared)
        assert of_kind(found, ChangeKind.VICTIM, ChangeKind.VICTIM) is None

    def test_pods_of_which_one_would_not_be_enough_together_are_not_offered(self) -> None:
        nodes = a_snapshot(a_busy_node("a", HELD, HELD, HELD, HELD))
        three = a_request(count=3, memory=16_384, cores=100)
        assert of_kind(offered(nodes, wanting(three), specs=(SPEC,)), ChangeKind.VICTIM, ChangeKind.VICTIM) is None

    def test_several_pods_are_not_offered_where_their_leaving_is_not_enough(self) -> None:
        nodes = a_snapshot(a_busy_node("a", HELD, HELD, HELD, HELD))
        found = offered(nodes, wanting(TWO, TWO), specs=(SPEC,))
        assert of_kind(found, ChangeKind.VICTIM, ChangeKind.VICTIM) is None

    def test_a_label_is_offered_where_it_helps(self) -> None:
        nodes = a_snapshot(a_busy_node("a", HELD, FREE, FREE, HELD))
        found = the(offered(nodes, wanting(TWO), specs=(LABELLED,)), ChangeKind.NODE_LABEL)
        assert found.changes == (Labelled(node=found.node.name, key=LABEL, value="any"),)
        assert found.node.facts.labels[LABEL] == "any"

    def test_a_label_is_not_offered_where_it_does_not_help(self) -> None:
        three = a_request(count=3, memory=16_384, cores=100)
        nodes = a_snapshot(a_busy_node("a", FREE, FREE, FREE, HELD))
        assert of_kind(offered(nodes, wanting(three), specs=(LABELLED,)), ChangeKind.NODE_LABEL) is None

    def test_a_pod_that_holds_both_is_one(self) -> None:
        entry = a_busy_node("a", FREE, FREE)
        wide = a_pod_on("a-0", 16_384, 100, name="wide")
        held = replace(wide, allocations=(*wide.allocations, *a_pod_on("a-1", 16_384, 100).allocations))
        found = the_nearest(with_pods(entry, [held]))
        assert [each.positions for each in found.holders] == [(0, 1)]
