"""A server that lists and watches by a script, in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from hami_plugins.errors import KubeError
from hami_plugins.kube.port import ListPage, Selection, WatchEvent
from hami_plugins.wire.fields import Json


class ScriptedApi:
    """Answers with ``lists`` and ``watches`` in turn (an error among them is raised), then says nothing any more.

    ``done`` is set when both are used up and a watch waits for the end.
    """

    def __init__(
        self, lists: Sequence[list[ListPage] | KubeError], watches: Sequence[Sequence[WatchEvent | Exception]] = ()
    ) -> None:
        self._lists = iter(lists)
        self._watches = iter(watches)
        self.listed: list[str] = []
        self.watched: list[str] = []
        self.done = threading.Event()

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[ListPage]:
        self.listed.append(version)
        answer = next(self._lists)
        if isinstance(answer, KubeError):
            raise answer
        yield from answer

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        self.watched.append(since)
        for event in next(self._watches, []):
            if isinstance(event, Exception):
                raise event
            yield event
        self.done.set()
        stop.wait()


def an_object(name: str, version: int | str, uid: str = "", **fields: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **fields}


def expired() -> KubeError:
    return KubeError("too old", status=410)


def torn() -> KubeError:
    return KubeError("torn", retryable=True)
