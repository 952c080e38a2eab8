"""Why a node was chosen: its score in parts, and the node that would have been next."""

import pytest

from hami_plugins.engine.choice import Choice, choice_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy, Policy
from hami_plugins.model.vendor import VendorSpec
from tests import acme, acme_variants
from tests.builders import a_device, a_node, a_request, a_snapshot, used
from tests.unit.suggest.questions import a_busy_node, wanting

SPREAD = Policy(node=NodePolicy.SPREAD)


def chosen(cluster: ClusterSnapshot, policy: Policy = DEFAULT_POLICY, spec: VendorSpec = acme.SPEC) -> Choice:
    decider = Decider(Registry((spec,)))
    demand = wanting(a_request())
    placed = decider.decide(cluster, demand, policy)
    assert isinstance(placed, Placed)
    return choice_of(decider.answers(cluster, demand, policy), placed, policy)


def test_the_score_is_the_sum_of_its_parts() -> None:
    cluster = a_snapshot(a_node("a", usage=(used(5, 4_096, 10),)))
    found = chosen(cluster)
    assert (found.slots, found.cores, found.memory, found.vendor) == (5.0, 1.0, 2.5, 0.0)
    assert found.score == found.slots + found.cores + found.memory + found.vendor


def test_what_a_vendor_adds_is_a_part_of_its_own() -> None:
    found = chosen(a_snapshot(), spec=acme_variants.scoring(score_node=lambda scoring: 7.0))
    assert (found.vendor, found.score) == (7.0, 7.0)


@pytest.mark.parametrize(("policy", "node", "after"), [(DEFAULT_POLICY, "full", "half"), (SPREAD, "empty", "half")])
def test_the_next_node_is_the_second_best_by_the_policy(policy: Policy, node: str, after: str) -> None:
    cluster = a_snapshot(
        a_busy_node("empty", (0, 0)), a_busy_node("half", (6_000, 0)), a_busy_node("full", (12_000, 0))
    )
    found = chosen(cluster, policy)
    assert (found.node, found.next_node, found.candidates, found.nodes) == (node, after, 3, 3)


def test_among_equals_the_first_by_name_is_next() -> None:
    found = chosen(a_snapshot(*(a_node(name) for name in "abc")))
    assert (found.node, found.next_node, found.next_score) == ("a", "b", found.score)


def test_a_node_that_is_the_only_one_has_none_after_it() -> None:
    found = chosen(a_snapshot(a_node("a"), a_busy_node("b", (16_384, 0))))
    assert (found.next_node, found.candidates, found.nodes) == (None, 1, 2)


def test_a_node_without_one_of_the_three_has_no_score_of_its_own() -> None:
    found = chosen(a_snapshot(a_node("a", a_device(cores=0), usage=(used(3, 1_000),))))
    assert (found.slots, found.cores, found.memory, found.score) == (0.0, 0.0, 0.0, 0.0)
