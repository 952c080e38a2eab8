"""Nodes and pods of a Volcano cluster as the API server shows them, each an ordinary one unless told otherwise."""

from collections.abc import Mapping
from typing import Any

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import NodeName
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import objects
from tests import raw_objects

Raw = dict[str, Any]

REGISTRY = Registry([SPEC])
RULES = Rules()
N1, N2 = NodeName("n1"), NodeName("n2")
IDS = "volcano.sh/vgpu-ids-new"


def register(*cards: str, memory: int = 40_960, slots: int = 10, healthy: bool = True) -> str:
    """The register of a node with these cards."""
    return "".join(f"{card},{slots},{memory},NVIDIA-A100,{str(healthy).lower()},hami-core:" for card in cards)


def a_node(name: str = "n1", text: str | None = None) -> Raw:
    """A node with one card of 40,960 MiB that ten may share."""
    register_text = register(f"GPU-{name}-0") if text is None else text
    metadata = {"name": name, "annotations": {"volcano.sh/node-vgpu-register": register_text}}
    return {"kind": "Node", "metadata": metadata, "status": {}}


def a_pod(
    name: str = "p",
    *,
    memory: int = 10_000,
    count: int = 1,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """A pod that asks for 10,000 MiB of one card."""
    asks = raw_objects.container(limits={"volcano.sh/vgpu-number": str(count), "volcano.sh/vgpu-memory": str(memory)})
    metadata = {"namespace": "team", "uid": uid or f"uid-{name}", "annotations": dict(annotations or {})}
    return raw_objects.pod(name, asks, metadata=metadata, phase="Pending", **{"schedulerName": "volcano", **spec})


def bound(raw: Raw, node: str, ids: str | None = None, phase: str = "Running") -> Raw:
    """The pod on a node, with these ids."""
    written = {} if ids is None else {IDS: ids, "volcano.sh/vgpu-node": node}
    metadata = {**raw["metadata"], "annotations": {**raw["metadata"]["annotations"], **written}}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "nodeName": node}, "status": {"phase": phase}}


def asking(raw: Raw, registry: Registry = REGISTRY) -> PodInfo:
    """The pod as a scheduler asks for it: wherever it may be by now, to the scheduler it has no node."""
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    return take_in(objects.pod({**raw, "spec": spec}), registry, RULES)
