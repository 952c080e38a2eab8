"""Small pod changes that no request waits for: one at a time, with pauses that spare the API server."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.runnable import Runnable
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

SPARED: Final = 0.02
"""Seconds between two writes."""

PAUSE: Final = 1.0
"""Seconds after a write that failed and may succeed later."""

TRIES: Final = 3
"""Writes to one pod before giving up: another client keeps undoing them."""

_log = structlog.get_logger(__name__)


class _Due(NamedTuple):
    namespace: str
    name: str
    metadata: Mapping[str, object]


class PodWriter(Runnable):
    """Writes what pods lack in their metadata from a thread of its own, from ``start`` to ``stop``; ``name`` says what.

    A subclass says what a pod lacks.
    """

    def __init__(self, api: Writing, name: str) -> None:
        self._api = api
        self._name = name
        self._due: OrderedDict[str, _Due] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"allocator-{name}", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @abstractmethod
    def missing(self, raw: Json) -> Mapping[str, object] | None:
        """The labels or annotations that a pod lacks, as members of its metadata; ``None`` for one that lacks none."""

    def pod_changed(self, change: ObjectChange) -> None:
        """The watch shows a pod. Returns at once; what is due already is not due twice."""
        raw = None if change.kind == "deleted" else change.object
        lacks = None if raw is None else self.missing(raw)
        with self._changed:
            if lacks is None:
                self._due.pop(change.uid, None)
                self._tries.pop(change.uid, None)
            elif self._tries.get(change.uid, 0) < TRIES:
                metadata = lenient.inside(raw, "metadata")
                self._due[change.uid] = _Due(str(metadata.get("namespace")), str(metadata.get("name")), lacks)
                self._changed.notify()

    def gave_up(self, uid: str) -> bool:
        """Whether the pod is left as it is: the API server refuses the write, or another client undoes it."""
        with self._changed:
            return self._tries.get(uid, 0) >= TRIES

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                uid, pod = self._due.popitem(last=False)
                self._tries[uid] = self._tries.get(uid, 0) + 1
            pause = self._write(uid, pod)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, pause)

    def _write(self, uid: str, pod: _Due) -> float:
        """Seconds to wait after it."""
        body = {"metadata": {"uid": uid, **pod.metadata}}  # another pod of that name keeps its own
        try:
            self._api.merge_patch(paths.pod(pod.namespace, pod.name), body)
        except KubeError as error:
            _log.warning("pod_not_written", what=self._name, pod=f"{pod.namespace}/{pod.name}", error=str(error))
            return self._failed(uid, pod, error)
        return SPARED

    def _failed(self, uid: str, pod: _Due, error: KubeError) -> float:
        with self._changed:
            if error.status == HTTPStatus.CONFLICT:  # the watch shows the newer version, or has shown it
                self._tries.pop(uid, None)
                return SPARED
            if not error.may_retry:
                self._tries[uid] = TRIES
                return SPARED
            if self._tries.pop(uid, None) is not None:  # otherwise the write is no longer needed
                self._due.setdefault(uid, pod)
            return PAUSE
