"""Whether folders can be laid over one another here, which spares a copy of every image for every container."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path


@cache
def overlays(folder: Path) -> bool:
    """Whether the file system of ``folder`` takes an overlay, tried in a mount namespace of its own."""
    with tempfile.TemporaryDirectory(prefix="overlay-", dir=folder) as name:
        parts = {part: Path(name) / part for part in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            part.mkdir()
        options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(parts["merged"])]
        tried = subprocess.run(["unshare", "--mount", *mount], capture_output=True, check=False)  # noqa: S607
        return tried.returncode == 0
