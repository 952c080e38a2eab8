"""A live cluster, read into a snapshot page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hami_plugins.kube.port import CLAIM_COLLECTIONS, SNAPSHOT_COLLECTIONS, ClusterReader, Collection
from hami_plugins.wire.fields import Json


def live_objects(
    reader: ClusterReader,
    *,
    page_size: int = 500,
    seen: Callable[[str, int], None] | None = None,
    more: Sequence[Collection] = (),
) -> Iterator[Json]:
    """The sources of a snapshot, and ``more``; ``seen`` is called with kind and count after each page."""
    for versions in (*((each,) for each in SNAPSHOT_COLLECTIONS), *CLAIM_COLLECTIONS, *((each,) for each in more)):
        for collection in versions:
            served = False
            for page in reader.pages(collection, page_size=page_size):
                served = True
                yield from page
                if seen is not None:
                    seen(collection.kind, len(page))
            if served:
                break
