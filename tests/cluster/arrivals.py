"""When pods are bound, seen by a watch: what the API server writes down is whole seconds, and asking it costs time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from hami_plugins.kube.client import connect
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import ObjectChange, Reflector
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until


class Arrivals:
    """From the beginning of the ``with`` on: the pods of a namespace that are on a node.

    ``bound`` has the name of each and the moment (monotonic) at which that was seen first; a pod that is made again
    under its name is not told from the one before.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.bound: dict[str, float] = {}
        client = connect(kubeconfig=str(plane.admin_kubeconfig), component="test-arrivals")
        chosen = Selection(pods(namespace), "Pod", fields="spec.nodeName!=")
        self._reflector = Reflector(client, chosen, on_change=self._note, name="arrivals")

    def __enter__(self) -> Arrivals:
        self._reflector.start()
        wait_until(self._reflector.synced.is_set, "the watch of pods that are bound has begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._reflector.stop()

    def last_of(self, names: Collection[str], timeout: float, *, show: Callable[[], str] = str) -> float:
        """The moment at which the last of these was bound, once all are."""
        wait_until(lambda: self.bound.keys() >= set(names), f"{len(names)} pods are bound", timeout, show=show)
        return max(self.bound[name] for name in names)

    def _note(self, change: ObjectChange) -> None:
        if change.object is not None and change.kind != "deleted":
            self.bound.setdefault(change.object["metadata"]["name"], time.monotonic())
