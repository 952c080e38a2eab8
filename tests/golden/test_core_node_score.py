"""How full a node is, before a new pod."""

import pytest

from hami_plugins.model.nodes import NodeShape, NodeState
from tests.golden import cases, core_rows


@cases.each("hami-core/node-score.yaml")
def test_node_is_as_full_as_its_vector_says(case: cases.Case) -> None:
    devices, usage = zip(*map(core_rows.device, case.given["devices"]), strict=True)
    assert NodeState(NodeShape(devices), usage).base_score == pytest.approx(case.expect["score"])
