"""The bounds of a search, and the corners of what it asks."""

from dataclasses import replace

from hami_plugins.engine.decide import Decider, DecisionRequest
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.model.verdicts import Reason
from hami_plugins.suggest.changes import AddedNode, ChangeKind
from hami_plugins.suggest.knobs import device_levers
from hami_plugins.suggest.refusals import Refusals
from hami_plugins.suggest.search import Search
from tests import acme, acme_variants
from tests.builders import a_device, a_node, a_request, a_snapshot, used
from tests.unit.suggest.questions import a_busy_node, wanting

REGISTRY = Registry((acme.SPEC,))


def refusals(cluster: ClusterSnapshot, question: DecisionRequest) -> Refusals:
    decider = Decider(REGISTRY)
    return Refusals.of(question, decider.answers(cluster, *question), REGISTRY, decider.uncounted)


def test_a_search_that_has_used_up_its_trials_finds_nothing_more() -> None:
    cluster = a_snapshot(a_busy_node("a", (9_000, 0)))
    question = DecisionRequest(wanting(a_request(memory=9_000)), DEFAULT_POLICY)
    lever = next(device_levers(question, REGISTRY, {}))
    known = refusals(cluster, question)
    found = Search(Decider(REGISTRY), cluster, known, trials=20).single(lever)
    assert found is not None
    assert found.kinds == (ChangeKind.MEMORY,)
    assert Search(Decider(REGISTRY), cluster, known, trials=0).single(lever) is None
    assert (
        Search(Decider(REGISTRY), cluster, known, trials=0).proven((AddedNode(like=NodeName("a")),), a_node()) is None
    )


def test_nodes_without_devices_are_no_refusals_that_a_change_could_lift() -> None:
    bare = replace(a_node("bare"), state=NodeState.idle(NodeShape(())), ids=())
    question = DecisionRequest(wanting(a_request()), DEFAULT_POLICY)
    assert list(refusals(a_snapshot(bare), question).nodes()) == []


def test_nodes_that_fit_are_no_refusals() -> None:
    question = DecisionRequest(wanting(a_request()), DEFAULT_POLICY)
    assert list(refusals(a_snapshot(a_node()), question).nodes()) == []


def test_a_node_that_takes_no_more_than_another_one_is_left_after_one_trial() -> None:
    """Free memory on a card that the vendor's own rule refuses looks like room, and is none."""

    def ordinary(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        return Reason.VENDOR_RULE if candidate.device.group == "odd" else None

    registry = Registry((acme_variants.fitting(late_checks=(ordinary,)),))
    odd, plain = a_device(group="odd"), a_device()
    cluster = a_snapshot(
        a_node("a", odd, plain, usage=[used(1, 3_000), used(1, 7_000)]), a_node("b", odd, usage=[used(1, 4_000)])
    )
    question = DecisionRequest(wanting(a_request(memory=15_000)), DEFAULT_POLICY)
    lever = next(lever for lever in device_levers(question, registry, {}) if lever.kind is ChangeKind.MEMORY)
    decider = Decider(registry)
    known = Refusals.of(question, decider.answers(cluster, *question), registry, decider.uncounted)
    found = Search(decider, cluster, known, trials=200).single(lever)
    assert found is not None
    assert (found.placed.node, found.placed.shares()[0].memory) == ("a", 16_384 - 7_000)
