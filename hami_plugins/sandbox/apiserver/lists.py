"""Lists: pages of one consistent state, and the text of an object in a list, alone, and in a watch."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from hami_plugins.sandbox.apiserver.answers import ApiError, bad_request, expired_continue, too_new
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.apiserver.selectors import ObjectSelector, parse
from hami_plugins.sandbox.apiserver.store import ApiStore, Key, Stored


class Token(NamedTuple):
    """Where a list goes on: after ``key``, in the state of ``version``; version -1 means whatever is there then."""

    version: int
    key: Key

    def text(self) -> str:
        """The ``continue`` of an answer."""
        fields = {"v": "meta.k8s.io/v1", "rv": self.version, "start": f"{self.key.namespace}/{self.key.name}\0"}
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


class ListScope(NamedTuple):
    """The scope of a list: one namespace or all (empty), and the selector."""

    namespace: str
    selector: ObjectSelector

    def holds(self, stored: Stored) -> bool:
        """Whether an object belongs to it."""
        return self.namespace in ("", stored.key.namespace) and self.selector.matches(stored.raw)


def rendered(kind: ResourceKind, stored: Stored) -> bytes:
    """An object's JSON in a version of its API."""
    data = orjson.dumps(_renamed(kind, stored.raw)) if kind.renames else stored.data
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), data[1:])


def shown(kind: ResourceKind, raw: Mapping[str, Any]) -> dict[str, Any]:
    """An object as clients see it: with its kind, in a version of its API."""
    return {"kind": kind.kind, "apiVersion": kind.api_version, **_renamed(kind, raw)}


def item(kind: ResourceKind, stored: Stored) -> bytes:
    """An object's JSON in a list: Kubernetes' own kinds leave out there what they are."""
    if kind.renames:
        return orjson.dumps(_renamed(kind, stored.raw))
    return stored.data if kind.typed else rendered(kind, stored)


class SelectedPage(NamedTuple):
    """A page of a list."""

    metadata: dict[str, Any]
    found: list[Stored]

    def text(self, kind: ResourceKind) -> bytes:
        """The answer to a list."""
        head = orjson.dumps({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": self.metadata})
        return b'%s,"items":[%s]}' % (head[:-1], b",".join(item(kind, stored) for stored in self.found))


def page(store: ApiStore, kind: ResourceKind, namespace: str, query: Mapping[str, str]) -> SelectedPage:
    """A page of a list. Raises ``ApiError`` 400 for bad parameters, 410 for a page of a state that is forgotten."""
    selector = parse(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    limit = _number(query, "limit")
    token = _token(query["continue"]) if query.get("continue") else None
    version = _version(store, query, token)
    found = _selected(store, kind, ListScope(namespace, selector), version, token)
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if limit and len(found) > limit:
        left = len(found) - limit
        found = found[:limit]
        metadata["continue"] = Token(version, found[-1].key).text()
        if not selector:
            metadata["remainingItemCount"] = left
    return SelectedPage(metadata, found)


def version_asked(query: Mapping[str, str]) -> int | None:
    """``resourceVersion`` of a list or watch; ``None`` when it is not given. Raises ``ApiError`` 400."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: {why}")
    return int(text)


def _version(store: ApiStore, query: Mapping[str, str], token: Token | None) -> int:
    """The version that a list shows."""
    asked = version_asked(query)
    if token is not None and asked:
        raise bad_request("specifying resource version is not allowed when using continue")
    if asked is not None and asked > store.version:
        raise too_new(asked, store.version)
    if token is not None:
        return store.version if token.version == -1 else token.version
    return asked if asked and query.get("resourceVersionMatch") == "Exact" else store.version


def _selected(store: ApiStore, kind: ResourceKind, place: ListScope, version: int, token: Token | None) -> list[Stored]:
    """What a list shows from where it goes on."""
    after = None if token is None else token.key
    if store.is_unchanged_since(kind, version):
        return store.select(kind, place.namespace, place.selector, after=after)
    try:
        objects = store.at_version(kind, version)
    except ApiError as error:
        raise expired_continue(Token(-1, token.key).text()) if token is not None else error from error
    keys = sorted(objects)
    start = 0 if after is None else bisect_right(keys, after)
    return [objects[key] for key in keys[start:] if place.holds(objects[key])]


def _token(text: str) -> Token:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = str(fields["start"]).rstrip("\0").rpartition("/")
        return Token(int(fields["rv"]), Key(namespace, name))
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if text and not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def _renamed(kind: ResourceKind, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {kind.renames.get(key, key): value for key, value in raw.items()}


def stored_form(kind: ResourceKind, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The other way: an object of this version as it is stored."""
    names = {shown: kept for kept, shown in kind.renames.items()}
    return {names.get(key, key): value for key, value in obj.items()}
