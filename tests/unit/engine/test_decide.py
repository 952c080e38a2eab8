"""The one decision: which node, and the caches that may never change the answer."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins import examples, library
from hami_plugins.engine import decide
from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import CacheStatistics, Decider, PodDemand
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import fleets
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import UNREGISTERED, Placed, Refused
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy, Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import Headroom, Left
from hami_plugins.model.verdicts import Fit, NoFit, Reason
from tests import acme, acme_variants
from tests.builders import ACME, COUNT, a_demand, a_device, a_node, a_pod, a_request, a_snapshot, amounts, used

REGISTRY = Registry([acme.SPEC])
SPREAD = replace(DEFAULT_POLICY, node=NodePolicy.SPREAD)
SLICE = PodDemand(a_demand(a_request()))


def chosen(snapshot: ClusterSnapshot, demand: PodDemand = SLICE, policy: Policy = DEFAULT_POLICY) -> str:
    decision = Decider(REGISTRY).decide(snapshot, demand, policy)
    return decision.node if isinstance(decision, Placed) else ""


def busy(name: str, slots: int) -> NodeEntry:
    return a_node(name, usage=[used(slots, slots * 100)])


class TestChoice:
    """Among the nodes that fit, the best score wins."""

    nodes = a_snapshot(busy("a", 1), busy("b", 5), busy("c", 3))

    def test_binpack_takes_the_fullest_node_that_fits(self) -> None:
        assert chosen(self.nodes) == "b"
        assert chosen(a_snapshot(busy("a", 1), busy("b", 10))) == "a"

    def test_spread_takes_the_emptiest(self) -> None:
        assert chosen(self.nodes, policy=SPREAD) == "a"

    def test_equals_go_to_the_first_by_name(self) -> None:
        assert chosen(a_snapshot(a_node("b"), a_node("a"), a_node("c"))) == "a"
        assert chosen(a_snapshot(a_node("b"), a_node("a")), policy=SPREAD) == "a"

    def test_a_placement_names_devices_and_counts_the_candidates(self) -> None:
        snapshot = a_snapshot(busy("a", 1), busy("b", 10), a_node("c", ids=["GPU-c"]))
        decision = Decider(REGISTRY).decide(snapshot, SLICE, SPREAD)
        assert isinstance(decision, Placed)
        assert (decision.node, decision.candidates) == ("c", 2)
        (share,) = decision.shares()
        assert (share.device, share.vendor, share.word, share.memory) == ("GPU-c", ACME, ACME, 1024)

    def test_a_vendors_word_is_its_model_where_it_says_so_and_the_assignment_can_carry_it(self) -> None:
        spec = acme_variants.records(word_is_model=True)
        for model, word in (("MI300X", "MI300X"), ("MI,300", ACME)):
            node = a_node("a", a_device(model=model))
            decision = Decider(Registry([spec])).decide(a_snapshot(node), SLICE, DEFAULT_POLICY)
            assert isinstance(decision, Placed)
            assert decision.shares()[0].word == word


class TestRefusal:
    """A refusal says for every node why."""

    def test_each_node_has_its_own_reason_in_node_order(self) -> None:
        full, closed = busy("z", 10), a_node("a", facts=NodeFacts(unschedulable=True))
        decision = Decider(REGISTRY).decide(a_snapshot(full, closed), SLICE, DEFAULT_POLICY)
        assert isinstance(decision, Refused)
        assert [name for name, _ in decision.by_node] == ["a", "z"]
        assert decision.counted() == (
            ("1/1 CardTimeSlicingExhausted", 1),
            ("node(s) were unschedulable", 1),
        )

    def test_an_empty_cluster_refuses_without_words(self) -> None:
        decision = Decider(REGISTRY).decide(ClusterSnapshot(), SLICE, DEFAULT_POLICY)
        assert decision == Refused()

    def test_a_node_without_devices_is_unregistered(self) -> None:
        empty = a_node("a")
        bare = replace(empty, ids=(), state=type(empty.state).idle(type(empty.state.shape)(())))
        decision = Decider(REGISTRY).decide(a_snapshot(bare), SLICE, DEFAULT_POLICY)
        assert decision == Refused(by_node=((NodeName("a"), UNREGISTERED),))
        nothing = PodDemand(a_demand())
        assert chosen(a_snapshot(bare), nothing) == "a"

    def test_the_nodes_name_is_put_into_upstreams_words(self) -> None:
        spec = acme_variants.fitting(message=lambda shortfall, ask: "no room on {node}")
        decision = Decider(Registry([spec])).decide(a_snapshot(busy("n7", 10)), SLICE, DEFAULT_POLICY)
        assert isinstance(decision, Refused)
        assert str(decision.by_node[0][1]) == "no room on n7"

    def test_a_refusal_is_an_answer_that_answers_can_list(self) -> None:
        found = Decider(REGISTRY).answers(a_snapshot(busy("a", 10), a_node("b")), SLICE, DEFAULT_POLICY)
        assert [(entry.name, type(answer)) for entry, answer in found] == [("a", NoFit), ("b", Fit)]


class TestSelectors:
    """Id lists become a mask per node, so equal states still share what they have in common."""

    wanted = PodDemand(a_demand(a_request(selector=DeviceSelector(use_ids=frozenset({DeviceId("GPU-1")})))))

    def test_only_the_node_with_the_device_fits(self) -> None:
        nodes = a_snapshot(a_node("a", ids=["GPU-0"]), a_node("b", ids=["GPU-1"]))
        assert chosen(nodes, self.wanted) == "b"

    def test_equal_states_with_different_masks_are_different_questions(self) -> None:
        decider = Decider(REGISTRY)
        names = [a_node(f"n{at}", ids=[f"GPU-{at}"]) for at in range(4)]
        decider.decide(a_snapshot(*names), self.wanted, DEFAULT_POLICY)
        assert (decider.statistics.misses, decider.statistics.hits) == (2, 2)

    def test_a_node_of_another_vendor_has_nothing_to_mask(self) -> None:
        other = a_node("a", a_device(vendor="Beta"), ids=["GPU-1"])
        decision = Decider(REGISTRY).decide(a_snapshot(other), self.wanted, DEFAULT_POLICY)
        assert isinstance(decision, Refused)
        assert decision.counted() == ((Reason.TOO_FEW_CARDS, 1),)


class TestUncounted:
    """Device resources are answered for here, so node sums do not apply to them."""

    asks = PodDemand(a_demand(a_request()), NodeConstraints(requests=((COUNT, 5 * NANO),)))
    node = a_node("a", facts=NodeFacts(allocatable=amounts({COUNT: 1})))

    def test_resources_that_the_scheduler_leaves_to_us_are_not_summed_up(self) -> None:
        decider = Decider(REGISTRY)
        assert decider.uncounted == frozenset(acme.SPEC.ignored_by_scheduler)
        assert isinstance(decider.decide(a_snapshot(self.node), self.asks, DEFAULT_POLICY), Placed)

    def test_others_may_be_left_to_it(self) -> None:
        decision = Decider(REGISTRY, uncounted=()).decide(a_snapshot(self.node), self.asks, DEFAULT_POLICY)
        assert isinstance(decision, Refused)
        assert decision.counted() == ((f"Insufficient {COUNT}", 1),)


def limited(memory: int) -> Left:
    return ((ACME, Headroom(MiB(memory))),)


def asked(*sizes: int) -> list[PodDemand]:
    return [PodDemand(a_demand(a_request(memory=size))) for size in sizes]


class TestCache:
    """Verdicts are remembered by value, bounded, and counted."""

    same = tuple(a_node(f"n{at:02}") for at in range(20))

    def test_nodes_in_equal_states_share_one_verdict(self) -> None:
        decider = Decider(REGISTRY)
        decider.decide(a_snapshot(*self.same), SLICE, DEFAULT_POLICY)
        assert decider.statistics == CacheStatistics(verdicts=1, hits=19, misses=1, columns=1)

    def test_a_decision_on_the_same_nodes_asks_nothing_again(self) -> None:
        decider, snapshot = Decider(REGISTRY), a_snapshot(*self.same)
        first = decider.decide(snapshot, SLICE, DEFAULT_POLICY)
        assert decider.decide(snapshot, SLICE, DEFAULT_POLICY) == first
        assert decider.statistics.hits == 19

    def test_after_a_change_only_the_changed_node_is_asked(self) -> None:
        decider, snapshot = Decider(REGISTRY), a_snapshot(*self.same)
        decision = decider.decide(snapshot, SLICE, DEFAULT_POLICY)
        assert isinstance(decision, Placed)
        after = assigned(snapshot, a_pod(), decision)
        decider.decide(after, SLICE, DEFAULT_POLICY)
        assert decider.statistics == CacheStatistics(verdicts=2, hits=19, misses=2, columns=1)

    def test_another_policy_is_another_question(self) -> None:
        decider = Decider(REGISTRY)
        for policy in (DEFAULT_POLICY, SPREAD, replace(DEFAULT_POLICY, exclusive=True)):
            decider.decide(a_snapshot(), SLICE, policy)
        assert (decider.statistics.misses, decider.statistics.columns) == (3, 3)

    def test_other_headroom_is_another_question(self) -> None:
        decider = Decider(REGISTRY)
        rich, poor = (
            replace(SLICE, headroom=((ACME, Headroom(MiB(memory), CoreShare(100))),)) for memory in (10_000, 10)
        )
        assert isinstance(decider.decide(a_snapshot(), rich, DEFAULT_POLICY), Placed)
        assert isinstance(decider.decide(a_snapshot(), poor, DEFAULT_POLICY), Refused)
        assert isinstance(decider.decide(a_snapshot(), rich, DEFAULT_POLICY), Placed)

    @pytest.mark.parametrize("memory", [10_000, 100])
    def test_headrooms_that_give_the_same_are_one_question(self, memory: int) -> None:
        decider, demand = Decider(REGISTRY), PodDemand(a_demand(a_request(memory=1_000)))
        snapshot = a_snapshot(busy("a", 1), busy("b", 2))
        decisions = [
            decider.decide(snapshot, replace(demand, headroom=limited(memory - at)), DEFAULT_POLICY) for at in range(5)
        ]
        assert len({isinstance(each, Placed) for each in decisions}) == 1
        assert decider.statistics == CacheStatistics(verdicts=2, hits=0, misses=2, columns=1)

    def test_verdicts_of_both_sides_of_a_limit_are_kept(self) -> None:
        decider, demand = Decider(REGISTRY), PodDemand(a_demand(a_request(memory=1_000)))
        for memory in (1_500, 500, 1_400, 400):
            ask = decider.asking(replace(demand, headroom=limited(memory)), DEFAULT_POLICY)
            assert isinstance(ask(a_node()), Fit) is (memory > 1_000)
        assert (decider.statistics.misses, decider.statistics.verdicts) == (2, 2)

    def test_verdicts_of_both_sides_count_and_are_forgotten_as_two(self) -> None:
        decider, demand = Decider(REGISTRY, verdicts=2), PodDemand(a_demand(a_request(memory=1_000)))
        for memory, entry in ((1_500, a_node()), (500, a_node()), (500, busy("a", 1))):
            decider.asking(replace(demand, headroom=limited(memory)), DEFAULT_POLICY)(entry)
        assert decider.statistics.verdicts == 1

    def test_one_who_asks_many_nodes_knows_with_which_headrooms_they_say_the_same(self) -> None:
        half = PodDemand(a_demand(a_request(memory=Percent(50))), headroom=limited(10_000))
        ask = Decider(REGISTRY).asking(half, DEFAULT_POLICY)
        assert ask.range.holds(limited(1))
        ask(a_node("a", a_device(memory=4_000)))
        assert [ask.range.holds(limited(each)) for each in (2_000, 1_999)] == [True, False]
        ask(a_node("b", a_device(memory=6_000)))
        assert [ask.range.holds(limited(each)) for each in (3_000, 2_999)] == [True, False]

    def test_the_longest_unasked_demand_is_forgotten_first(self) -> None:
        decider, snapshot = Decider(REGISTRY, columns=2), a_snapshot(busy("a", 1), busy("b", 2))
        first, second, third = asked(1, 2, 3)
        for demand in (first, second, first, third):
            decider.decide(snapshot, demand, DEFAULT_POLICY)
        assert decider.statistics == CacheStatistics(verdicts=4, hits=0, misses=6, columns=2)
        decider.decide(snapshot, first, DEFAULT_POLICY)
        assert decider.statistics.misses == 6
        decider.decide(snapshot, second, DEFAULT_POLICY)
        assert decider.statistics.misses == 8

    def test_verdicts_never_exceed_their_bound(self) -> None:
        decider = Decider(REGISTRY, verdicts=10, columns=3)
        for turn, demand in enumerate(asked(1, 2, 3, 4)):
            decider.decide(a_snapshot(*(busy(f"n{at}", at) for at in range(4 + turn))), demand, DEFAULT_POLICY)
            assert decider.statistics.verdicts <= 10

    def test_one_demand_alone_starts_over_when_it_outgrows_the_bound(self) -> None:
        decider, snapshot = Decider(REGISTRY, verdicts=4), a_snapshot(*(busy(f"n{at}", at) for at in range(10)))
        decision = decider.decide(snapshot, SLICE, DEFAULT_POLICY)
        assert isinstance(decision, Placed)
        assert decision == Decider(REGISTRY).decide(snapshot, SLICE, DEFAULT_POLICY)
        assert decider.statistics.verdicts == 2
        assert decider.statistics.misses == 10

    def test_evicting_others_keeps_the_asking_demands_verdicts(self) -> None:
        decider = Decider(REGISTRY, verdicts=6)
        nodes = [busy(f"n{at}", at) for at in range(4)]
        old, new = asked(1, 2)
        decider.decide(a_snapshot(*nodes), old, DEFAULT_POLICY)
        decider.decide(a_snapshot(*nodes), new, DEFAULT_POLICY)
        assert decider.statistics == CacheStatistics(verdicts=4, hits=0, misses=8, columns=2)

    def test_a_state_is_judged_without_names(self) -> None:
        decider = Decider(REGISTRY)
        verdict = decider.place(a_node().state, SLICE, DEFAULT_POLICY)
        assert isinstance(verdict, Fit)
        assert decider.place(a_node("other").state, SLICE, DEFAULT_POLICY) is verdict


class TestNames:
    """Allocations carry the names of their own node, however often a state has been seen."""

    def test_nodes_in_equal_states_keep_their_names(self) -> None:
        decider = Decider(REGISTRY)
        for _ in range(2):
            for name in ("a", "b"):
                entry = a_node(name, ids=[f"{name}-card"])
                placed = decider.decide(a_snapshot(entry), SLICE, DEFAULT_POLICY)
                assert isinstance(placed, Placed)
                assert [share.device for share in placed.shares()] == [f"{name}-card"]

    def test_what_is_remembered_of_them_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decide, "MOST_NAMED", 2)
        decider = Decider(REGISTRY)
        for at in range(5):
            placed = decider.decide(a_snapshot(a_node("n", ids=[f"card-{at}"])), SLICE, DEFAULT_POLICY)
            assert isinstance(placed, Placed)
            assert placed.shares()[0].device == f"card-{at}"

    def test_another_demand_in_between_changes_nothing(self) -> None:
        decider = Decider(REGISTRY, columns=1)
        snapshot = a_snapshot(a_node("n"))
        first = decider.decide(snapshot, SLICE, DEFAULT_POLICY)
        for demand in asked(1, 2, 3):
            decider.decide(snapshot, demand, DEFAULT_POLICY)
        assert decider.decide(snapshot, SLICE, DEFAULT_POLICY) == first
        assert decider.statistics.columns == 1


class TestCatchingUp:
    """The column follows the snapshot, whatever happened in between."""

    a, b, c = busy("a", 1), busy("b", 5), busy("c", 3)

    @pytest.mark.parametrize(
        ("later", "expected"),
        [
            ([a, c], "c"),
            ([a, b, c, busy("d", 7)], "d"),
            ([busy("0", 9), a, b], "0"),
            ([c], "c"),
            ([], ""),
            ([a, busy("x", 9), c], "x"),
            ([a, busy("b", 10), c], "c"),
        ],
    )
    def test_nodes_may_come_and_go(self, later: list[NodeEntry], expected: str) -> None:
        decider = Decider(REGISTRY)
        assert isinstance(decider.decide(a_snapshot(self.a, self.b, self.c), SLICE, DEFAULT_POLICY), Placed)
        decision = decider.decide(ClusterSnapshot(nodes=tuple(later)), SLICE, DEFAULT_POLICY)
        assert (decision.node if isinstance(decision, Placed) else "") == expected
        assert decision == Decider(REGISTRY).decide(ClusterSnapshot(nodes=tuple(later)), SLICE, DEFAULT_POLICY)

    def test_the_count_of_candidates_follows(self) -> None:
        decider, full = Decider(REGISTRY), busy("b", 10)
        counts = []
        for nodes in ((self.a, self.b, self.c), (self.a, full, self.c), (self.a, self.b, self.c), (self.a, self.b)):
            decision = decider.decide(a_snapshot(*nodes), SLICE, DEFAULT_POLICY)
            assert isinstance(decision, Placed)
            counts.append(decision.candidates)
        assert counts == [3, 2, 3, 2]

    def test_without_a_node_no_pod_fits_whatever_its_quota_leaves(self) -> None:
        decider, limits = Decider(REGISTRY), (limited(0), limited(40_000))
        for left in limits:
            decider.decide(a_snapshot(self.a, self.b), replace(SLICE, headroom=left), DEFAULT_POLICY)
        for left in limits:
            decision = decider.decide(ClusterSnapshot(nodes=()), replace(SLICE, headroom=left), DEFAULT_POLICY)
            assert decision == Refused(by_node=())


histories = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10)), unique_by=lambda each: each[0], max_size=6),
    min_size=1,
    max_size=6,
)


turns = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 12)), min_size=1, max_size=6)


@given(histories, st.integers(1, 12), st.integers(1, 3), turns)
def test_caches_never_change_an_answer(
    history: Iterable[list[tuple[int, int]]], verdicts: int, columns: int, order: list[tuple[int, int | None]]
) -> None:
    """Whatever the nodes, the demands, and what quotas leave, in thousands of MiB."""
    decider = Decider(REGISTRY, verdicts=verdicts, columns=columns)
    demands = [*asked(1, 200, 15_500, 17_000), PodDemand(a_demand(a_request(memory=2_000), a_request(memory=3_000)))]
    for loads in history:
        snapshot = ClusterSnapshot(nodes=tuple(busy(f"n{at}", slots) for at, slots in loads))
        for at, room in order:
            demand = demands[at] if room is None else replace(demands[at], headroom=limited(1_000 * room))
            fresh = Decider(REGISTRY).decide(snapshot, demand, SPREAD)
            assert decider.decide(snapshot, demand, SPREAD) == fresh
            assert 0 <= decider.statistics.verdicts <= verdicts
            assert decider.statistics.columns <= columns


def test_many_nodes_are_asked_about_a_demand_that_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decider, nodes = Decider(REGISTRY), [busy(f"n{at}", at % 3) for at in range(30)]
    again = PodDemand(a_demand(a_request()))
    answers = [decider.answer(node, SLICE, DEFAULT_POLICY) for node in nodes]
    compared: list[object] = []

    def counted(self: PodDemand, other: object) -> bool:
        compared.append(other)
        return isinstance(other, PodDemand) and self.devices == other.devices

    monkeypatch.setattr(PodDemand, "__eq__", counted)
    assert [decider.answer(node, again, DEFAULT_POLICY) for node in nodes] == answers
    assert len(compared) <= 2


def mlu_request(units: int) -> PodInfo:
    limits = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": str(units)}
    return library.admit(
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}
    )


def test_a_node_short_of_a_vendors_own_resource_is_refused_for_what_its_cards_lack() -> None:
    decision = library.decide(library.load_fleet("mlu370x8"), mlu_request(900_000))
    assert isinstance(decision, Refused)
    assert {refusal.words for _, refusal in decision.by_node} == {"8/8 CardInsufficientMemory"}


def test_a_node_whose_sums_are_short_is_refused_though_its_cards_would_do() -> None:
    nodes: list[Any] = list(fleets.nodes_of(fleets.parse(examples.fleet_text("mlu370x8"), source="fleet")))
    for node in nodes:
        node["status"]["allocatable"]["cambricon.com/mlu.smlu.vmemory"] = "1"
    decision = library.decide(library.load_snapshot(nodes), mlu_request(16))
    assert isinstance(decision, Refused)
    assert {refusal.words for _, refusal in decision.by_node} == {"Insufficient cambricon.com/mlu.smlu.vmemory"}
