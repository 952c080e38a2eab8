"""Bound pods that cannot be read: what is certain of them all the same, so that their cards do not count as free."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import volcano

_NOTHING: Final[Mapping[str, Any]] = {}


def pod(raw: Mapping[str, Any], uid: PodUid, spec: VendorSpec) -> Pod:
    """Node, phase and texts of a pod, with a container for each list of cards that its grant names.

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
        containers=_containers(annotations, spec),
        node=NodeName(node) if node else None,
        phase=_text(status, "phase") or "Pending",
    )


def _containers(annotations: Mapping[str, str], spec: VendorSpec) -> tuple[Container, ...]:
    """Those that the lists speak of; a list that is wrong speaks of none, and whoever reads it again says so."""
    found: list[Container] = []
    with suppress(WireError):
        pieces = volcano.decode_assignment(spec.keys.allocated, annotations.get(spec.keys.allocated, ""))
        found += [Container(name=f"{at}") for at in range(len(pieces))]
    with suppress(WireError):
        named = volcano.decode_named(spec.keys.more, annotations.get(spec.keys.more, ""))
        found += [Container(name=name, kind=ContainerKind.SIDECAR) for name in named]
    return tuple(found)


def _member(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, Mapping) else _NOTHING


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
