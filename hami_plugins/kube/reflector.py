"""A view of a collection that follows the server: list once, then watch, and list again only when the server forgot.

The rules are those of client-go's reflector: a watch goes on from the last version seen, bookmarks included; version
"too old" (410) asks for a new list, anything else for another watch; pauses grow and are random.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypedDict

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube.port import Selection, WatchEvent, Watching
from hami_plugins.kube.refusals import EXPIRED
from hami_plugins.runnable import Runnable
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

_SHORTEST_WATCH: Final = 1.0
"""Seconds. A server that ends watches faster, and has told nothing, is not to be asked again at once."""

_SETTLED: Final = 5.0
"""Seconds after which a watch has told what happened before it began."""

_SILENT: Final = 120.0
"""Seconds. A server says about each minute how far it is. One whose store was restored from a backup has versions that
are behind ours, and a watch from ours is silent, without an error, until they have caught up (seen on 1.34)."""

_AGAIN: Final = 1.0
"""Seconds between two tries to repeat a change whose handler failed."""

_NAMED_MALFORMED: Final = 1000
"""Malformed objects that are remembered as logged; a list that has more of them is past helping by a log."""


class ObjectChange(NamedTuple):
    """What happened to one object since the last change with its ``uid``.

    ``synced`` comes once, without an object, when the first list is through. ``deleted`` has no object where the
    deletion was found out by listing. ``listed``: a list that was not the first one told it, so that it is what the
    server has now, even if its version is lower than one that was seen before.
    """

    kind: Literal["added", "modified", "deleted", "synced"]
    object: Json | None
    uid: str
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between failures: doubled from ``first`` up to ``most``, and each drawn from the upper half."""

    first: float = 0.5
    most: float = 30.0

    def pause(self, failures: int, luck: random.Random) -> float:
        """The pause after that many failures in a row (from 1)."""
        whole = min(self.most, self.first * 2.0 ** min(failures - 1, 30))
        return luck.uniform(whole / 2, whole)


class ReflectorOptions(TypedDict, total=False):
    """Options of a ``Reflector`` besides its subject, for callers that create one."""

    backoff: Backoff
    timeout: float
    unhealthy_after: float
    page_size: int
    luck: random.Random | None
    clock: Callable[[], float]


class Reflector(Runnable):
    """Calls ``on_change`` with the changes of the selected objects, from a thread of its own, until it is stopped.

    ``on_change`` receives, in this order: every object of the first list as ``added``, ``synced``, then changes. A
    later list reports only differences (by UID and resource version), deletions first; everything if versions have gone
    back. A watch without an event for minutes is followed by a list. Objects are not kept. One without a UID is
    skipped, counted in ``malformed`` and logged once.

    A change for which ``on_change`` raises is counted in ``handler_errors``, logged, and told again with later events,
    at most once a second, until it is taken or another change of that object is; ``missed`` says how many there are.

    ``timeout`` is the least duration of a watch in seconds; each lasts up to twice that, so that many clients do not
    return at the same moment. ``unhealthy_after`` is how long the server may be out of reach before ``healthy`` ends.

    ``last_error`` is what was wrong last, and ``last_status`` its HTTP status where a server said it; both stay.
    ``last_contact`` is when the server was last heard of, ``told_until`` up to when it has told all that happened: by a
    list, a bookmark, or an event of a watch that has caught up. After an interruption the second comes later.
    """

    def __init__(  # noqa: PLR0913 - what is followed, and everything that tests and settings want to choose
        self,
        api: Watching,
        selection: Selection,
        *,
        on_change: Callable[[ObjectChange], None],
        name: str,
        backoff: Backoff = Backoff(),
        timeout: float = 300.0,
        unhealthy_after: float = 60.0,
        page_size: int = 500,
        luck: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.synced = threading.Event()
        self.malformed = 0
        self.handler_errors = 0
        self.lists = 0
        self.restarts = 0
        self.last_contact: float | None = None
        self.told_until = -math.inf
        self.last_error = ""
        self.last_status: int | None = None
        self._api = api
        self._selection = selection
        self._on_change = on_change
        self._backoff = backoff
        self._timeout = timeout
        self._unhealthy_after = unhealthy_after
        self._page_size = page_size
        self._luck = luck or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._clock = clock
        self._log = structlog.get_logger(__name__).bind(reflector=name, path=selection.path)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reflector-{name}", daemon=True)
        self._known: dict[str, str] = {}
        self._missed: dict[str, ObjectChange] = {}
        self._tried = -math.inf
        self._named: set[str] = set()
        self._version = ""
        self._reached = 0
        self._failures = 0
        self._failing_since: float | None = None

    def start(self) -> None:
        """Begins to follow; ``synced`` is set once the first list is through."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """Ends the watch and the thread; whether the thread is gone after ``timeout`` seconds. May be called twice."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def healthy(self) -> bool:
        """Whether the view is complete and no older than the server has been out of reach by chance."""
        failing = self._failing_since
        in_reach = failing is None or self._clock() - failing < self._unhealthy_after
        return self.synced.is_set() and self._thread.is_alive() and in_reach

    @property
    def missed(self) -> int:
        """How many objects there are whose last change ``on_change`` has not taken."""
        return len(self._missed)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except KubeError as error:
                self._failed(error, error.status, error.retry_after)
            except Exception as error:  # noqa: BLE001 - the outermost loop: nothing may end it but stop()
                self._log.exception("reflector_failed")
                self._failed(error, None, None)

    def _list(self) -> None:
        """One list, told as differences.

        The first list is reported page by page, because holding a large one back would need its memory; later lists at
        their end, because a deleted object has to go before another takes its name.
        """
        began = self._clock()
        first = not self.lists and not self._known
        listed: set[str] = set()
        later: list[tuple[str, str, Json]] = []
        version = ""
        oldest = "0" if self._selection.cached and first else ""
        pages = self._api.list_pages(self._selection, version=oldest, stop=self._stop, page_size=self._page_size)
        for page in pages:
            self._contact()
            version = page.version
            for item in page.items:
                if (read := self._read(item)) is None:
                    continue
                listed.add(read[0])
                if first:
                    self._put(*read)
                else:
                    later.append(read)
        for uid in [uid for uid in self._known if uid not in listed]:
            self._drop(uid, None, listed=True)
        if _number(version) < self._reached:
            self._log.warning("versions_went_back", reached=self._reached, listed=version)
            self._known = dict.fromkeys(self._known, "")
        for read in later:
            self._put(*read, listed=True)
        self._tell_again()
        self._version, self._reached = version, _number(version)
        self.lists += 1
        if not oldest:
            self.told_until = began
        if not self.synced.is_set():
            self._tell(ObjectChange("synced", None, ""))
            self.synced.set()

    def _watch(self) -> None:
        """One watch, to its end."""
        began, told = self._clock(), False
        timeout = self._luck.uniform(self._timeout, 2 * self._timeout)
        stream = self._api.watch(self._selection, since=self._version, stop=self._stop, timeout=timeout)
        self._contact()
        try:
            for event in stream:
                told = True
                self._failures = 0
                self._contact()
                came = self._clock()
                self._take(event)
                self._tell_again()
                if event.kind == "BOOKMARK" or came - began >= _SETTLED:
                    self.told_until = came
        finally:
            if not told and self._clock() - began >= _SILENT:
                self._version = ""
        if self._stop.is_set():
            return
        if not told and self._clock() - began < _SHORTEST_WATCH:
            raise KubeError(f"watch {self._selection.path}: the server ends it immediately", retryable=True)
        self._failures = 0

    def _take(self, event: WatchEvent) -> None:
        if event.kind != "BOOKMARK" and (read := self._read(event.object)) is not None:
            if event.kind == "DELETED":
                self._drop(read[0], read[2])
            else:
                self._put(*read)
        if version := _metadata(event.object).get("resourceVersion"):
            self._version = str(version)
            self._reached = max(self._reached, _number(self._version))

    def _read(self, item: Json) -> tuple[str, str, Json] | None:
        """UID, version and object; ``None`` for a value that is not an object."""
        metadata = _metadata(item)
        if isinstance(uid := metadata.get("uid"), str) and uid:
            return uid, str(metadata.get("resourceVersion") or ""), item
        self.malformed += 1
        shown = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        if shown not in self._named and len(self._named) < _NAMED_MALFORMED:
            self._named.add(shown)
            self._log.warning("object_skipped", object=shown, reason="no metadata.uid")
        return None

    def _put(self, uid: str, version: str, item: Json, *, listed: bool = False) -> None:
        before = self._known.get(uid)
        if before is not None and version and before == version:
            return
        self._known[uid] = version
        self._tell(ObjectChange("added" if before is None else "modified", item, uid, listed))

    def _drop(self, uid: str, item: Json | None, *, listed: bool = False) -> None:
        if self._known.pop(uid, None) is not None:
            self._tell(ObjectChange("deleted", item, uid, listed))

    def _tell(self, change: ObjectChange) -> None:
        if (error := self._refused(change)) is not None:
            self._log.error("change_handler_failed", change=change.kind, uid=change.uid, exc_info=error)

    def _tell_again(self) -> None:
        """What was not taken, where some time has passed since the last try."""
        if not self._missed or self._clock() - self._tried < _AGAIN:
            return
        for change in tuple(self._missed.values()):
            if self._refused(change) is None:
                self._log.info("change_taken_late", change=change.kind, uid=change.uid)

    def _refused(self, change: ObjectChange) -> Exception | None:
        """Reports a change; returns the error of a handler that rejects it, which must not hide other objects."""
        try:
            self._on_change(change)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this object alone
            self.handler_errors += 1
            self._tried = self._clock()
            self._missed[change.uid] = change
            return error
        self._missed.pop(change.uid, None)
        return None

    def _contact(self) -> None:
        self.last_contact = self._clock()
        self._failing_since = None

    def _failed(self, error: Exception, status: int | None, retry_after: float | None) -> None:
        if self._stop.is_set():
            return
        if status == EXPIRED:
            self._version = ""
        self._failures += 1
        self.restarts += 1
        # A repeated failure is logged ever more seldom: a night without the server fills no log.
        told = str(error) == self.last_error and self._failures.bit_count() > 1
        self.last_error, self.last_status = str(error), status
        if self._failing_since is None:
            self._failing_since = self._clock()
        pause = max(self._backoff.pause(self._failures, self._luck), retry_after or 0.0)
        if not told:
            after = round(pause, 3)
            self._log.warning("watch_interrupted", error=str(error), failures=self._failures, pause_seconds=after)
        self._stop.wait(pause)


def _number(version: str) -> int:
    """A resource version as a number, by which two of them compare; 0 where it is none."""
    return int(version) if version.isascii() and version.isdigit() else 0


def _metadata(item: object) -> Mapping[str, Any]:
    return lenient.inside(lenient.mapping(item), "metadata")
