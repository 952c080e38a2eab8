"""Nodes that do not exist yet, completed with the devices of the shape that is declared for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import ConfigError, WireError
from hami_plugins.inputs.fleets.templates import NodeTemplate, TemplateNodes
from hami_plugins.model.dialect import Dialect

SHAPE, TYPE = "hami-plugins.io/fleet-shape", "node.kubernetes.io/instance-type"
REGISTER, VOLCANO = "hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register"


def completing(*templates: NodeTemplate, agents: tuple[Dialect, ...] = (Dialect.HAMI,)) -> TemplateNodes:
    return TemplateNodes(templates, agents=agents, registers=(REGISTER,))


def a_node(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": "template-1", "labels": labels or {}, "annotations": annotations or {}}
    return {"kind": "Node", "metadata": metadata, "status": {"capacity": {"cpu": "3"}, "allocatable": {"cpu": "2"}}}


def test_a_label_names_the_shape_of_a_node() -> None:
    found = completing()(a_node({SHAPE: "l40sx4"}))
    assert len(json.loads(found["metadata"]["annotations"][REGISTER])) == 4
    assert found["status"]["capacity"]["nvidia.com/gpu"] == "40"


def test_what_the_node_says_itself_wins() -> None:
    found = completing()(a_node({SHAPE: "l40sx4", "team": "a"}, {"note": "kept"}))
    assert found["metadata"]["name"] == "template-1"
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["metadata"]["annotations"]["note"] == "kept"
    assert (found["status"]["capacity"]["cpu"], found["status"]["allocatable"]["cpu"]) == ("3", "2")


def test_a_node_that_says_what_it_has_is_left_as_it_is() -> None:
    raw = a_node({SHAPE: "l40sx4"}, {REGISTER: "[]"})
    assert completing()(raw) is raw


def test_the_first_template_whose_labels_the_node_has_counts_and_the_label_before_it() -> None:
    made = completing(
        NodeTemplate(labels={TYPE: "g4dn.12xlarge", "pool": "small"}, node={"shape": "t4x1"}),
        NodeTemplate(labels={TYPE: "g4dn.12xlarge"}, node={"shape": "l40sx4"}),
    )

    def cards(**labels: str) -> int:
        found = made(a_node({TYPE: "g4dn.12xlarge", **labels}))
        return len(json.loads(found["metadata"]["annotations"][REGISTER]))

    assert cards() == 4
    assert cards(pool="small") == 1
    assert cards(**{SHAPE: "a100-80x8"}) == 8


def test_a_node_of_no_known_shape_is_left_as_it_is() -> None:
    raw = a_node({TYPE: "m5.large"})
    assert completing(NodeTemplate(labels={TYPE: "g4dn.12xlarge"}, node={"shape": "l40sx4"}))(raw) is raw


def test_the_agents_that_would_run_there_decide_in_whose_words_it_speaks() -> None:
    found = completing(agents=(Dialect.VOLCANO,))(a_node({SHAPE: "l40sx4"}))
    assert VOLCANO in found["metadata"]["annotations"]
    assert REGISTER not in found["metadata"]["annotations"]


def test_an_unknown_shape_names_the_known_ones() -> None:
    with pytest.raises(WireError, match=r"no such shape.*l40sx4"):
        completing()(a_node({SHAPE: "t5x5"}))
    with pytest.raises(ConfigError, match=r"templates\[1\]\.node.*no shape 't5x5'.*l40sx4"):
        completing(
            NodeTemplate(labels={"a": "b"}, node={"shape": "l40sx4"}),
            NodeTemplate(labels={"a": "b"}, node={"shape": "t5x5"}),
        )


def test_a_template_without_labels_would_be_every_nodes() -> None:
    with pytest.raises(ConfigError, match="instanceType, or labels"):
        completing(NodeTemplate(labels={}, node={"shape": "l40sx4"}))
