"""Kubernetes Events (core/v1) for people: written in the background, few, and never in anybody's way.

Equal events are one object with a count. Events that exceed the write rate are added up first; those that exceed the
buffer are dropped and counted.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.errors import AlreadyExistsError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.event_queue import EventKey, EventLimits, EventQueue, EventType, ObjectRef, PendingEvent
from hami_plugins.kube.port import Writing
from hami_plugins.runnable import Runnable
from hami_plugins.wire.fields import Json

__all__ = ["EventLimits", "EventRecorder", "EventType", "ObjectRef"]

_LONGEST_MESSAGE: Final = 1024
"""Bytes that the API server takes."""

_LONGEST_NAME: Final = 253
_NOT_FOUND: Final = 404
_TRIES: Final = 5
_FIRST_PAUSE: Final = 2.0
_LIMITS: Final = EventLimits()


@dataclass(frozen=True, slots=True)
class _Written:
    """An event that the server has: its name, how often it happened, and when first."""

    name: str
    count: int
    first: datetime


class EventRecorder(Runnable):
    """Writes events from a thread of its own, the oldest first.

    ``component`` and ``host`` say who speaks. ``written`` counts requests that succeeded, ``dropped`` events that found
    no room or that the server did not take.
    """

    def __init__(
        self,
        api: Writing,
        component: str,
        host: str,
        *,
        limits: EventLimits = _LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.written = 0
        self.dropped = 0
        self._api = api
        self._component = component
        self._host = host
        self._limits = limits
        self._clock = clock
        self._log = structlog.get_logger(__name__)
        self._changed = threading.Condition()
        self._queue = EventQueue(limits, at=clock())
        self._told: OrderedDict[EventKey, _Written] = OrderedDict()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="event-recorder", daemon=True)

    def start(self) -> None:
        """Begins to write; what was emitted before waits for it."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """Writes what may be written at once, and ends; whether the thread is gone after ``timeout`` seconds."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def emit(
        self,
        regarding: ObjectRef,
        reason: str,
        message: str,
        *,
        type: EventType = "Warning",  # noqa: A002 - the field is called so
        now: datetime,
    ) -> None:
        """Notes an event and returns at once. ``reason`` is one CamelCase word, ``message`` a sentence for people."""
        saying = EventKey(regarding, reason, _bounded(message), type)
        with self._changed:
            if not self._queue.put(saying, PendingEvent(count=1, first=now, last=now)):
                self.dropped += 1
            self._changed.notify()

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            saying, pending = turn
            try:
                self._write(saying, pending)
            except KubeError as error:
                self._failed(saying, pending, error)
            except Exception:  # noqa: BLE001 - the outermost loop: a bad event must not silence the others
                self.dropped += pending.count
                self._log.exception("event_dropped", reason=saying.reason)

    def _next(self) -> tuple[EventKey, PendingEvent] | None:
        """Waits for what may be written; ``None`` when the recorder stops."""
        with self._changed:
            while True:
                if (turn := self._queue.take(self._clock())) is not None:
                    return turn
                if self._stopping:
                    self.dropped += len(self._queue)
                    return None
                self._changed.wait(self._queue.wait(self._clock()))

    def _write(self, saying: EventKey, pending: PendingEvent) -> None:
        told = self._told.pop(saying, None)
        if told is not None:
            try:
                told = self._count_on(saying, told, pending)
            except KubeError as error:
                # The server forgets events after an hour, and this is a new one then. Otherwise it may still be there.
                if error.status != _NOT_FOUND:
                    self._told[saying] = told
                    raise
                told = None
        self._told[saying] = told or self._create(saying, pending)
        self.written += 1
        while len(self._told) > self._limits.remembered:
            self._told.popitem(last=False)

    def _count_on(self, saying: EventKey, told: _Written, pending: PendingEvent) -> _Written:
        now = replace(told, count=told.count + pending.count)
        self._api.merge_patch(
            paths.event(_namespace(saying), told.name), {"count": now.count, "lastTimestamp": _stamp(pending.last)}
        )
        return now

    def _create(self, saying: EventKey, pending: PendingEvent) -> _Written:
        written = _Written(self._name(saying, pending.first), pending.count, pending.first)
        try:
            self._api.create(paths.events(_namespace(saying)), self._body(saying, pending, written.name))
        except AlreadyExistsError:
            # An earlier try came through, and its answer did not.
            return self._count_on(saying, replace(written, count=0), pending)
        return written

    def _failed(self, saying: EventKey, pending: PendingEvent, error: KubeError) -> None:
        again = replace(pending, tries=pending.tries + 1, due=self._clock() + _FIRST_PAUSE * 2**pending.tries)
        with self._changed:
            kept = error.may_retry and again.tries < _TRIES and self._queue.put(saying, again)
        if not kept:
            self.dropped += pending.count
            self._log.warning("event_dropped", object=saying.regarding.name, reason=saying.reason, error=str(error))

    def _name(self, saying: EventKey, first: datetime) -> str:
        """A name of its own for each object, text and beginning, the same at every try."""
        told = repr((saying, self._component, self._host, first.isoformat()))
        digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        return f"{(saying.regarding.name or self._component)[: _LONGEST_NAME - len(digest) - 1]}.{digest}"

    def _body(self, saying: EventKey, pending: PendingEvent, name: str) -> Json:
        regarding = saying.regarding
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(saying)},
            "involvedObject": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "name": regarding.name,
                "uid": regarding.uid,
                **({"namespace": regarding.namespace} if regarding.namespace else {}),
            },
            "reason": saying.reason,
            "message": saying.message,
            "type": saying.type,
            "count": pending.count,
            "firstTimestamp": _stamp(pending.first),
            "lastTimestamp": _stamp(pending.last),
            "source": {"component": self._component, "host": self._host},
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }


def _namespace(saying: EventKey) -> str:
    """Events about cluster-wide objects live in ``default``."""
    return saying.regarding.namespace or "default"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bounded(message: str) -> str:
    data = message.encode()
    if len(data) <= _LONGEST_MESSAGE:
        return message
    return data[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
