"""The numbers behind a refusal: what was asked, the most that any node has, and what all have."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.decide import Decider, DecisionRequest, PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, NodeShortage, Supply, WhyNot, why_not
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState, Taint
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, MiB, NodeName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import nvidia
from tests import acme, acme_variants
from tests.builders import (
    ACME,
    a_device,
    a_node,
    a_record,
    a_request,
    a_share,
    a_snapshot,
    allocated,
    used,
)
from tests.unit.suggest.questions import a_busy_node, a_pod_on, facts, wanting


def why(
    nodes: Sequence[NodeEntry],
    demand: PodDemand,
    policy: Policy = DEFAULT_POLICY,
    *,
    specs: tuple[VendorSpec, ...] = (acme.SPEC,),
) -> WhyNot:
    decider = Decider(Registry(specs))
    answers = decider.answers(a_snapshot(*nodes), demand, policy)
    return why_not(DecisionRequest(demand, policy), answers, decider.registry, decider.uncounted)


def only(found: WhyNot) -> CardShortage:
    (reason,) = found.reasons
    assert isinstance(reason, CardShortage)
    return reason


def about_nodes(found: WhyNot) -> NodeShortage:
    (reason,) = found.reasons
    assert isinstance(reason, NodeShortage)
    return reason


def test_memory_is_compared_with_the_most_on_one_card_and_with_all_there_is() -> None:
    nodes = [a_busy_node("a", (10_000, 0), (6_000, 0)), a_busy_node("b", (4_000, 0), (16_000, 0))]
    found = why(nodes, wanting(a_request(memory=15_000)))
    reason = only(found)
    assert (reason.reason, reason.nodes, reason.cards, reason.devices) == (Reason.MEMORY, 2, 4, 4)
    assert reason.supply == Supply(12_384, NodeName("b"), 6_384 + 10_384 + 12_384 + 384)
    assert reason.examples == ("a", "b")
    assert (found.nodes, found.fitting) == (2, 0)


def test_memory_on_several_cards_is_what_the_worst_of_as_many_has() -> None:
    reason = only(
        why([a_busy_node("a", (1_000, 0), (5_000, 0), (9_000, 0))], wanting(a_request(count=2, memory=14_000)))
    )
    assert reason.supply is not None
    assert reason.supply.largest == 11_384


def test_memory_on_more_cards_than_lack_it_is_what_the_last_of_them_has() -> None:
    card = a_device(cores=50)
    node = a_busy_node("a", (9_000, 0), (0, 0), (0, 50), (0, 50), (14_000, 0), (14_100, 0), device=card)
    reason = only(why([node], wanting(a_request(count=5, memory=8_000, cores=20))))
    assert reason.reason is Reason.MEMORY
    assert reason.supply is not None
    assert reason.supply.largest == 2_284


def test_cards_that_lack_something_else_do_not_count_for_what_is_short() -> None:
    """A card with all its memory but no cores says nothing about how much memory is missing."""
    reason = only(
        why([a_busy_node("a", (9_000, 0), (8_000, 0), (1, 100))], wanting(a_request(memory=10_000, cores=10)))
    )
    assert reason.reason is Reason.MEMORY
    assert reason.supply is not None
    assert reason.supply.largest == 8_384


def test_cores_are_compared_like_memory() -> None:
    reason = only(why([a_busy_node("a", (1, 70), (1, 40))], wanting(a_request(cores=80))))
    assert (reason.reason, reason.supply) == (Reason.CORES, Supply(60, NodeName("a"), 90))


def test_slots_are_compared_like_memory() -> None:
    node = a_node("a", a_device(slots=2), a_device(slots=1), usage=(used(2), used(1)))
    reason = only(why([node], wanting(a_request())))
    assert (reason.reason, reason.supply) == (Reason.SLOTS, Supply(0, NodeName("a"), 0))


def test_idle_cards_are_counted_where_cards_must_be_idle() -> None:
    nodes = [a_busy_node("a", (1, 0), (0, 0)), a_busy_node("b", (1, 0), (1, 0))]
    reason = next(
        each
        for each in why(nodes, wanting(a_request(count=2)), Policy(exclusive=True)).reasons
        if isinstance(each, CardShortage) and each.reason is Reason.EXCLUSIVE
    )
    assert (reason.nodes, reason.supply) == (2, Supply(1, NodeName("a"), 1))


def test_cards_are_counted_where_there_are_too_few_of_them() -> None:
    reason = only(why([a_busy_node("a", (0, 0)), a_busy_node("b", (0, 0), (0, 0))], wanting(a_request(count=4))))
    assert (reason.reason, reason.supply) == (Reason.TOO_FEW_CARDS, Supply(2, NodeName("b"), 3))


def test_cards_that_would_do_are_counted_where_no_set_of_them_does() -> None:
    spec = acme_variants.fitting(select=lambda cards, ask: cards[:0])
    reason = only(why([a_busy_node("a", (0, 0), (0, 0))], wanting(a_request(count=2)), specs=(spec,)))
    assert (reason.reason, reason.supply) == (Reason.TOO_FEW, Supply(2, NodeName("a"), 2))


def test_partitions_with_a_place_are_what_counts_on_partitioned_cards() -> None:
    big = Profile("4g.24gb", MiB(24_576), CoreShare(100), 4, (SlicePlacement(0, 4),))
    small = Profile("1g.6gb", MiB(6_144), CoreShare(25), 1, (SlicePlacement(0, 1), SlicePlacement(1, 1)))
    card = a_device(vendor="NVIDIA", mode="mig", memory=49_152, profiles=(big, small))
    plain = a_device(vendor="NVIDIA", mode="hami-core", memory=40_000)
    held = a_share("gpu-0", 6_144, 25, Instance("1g.6gb", SlicePlacement(1, 1)), vendor="NVIDIA")
    node = with_pods(
        a_node("a", card, plain, ids=["gpu-0", "gpu-1"]),
        [a_record(allocated(held)), a_record(allocated(a_share("gpu-1", 39_000, vendor="NVIDIA")), name="other")],
    )
    found = why([node], wanting(a_request(vendor="NVIDIA", memory=20_000)), specs=(nvidia.SPEC,))
    reason = only(found)
    assert reason.reason in {Reason.MEMORY, Reason.PARTITION}
    alone = with_pods(a_node("a", card, ids=["gpu-0"]), [a_record(allocated(held))])
    reason = only(why([alone], wanting(a_request(vendor="NVIDIA", memory=20_000)), specs=(nvidia.SPEC,)))
    assert (reason.reason, reason.supply) == (Reason.PARTITION, Supply(6_144, NodeName("a"), 6_144))
    both = with_pods(a_node("a", card, plain, ids=["gpu-0", "gpu-1"]), [a_record(allocated(held))])
    reason = only(why([both], wanting(a_request(vendor="NVIDIA", count=2, memory=20_000)), specs=(nvidia.SPEC,)))
    assert (reason.reason, reason.supply) == (Reason.PARTITION, Supply(6_144, NodeName("a"), 46_144))


def test_a_percentage_is_what_was_asked() -> None:
    reason = only(why([a_busy_node("a", (9_000, 0))], wanting(a_request(memory=Percent(50)))))
    assert reason.request.memory == Percent(50)


@pytest.mark.parametrize(
    ("selector", "reason"),
    [(DeviceSelector(use_models=("x",)), Reason.MODEL), (DeviceSelector(use_ids=frozenset()), Reason.ID)],
)
def test_what_is_not_an_amount_has_no_supply(selector: DeviceSelector, reason: Reason) -> None:
    found = only(why([a_node()], wanting(a_request(selector=selector))))
    assert (found.reason, found.supply) == (reason, None)


def test_a_quota_says_what_it_leaves() -> None:
    room = Headroom(MiB(10), CoreShare(20))
    found = only(why([a_node()], wanting(a_request(), headroom={ACME: room})))
    assert (found.reason, found.headroom) == (Reason.QUOTA, room)


def test_a_node_counts_under_what_most_of_its_cards_object_to() -> None:
    node = a_busy_node("a", (16_000, 0), (16_000, 0), (1, 100))
    assert only(why([node], wanting(a_request(memory=2_000, cores=10)))).reason is Reason.MEMORY


def test_a_container_that_comes_after_others_of_its_vendor_is_marked() -> None:
    found = only(why([a_node()], wanting(a_request(memory=10_000), a_request(memory=9_000))))
    assert (found.container, found.beside) == (1, True)


def test_nodes_that_object_are_grouped_by_their_words() -> None:
    nodes = [a_node(name, facts=facts(Taint("k", "v", "NoSchedule"))) for name in "abcd"]
    found = why(nodes, wanting(a_request()))
    assert about_nodes(found) == NodeShortage(
        words="node(s) had untolerated taint {k: v}", nodes=4, examples=(NodeName("a"), NodeName("b"), NodeName("c"))
    )


def test_a_plain_resource_is_compared_like_memory() -> None:
    nodes = [a_node(name, facts=facts(allocatable={"cpu": cpu})) for name, cpu in (("a", 2), ("b", 3))]
    found = why(nodes, wanting(a_request(), constraints=NodeConstraints(requests=(("cpu", 4 * NANO),))))
    reason = about_nodes(found)
    assert (reason.resource, reason.asked) == ("cpu", 4 * NANO)
    assert reason.supply == Supply(3 * NANO, NodeName("b"), 5 * NANO)


def test_a_full_node_is_short_of_pods() -> None:
    node = with_pods(a_node("a", facts=facts(allocatable={"pods": 1})), [a_pod_on("card-0", 1)])
    assert about_nodes(why([node], wanting(a_request()))).resource == "pods"


def test_a_node_without_devices_is_a_reason_of_its_own() -> None:
    node = replace(a_node(), state=NodeState.idle(NodeShape(())), ids=())
    assert about_nodes(why([node], wanting(a_request()))).words == "node unregistered"


def test_reasons_come_by_how_many_nodes_give_them() -> None:
    nodes = [
        a_busy_node("a", (16_000, 0)),
        a_busy_node("b", (16_000, 0)),
        a_node("c", facts=facts(Taint("k", "v", "NoSchedule"))),
        a_busy_node("d", (0, 0)),
    ]
    found = why(nodes, wanting(a_request()))
    assert [each.nodes for each in found.reasons] == [2, 1]
    assert (found.nodes, found.fitting) == (4, 1)


def test_nodes_that_have_nothing_of_what_is_asked_come_last() -> None:
    bare = replace(a_node("bare"), state=NodeState.idle(NodeShape(())), ids=())
    other = [a_node(name, a_device(vendor="Other"), a_device(vendor="Other")) for name in ("x", "y", "z")]
    found = why([bare, *other, a_busy_node("a", (16_000, 0))], wanting(a_request()))
    assert [getattr(each, "reason", "bare") for each in found.reasons] == [
        Reason.MEMORY,
        Reason.TOO_FEW_CARDS,
        "bare",
    ]


def test_no_nodes_have_no_reasons() -> None:
    question = DecisionRequest(wanting(a_request()), DEFAULT_POLICY)
    assert why_not(question, (), Registry((acme.SPEC,))) == WhyNot(nodes=0, fitting=0, reasons=())
