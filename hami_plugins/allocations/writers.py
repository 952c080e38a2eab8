"""Who wrote an allocation on a pod, as far as the API server keeps it.

The annotations that come with a Binding have no owner in ``managedFields``; whoever writes them later is named there,
with the time of his last write. What was removed again has no owner either, and times are kept for each writer, not for
each field: so this finds unseen changes, and cannot prove that there was none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

SKEW: Final = timedelta(seconds=10)
"""By how much clocks of API servers may differ, and a scheduler's own write may come before its Binding."""

_SCHEDULED: Final = "PodScheduled"

_NOTHING: Final[Mapping[str, Any]] = {}


def written_later(raw: Mapping[str, Any], keys: Collection[str]) -> str:
    """Who wrote one of these annotations after the pod was bound, and when; empty where no writer is known."""
    for entry in _list(_mapping(raw, "metadata"), "managedFields"):
        owned = _mapping(_mapping(_mapping(entry, "fieldsV1"), "f:metadata"), "f:annotations")
        if owned and any(f"f:{key}" in owned for key in keys):
            bound, at = _bound(raw), _moment(entry.get("time"))
            if bound is not None and at is not None and at - bound > SKEW:
                return f"{entry.get('manager') or 'an unknown writer'} (at {entry['time']})"
    return ""


def placed_by(raw: Mapping[str, Any]) -> str:
    """Who created the pod with ``spec.nodeName``; empty for one that was bound: a Binding leaves no owner of it."""
    for entry in _list(_mapping(raw, "metadata"), "managedFields"):
        if "f:nodeName" in _mapping(_mapping(entry, "fieldsV1"), "f:spec"):
            return str(entry.get("manager") or "an unknown writer")
    return ""


def relevant(raw: Mapping[str, Any], keys: Collection[str]) -> Mapping[str, Any]:
    """The part of a pod that these answers need, for caches that keep no more of it."""
    entries = [entry for entry in _list(_mapping(raw, "metadata"), "managedFields") if _concerns(entry, keys)]
    conditions = [each for each in _list(_mapping(raw, "status"), "conditions") if each.get("type") == _SCHEDULED]
    return {"managedFields": entries, "conditions": conditions}


def _concerns(entry: Mapping[str, Any], keys: Collection[str]) -> bool:
    fields = _mapping(entry, "fieldsV1")
    owned = _mapping(_mapping(fields, "f:metadata"), "f:annotations")
    return "f:nodeName" in _mapping(fields, "f:spec") or any(f"f:{key}" in owned for key in keys)


def _bound(raw: Mapping[str, Any]) -> datetime | None:
    """When the pod was bound."""
    for condition in _list(_mapping(raw, "status"), "conditions"):
        if condition.get("type") == _SCHEDULED and condition.get("status") == "True":
            return _moment(condition.get("lastTransitionTime"))
    return None


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _mapping(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, Mapping) else _NOTHING


def _list(holder: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    value = holder.get(name)
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, Mapping))
