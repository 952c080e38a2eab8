"""Who wrote an allocation on a pod, as far as the API server keeps it.

The annotations that come with a Binding have no owner in ``managedFields``; whoever writes them later is named there,
with the time of his last write. What was removed again has no owner either, and times are kept for each writer, not for
each field: so this finds unseen changes, and cannot prove that there was none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from hami_plugins.wire.lenient import items, mapping

SKEW: Final = timedelta(seconds=10)
"""By how much clocks of API servers may differ, and a scheduler's own write may come before its Binding."""

_SCHEDULED: Final = "PodScheduled"


def written_later(raw: Mapping[str, Any], keys: Collection[str]) -> str:
    """Who wrote one of these annotations after the pod was bound, and when; empty where no writer is known."""
    for entry in _list(mapping(raw.get("metadata")), "managedFields"):
        owned = mapping(mapping(mapping(entry.get("fieldsV1")).get("f:metadata")).get("f:annotations"))
        if owned and any(f"f:{key}" in owned for key in keys):
            bound, at = _bound(raw), _moment(entry.get("time"))
            if bound is not None and at is not None and at - bound > SKEW:
                return f"{entry.get('manager') or 'an unknown writer'} (at {entry['time']})"
    return ""


def placed_by(raw: Mapping[str, Any]) -> str:
    """Who created the pod with ``spec.nodeName``; empty for one that was bound: a Binding leaves no owner of it."""
    for entry in _list(mapping(raw.get("metadata")), "managedFields"):
        if "f:nodeName" in mapping(mapping(entry.get("fieldsV1")).get("f:spec")):
            return str(entry.get("manager") or "an unknown writer")
    return ""


def relevant(raw: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """The part of a pod that these answers need, for caches that keep no more of it."""
    entries = [entry for entry in _list(mapping(raw.get("metadata")), "managedFields") if _concerns(entry, keys)]
    conditions = [each for each in _list(mapping(raw.get("status")), "conditions") if each.get("type") == _SCHEDULED]
    return {"managedFields": entries, "conditions": conditions}


def _concerns(entry: Mapping[str, Any], keys: Collection[str]) -> bool:
    fields = mapping(entry.get("fieldsV1"))
    owned = mapping(mapping(fields.get("f:metadata")).get("f:annotations"))
    return "f:nodeName" in mapping(fields.get("f:spec")) or any(f"f:{key}" in owned for key in keys)


def _bound(raw: Mapping[str, Any]) -> datetime | None:
    """When the pod was bound."""
    for condition in _list(mapping(raw.get("status")), "conditions"):
        if condition.get("type") == _SCHEDULED and condition.get("status") == "True":
            return _moment(condition.get("lastTransitionTime"))
    return None


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _list(holder: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (each for each in items(holder.get(name)) if isinstance(each, Mapping))
