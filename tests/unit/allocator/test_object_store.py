"""A view of the object store is one value until something changes, and the next contains the changes."""

from __future__ import annotations

from typing import Any, Literal

from hami_plugins.allocator.object_store import ObjectStore
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.versions import changed_names

Kind = Literal["added", "modified", "deleted"]


def read(raw: Any) -> tuple[str, Any]:
    return raw["name"], raw["value"]


def told(store: ObjectStore[Any], uid: str, name: str, value: object, kind: Kind = "added") -> None:
    store.changed(ObjectChange(kind, {"name": name, "value": value}, uid))


def test_the_next_version_names_what_came_changed_and_went() -> None:
    store = ObjectStore[Any](read)
    for uid, name in (("1", "a"), ("2", "b"), ("3", "c")):
        told(store, uid, name, name)
    first = store.by_name()
    assert store.by_name() is first
    told(store, "1", "a", "other", "modified")
    told(store, "2", "b", "b", "deleted")
    told(store, "4", "d", "d")
    told(store, "3", "c", "c", "modified")
    second = store.by_name()
    assert dict(second) == {"a": "other", "c": "c", "d": "d"}
    assert dict(first) == {"a": "a", "b": "b", "c": "c"}
    assert set(changed_names(first, second)) == {"a", "b", "d"}
