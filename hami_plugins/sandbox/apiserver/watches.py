"""Open watches: who hears of a write, and in which order.

Watches are found by what they select (node name, object name, namespace), so that a write costs as much as it has
watchers. The line of an event is made once for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import orjson

from hami_plugins.sandbox.apiserver.answers import ApiError, bad_request
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.apiserver.lists import rendered, version_asked
from hami_plugins.sandbox.apiserver.selectors import INDEXED, ObjectSelector, field_text, parse
from hami_plugins.sandbox.apiserver.store import ApiStore, Event, Stored

MAX_WAITING: Final = 20_000
"""Most lines that a watcher may be behind before it is cut off."""

Render = Callable[[ResourceKind, Stored], bytes]
"""How a watch shows an object."""

_Bucket = tuple[tuple[str, str], str, str]
_Lines = dict[tuple[str, Render, str, Stored], bytes]


class Watch:
    """One open watch: lines waiting to be sent. ``wake`` is called when there are new ones, from any thread."""

    def __init__(  # noqa: PLR0913 - each is a part of what was asked for
        self,
        kind: ResourceKind,
        namespace: str,
        selector: ObjectSelector,
        *,
        bookmarks: bool,
        seconds: float,
        render: Render = rendered,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.selector = selector
        self.bookmarks = bookmarks
        self.seconds = seconds
        self.render = render
        self.since = 0
        self.ended = False
        self.abrupt = False
        self.most: int | None = None
        self.wake: Callable[[], None] = _nobody
        self._lines: deque[bytes] = deque()

    def add(self, line: bytes) -> None:
        """One more line to send."""
        if self.ended:
            return
        self._lines.append(line)
        if self.most is not None and len(self._lines) > self.most:
            self.ended = True
        self.wake()

    def begin(self) -> None:
        """The backlog is sent; from now on the watcher may be ``MAX_WAITING`` lines behind."""
        self.most = len(self._lines) + MAX_WAITING

    def end(self) -> None:
        """Nothing comes any more."""
        self.ended = True
        self.wake()

    def take(self, most: int | None = None) -> tuple[bytes, int]:
        """What waits, taken out: at most so many lines, and how many they are."""
        lines: list[bytes] = []
        while self._lines and (most is None or len(lines) < most):
            lines.append(self._lines.popleft())
        return b"".join(lines), len(lines)


class Hub:
    """All open watches of a store."""

    def __init__(self, store: ApiStore) -> None:
        self._store = store
        self._buckets: dict[_Bucket, dict[Watch, None]] = {}
        store.listen(self._heard)

    def __len__(self) -> int:
        return len(self.watches())

    def watches(self) -> tuple[Watch, ...]:
        """Every open watch."""
        with self._store.lock:
            return tuple(watch for bucket in self._buckets.values() for watch in bucket)

    def open(
        self, kind: ResourceKind, namespace: str, name: str, query: Mapping[str, str], *, render: Render = rendered
    ) -> Watch:
        """Begin a watch at the version asked for; without one, or at 0, the current objects come first.

        From a version that is still to come it says nothing until then, bookmarks included (seen on 1.34).

        Raises ``ApiError`` 400 for bad parameters. A forgotten version is reported as an event, as in the real server.
        """
        fields = ",".join(filter(None, (query.get("fieldSelector", ""), f"metadata.name={name}" if name else "")))
        selector = parse(kind, query.get("labelSelector", ""), fields)
        watch = Watch(
            kind,
            namespace,
            selector,
            bookmarks=_flag(query, "allowWatchBookmarks"),
            seconds=_seconds(query),
            render=render,
        )
        since, initial = version_asked(query), _flag(query, "sendInitialEvents")
        if initial and query.get("resourceVersionMatch") != "NotOlderThan":
            raise _unmatched_initial_events()
        with self._store.lock:
            try:
                self._fill(watch, since if not initial else None, initial=initial)
            except ApiError as error:
                watch.add(_line("ERROR", orjson.dumps(error.body())))
                watch.end()
                return watch
            watch.since = since or 0
            watch.begin()
            self._buckets.setdefault(_bucket(watch), {})[watch] = None
        return watch

    def close(self, watch: Watch) -> None:
        """The watcher is gone, or is to go."""
        with self._store.lock:
            bucket = self._buckets.get(_bucket(watch))
            if bucket is not None:
                bucket.pop(watch, None)
                if not bucket:
                    del self._buckets[_bucket(watch)]
        watch.end()

    def bookmark(self, watches: Iterable[Watch] | None = None) -> None:
        """Tell watchers that want to know how far they are."""
        with self._store.lock:
            lines: dict[str, bytes] = {}
            for watch in self.watches() if watches is None else watches:
                if watch.bookmarks and self._store.version >= watch.since:
                    name = watch.kind.qualified
                    lines[name] = lines.get(name) or _bookmark(watch.kind, self._store.version)
                    watch.add(lines[name])

    def _fill(self, watch: Watch, since: int | None, *, initial: bool) -> None:
        collection = self._store.collection(watch.kind.storage)
        if since:
            for event in collection.since(since):
                self._tell(watch, event, {})
            return
        for stored in self._store.select(watch.kind, watch.namespace, watch.selector):
            watch.add(_line("ADDED", watch.render(watch.kind, stored)))
        if initial and watch.bookmarks:
            watch.add(_bookmark(watch.kind, self._store.version, initial=True))

    def _heard(self, storage: tuple[str, str], event: Event) -> None:
        lines: _Lines = {}
        for bucket in _buckets(storage, event):
            for watch in self._buckets.get(bucket, ()):
                self._tell(watch, event, lines)

    def _tell(self, watch: Watch, event: Event, lines: _Lines) -> None:
        if watch.namespace and event.after.key.namespace != watch.namespace:
            return
        if event.version <= watch.since:
            return
        seen = event.seen_by(watch.selector)
        if seen is None:
            return
        key = (watch.kind.api_version, watch.render, *seen)
        line = lines.get(key)
        if line is None:
            line = lines[key] = _line(seen[0], watch.render(watch.kind, seen[1]))
        watch.add(line)


def _nobody() -> None:
    """There are no watchers yet."""


def _bucket(watch: Watch) -> _Bucket:
    for field in INDEXED:
        value = watch.selector.pinned(field)
        if value is not None:
            return watch.kind.storage, field, value
    return watch.kind.storage, "namespace", watch.namespace


def _buckets(storage: tuple[str, str], event: Event) -> list[_Bucket]:
    """Where watches may be that this event concerns, each once, in one order."""
    found: dict[_Bucket, None] = {(storage, "namespace", ""): None}
    found[storage, "namespace", event.after.key.namespace] = None
    for stored in (event.before, event.after):
        if stored is not None:
            for field in INDEXED:
                found[storage, field, field_text(stored.raw, tuple(field.split(".")))] = None
    return list(found)


def _line(word: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (word.encode(), data)


def _bookmark(kind: ResourceKind, version: int, *, initial: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", orjson.dumps({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}))


def _unmatched_initial_events() -> ApiError:
    field, why = "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": field}
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    return ApiError(422, f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {why}', details=details)


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name) in ("true", "1")


def _seconds(query: Mapping[str, str]) -> float:
    """How long a watch lasts; the real server ends those that do not say after half an hour to an hour."""
    text = query.get("timeoutSeconds", "")
    if text and not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return float(text or 1800) or 1800.0
