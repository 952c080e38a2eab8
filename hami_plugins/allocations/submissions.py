"""Annotations and variables that the author of a new pod may not set: records of an allocation, and variables that
override a slice.

A manifest that is copied from a running pod carries the records of that pod, so they are removed with a warning. The
variables stay, as with HAMi: ``wire.slice_variables`` says what they do, and ``vet`` reports them as well (HP603).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from hami_plugins.engine.annotate import NODE_KEY
from hami_plugins.wire import lenient, slice_variables
from hami_plugins.wire.fields import Json


class Submitted(NamedTuple):
    """A new pod without the records it carried, and the message for its author."""

    pod: Json
    warnings: tuple[str, ...] = ()


def without_records(raw: Json, keys: Collection[str]) -> Submitted:
    """The pod without these annotations, and without HAMi's label that names the node of an allocated pod."""
    metadata = lenient.inside(raw, "metadata")
    annotations, labels = (lenient.mapping(metadata.get(name)) for name in ("annotations", "labels"))
    brought = [("annotation", key) for key in keys if key in annotations]
    brought += [("label", NODE_KEY)] if NODE_KEY in keys and NODE_KEY in labels else []
    if not brought:
        return Submitted(raw)
    kept: dict[str, Any] = {**metadata, "annotations": {k: v for k, v in annotations.items() if k not in keys}}
    if ("label", NODE_KEY) in brought:
        kept["labels"] = {key: value for key, value in labels.items() if key != NODE_KEY}
    return Submitted({**raw, "metadata": kept}, tuple(_removed(*each) for each in brought))


def overrides(raw: Json, asking: Collection[str]) -> Iterator[str]:
    """What variables of the pod's containers do to their slices; ``asking`` are those that ask for devices."""
    spec = lenient.inside(raw, "spec")
    for kind in ("initContainers", "containers"):
        for container in lenient.mappings(spec.get(kind)):
            name = str(container.get("name", ""))
            for variable in lenient.mappings(container.get("env")):
                yield from _override(name, variable, limited=name in asking)


def _override(container: str, variable: Json, *, limited: bool) -> Iterator[str]:
    name = str(variable.get("name", ""))
    value = str(variable.get("value") or ("(valueFrom)" if variable.get("valueFrom") else ""))
    what = slice_variables.override(name, value, limited=limited)
    if what:
        yield f"container {container}: variable {name}={value[:40]} {what}; drop it and ask by resources.limits"


def _removed(kind: str, key: str) -> str:
    return (
        f"{kind} {key} removed: only schedulers, the allocator, and node agents write it; remove it from the pod, or "
        "from the template that the pod is created from"
    )
