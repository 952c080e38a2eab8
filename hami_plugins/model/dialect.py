"""The systems whose names and annotations a pod can use; without imports, so that the command line can list them."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """Whose names a resource or a pod is written in, and so whose scheduler places the pod."""

    HAMI = "hami"
    VOLCANO = "volcano"
    KOORDINATOR = "koordinator"
