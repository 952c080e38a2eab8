"""What room costs on one node at least: numbers of single nodes, worked out by hand.

A card has 16,384 MiB, 10 slots and 100 cores where a test says nothing else. Victims are the cheapest that are enough
by their number, so that a bound is never above the true cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.device_links import Together
from hami_plugins.model.devices import Profile
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import NEVER, CostScale
from hami_plugins.preemption.rows import Row, added, freed_by, rows_of, summary_of
from tests import acme
from tests.builders import (
    CORES,
    COUNT,
    MEMORY,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_share,
    allocated,
    amounts,
)
from tests.unit.clusters import CardNode, cluster_of, holding
from tests.unit.preemption.small_clusters import PRIORITY, a_case

REGISTRY = Registry([acme.SPEC])
POSITION = {DeviceId("card-0"): 0, DeviceId("card-1"): 1}


def node(*pods: PodRecord, cards: int = 1, slots: int = 10, cpu: int = 0) -> NodeEntry:
    return cluster_of({"n": CardNode(cards, pods)}, slots=slots, cpu=cpu).nodes[0]


def asks(memory: int, *, cards: int = 1, cores: int = 0, requests: Sequence[tuple[str, int]] = ()) -> PodInfo:
    found = take_in(a_pod(a_container({COUNT: cards, MEMORY: memory, CORES: cores})), REGISTRY, Rules())
    return found.with_constraints(replace(found.demand.constraints, requests=tuple(requests)))


def bounds_of(info: PodInfo, *uncounted: str) -> RoomBounds:
    return RoomBounds(info.demand, Policy(), REGISTRY, uncounted)


def costs(entry: NodeEntry, info: PodInfo, rows: Sequence[Row], copies: int = 1, gone: Sequence[Row] = ()) -> list[int]:
    return bounds_of(info).costs(entry, rows, copies, gone)


def frees(cost: int, *memory: int, cores: int = 0, requests: Sequence[tuple[str, int]] = (), pods: int = 1) -> Row:
    """What leaves gives back so much of card 0, card 1 ...; nothing of a card where it is 0."""
    held = tuple((at, (1, amount, cores)) for at, amount in enumerate(memory) if amount)
    return Row(cost, held, tuple(requests), pods)


def pair(*memory: int, cores: int = 0) -> tuple[PodRecord, ...]:
    """Pods that hold so much of card 0 each."""
    return tuple(
        a_record(allocated(a_share("card-0", amount, cores)), name=f"p{at}") for at, amount in enumerate(memory)
    )


def test_what_has_room_costs_nothing() -> None:
    assert costs(node(), asks(16_384), []) == [0]
    assert costs(node(*pair(6_384)), asks(10_000), [frees(7, 6_384)]) == [0]


def test_as_many_leave_as_are_enough_at_their_largest_and_cost_what_the_cheapest_do() -> None:
    """16,000 MiB are held: 8,000 more need one pod, for 12,000 both have to leave."""
    full, rows = node(*pair(10_000, 6_000)), [frees(3, 6_000), frees(5, 10_000)]
    assert costs(full, asks(10_384), rows) == [3]
    assert costs(full, asks(10_385), rows) == [8]
    assert costs(full, asks(16_384), rows) == [8]
    assert costs(full, asks(16_384), rows[:1]) == [NEVER]
    assert costs(full, asks(16_384), []) == [NEVER]


def test_of_a_device_that_lacks_even_without_all_its_pods_no_amounts_are_compared() -> None:
    """Of most devices of a full cluster the sum of what its pods give back says so: sorting them all costs more."""
    compared = 0

    class Noted(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    full = node(*pair(4_000, 6_000, 6_000))
    rows = [frees(1, Noted(4_000)), frees(2, Noted(6_000))]
    assert (costs(full, asks(10_385), rows), compared) == ([NEVER], 0)
    assert costs(full, asks(10_384), rows) == [3]
    assert compared, "where they are enough the largest are chosen"


def test_each_further_copy_takes_as_much_again() -> None:
    full, rows = node(*pair(8_000, 8_000)), [frees(2, 8_000), frees(9, 8_000)]
    assert costs(full, asks(8_000), rows, 3) == [2, 11, NEVER]
    assert costs(node(*pair(8_000, 8_000), cards=2), asks(8_000), rows, 4) == [0, 0, 2, 11]


def test_what_has_left_already_is_free_and_costs_nothing_more() -> None:
    full, rows = node(*pair(10_000, 6_000)), [frees(3, 6_000)]
    assert costs(full, asks(10_384), rows, gone=[frees(5, 10_000)]) == [0]
    assert costs(full, asks(16_384), rows, gone=[frees(5, 10_000)]) == [3]
    both = [frees(5, 5_000), frees(5, 5_000)]
    assert costs(full, asks(10_384), rows, gone=both) == [0]
    slots = node(*pair(1, 1, 1_000), slots=3)
    assert costs(slots, asks(1), [frees(4, 1), frees(6, 1)], 2, gone=[frees(1, 1_000)]) == [0, 4]


def test_slots_count_like_memory() -> None:
    taken = node(*pair(1, 1), slots=2)
    assert costs(taken, asks(1), [frees(4, 1), frees(6, 1)]) == [4]
    assert costs(taken, asks(1), [frees(4, 1), frees(6, 1)], 2) == [4, 10]
    assert costs(node(*pair(1), slots=2), asks(1), [frees(4, 1)]) == [0]


def test_cores_count_like_memory_and_whole_devices_want_nobody_beside_them() -> None:
    busy, rows = node(*pair(1, 1, cores=40)), [frees(1, 1, cores=40), frees(2, 1, cores=40)]
    assert costs(busy, asks(1, cores=20), rows) == [0]
    assert costs(busy, asks(1, cores=30), rows) == [1]
    assert costs(busy, asks(1, cores=61), rows) == [3]
    assert costs(busy, asks(1, cores=30), rows, 3) == [1, 1, 3]
    assert costs(busy, asks(1, cores=100), rows) == [3]
    assert costs(node(*pair(1)), asks(1, cores=100), [frees(5, 1)]) == [5], "one pod without cores is next to it"


def test_several_cards_cost_what_the_cheapest_of_them_do_together() -> None:
    pods = [holding(f"p{at}", 16_000, at) for at in range(3)]
    rows = [frees(1, 16_000), frees(4, 0, 16_000), frees(9, 0, 0, 16_000)]
    full = node(*pods, cards=3)
    assert costs(full, asks(10_000), rows) == [1]
    assert costs(full, asks(10_000, cards=2), rows) == [5]
    assert costs(full, asks(10_000, cards=3), rows) == [14]
    assert costs(full, asks(10_000, cards=4), rows) == [NEVER]
    assert costs(full, asks(10_000), rows, 4) == [1, 5, 14, NEVER]
    assert costs(full, asks(10_000, cards=2), rows, 2) == [5, NEVER]


def test_a_pod_on_two_cards_may_make_room_on_both() -> None:
    pods = [a_record(allocated(a_share("card-0", 16_000), a_share("card-1", 16_000)), name="wide")]
    wide, single = frees(6, 16_000, 16_000), frees(2, 0, 0, 16_000)
    full = node(*pods, holding("p", 16_000, 2), cards=3)
    assert costs(full, asks(10_000, cards=2), [wide]) == [6]
    assert costs(full, asks(10_000), [single, wide]) == [2]
    assert costs(full, asks(10_000, cards=2), [single, wide]) == [6], "the dearest of the two cheapest cards"
    assert costs(full, asks(10_000, cards=3), [single, wide]) == [8], "two pods for three cards"
    assert costs(full, asks(10_000), [single, wide], 4) == [2, 2, 8, NEVER]
    assert costs(full, asks(10_000, cards=4), [single, wide]) == [NEVER]


def test_cards_that_take_different_numbers_of_copies() -> None:
    """Card 0 takes two when one pod leaves; on card 1 a pod stays that leaves room for one."""
    pods = holding("a", 16_000), holding("stays", 8_000, 1), holding("b", 8_000, 1)
    rows = [frees(1, 16_000), frees(9, 0, 8_000)]
    assert costs(node(*pods, cards=2), asks(8_000), rows, 4) == [1, 1, 10, NEVER]


def test_a_card_of_which_the_node_has_too_few_is_no_place() -> None:
    bounds = bounds_of(asks(1, cards=2))
    assert not bounds.may_serve(node(cards=1))
    assert bounds.may_serve(node(*pair(16_000, 384), cards=2)), "who holds the cards does not matter"
    assert not bounds_of(asks(16_385)).may_serve(node(cards=4))
    assert bounds_of(asks(16_384)).may_serve(node())


def test_every_request_of_a_pod_has_to_be_served() -> None:
    pod = a_pod(a_container({COUNT: 1, MEMORY: 100}), a_container({COUNT: 2, MEMORY: 200}, name="second"))
    bounds = bounds_of(take_in(pod, REGISTRY, Rules()))
    assert bounds.may_serve(node(cards=2))
    assert not bounds.may_serve(node(cards=1))


def test_a_pod_on_all_cards_costs_what_it_costs_though_others_are_cheaper() -> None:
    both = a_record(allocated(a_share("card-0", 16_000), a_share("card-1", 16_000)), name="wide")
    assert costs(node(both, cards=2), asks(10_000, cards=2), [frees(1), frees(10, 16_000, 16_000)]) == [10]


def test_the_cards_that_a_pod_names_are_those_that_count() -> None:
    pods = [holding(f"p{at}", 16_000, at) for at in range(2)]
    rows = [frees(1, 16_000), frees(7, 0, 16_000)]
    named = take_in(
        replace(a_pod(a_container({COUNT: 1, MEMORY: 10_000})), annotations={"acme.example/use-uuid": "card-1"}),
        REGISTRY,
        Rules(),
    )
    bounds, entry = bounds_of(named), node(*pods, cards=2)
    assert bounds.costs(entry, rows, 1) == [7]
    turned = replace(entry, ids=tuple(reversed(entry.ids)))
    assert bounds.costs(turned, rows, 1) == [1], "a node of the same shape has its own names"


def test_one_request_that_names_cards_is_enough_for_names_to_count() -> None:
    pods = [holding(f"p{at}", 16_000, at) for at in range(2)]
    pod = a_pod(a_container({COUNT: 1, MEMORY: 1}), a_container({COUNT: 1, MEMORY: 10_000}, name="second"))
    info = take_in(pod, REGISTRY, Rules())
    first, second = info.demand.devices.containers
    (request,) = second.requests
    named = replace(request, selector=replace(request.selector, use_ids=frozenset({DeviceId("card-1")})))
    devices = replace(info.demand.devices, containers=(first, replace(second, requests=(named,))))
    bounds = RoomBounds(replace(info.demand, devices=devices), Policy(), REGISTRY, ())
    entry, rows = node(*pods, cards=2), [frees(1, 16_000), frees(7, 0, 16_000)]
    assert bounds.costs(entry, rows, 1) == [7]
    assert bounds.costs(replace(entry, ids=tuple(reversed(entry.ids))), rows, 1) == [1]


@pytest.mark.parametrize(("copies", "expected"), [(1, [0]), (2, [0, 3]), (3, [0, 3, 8]), (4, [0, 3, 8, NEVER])])
def test_sums_of_the_node_have_to_suffice_too(copies: int, expected: list[int]) -> None:
    """Of 10 CPUs 7 are held, by pods of 4 and 3; each copy takes 3."""
    pods = [
        replace(holding("a", 100), requests=(("cpu", 4 * NANO),)),
        replace(holding("b", 100), requests=(("cpu", 3 * NANO),)),
    ]
    rows = [frees(3, 100, requests=(("cpu", 3 * NANO),)), frees(5, 100, requests=(("cpu", 4 * NANO),))]
    info = asks(100, requests=(("cpu", 3 * NANO),))
    assert costs(node(*pods, cpu=10), info, rows, copies) == expected


def test_of_a_sum_the_pods_that_request_most_count_first() -> None:
    rows = [frees(3, 100, requests=(("cpu", NANO),)), frees(5, 100, requests=(("cpu", 4 * NANO),))]
    pods = [replace(holding(name, 100), requests=(("cpu", cpus * NANO),)) for name, cpus in (("a", 1), ("b", 4))]
    full = node(*pods, cpu=5)
    assert costs(full, asks(100, requests=(("cpu", 4 * NANO),)), rows) == [3]
    assert costs(full, asks(100, requests=(("cpu", 5 * NANO),)), rows) == [8]


def test_sums_that_are_not_counted_or_not_listed_hold_nothing_back() -> None:
    info = asks(100, requests=(("cpu", 3 * NANO), ("memory", NANO)))
    assert bounds_of(info, "cpu").costs(node(cpu=2), [], 1) == [0]
    assert costs(node(cpu=2), info, []) == [NEVER]
    assert costs(node(), info, []) == [0], "a listing without cpu says nothing of it"
    assert costs(node(cpu=3), info, []) == [0], "all of it is enough"
    assert costs(node(cpu=9), asks(100, requests=(("cpu", NANO), (MEMORY, 16_385 * NANO))), []) == [NEVER]
    assert costs(node(cpu=3), asks(100, requests=(("memory", 5 * NANO), ("cpu", 4 * NANO))), []) == [NEVER]


def test_a_node_has_room_for_so_many_pods() -> None:
    entry = node(*pair(1, 1, 1))
    full = replace(entry, facts=replace(entry.facts, allocatable=amounts({"pods": 4})))
    rows = [frees(1, 1), frees(2, 1), frees(4, 1)]
    assert costs(full, asks(1), rows, 5) == [0, 1, 3, 7, NEVER]
    assert costs(full, asks(1), rows[1:], 2, gone=rows[:1]) == [0, 0]
    assert costs(full, asks(1), [frees(1, 1, pods=2)], 3) == [0, 1, 1]


def test_devices_that_go_together_have_to_be_free_together() -> None:
    """Cards 0 and 1 are a set, 2 and 3 another: the two cheapest cards are of different ones."""
    linked = replace(acme.SPEC, topology=replace(acme.SPEC.topology, together=lambda *_: Together(((0, 1), (2, 3)))))
    pods = [holding(f"p{at}", 16_000, at) for at in range(4)]
    rows = [frees(1, 16_000), frees(2, 0, 0, 16_000), frees(8, 0, 16_000), frees(9, 0, 0, 0, 16_000)]
    info, entry = asks(10_000, cards=2), node(*pods, cards=4)
    bounds = RoomBounds(info.demand, Policy(), Registry([linked]), ())
    assert bounds.costs(entry, rows, 1) == [9]
    assert bounds.costs(entry, rows[:3], 1) == [9], "the other set cannot be freed"
    assert bounds.costs(entry, rows[:2], 1) == [NEVER]
    one_set = replace(acme.SPEC, topology=replace(acme.SPEC.topology, together=lambda *_: Together(((0, 1),))))
    bounds_of_one = RoomBounds(info.demand, Policy(), Registry([one_set]), ())
    assert bounds_of_one.costs(entry, rows, 1) == [9], "the other cards are in no set"
    also = node(*pods, holding("also", 384, 1), cards=4)
    of_two = [frees(3, 16_000, 16_000), frees(5, 0, 384)]
    whole = RoomBounds(asks(16_384, cards=2).demand, Policy(), Registry([one_set]), ())
    assert whole.costs(also, of_two, 1) == [8], "one of both cards is held by two pods"
    wide = [frees(3, 16_000, 16_000), *rows[1:2], rows[3]]
    assert bounds.costs(entry, wide, 1) == [3], "one pod leaves both cards of a set"
    across = [frees(1, 16_000), frees(2, 0, 0, 16_000), frees(5, 0, 16_000, 0, 16_000)]
    assert bounds_of_one.costs(entry, across, 1) == [5], "the set costs at least what its dearest card does"


def test_a_card_that_is_cut_stands_for_as_many_devices_as_it_has_slots() -> None:
    """A bound: two parts cost as much as one, whatever their memory is."""
    cut = replace(acme.SPEC, fitting=replace(acme.SPEC.fitting, partitions=True))
    card = a_device(slots=2, profiles=(Profile("half", MiB(8_192), CoreShare(50), 1),))
    full = with_pods(a_node("n", card), pair(16_000))
    bounds = RoomBounds(asks(8_000).demand, Policy(), Registry([cut]), ())
    assert bounds.costs(full, [frees(5, 16_000)], 5) == [5, 5, 5, 5, NEVER]


def test_what_left_gives_sums_back_as_well() -> None:
    pods = [replace(holding("a", 100), requests=(("cpu", 4 * NANO),))]
    info = asks(100, requests=(("cpu", 3 * NANO),))
    assert costs(node(*pods, cpu=6), info, []) == [NEVER]
    assert costs(node(*pods, cpu=6), info, [], gone=[frees(1, 100, requests=(("cpu", NANO),))]) == [0]


def test_a_row_gives_what_its_pods_requested_and_their_places() -> None:
    row = frees(1, 100, requests=(("cpu", 2 * NANO),), pods=3)
    assert (row.gives("cpu"), row.gives("memory"), row.gives("pods")) == (2 * NANO, 0, 3 * NANO)
    assert Row(1, (), ()).gives("pods") == NANO


def test_a_pod_gives_back_the_sum_of_its_shares_of_each_card_of_the_node() -> None:
    single: Any = a_record(allocated(a_share("card-1", 300, 5)))
    assert freed_by(single, POSITION) == ((1, (1, 300, 5)),)
    several = a_record(
        allocated(a_share("card-0", 100, 1), a_share("card-1", 10)), allocated(a_share("card-0", 200, 2))
    )
    assert dict(freed_by(several, POSITION)) == {0: (2, 300, 3), 1: (1, 10, 0)}
    two = a_record(allocated(a_share("card-0", 100, 1)), allocated(a_share("card-1", 10)))
    assert dict(freed_by(two, POSITION)) == {0: (1, 100, 1), 1: (1, 10, 0)}
    assert freed_by(a_record(allocated(a_share("elsewhere", 1))), POSITION) == ()
    assert freed_by(a_record(allocated(a_share("elsewhere", 1), a_share("card-0", 7))), POSITION) == ((0, (1, 7, 0)),)


def test_amounts_are_added_part_by_part() -> None:
    assert added(None, (1, 2, 3)) == (1, 2, 3)
    assert added((10, 20, 30), (1, 2, 3)) == (11, 22, 33)


def quick(entry: NodeEntry, info: PodInfo, *, stays: str = "", registry: Registry = REGISTRY) -> int:
    """The quick bound where the pods but one may leave; each costs what its name says."""
    bounds = RoomBounds(info.demand, Policy(), registry, ())
    leavers = [(record, 0) for record in entry.pods if record.name != stays]
    return bounds.quick_cost(entry, summary_of(leavers, ByName()))


class ByName:
    """A pod costs its name."""

    def of(self, record: PodRecord, priority: int) -> int:
        """See ``Scale``."""
        return int(record.name)


class TestQuickCost:
    def test_room_costs_nothing_and_no_pods_make_none(self) -> None:
        assert quick(node(), asks(16_384)) == 0
        assert quick(node(holding("5", 6_384)), asks(10_000)) == 0
        full = node(holding("5", 16_000))
        assert quick(full, asks(10_000), stays="5") == NEVER
        assert quick(full, asks(10_000)) == 5
        assert quick(full, asks(16_385)) == NEVER, "no card of the node is large enough"
        assert quick(node(), asks(1, cards=2)) == NEVER

    def test_as_many_leave_as_if_each_held_the_largest_amount(self) -> None:
        """The card is full, so that the amount that is asked for is missing."""
        full = node(holding("3", 4_000), holding("5", 4_000), holding("7", 8_384))
        assert quick(full, asks(8_384)) == 3, "one of 8,384 would do"
        assert quick(full, asks(8_385)) == 8
        assert quick(full, asks(8_000), stays="7") == 8, "without it two of 4,000 are needed"
        assert quick(full, asks(8_001), stays="7") == NEVER, "three are not there"

    def test_slots_and_cores_count_like_memory(self) -> None:
        pods = [holding(str(cost), 1) for cost in (2, 4, 8)]
        assert quick(node(*pods, slots=3), asks(1)) == 2
        busy = node(*(a_record(allocated(a_share("card-0", 1, 30)), name=str(cost)) for cost in (2, 4, 8)))
        assert quick(busy, asks(1, cores=40)) == 2
        assert quick(busy, asks(1, cores=41)) == 6
        assert quick(busy, asks(1, cores=100)) == 14, "a whole card wants no pod beside it"

    def test_pods_make_room_together_only_on_one_card(self) -> None:
        """The two cheapest pods are on different cards, of which each has to lose two."""
        pods = holding("1", 8_000, 0), holding("9", 8_000, 0), holding("2", 8_000, 1), holding("5", 8_000, 1)
        assert quick(node(*pods, cards=2), asks(16_384)) == 7
        assert quick(node(*pods, cards=2), asks(16_384), stays="5") == 10
        assert quick(node(*pods, cards=2), asks(1)) == 0

    def test_the_cards_that_lack_least_say_how_many_leave(self) -> None:
        pods = holding("1", 8_000, 0), holding("2", 8_000, 0), holding("4", 10_000, 1)
        full = node(*pods, cards=2)
        assert quick(full, asks(16_384)) == 1, "it is not known which pod holds which card of the node"
        assert quick(full, asks(16_384, cards=2)) == 7

    def test_a_pod_on_several_cards_may_make_room_on_all(self) -> None:
        wide = a_record(allocated(a_share("card-0", 16_000), a_share("card-1", 16_000)), name="6")
        full = node(wide, holding("8", 16_000, 2), cards=3)
        assert quick(full, asks(10_000, cards=2)) == 6
        assert quick(full, asks(10_000, cards=3)) == 14
        twice = a_record(allocated(a_share("card-0", 8_000)), allocated(a_share("card-0", 8_000)), name="3")
        assert quick(node(twice), asks(16_384)) == 3, "both of its shares are gone with it"

    def test_where_a_sum_of_the_node_is_short_one_pod_leaves_at_least(self) -> None:
        info = asks(1, requests=(("cpu", 3 * NANO),))
        pods = [replace(holding(name, 1), requests=(("cpu", 4 * NANO),)) for name in ("2", "5")]
        assert quick(node(*pods, cpu=10), info) == 2
        assert quick(node(*pods, cpu=11), info) == 0
        assert quick(node(*pods[:1], cpu=4), info, stays="2") == NEVER
        full = replace(node(*pods), facts=replace(node().facts, allocatable=amounts({"pods": 2})))
        assert quick(full, asks(1)) == 2

    def test_a_card_that_is_cut_stands_for_several_devices(self) -> None:
        cut = replace(acme.SPEC, fitting=replace(acme.SPEC.fitting, partitions=True))
        card = a_device(slots=2, profiles=(Profile("half", MiB(8_192), CoreShare(50), 1),))
        full = with_pods(a_node("n", card), [holding("5", 16_000)])
        for cards in (1, 2):
            assert quick(full, asks(8_000, cards=cards), registry=Registry([cut])) == 5
        assert quick(full, asks(8_000, cards=3), registry=Registry([cut])) == NEVER

    def test_every_request_of_a_pod_is_served(self) -> None:
        pods = holding("1", 8_000, 0), holding("2", 8_000, 0), holding("4", 8_000, 1), holding("8", 8_000, 1)
        containers = a_container({COUNT: 1, MEMORY: 8_384}), a_container({COUNT: 2, MEMORY: 16_384}, name="second")
        for order in (containers, containers[::-1]):
            assert quick(node(*pods, cards=2), take_in(a_pod(*order), REGISTRY, Rules())) == 15

    def test_it_is_never_above_the_bound_in_full(self) -> None:
        """Small clusters of all vendors: it decides which nodes are looked at, so it must not be too high."""
        below = equal = 0
        for case in filter(None, map(a_case, range(150))):
            info, scale = case.infos[0], CostScale(range(PRIORITY))
            bounds = RoomBounds(info.demand, info.policy, case.history.registry, ())
            for entry in case.snapshot.nodes:
                leavers = [(record, record.priority) for record in entry.pods if record.preemptable]
                (full,) = bounds.costs(entry, rows_of(entry, leavers, scale), 1)
                least = bounds.quick_cost(entry, summary_of(leavers, scale))
                assert least <= full
                below += least < full
                equal += 0 < least == full
        assert below > 20 < equal
