"""Which sets of pods are tried: those that give back just what is short, by arithmetic; the cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hami_plugins.defrag import candidates
from hami_plugins.defrag.candidates import LeavingSets, leavers_of
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceRequest
from neuron_topology.core.vendor import SPEC as NEURON
from tests.builders import a_demand, a_device, a_node, a_record, a_request, a_share, allocated, amounts
from tests.unit.defrag.clusters import CARD, REGISTRY

COSTS: Mapping[str, int] = {"dear": 1000}
"""Other pods cost 100, and one more for each before them."""


def a_full_node(
    *cards: Mapping[str, int | tuple[int, int]], slots: int = 10, facts: NodeFacts | None = None, cpu: int = 0
) -> NodeEntry:
    """A node whose pods hold memory, or memory and cores; each asks for ``cpu`` CPUs."""
    records = []
    for at, held in enumerate(cards):
        for name, amount in held.items():
            memory, cores = amount if isinstance(amount, tuple) else (amount, 0)
            share = allocated(a_share(f"card-{at}", memory, cores))
            requests = (("cpu", cpu * NANO),) if cpu else ()
            records.append(a_record(share, name=name, requests=requests))
    devices = [a_device(index=at, slots=slots) for at in range(len(cards))]
    return with_pods(a_node("n", *devices, facts=facts), records)


def tried(
    entry: NodeEntry,
    *requests: DeviceRequest,
    most: int = 3,
    constraints: NodeConstraints | None = None,
    registry: Registry = REGISTRY,
) -> list[str]:
    """The sets in their order, each as the sorted names of its pods."""
    names = [record.name for record in entry.pods]
    costs = {name: COSTS.get(name, 100 + at) for at, name in enumerate(names)}
    leavers = leavers_of(entry, lambda record: record.name != "fixed", lambda record: costs[record.name])
    demand = PodDemand(a_demand(*(requests or (a_request(memory=CARD),))), constraints or NodeConstraints())
    found = LeavingSets(demand, DEFAULT_POLICY, registry, frozenset()).of(entry, leavers, most)
    return ["+".join(record.name for record in each.records) for each in found]


def test_of_one_card_those_leave_that_give_back_what_is_short() -> None:
    entry = a_full_node({"a": 4_000, "b": 6_000, "c": 2_000})
    assert tried(entry, a_request(memory=8_000)) == ["a", "b"]
    assert tried(entry, a_request(memory=4_385 + 6_000)) == ["a+b", "b+c"]
    assert tried(entry, a_request(memory=4_384 + 6_000)) == ["b", "a+c"]


def test_no_pod_leaves_that_need_not() -> None:
    assert tried(a_full_node({"a": 9_000, "b": 1_000}), a_request(memory=10_000)) == ["a"]


def test_no_more_leave_than_allowed() -> None:
    entry = a_full_node({"a": 4_000, "b": 4_000, "c": 4_000})
    assert tried(entry, most=2) == []
    assert tried(entry, most=3) == ["a+b+c"]


def test_pods_that_may_not_leave_are_in_no_set() -> None:
    assert tried(a_full_node({"fixed": 4_000, "b": 4_000}), a_request(memory=12_000)) == ["b"]
    assert tried(a_full_node({"fixed": 8_000, "b": 4_000})) == []


def test_a_slot_is_given_back_by_any_pod() -> None:
    entry = a_full_node({"a": 100, "b": 100}, slots=2)
    assert tried(entry, a_request(memory=100)) == ["a", "b"]


def test_cores_are_given_back_by_the_pods_that_hold_them() -> None:
    entry = a_full_node({"a": (100, 70), "b": (100, 30)})
    assert tried(entry, a_request(memory=100, cores=70)) == ["a"]
    assert tried(entry, a_request(memory=100, cores=30)) == ["a", "b"]


def test_cheap_sets_come_first_on_whichever_card() -> None:
    entry = a_full_node({"dear": 9_000}, {"a": 6_000, "b": 6_000})
    assert tried(entry) == ["a+b", "dear"]


def test_several_cards_are_freed_by_the_union_of_their_cheapest_sets() -> None:
    entry = a_full_node({"dear": 9_000}, {"a": 9_000}, {"b": 9_000})
    assert tried(entry, a_request(memory=CARD, count=2)) == ["a+b", "dear+a", "dear+b"]
    assert tried(entry, a_request(memory=CARD, count=3)) == ["dear+a+b"]
    assert tried(entry, a_request(memory=CARD, count=4)) == []


def test_of_a_card_among_several_the_cheapest_set_counts() -> None:
    entry = a_full_node({"dear": 8_000, "a": 8_000}, {"b": 9_000})
    assert tried(entry, a_request(memory=8_000, count=2)) == ["a+b"]


def test_containers_with_different_requests_need_the_sets_of_both() -> None:
    entry = a_full_node({"a": 9_000}, {"b": 14_000})
    assert tried(entry, a_request(memory=12_000), a_request(memory=CARD)) == ["a", "b", "a+b"]


def test_where_arithmetic_finds_room_single_pods_are_tried_and_then_all() -> None:
    entry = a_full_node({"a": 1_000, "b": 1_000})
    assert tried(entry, a_request(memory=100)) == ["a", "b", "a+b"]
    assert tried(entry, a_request(memory=100), most=1) == ["a", "b"]
    assert tried(a_full_node({"a": 1_000}), a_request(memory=100)) == ["a"]


def test_a_card_that_is_too_small_is_never_freed() -> None:
    assert tried(a_full_node({"a": 1_000}), a_request(memory=CARD + 1)) == []


def a_busy_node(cpu: int, **more: Any) -> NodeEntry:
    facts = NodeFacts(allocatable=amounts({"cpu": cpu, **more}))
    return a_full_node({"a": 100, "b": 100, "dear": 100}, facts=facts, cpu=2)


ALL = "a+b+dear"


def asking(cpu: int) -> NodeConstraints:
    return NodeConstraints(requests=(("cpu", cpu * NANO),))


def test_sums_of_the_node_are_given_back_as_well_by_the_cheapest_pods() -> None:
    small = a_request(memory=100)
    assert tried(a_busy_node(6), small, constraints=asking(2)) == ["a", "b", "dear", ALL]
    assert tried(a_busy_node(6), small, constraints=asking(3)) == ["a+b", "a+dear", ALL]
    assert tried(a_busy_node(7), small, constraints=asking(3)) == ["a", "b", "dear", ALL]
    assert tried(a_busy_node(6), small, constraints=asking(6)) == [ALL]
    assert tried(a_busy_node(6), small, constraints=asking(7)) == []


def test_pods_that_leave_a_card_count_for_the_sums() -> None:
    assert tried(a_busy_node(6), a_request(memory=CARD - 200), constraints=asking(2)) == ["a", "b", "dear"]
    assert tried(a_busy_node(6), a_request(memory=CARD - 200), constraints=asking(4)) == ["a+b", "a+dear"]


def test_a_pod_gives_back_a_place_among_the_pods_of_its_node() -> None:
    assert tried(a_busy_node(100, pods=3), a_request(memory=100)) == ["a", "b", "dear", ALL]
    assert tried(a_busy_node(100, pods=2), a_request(memory=100)) == ["a+b", "a+dear", ALL]


def test_a_node_that_the_pod_may_not_use_has_no_sets() -> None:
    assert tried(a_full_node({"a": 9_000}), constraints=NodeConstraints(selector=(("x", "y"),))) == []


def test_sums_count_to_the_last_unit() -> None:
    small, one_more = a_request(memory=100), 1
    a_little = NodeConstraints(requests=(("cpu", 2 * NANO + one_more),))
    assert tried(a_busy_node(6), small, constraints=a_little) == ["a+b", "a+dear", ALL]
    too_much = NodeConstraints(requests=(("cpu", 6 * NANO + one_more),))
    assert tried(a_busy_node(6), small, constraints=too_much) == []


def test_a_pod_gives_back_nothing_of_what_it_does_not_ask_for() -> None:
    entry = a_busy_node(6)
    (first, *others) = entry.pods
    entry = with_pods(entry, [replace(first, requests=()), *others])
    a_little = NodeConstraints(requests=(("cpu", 2 * NANO + 1),))
    assert tried(entry, a_request(memory=100), constraints=a_little) == ["b", "a+b", "dear", ALL]


def test_devices_that_go_together_are_freed_in_their_sets() -> None:
    devices = [a_device(vendor=NEURON.name, slots=2, memory=0, cores=2, index=at) for at in range(4)]
    registry = Registry([NEURON])
    node = a_node("n", *devices)
    shares = [allocated(a_share(f"card-{at}", 0, 2, vendor=NEURON.name)) for at in range(4)]
    entry = with_pods(node, [a_record(each, name=f"p{at}") for at, each in enumerate(shares)])
    request = a_request(vendor=NEURON.name, count=2, memory=0, cores=2)
    together = NEURON.topology.together
    sets = None if together is None else together(request, entry.state.shape)
    assert sets is not None
    found = [tuple(int(name[1]) for name in each.split("+")) for each in tried(entry, request, registry=registry)]
    assert sorted(found) == sorted(tuple(sorted(each)) for each in sets.sets)
    assert len(found) < 6, "not every pair is linked"


def test_one_device_may_be_any_one_of_all() -> None:
    cards = [{f"p{at}": 9_000} for at in range(6)]
    assert tried(a_full_node(*cards)) == ["p0", "p1", "p2", "p3", "p4", "p5"]


def test_several_devices_are_chosen_among_the_cheapest_three_more_than_are_asked_for() -> None:
    """A device counts with its cheapest set: on that of the dear pod another one is enough."""
    cards = [{"dear": 8_000, "p0": 7_700}, *({f"p{at}": 9_000} for at in range(1, 6))]
    found = tried(a_full_node(*cards), a_request(memory=8_000, count=2))
    assert len(found) == 10
    assert "p0+p1" in found
    assert not any("p5" in each for each in found)


def test_of_thirteen_pods_on_a_card_twelve_are_combined() -> None:
    entry = a_full_node({f"p{at:02}": 1_000 + at for at in range(13)}, slots=20)
    assert tried(entry, a_request(memory=3_500), most=1) == [f"p{at:02}" for at in range(1, 13)]


def test_at_most_sixty_four_sets_of_a_node_are_tried() -> None:
    entry = a_full_node({f"p{at:02}": 1_300 for at in range(12)}, slots=20)
    assert len(tried(entry, a_request(memory=3_000), most=2)) == 64


def test_of_very_many_pods_those_that_hold_most_are_combined(monkeypatch: Any) -> None:
    monkeypatch.setattr(candidates, "MOST_OF_DEVICE", 2)
    entry = a_full_node({"a": 1_000, "b": 6_000, "c": 2_000})
    assert tried(entry, a_request(memory=CARD - 3_000)) == ["b"]
    monkeypatch.setattr(candidates, "MOST_OF_DEVICE", 3)
    assert tried(entry, a_request(memory=CARD - 3_000)) == ["b"]
    assert tried(replace(entry), a_request(memory=CARD - 6_000)) == ["b", "a+c"]


def test_only_some_sets_of_a_node_are_tried(monkeypatch: Any) -> None:
    monkeypatch.setattr(candidates, "MOST_SETS", 1)
    assert tried(a_full_node({"a": 4_000, "b": 6_000}), a_request(memory=8_000)) == ["a"]
