"""Messages about refusals and choices: each sentence has the requested, the largest and the total amount."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.choice import Choice
from hami_plugins.engine.decide import Decider, DecisionRequest, PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import MEASURED, CardShortage, Supply, WhyNot, why_not
from hami_plugins.explain import messages
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState, Taint
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.policy import DEFAULT_POLICY, NodePolicy, Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerDemand, ContainerKind, DeviceRequest, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import BUILTIN, nvidia, volcano
from neuron_topology.core import vendor as neuron
from tests import acme, acme_variants
from tests.builders import ACME, COUNT, a_device, a_node, a_request, a_snapshot, used
from tests.unit.suggest.questions import a_busy_node, a_pod_on, facts, wanting

ONE = a_busy_node("a", (6_000, 40))


def said(
    demand: PodDemand,
    nodes: Sequence[NodeEntry] = (ONE,),
    policy: Policy = DEFAULT_POLICY,
    *,
    spec: VendorSpec = acme.SPEC,
    containers: Sequence[str] = (),
) -> str:
    decider = Decider(Registry((spec,)))
    answers = decider.answers(a_snapshot(*nodes), demand, policy)
    why = why_not(DecisionRequest(demand, policy), answers, decider.registry, decider.uncounted)
    return messages.summary(why, decider.registry, containers)


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (
            wanting(a_request(memory=12_000)),
            "memory: asked 12,000 MiB on 1 card; largest free 10,384 MiB (a), total free 10,384 MiB",
        ),
        (
            wanting(a_request(memory=Percent(90))),
            "memory: asked 90 % of the memory (14,745 MiB) on 1 card; largest free 10,384 MiB (a), total free 10,384 "
            "MiB",
        ),
        (
            wanting(a_request(memory=Percent(100))),
            "memory: asked all memory on 1 card; largest free 10,384 MiB (a), total free 10,384 MiB",
        ),
        (wanting(a_request(cores=70)), "cores: asked 70 % on 1 card; largest free 60 % (a), total free 60 %"),
        (wanting(a_request(count=3)), "cards: asked 3 x Acme One; most on one node 1 (a), 1 in all"),
        (
            wanting(a_request(selector=DeviceSelector(use_models=("b1", "b2"), avoid_models=("x",)))),
            "model: asked only b1, b2 (acme.example/use-type) and not x (acme.example/nouse-type); "
            "1 of 1 card is something else",
        ),
        (
            wanting(a_request(selector=DeviceSelector(use_models=()))),
            "model: asked only nothing (acme.example/use-type); 1 of 1 card is something else",
        ),
        (
            wanting(a_request(selector=DeviceSelector(use_ids=frozenset({DeviceId("z"), DeviceId("y")})))),
            "cards by id: asked only y, z (acme.example/use-uuid); that leaves out 1 of 1 card",
        ),
        (
            wanting(a_request(selector=DeviceSelector(avoid_ids=frozenset({DeviceId("a-0")}), use_ids=frozenset()))),
            "cards by id: asked only none (acme.example/use-uuid) and not a-0 (acme.example/nouse-uuid); "
            "that leaves out 1 of 1 card",
        ),
        (
            wanting(a_request(count=1, memory=500, cores=5), headroom={ACME: Headroom(MiB(100), CoreShare(3))}),
            "quota: asked 500 MiB and 5 % on 1 card; the namespace has 100 MiB and 3 % left",
        ),
        (
            wanting(a_request(memory=500), headroom={ACME: Headroom(MiB(100))}),
            "quota: asked 500 MiB on 1 card; the namespace has 100 MiB left",
        ),
        (
            wanting(a_request(cores=5), headroom={ACME: Headroom(cores=CoreShare(1))}),
            "quota: asked 5 % on 1 card; the namespace has 1 % left",
        ),
        (
            wanting(a_request(), constraints=NodeConstraints(selector=(("zone", "b"),))),
            "node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_a_reason_says_what_was_asked_and_what_there_is(demand: PodDemand, words: str) -> None:
    assert said(demand) == f"1 of 1 node: {words}"


def test_several_cards_are_spoken_of_together() -> None:
    node = a_busy_node("a", (9_000, 0), (8_000, 0), (1_000, 0))
    assert said(wanting(a_request(count=2, memory=9_000)), [node]) == (
        "1 of 1 node: memory: asked 9,000 MiB on each of 2 cards; "
        "largest free on each of 2 cards of a node 8,384 MiB (a), total free 31,152 MiB"
    )


def test_cards_that_have_to_be_idle_are_counted() -> None:
    assert said(wanting(a_request()), policy=Policy(exclusive=True)) == (
        "1 of 1 node: idle cards: asked 1 without others on them; most on one node 0 (a), 0 in all"
    )


def test_slots_that_are_all_taken() -> None:
    node = a_node("a", a_device(slots=1), usage=(used(1),))
    assert said(wanting(a_request()), [node]) == (
        "1 of 1 node: slots: 1 of 1 card is already shared by as many containers as allowed"
    )


def test_cores_that_are_all_promised() -> None:
    assert said(wanting(a_request()), [a_busy_node("a", (1, 100))]) == (
        "1 of 1 node: cores: fully allocated on 1 of 1 card; no further containers are admitted"
    )


def test_a_set_of_cards_that_cannot_be_had() -> None:
    spec = acme_variants.fitting(select=lambda cards, ask: cards[:0])
    assert said(wanting(a_request(count=2)), [a_busy_node("a", (0, 0), (0, 0))], spec=spec) == (
        "1 of 1 node: cards: asked 2 that hold the request at once; most on one node 2 (a), 2 in all"
    )


def test_a_partition_that_has_no_place() -> None:
    profile = Profile("1g", MiB(4_000), CoreShare(10), 1, (SlicePlacement(0, 1),))
    card = a_device(vendor="NVIDIA", mode="mig", profiles=(profile,))
    assert said(wanting(a_request(vendor="NVIDIA", memory=9_000)), [a_node("a", card)], spec=nvidia.SPEC) == (
        "1 of 1 node: partitions: asked 9,000 MiB on 1 card; largest with a place 4,000 MiB (a)"
    )


def test_a_mode_that_no_card_has() -> None:
    card = a_device(vendor="NVIDIA", mode="hami-core")
    demand = wanting(a_request(vendor="NVIDIA", selector=DeviceSelector(modes="mig")))
    assert said(demand, [a_node("a", card)], spec=nvidia.SPEC) == (
        "1 of 1 node: model: asked mode mig (nvidia.com/vgpu-mode); 1 of 1 card is something else"
    )


def test_a_model_that_is_refused_without_any_wish_is_that_of_the_vendor() -> None:
    spec = acme_variants.fitting(early_checks=(lambda candidate, ask: Reason.MODEL,))
    assert said(wanting(a_request()), spec=spec) == (
        "1 of 1 node: model: asked Acme One; 1 of 1 card is something else"
    )


def test_cores_that_are_no_percentages_are_counted() -> None:
    spec = replace(acme.SPEC, core_step="1 core", fitting=replace(acme.SPEC.fitting, clamps_cores=False))
    assert said(wanting(a_request(cores=70)), spec=spec) == (
        "1 of 1 node: cores: asked 70 cores on 1 card; largest free 60 cores (a), total free 60 cores"
    )


def test_unhealthy_cards_are_counted() -> None:
    node = a_node("a", a_device(healthy=False), a_device(healthy=False), a_device(cordoned=True))
    assert said(wanting(a_request()), [node]) == "1 of 1 node: cards: asked 1; 2 of 3 cards are unhealthy (a)"


def test_a_container_is_named_where_there_are_several() -> None:
    demand = wanting(a_request(memory=9_000), a_request(memory=12_000))
    assert said(demand, [a_node("a")], containers=("web", "train")) == (
        "1 of 1 node: container train: memory: asked 12,000 MiB on 1 card; largest free 16,384 MiB (a), "
        "total free 16,384 MiB, of which web leaves 7,384 MiB: 4,616 MiB too few"
    )


@pytest.mark.parametrize(
    ("others", "nodes"),
    [
        pytest.param((a_request(memory=9_000, count=2),), [a_node("a", a_device(), a_device())], id="several cards"),
        pytest.param((a_request(memory=9_000),), [a_node("a"), a_node("b", a_device(memory=20_000))], id="two nodes"),
        pytest.param(
            (a_request(memory=Percent(50)),), [a_node("a", a_device(), a_device(memory=18_000))], id="two sizes"
        ),
    ],
)
def test_what_other_containers_leave_is_not_counted_where_they_may_be_on_other_cards(
    others: tuple[DeviceRequest, ...], nodes: list[NodeEntry]
) -> None:
    text = said(wanting(*others, a_request(memory=19_000)), nodes, containers=("web", "train"))
    assert "less what other containers of the pod take" in text


def test_an_init_container_shares_its_card_with_no_application() -> None:
    small = a_request(memory=9_000)
    late = ContainerDemand(ContainerKind.INIT, (a_request(memory=17_000),))
    assert "leaves" not in said(wanting(small, late), [a_node("a")], containers=("web", "warm-up"))
    init = ContainerDemand(ContainerKind.INIT, (small,))
    demand = wanting(init, a_request(memory=17_000))
    assert "leaves" not in said(demand, [a_node("a")], containers=("warm-up", "train"))


def test_nodes_without_what_is_asked_come_last_and_say_so() -> None:
    bare = replace(a_node("bare"), state=NodeState.idle(NodeShape(())), ids=())
    other = a_node("other", a_device(vendor="Other"))
    assert said(wanting(a_request(memory=12_000)), [bare, other, ONE]) == (
        "1 of 3 nodes: memory: asked 12,000 MiB on 1 card; largest free 10,384 MiB (a), total free 10,384 MiB; "
        "1 of 3 nodes: cards: asked 1 x Acme One; there is none; "
        "1 of 3 nodes: no vendor has registered devices there"
    )


def test_plain_resources_are_written_as_in_manifests() -> None:
    node = a_node("a", facts=facts(allocatable={"cpu": "1500m", "memory": "4Gi", "pods": 1}))
    cpu = wanting(a_request(), constraints=NodeConstraints(requests=(("cpu", 2 * NANO),)))
    memory = wanting(a_request(), constraints=NodeConstraints(requests=(("memory", (8 << 30) * NANO),)))
    assert said(cpu, [node]) == "1 of 1 node: cpu: asked 2; largest free 1.5 (a), total free 1.5"
    assert said(memory, [node]) == "1 of 1 node: memory: asked 8Gi; largest free 4Gi (a), total free 4Gi"
    assert said(wanting(a_request()), [with_pods(node, [a_pod_on("card-0", 1)])]) == "1 of 1 node: too many pods"


def test_what_is_left_of_memory_is_rounded_down_and_cpus_are_never_thousands() -> None:
    node = a_node("a", facts=facts(allocatable={"cpu": "2k", "memory": "97711340Ki"}))
    memory = wanting(a_request(), constraints=NodeConstraints(requests=(("memory", (100 << 30) * NANO),)))
    assert said(memory, [node]) == "1 of 1 node: memory: asked 100Gi; largest free 93.1Gi (a), total free 93.1Gi"
    cpu = wanting(a_request(), constraints=NodeConstraints(requests=(("cpu", 3_000 * NANO),)))
    assert said(cpu, [node]) == "1 of 1 node: cpu: asked 3000; largest free 2000 (a), total free 2000"


def test_koordinators_memory_is_bytes_and_written_so() -> None:
    node = a_node("a", facts=facts(allocatable={"koordinator.sh/gpu-memory": "46068Mi"}))
    asked = NodeConstraints(requests=(("koordinator.sh/gpu-memory", (400 << 30) * NANO),))
    assert said(wanting(constraints=asked), [node]) == (
        "1 of 1 node: koordinator.sh/gpu-memory: asked 400Gi; largest free 46068Mi (a), total free 46068Mi"
    )


def test_a_misspelt_resource_is_said_with_the_one_that_was_meant() -> None:
    misspelt = f"{COUNT}s"
    asked = NodeConstraints(requests=((misspelt, NANO),))
    assert said(wanting(a_request(), constraints=asked), [ONE]) == (
        f"1 of 1 node: {misspelt}: asked 1; there is none (did you mean {COUNT}?)"
    )


def test_a_percentage_that_no_node_offers_is_said_with_what_nodes_do_offer() -> None:
    asked = NodeConstraints(requests=(("volcano.sh/vgpu-memory-percentage", 50 * NANO),))
    assert said(wanting(constraints=asked), [ONE], spec=volcano.SPEC) == (
        "1 of 1 node: volcano.sh/vgpu-memory-percentage: asked 50; there is none "
        "(write volcano.sh/vgpu-memory, or have the nodes' agents offer it)"
    )


def test_an_old_name_that_a_vendor_still_reads_is_said_with_the_present_one_where_no_node_has_it() -> None:
    older = "aws.amazon.com/neurondevice"
    asked = NodeConstraints(requests=((older, NANO),))
    assert said(wanting(constraints=asked), [ONE], spec=neuron.SPEC) == (
        f"1 of 1 node: {older}: asked 1; there is none "
        "(AWS's plugin no longer offers this name; write aws.amazon.com/neuron)"
    )


def test_amounts_of_device_resources_are_plain_numbers() -> None:
    node = a_node("a", facts=facts(allocatable={"volcano.sh/vgpu-memory": 21_920}))
    asked = NodeConstraints(requests=(("volcano.sh/vgpu-memory", 30_000 * NANO),))
    assert said(wanting(a_request(), constraints=asked), [node]) == (
        "1 of 1 node: volcano.sh/vgpu-memory: asked 30000; largest free 21920 (a), total free 21920"
    )


def test_a_resource_that_no_node_has_is_said_with_its_present_name() -> None:
    asked = NodeConstraints(requests=(("aws.amazon.com/neurondevice", 16 * NANO),))
    assert said(wanting(a_request(), constraints=asked), [ONE]) == (
        "1 of 1 node: aws.amazon.com/neurondevice: asked 16; there is none "
        "(AWS's plugin no longer offers this name; write aws.amazon.com/neuron)"
    )
    asked = NodeConstraints(requests=(("a.com/thing", NANO),))
    assert said(wanting(a_request(), constraints=asked), [ONE]) == "1 of 1 node: a.com/thing: asked 1; there is none"


def test_reasons_beyond_the_first_few_are_counted() -> None:
    nodes = [a_node(f"n{at}", facts=facts(Taint(f"k{at}", "", "NoSchedule"))) for at in range(7)]
    text = said(wanting(a_request()), nodes)
    assert text.endswith("1 of 7 nodes: node(s) had untolerated taint {k3}; 3 nodes for other reasons")


def test_a_cluster_without_nodes_is_a_reason() -> None:
    assert messages.summary(WhyNot(nodes=0, fitting=0, reasons=()), Registry(())) == "the cluster has no nodes"


def test_every_reason_of_every_vendor_has_words() -> None:
    registry = Registry(BUILTIN)
    for spec in BUILTIN:
        for reason in Reason:
            for supply in (None, Supply(5, NodeName("a"), 10)):
                shortage = CardShortage(
                    reason=reason,
                    vendor=spec.name,
                    container=0,
                    request=a_request(vendor=spec.name),
                    nodes=1,
                    examples=(),
                    cards=1,
                    devices=2,
                    supply=supply,
                )
                if (supply is not None) == (reason in MEASURED):
                    assert str(reason) not in messages.reason_words(shortage, registry)


class TestChoices:
    CHOICE = Choice(
        node=NodeName("a"),
        policy=NodePolicy.BINPACK,
        score=14.25,
        slots=3.75,
        cores=2.5,
        memory=8.0,
        vendor=0.0,
        nodes=4_000,
        candidates=1_200,
        next_node=NodeName("b"),
        next_score=13.9,
    )

    def test_the_best_of_several_is_compared_with_the_next(self) -> None:
        assert messages.choice_words(self.CHOICE) == (
            "the fullest of 1,200 that fit, of 4,000 nodes (binpack); "
            "score 14.25 (slots 3.75 + cores 2.50 + memory 8.00); next is b with 13.90"
        )

    def test_spread_takes_the_emptiest_and_vendors_have_a_part(self) -> None:
        choice = replace(self.CHOICE, policy=NodePolicy.SPREAD, vendor=-1.0, score=13.25)
        assert messages.choice_words(choice).startswith("the emptiest of 1,200 that fit, of 4,000 nodes (spread); ")
        assert "+ devices -1.00)" in messages.choice_words(choice)

    def test_equals_go_by_name(self) -> None:
        choice = replace(self.CHOICE, next_score=14.25)
        assert messages.choice_words(choice).endswith("; b has the same and comes later by name")

    def test_the_only_one_needs_no_comparison(self) -> None:
        choice = replace(self.CHOICE, next_node=None, nodes=1)
        assert messages.choice_words(choice) == (
            "the cluster's only node; score 14.25 (slots 3.75 + cores 2.50 + memory 8.00)"
        )
