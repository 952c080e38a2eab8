"""Bound pods that cannot be read: what is certain of them all the same, so that their cards do not count as free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.units import NodeName, PodUid

_NOTHING: Final[Mapping[str, Any]] = {}


def pod(raw: Mapping[str, Any], uid: PodUid, told: Callable[[Mapping[str, str]], tuple[Container, ...]]) -> Pod:
    """Node, phase and texts of a pod, with the containers that its allocation speaks of according to ``told``.

    What init containers hold counts beside the rest then: which container is which is not known.
    """
    metadata, inside, status = (_member(raw, name) for name in ("metadata", "spec", "status"))
    written = _member(metadata, "annotations")
    annotations = {key: text for key, text in written.items() if isinstance(text, str)}
    node = _text(inside, "nodeName")
    return Pod(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=uid,
        annotations=annotations,
        containers=told(annotations),
        node=NodeName(node) if node else None,
        phase=_text(status, "phase") or "Pending",
    )


def _member(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, Mapping) else _NOTHING


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
