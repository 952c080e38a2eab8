"""A live cluster, read into a snapshot page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hami_plugins.kube.port import SNAPSHOT_COLLECTIONS, ClusterReader
from hami_plugins.wire.fields import Json


def live_objects(
    reader: ClusterReader, *, page_size: int = 500, seen: Callable[[str, int], None] | None = None
) -> Iterator[Json]:
    """Every object that a snapshot is made from. ``seen`` is told kind and count after each page, for progress."""
    for collection in SNAPSHOT_COLLECTIONS:
        for page in reader.pages(collection, page_size=page_size):
            yield from page
            if seen is not None:
                seen(collection.kind, len(page))
