"""Which build of the program this is."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """The installed version; ``unknown`` for a checkout that is not installed."""
    try:
        return metadata.version("hami-plugins")
    except metadata.PackageNotFoundError:
        return "unknown"
