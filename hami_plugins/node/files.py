"""Files on a node that another process may read, or find after a crash, at any moment."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(content: bytes, target: Path, *, mode: int) -> None:
    """Write a file atomically; nothing is written where it has the content already.

    The content is written next to the target, flushed, and renamed: it is on the disk when this returns. Raises
    ``OSError``.
    """
    with contextlib.suppress(FileNotFoundError):
        if target.read_bytes() == content:
            return
    draft = target.with_name(f".{target.name}.new")
    draft.unlink(missing_ok=True)
    try:
        with draft.open("xb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
