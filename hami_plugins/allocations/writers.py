"""Who wrote an allocation on a pod, as far as the API server keeps it.

The annotations that come with a Binding have no owner in ``managedFields``; a later writer is named there, with the
time of its last write. A removed annotation has no owner either, and times are kept per writer, not per field: so this
finds unseen changes but cannot prove their absence.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

SKEW: Final = timedelta(seconds=10)
"""By how much clocks of API servers may differ, and a scheduler's own write may come before its Binding."""

_SCHEDULED: Final = "PodScheduled"


def written_later(raw: Json, keys: Collection[str]) -> str:
    """Who wrote one of these annotations after the pod was bound, and when; empty where no writer is known."""
    for entry in _entries(raw):
        if _wrote(entry, keys):
            bound, at = _bound(raw), _moment(entry.get("time"))
            if bound is not None and at is not None and at - bound > SKEW:
                return f"{entry.get('manager') or 'an unknown writer'} (at {entry['time']})"
    return ""


def placed_by(raw: Json) -> str:
    """Who created the pod with ``spec.nodeName``; empty for one that was bound: a Binding leaves no owner of it."""
    for entry in _entries(raw):
        if _set_the_node(entry):
            return str(entry.get("manager") or "an unknown writer")
    return ""


def relevant(raw: Json, keys: Collection[str]) -> Json:
    """The part of a pod that these answers need, for caches that keep no more of it."""
    entries = [entry for entry in _entries(raw) if _set_the_node(entry) or _wrote(entry, keys)]
    conditions = [each for each in _conditions(raw) if each.get("type") == _SCHEDULED]
    return {"managedFields": entries, "conditions": conditions}


def _entries(raw: Json) -> list[Json]:
    return lenient.mappings(lenient.inside(raw, "metadata").get("managedFields"))


def _wrote(entry: Json, keys: Collection[str]) -> bool:
    owned = lenient.inside(entry, "fieldsV1", "f:metadata", "f:annotations")
    return any(f"f:{key}" in owned for key in keys)


def _set_the_node(entry: Json) -> bool:
    return "f:nodeName" in lenient.inside(entry, "fieldsV1", "f:spec")


def _conditions(raw: Json) -> list[Json]:
    return lenient.mappings(lenient.inside(raw, "status").get("conditions"))


def _bound(raw: Json) -> datetime | None:
    """When the pod was bound."""
    for condition in _conditions(raw):
        if condition.get("type") == _SCHEDULED and condition.get("status") == "True":
            return _moment(condition.get("lastTransitionTime"))
    return None


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
