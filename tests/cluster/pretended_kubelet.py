"""Stands for the kubelets of nodes that have none: pods that are bound run, and pods that are deleted end later.

Its pods are compared with the cards at every change: no card is over its size, not even while victims end.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final

from hami_plugins.kube.client import connect
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import ObjectChange, Reflector
from tests.cluster.api import ApiError, Object
from tests.cluster.card_nodes import Pool
from tests.cluster.hami_nodes import PHASE, HamiNodes
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

ENDS: Final = 0.3
GRACE: Final = 600
"""Seconds that its pods ask for, so that it decides when they end: with 0 the API server removes a pod at once."""


class PretendedKubelet:
    """One namespace's pods on one pool, from the beginning of the ``with`` on.

    A pod ends ``ends`` seconds after its deletion. ``bound``, ``deleted`` and ``gone`` have the moment (monotonic)
    of each pod's, by name.
    """

    def __init__(self, plane: ControlPlane, pool: Pool, namespace: str, *, ends: float = ENDS) -> None:
        self.ends = ends
        self.bound: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.faults: set[str] = set()
        self._plane, self.pool, self._namespace = plane, pool, namespace
        self._pods: dict[str, Object] = {}
        self._timers: list[threading.Timer] = []
        client = connect(kubeconfig=str(plane.admin_kubeconfig), component="test-kubelet")
        chosen = Selection(pods(namespace), "Pod", fields="spec.nodeName!=")
        self._reflector = Reflector(client, chosen, on_change=self._note, name="pretended-kubelet")

    def __enter__(self) -> PretendedKubelet:
        self._reflector.start()
        wait_until(self._reflector.synced.is_set, "the watch of pods that are bound has begun")
        return self

    def __exit__(self, *_: object) -> None:
        self.ends = 0.0
        self._reflector.stop()
        for timer in self._timers:
            timer.cancel()

    @property
    def victims(self) -> list[str]:
        """The pods that were deleted, in the order of their names."""
        return sorted(self.deleted)

    def wait_bound(self, *names: str) -> None:
        """Until it has seen these bound, and with them all that happened before: its watch lags the API server."""
        wait_until(lambda: self.bound.keys() >= set(names), f"the kubelet knows of {names}", 30, interval=0.02)

    def _note(self, change: ObjectChange) -> None:
        if change.kind == "deleted":
            found = self._pods.pop(change.uid, None)
            if found is not None:
                self.gone.setdefault(found["metadata"]["name"], time.monotonic())
            return
        if change.object is None:
            return
        pod: Object = dict(change.object)
        name = pod["metadata"]["name"]
        self._pods[change.uid] = pod
        self.bound.setdefault(name, time.monotonic())
        self.faults.update(self.pool.faults(self._pods.values()))
        if pod["metadata"].get("deletionTimestamp"):
            if name not in self.deleted:
                self.deleted[name] = time.monotonic()
                self._later(name)
        elif pod["status"].get("phase") == "Pending":
            ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
            with suppress(ApiError):
                self._plane.api.merge_patch(
                    f"{pods(self._namespace)}/{name}/status", {"status": {"phase": "Running", "conditions": ready}}
                )

    def _later(self, name: str) -> None:
        timer = threading.Timer(self.ends, self._end, [name])
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _end(self, name: str) -> None:
        with suppress(ApiError, OSError):
            self._plane.api.delete(f"{pods(self._namespace)}/{name}", grace=0)


class ServingKubelet(PretendedKubelet):
    """It also does for each pod what HAMi's device plugin does."""

    def _note(self, change: ObjectChange) -> None:
        super()._note(change)
        found: Object = dict(change.object or {})
        if change.kind != "deleted" and found and found["metadata"]["annotations"].get(PHASE) == "allocating":
            assert isinstance(self.pool, HamiNodes)
            with suppress(ApiError):  # it may have been deleted meanwhile
                self.pool.served(found)
