"""Nodes with cards, and what is published of them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects
from koordinator_adapter.core.devices.cards import NodeCards, cards_of
from koordinator_adapter.core.devices.publication import (
    CreateObject,
    NodeToPublish,
    PublishingPlan,
    UpdateObject,
    plan_of,
)

NOW = "2026-11-22T12:00:00Z"
LATER = "2026-11-22T13:00:00Z"
REGISTER = "hami.io/node-nvidia-register"


def card(at: int, **changes: Any) -> dict[str, Any]:
    """A card of NVIDIA's as HAMi's agent reports it."""
    usual = {"id": f"GPU-{at}", "index": at, "count": 10, "devmem": 40_960, "devcore": 100}
    return {**usual, "type": "NVIDIA-NVIDIA A100", "numa": 0, "mode": "hami-core", "health": True, **changes}


def a_node(*cards: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A node of the name ``n``."""
    told = {REGISTER: json.dumps(list(cards))} if cards else {}
    node: dict[str, Any] = bare_node("n", annotations={**told, **annotations})
    node["metadata"]["resourceVersion"] = "7"
    return node


def read(node: dict[str, Any], only: Collection[str] = ()) -> NodeCards:
    """A node's report about its cards."""
    return cards_of(objects.node_object(node), builtin(), only)


def planned(node: dict[str, Any], live: Any = None, *, now: str = NOW, **site: Any) -> PublishingPlan:
    """What to do about the node's object."""
    return plan_of(NodeToPublish(found=read(node), uid="uid-n", **site), live, now=now)


def published(node: dict[str, Any], live: Any = None, *, now: str = NOW, **site: Any) -> dict[str, Any]:
    """The object that is written; a plan that writes nothing fails the test."""
    plan = planned(node, live, now=now, **site)
    assert isinstance(plan.step, CreateObject | UpdateObject), plan
    return dict(plan.step.body)


def devices(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The cards of an object by id."""
    return {each["id"]: each for each in body["spec"]["devices"] if each["type"] == "gpu"}
