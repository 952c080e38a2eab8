"""A live cluster, followed by watches: a snapshot of it whenever something has changed, until a signal comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from hami_plugins.cli.live.host import quiet
from hami_plugins.cli.live.signals import Ending
from hami_plugins.inputs.list_reader import ListingReader
from hami_plugins.inputs.snapshots.trimmer import Trimmer
from hami_plugins.kube.client import connect
from hami_plugins.kube.port import SNAPSHOT_COLLECTIONS, Collection, Selection
from hami_plugins.kube.store import Store

if TYPE_CHECKING:
    from hami_plugins.cli.kit.inputs import ClusterSource
    from hami_plugins.engine.registry import Registry
    from hami_plugins.kube.client import KubeClient
    from hami_plugins.kube.reflector import ObjectChange
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.wire.fields import Json

FOLLOWED: Final = frozenset({"Node", "Pod", "Device"})
"""The kinds that say which devices there are and who holds them."""

_CALM: Final = 0.5
"""Least seconds between two snapshots; they also take at most half of the time."""


class ClusterFollower:
    """The nodes, pods and Device objects of a cluster, kept up to date by watches."""

    def __init__(self, api: KubeClient, registry: Registry) -> None:
        trimmer = Trimmer(registry)
        self._registry = registry
        self._changed = threading.Event()
        self._stores = [_store(api, each, trimmer) for each in _existing(api)]
        self._next = 0.0
        self._trouble = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Follows the cluster while the block runs."""
        with ExitStack() as stack:
            for store in self._stores:
                store.subscribe(self._note)
                stack.callback(store.stop)
                store.start()
            yield

    def newest(self) -> tuple[ClusterSnapshot, str] | None:
        """The cluster and what keeps the view from being up to date, if either has changed since the last time."""
        if time.monotonic() < self._next or not all(store.synced.is_set() for store in self._stores):
            return None
        trouble = "; ".join(store.reflector.last_error for store in self._stores if not store.healthy)
        if not self._changed.is_set() and trouble == self._trouble:
            return None
        began = time.monotonic()
        self._changed.clear()
        self._trouble = trouble
        reader = ListingReader(self._registry)
        for store in self._stores:
            for item in store.all():
                reader.feed(item, "cluster")
        snapshot = reader.finish()
        ended = time.monotonic()
        self._next = ended + max(_CALM, ended - began)
        return snapshot, trouble

    def _note(self, _change: ObjectChange) -> None:
        self._changed.set()


def followed(source: ClusterSource, registry: Registry, show: Callable[[ClusterSnapshot, str], None]) -> None:
    """Show the cluster at first and after every change, until a signal comes. Raises ``KubeError`` without a cluster.

    ``show`` also gets what keeps the view from being up to date; most often nothing.
    """
    api = connect(kubeconfig=source.kubeconfig, context=source.context)
    with Ending() as ending, quiet():
        follower = ClusterFollower(api, registry)

        def look() -> None:
            found = follower.newest()
            if found is not None:
                show(*found)

        with follower.running():
            ending.wait(look)


def _existing(api: KubeClient) -> Sequence[Collection]:
    """The collections that the cluster has. Raises ``KubeError`` where it cannot be read."""
    wanted = (each for each in SNAPSHOT_COLLECTIONS if each.kind in FOLLOWED)
    return [each for each in wanted if next(api.pages(each, page_size=1), None) is not None]


def _store(api: KubeClient, collection: Collection, trimmer: Trimmer) -> Store:
    def trim(item: Json) -> Json:
        return next(trimmer.objects([{**item, "kind": collection.kind}]))

    return Store(api, Selection(collection.path, collection.kind), name=collection.kind.lower(), trim=trim)
