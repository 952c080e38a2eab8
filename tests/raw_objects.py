"""Kubernetes objects as the API server has them. Tests that need more of an object fill it in builders of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hami_plugins.wire.fields import Json

Raw = dict[str, Any]
"""An object that a test may change."""


def container(
    name: str = "main",
    *,
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    **more: Any,
) -> Raw:
    """A container; amounts are written as they are given, and none are written where none are given."""
    amounts = {key: dict(each) for key, each in (("limits", limits), ("requests", requests)) if each is not None}
    return {"name": name, **({"resources": amounts} if amounts else {}), **more}


def pod(
    name: str = "p",
    *containers: Json,
    metadata: Mapping[str, Any] | None = None,
    node: str = "",
    scheduler: str = "",
    phase: str = "",
    init: Sequence[Json] = (),
    **spec: Any,
) -> Raw:
    """A pod; of ``metadata``, node, scheduler, phase and init containers only what is given is written."""
    inside: Raw = {"containers": list(containers)}
    for key, value in (("nodeName", node), ("schedulerName", scheduler), ("initContainers", list(init))):
        if value:
            inside[key] = value
    body: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": inside | spec,
    }
    return body | ({"status": {"phase": phase}} if phase else {})


def registered_cards(*uuids: str, memory: int = 40_960) -> list[Raw]:
    """A100 cards as HAMi's NVIDIA plugin registers them; with ``json.dumps`` the text of the annotation."""
    sizes = {"count": 10, "devmem": memory, "devcore": 100, "numa": 0}
    rest = {"type": "NVIDIA A100", "mode": "hami-core", "health": True}
    return [{"id": uuid, "index": at, **sizes, **rest} for at, uuid in enumerate(uuids)]
