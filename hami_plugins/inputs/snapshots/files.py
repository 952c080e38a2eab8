"""Our own snapshot file: the objects that a plan looks at, trimmed, in one list that ``list_reader`` reads back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import SNAPSHOT_KIND
from hami_plugins.inputs.snapshots.redaction import redact
from hami_plugins.inputs.snapshots.trimmer import Trimmer

API_VERSION: Final = "hami-plugins.io/v1alpha1"


def document(
    raws: Iterable[object], registry: Registry, *, taken_at: str, redacted: bool = False, complete: bool = False
) -> dict[str, object]:
    """The file's content. ``taken_at`` (RFC 3339) is shown to readers and changes no answer.

    ``complete`` says that the source has every object that there is, so that a kind without any is not missing.
    """
    items = redact(raws, registry) if redacted else tuple(Trimmer(registry).objects(raws))
    return {
        "apiVersion": API_VERSION,
        "kind": SNAPSHOT_KIND,
        "metadata": {"takenAt": taken_at, "redacted": redacted, "complete": complete},
        "items": list(items),
    }
