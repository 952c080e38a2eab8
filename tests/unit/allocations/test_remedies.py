"""Where no remedy is known; ``test_extender`` has those that are, by request and reason."""

from __future__ import annotations

from hami_plugins.allocations.remedies import remedy
from hami_plugins.engine.shortfall import CardShortage, NodeShortage
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors.volcano import SPEC
from tests.builders import a_node, a_request

NODE = a_node("n1")
OF_CARDS = CardShortage(
    reason=Reason.TOO_FEW_CARDS,
    vendor=SPEC.name,
    container=0,
    request=a_request(),
    nodes=1,
    examples=(NODE.name,),
    cards=0,
    devices=1,
)


def test_a_remedy_is_for_the_cards_of_a_node_alone() -> None:
    of_the_node = NodeShortage(words="node(s) had an untolerated taint", nodes=1, examples=(NODE.name,))
    assert remedy(OF_CARDS, NODE, SPEC) == "ask for fewer volcano.sh/vgpu-number"
    assert remedy(of_the_node, NODE, SPEC) == ""
