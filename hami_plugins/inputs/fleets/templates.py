"""Nodes that do not exist yet: the devices they would report, by their declared shape.

An autoscaler asks a scheduler about the nodes that it could create. Those have labels and plain resources, but no
annotations of a node agent. A node's shape is named by its label ``hami-plugins.io/fleet-shape``, or else it is that of
the first declared template whose labels the node has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hami_plugins.errors import ConfigError, ManifestError, WireError
from hami_plugins.inputs.fleets import declared
from hami_plugins.inputs.fleets.declared import NodeGroup
from hami_plugins.inputs.fleets.shapes import SHAPES
from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

SHAPE_LABEL: Final = "hami-plugins.io/fleet-shape"
"""The label of nodes whose shape, as fleets know it by name, is the value."""

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """Nodes that have all of these ``labels`` are as ``node`` says, in the words of a group of a fleet file."""

    labels: Mapping[str, str]
    node: Mapping[str, Any]


class TemplateNodes:
    """Completes nodes that do not exist. ``agents`` are those that would run on them.

    Nodes that have an annotation of ``registers`` say themselves what they have. Raises ``ConfigError`` for a template
    that cannot be read, or one without labels, which would be every node's.
    """

    def __init__(
        self, templates: Sequence[NodeTemplate], *, agents: Collection[Dialect], registers: Collection[str]
    ) -> None:
        self._agents = tuple(agents)
        self._templates = tuple((each.labels, self._group(at, each)) for at, each in enumerate(templates))
        self._registers = tuple(registers)

    def __call__(self, raw: Json) -> Json:
        """The node with the devices of its shape; as it is where it has none. Raises ``WireError``.

        What the node says itself wins.
        """
        metadata = lenient.inside(raw, "metadata")
        labels, annotations = (lenient.texts(metadata.get(name)) for name in ("labels", "annotations"))
        if any(annotations.get(key) for key in self._registers):
            return raw
        group = self._group_of(labels)
        if group is None:
            return raw
        (like,) = declared.nodes_of(declared.Fleet(name=str(metadata.get("name", "")), groups=(group,)))
        return _completed(raw, like)

    def _group(self, at: int, template: NodeTemplate) -> NodeGroup:
        place = f"settings: templates[{at}]"
        if not template.labels:
            raise ConfigError(f"{place}: write instanceType, or labels, to say which nodes it is about")
        try:
            fleet = declared.parse(json.dumps({"nodes": [dict(template.node)]}), source=f"{place}.node")
        except ManifestError as error:
            raise ConfigError(str(error)) from error
        return replace(fleet.groups[0], count=1, name="", agents=self._agents)

    def _group_of(self, labels: Mapping[str, str]) -> NodeGroup | None:
        if named := labels.get(SHAPE_LABEL, ""):
            if named not in SHAPES:
                raise WireError(f"label {SHAPE_LABEL}", named, f"no such shape; the shapes are {', '.join(SHAPES)}")
            return NodeGroup(shape=named, agents=self._agents)
        return next((group for wanted, group in self._templates if wanted.items() <= labels.items()), None)


def _completed(raw: Json, like: Json) -> Json:
    """The node with what another one of its shape says, where it says nothing itself."""
    metadata, status = lenient.inside(raw, "metadata"), lenient.inside(raw, "status")
    known = {name: lenient.mapping(metadata.get(name)) for name in ("labels", "annotations")}
    amounts = {name: lenient.mapping(status.get(name)) for name in ("capacity", "allocatable")}
    of_like: Any = like
    return {
        **raw,
        "metadata": {**metadata, **{name: {**of_like["metadata"][name], **own} for name, own in known.items()}},
        "status": {**status, **{name: {**of_like["status"][name], **own} for name, own in amounts.items()}},
    }
