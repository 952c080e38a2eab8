"""HAMi's scheduler where it binds: the lock of the node, the phase on the pod, the Binding.

The steps are those of ``upstream.md hami-core 1.7, 1.8``. It decides nothing: what a
pod is to get is given to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tests.cluster.api import Api, ApiError, Object
from tests.device_plugins.base import ALLOCATING, LOCK, NODE, NODES, PHASE, STRATEGIC, TIME, notes_of, path_of
from tests.device_plugins.hami import PAUSES, owner_of, release

EXPIRY: Final = 300.0


class ContendedError(Exception):
    """Another pod has the lock."""


@dataclass
class HamiScheduler:
    """Safe to use from any thread, as its extender's calls are."""

    api: Api
    _mutexes: dict[str, threading.Lock] = field(default_factory=dict)

    def filter(self, pod: Object, node: str, allocation: Mapping[str, str]) -> None:
        """What ``filter`` writes on the pod once it has chosen the node (``upstream.md hami-core 1.6``)."""
        written = {NODE: node, "hami.io/vgpu-time": str(int(time.time())), **allocation}
        changed = {"metadata": {"annotations": written, "labels": {NODE: node}}}
        self.api.request("PATCH", path_of(pod), changed, content_type=STRATEGIC)

    def bind(self, pod: Object, node: str) -> str:
        """Why the pod was not bound; empty where it was. It tries once, unless the pod belongs to a gang."""
        try:
            self._lock(pod, node)
            written = {PHASE: ALLOCATING, TIME: str(int(time.time()))}
            self.api.request("PATCH", path_of(pod), {"metadata": {"annotations": written}}, content_type=STRATEGIC)
            metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            self.api.create(f"{path_of(pod)}/binding", body)
        except (ContendedError, ApiError) as error:
            with suppress(ApiError):
                release(self.api, node, pod)
            return str(error)
        return ""

    def _lock(self, pod: Object, node: str) -> None:
        """``LockNode``: the pod's own lock is enough; one that is too old, or whose pod is gone, is replaced."""
        lock = notes_of(self.api.get(f"{NODES}/{node}")).get(LOCK)
        if lock is None:
            return self._set(pod, node)
        namespace, name = owner_of(lock)
        metadata = pod["metadata"]
        if (namespace, name) == (metadata["namespace"], metadata["name"]):
            return None
        stamp = datetime.fromisoformat(lock.split(",")[0])
        expired = (datetime.now(UTC) - stamp).total_seconds() > EXPIRY
        if not expired and (not name or self.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}") is not None):
            raise ContendedError(f"node {node} has been locked within 5m0s: node lock contention")
        self.api.merge_patch(f"{NODES}/{node}", {"metadata": {"annotations": {LOCK: None}}})
        return self._set(pod, node)

    def _set(self, pod: Object, node: str) -> None:
        """``SetNodeLock``: one at a time for a node in this process, five attempts, each for the version it read."""
        metadata = pod["metadata"]
        own = f",{metadata['namespace']},{metadata['name']}"
        with self._mutexes.setdefault(node, threading.Lock()):
            if LOCK in notes_of(self.api.get(f"{NODES}/{node}")):
                raise ContendedError(f"node {node} is locked: node lock contention")
            for wait in (*PAUSES, None):
                try:
                    raw = self.api.get(f"{NODES}/{node}")
                    if (lock := notes_of(raw).get(LOCK)) is not None:
                        if lock.endswith(own):
                            return
                        raise ContendedError(f"node {node} is locked: node lock contention")
                    text = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") + own
                    changed = {"annotations": {LOCK: text}, "resourceVersion": raw["metadata"]["resourceVersion"]}
                    self.api.merge_patch(f"{NODES}/{node}", {"metadata": changed})
                except ApiError:
                    if wait is None:
                        raise
                    time.sleep(wait)
                else:
                    return
