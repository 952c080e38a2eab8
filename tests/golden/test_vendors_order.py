"""In which order devices are tried, which scoring weights are accepted, and which node wins."""

from dataclasses import replace
from typing import Any

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.order import arranged
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY, NUMA_BIND_KEY, PolicyDefaults, policy_of
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.decisions import Placed
from hami_plugins.model.policy import Policy
from hami_plugins.wire import scoring_weights
from tests import acme, builders
from tests.golden import cases

UNITS = 1_000
"""Memory units of a card, so that a score is so many of them over these."""

DEVIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "order-015": (
        "ambiguous; as in HAMi's code the highest NUMA node is tried first, then the highest index",
        {"sorted": ["a", "c", "b"], "first_tried": "b"},
    ),
}
"""What the text leaves open: why, and what we answer."""


@cases.each("hami-vendors/order.yaml")
def test_order_is_that_of_its_vector(case: cases.Case) -> None:
    _, instead = DEVIATIONS.get(case.id, ("", {}))
    {"sort": _sort, "weights": _weights, "node-choice": _node_choice}[case.given["op"]](
        case.given, {**case.expect, **instead}
    )


def _sort(given: dict[str, Any], expect: dict[str, Any]) -> None:
    rows = given["devices"]
    annotations = {} if given["policy"] is None else {DEVICE_POLICY_KEY: given["policy"]}
    policy = _policy({**annotations, NUMA_BIND_KEY: str(given["numa_bind"]).lower()})
    devices = [builders.a_device(slots=1, memory=UNITS, cores=1, index=row["index"], numa=row["numa"]) for row in rows]
    # Only memory counts, so that a row's score is its used memory; slots are what mutex looks at.
    usage = [builders.used(row["used"], row["score"]) for row in rows]
    by_memory = replace(policy, weights=policy.weights._replace(slot=0, core=0))
    tried = [rows[at]["id"] for at in arranged(range(len(rows)), devices, usage, by_memory, ())]
    assert tried[::-1] == expect["sorted"]
    assert tried[0] == expect["first_tried"]


def _weights(given: dict[str, Any], expect: dict[str, Any]) -> None:
    try:
        scoring_weights.parse(given["weights"])
    except WireError:
        assert not expect["valid"]
    else:
        assert expect["valid"]


def _node_choice(given: dict[str, Any], expect: dict[str, Any]) -> None:
    annotations = {} if given["node_policy"] is None else {NODE_POLICY_KEY: given["node_policy"]}
    nodes = [
        builders.a_node(name, builders.a_device(slots=UNITS), usage=[builders.used(int(score))])
        for name, score in given["nodes"].items()
    ]
    decider = Decider(Registry([acme.SPEC]))
    demand = PodDemand(builders.a_demand(builders.a_request()))
    decision = decider.decide(builders.a_snapshot(*nodes), demand, _policy(annotations))
    assert isinstance(decision, Placed)
    assert decision.node == expect["node"]


def _policy(annotations: dict[str, str]) -> Policy:
    return policy_of(annotations, PolicyDefaults())
