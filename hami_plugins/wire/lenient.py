"""Members of an object that may be anything: what can be read is read, and what cannot is as if it were not there.

For those who look at what a person wrote, or at an object that must not be lost because one member of it is wrong.
``fields`` is for all others: it refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

_NOTHING: Final[Mapping[str, Any]] = {}

_MAPPINGS: Final = (dict, Mapping)
"""Nearly all are of the first type, and to ask for the second takes as long as twenty such questions."""


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, _MAPPINGS) else _NOTHING


def inside(raw: object, *names: str) -> Mapping[str, Any]:
    """The mapping that a path of members leads to, else an empty one."""
    for name in names:
        raw = mapping(raw).get(name)
    return mapping(raw)


def items(value: object) -> list[object]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Those items of a list that are mappings."""
    return [each for each in items(value) if isinstance(each, _MAPPINGS)]


def text(value: object) -> str:
    """The value if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> Mapping[str, str]:
    """The members of a mapping that are text."""
    return {key: each for key, each in mapping(value).items() if isinstance(each, str)}


def whole(value: object) -> int | None:
    """The value if it is a whole number, else ``None``."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def uid(raw: object) -> str:
    """The UID of an object; empty for one that the API server has not taken yet."""
    return text(inside(raw, "metadata").get("uid"))


def seconds(stamp: object) -> int | None:
    """A time as the API server writes it, in Unix seconds; ``None`` for anything else."""
    if not isinstance(stamp, str) or not stamp.endswith("Z"):
        return None
    try:
        return int(datetime.fromisoformat(stamp).timestamp())
    except (ValueError, OverflowError):
        return None
