"""Putting pods on nodes and taking them away."""

from dataclasses import replace

from hami_plugins.engine.apply import assigned, record_of, removed, with_pod, without_pods
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import IDLE
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from tests import acme
from tests.builders import (
    a_demand,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_request,
    a_share,
    a_snapshot,
    allocated,
    used,
)

TWO = a_node("node-0", a_device(), a_device(index=1))
RECORD = a_record(
    allocated(a_share("card-0", 500, 5), kind=ContainerKind.INIT),
    allocated(a_share("card-0", 100, 10), a_share("card-1", 200, 20)),
    requests=(("cpu", 3 * NANO),),
)


def test_a_node_with_one_more_pod_is_the_node_rebuilt_from_all_its_pods() -> None:
    first, second = a_record(name="first"), RECORD
    grown = with_pod(with_pod(TWO, first), second)
    rebuilt = with_pods(TWO, [first, second])
    assert grown.state == rebuilt.state
    assert grown.pods == rebuilt.pods
    assert grown.requested == rebuilt.requested == {"pods": 2 * NANO, "cpu": 3 * NANO}
    assert grown.state.usage == (used(2, 1_524, 10), used(1, 200, 20))


def test_a_pod_whose_init_containers_are_done_holds_what_runs() -> None:
    entry = with_pod(TWO, replace(RECORD, init_finished=True))
    assert entry.state.usage[0] == used(1, 100, 10)


def test_shares_of_devices_that_the_node_does_not_have_stay_on_the_record() -> None:
    stray = a_record(allocated(a_share("gone", 500)))
    entry = with_pod(TWO, stray)
    assert entry.state.usage == (IDLE, IDLE)
    assert entry.pods == (stray,)


def test_taking_pods_away_gives_back_what_they_held() -> None:
    entry = with_pods(TWO, [a_record(name="stays"), RECORD])
    left = without_pods(entry, lambda record: record is RECORD)
    assert left.state == with_pods(TWO, [a_record(name="stays")]).state
    assert left.requested == {"pods": NANO}
    assert without_pods(entry, lambda record: False) is entry


def test_a_placement_takes_effect_on_its_node_only() -> None:
    snapshot = a_snapshot(a_node("a"), a_node("b", usage=[used(1)]))
    constraints = NodeConstraints(requests=(("cpu", NANO),))
    pod = a_pod(name="new", namespace="team", priority=7, constraints=constraints)
    decision = Decider(Registry([acme.SPEC])).decide(snapshot, PodDemand(a_demand(a_request())), DEFAULT_POLICY)
    assert isinstance(decision, Placed)
    after = assigned(snapshot, pod, decision)
    assert after.nodes[0] is snapshot.nodes[0]
    assert after.nodes[1].state.usage == (used(2, 1_024),)
    assert snapshot.nodes[1].state.usage == (used(1),)
    (record,) = after.nodes[1].pods
    assert record.full_name == "team/new"
    assert (record.uid, record.priority, record.requests) == ("uid-new", 7, (("cpu", NANO),))
    assert record.allocations == record_of(pod, decision).allocations == decision.containers


def test_pods_are_removed_wherever_they_are_and_other_nodes_stay_the_same() -> None:
    a = with_pods(a_node("a"), [a_record(name="x"), a_record(name="y")])
    b, c = with_pods(a_node("b"), [a_record(name="x")]), with_pods(a_node("c"), [a_record(name="y")])
    after = removed(a_snapshot(a, b, c), lambda record: record.name == "x")
    assert [[record.name for record in entry.pods] for entry in after.nodes] == [["y"], [], ["y"]]
    assert after.nodes[2] is c
