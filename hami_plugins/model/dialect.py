"""The systems whose names and annotations a pod can use; without imports, so that the command line can list them."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """The system that defines the names on a resource or a pod, and whose scheduler therefore places the pod."""

    HAMI = "hami"
    VOLCANO = "volcano"
    KOORDINATOR = "koordinator"
