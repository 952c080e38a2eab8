"""Which of two nodes that fit wins."""

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.policies import NODE_POLICY_KEY, PolicyDefaults, policy_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from tests import acme, builders
from tests.golden import cases


@cases.each("hami-core/node-order.yaml")
def test_chosen_node_is_that_of_its_vector(case: cases.Case) -> None:
    nodes = [builders.a_node(name, usage=[builders.used(case.given[name])]) for name in "ab"]
    policy = policy_of({NODE_POLICY_KEY: case.given["policy"]}, PolicyDefaults())
    demand = PodDemand(builders.a_demand(builders.a_request()))
    decision = Decider(Registry([acme.SPEC])).decide(builders.a_snapshot(*nodes), demand, policy)
    assert isinstance(decision, Placed)
    assert decision.node == case.expect["chosen"]
