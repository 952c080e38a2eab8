"""Numbers, truth values and quoted pieces, as Go's ``strconv`` reads them. Raises ``ValueError``; knows no keys."""

import re
from typing import Final

from hami_plugins.model.units import INT32_MAX, DeviceId

INT32_MIN: Final = -INT32_MAX - 1
INT64_MAX: Final = 2**63 - 1

SEPARATORS: Final = frozenset(",:;")
"""Characters that no device id may contain, or no reader could take an assignment apart."""

_INTEGER: Final = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\",
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def integer(text: str, *, low: int = INT32_MIN, high: int = INT32_MAX) -> int:
    """A decimal integer (no blanks, no underscores) inside ``[low, high]``."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"{text[:60]!r} is not an integer")
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"{value} is outside {low}..{high}")
    return value


def natural(text: str) -> int:
    """An int32 that is not negative: the only amounts that mean anything on a device."""
    if len(text) <= 9 and text.isascii() and text.isdigit():
        return int(text)
    value = integer(text)
    if value < 0:
        raise ValueError(f"{value} is negative")
    return value


def device_id(text: str) -> DeviceId:
    """A device id that an assignment can carry."""
    if not text or not SEPARATORS.isdisjoint(text):
        raise ValueError(f"{text[:60]!r} is not a device id; it must not be empty or contain ',', ':' or ';'")
    return DeviceId(text)


def truth(text: str) -> bool:
    """One of Go's twelve spellings of a truth value."""
    try:
        return _TRUTH[text]
    except KeyError:
        raise ValueError(f"{text[:60]!r} is neither true nor false") from None


def shown(value: object) -> str:
    """A value from a foreign document as a message may quote it: short, and never expensive."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"an object with {len(value)} members"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return "null" if value is None else str(value)


def quoted(text: str) -> str:
    """A text in double quotes as Go's ``%q`` writes it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(mark: str) -> str:
    if mark in _ESCAPES:
        return _ESCAPES[mark]
    if mark.isprintable():
        return mark
    code = ord(mark)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
