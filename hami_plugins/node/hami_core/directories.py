"""Directories that containers of several users share."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

FOR_ALL: Final = 0o777


def make_for_all(path: Path) -> None:
    """Make a directory for everybody; ``mkdir`` alone would leave out what the process's mask forbids.

    Where something else has the name, a link above all, it is left as it is: others can write to ``/tmp``. Raises
    ``OSError`` then.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=FOR_ALL)
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_IMODE(os.fstat(opened).st_mode) != FOR_ALL:
            os.fchmod(opened, FOR_ALL)
    finally:
        os.close(opened)
