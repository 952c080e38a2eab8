"""How a pod was removed from its node, and which pod took its place, as far as a listing shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName

_AnyPod: TypeAlias = Pod | PodRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """``reason`` is that of the pod's condition ``DisruptionTarget``, ``message`` that of the last event about it.

    ``successors`` are the pods, by full name, for which its place is kept or which the event names.
    """

    reason: str = ""
    message: str = ""
    successors: tuple[str, ...] = ()

    @property
    def lines(self) -> Iterator[str]:
        """The same in words."""
        if self.reason:
            yield f"it is being evicted ({self.reason})"
        if self.message:
            yield f"event of its eviction: {self.message}"
        if self.successors:
            yield f"its place goes to {', '.join(self.successors)}"


def eviction_of(
    snapshot: ClusterSnapshot, full_name: str, record: PodRecord | None = None, node: NodeName | None = None
) -> Eviction | None:
    """How a pod was or is evicted, ``None`` where nothing says that it was. ``record`` and ``node`` are those of a pod
    that still holds its devices."""
    message = snapshot.evicted.get(full_name, "")
    reason = "" if record is None else record.disruption
    if not message and not reason:
        return None
    others = [each for each in _pods(snapshot) if each.full_name != full_name]
    named = [each for each in others if _is_named(each, message)]
    for each in named:
        message = message.replace(each.uid, each.full_name) if each.uid else message
    kept = [each for each in snapshot.pending if reason and each.nominated == node and each.full_name != full_name]
    successors = tuple(dict.fromkeys(each.full_name for each in (*named, *kept)))
    return Eviction(reason=reason, message=message, successors=successors)


def _is_named(pod: _AnyPod, message: str) -> bool:
    words = message.replace(",", " ").split()
    return (bool(pod.uid) and pod.uid in words) or pod.full_name in words


def _pods(snapshot: ClusterSnapshot) -> Iterator[_AnyPod]:
    yield from snapshot.pending
    for entry in snapshot.nodes:
        yield from entry.pods
