"""Kubernetes quantities (``3k``, ``16Gi``, ``1500m``) to exact integers and to the text that the API server stores.

Follows the grammar and the canonical form of ``k8s.io/apimachinery/pkg/api/resource``. Floating point is never used.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.wire.scalars import shown

MAX_TEXT: Final = 128
"""Longest text that is read; longer ones say nothing that a cluster can hold."""

MAX_EXPONENT: Final = 128
"""Largest power of ten, either way, in ``1e3`` notation."""

BINARY_LIMIT: Final = 2**63 - 1
"""Kubernetes caps amounts with a binary suffix here; decimal ones it keeps."""

_DECIMAL: Final[Mapping[str, int]] = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX: Final[Mapping[int, str]] = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<fraction>\d*))?"
    r"(?:(?P<suffix>[numkMGTPE]?|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+))",
    re.ASCII,
)


def parse(text: str | int | float, *, key: str) -> Quantity:
    """The amount that a JSON string or number means; ``key`` names it in the ``WireError``.

    Amounts below a billionth are rounded away from zero, as Kubernetes does.
    """
    try:
        return _read(text if isinstance(text, str) else _spell(text))
    except ValueError as error:
        raise WireError(key, shown(text), str(error)) from None


def amounts(raw: Mapping[Any, Any], *, key: str) -> dict[str, Quantity]:
    """A resource list (``limits``, ``capacity``, ``hard``), each amount as ``parse`` reads it.

    The ``WireError`` names the entry: ``<key>[<resource>]``.
    """
    found: dict[str, Quantity] = {}
    for name, amount in raw.items():
        if not isinstance(name, str):
            raise WireError(key, shown(name), "a resource name must be text")
        try:
            found[name] = _read(amount if isinstance(amount, str) else _spell(amount))
        except ValueError as error:
            raise WireError(f"{key}[{shown(name)}]", shown(amount), str(error)) from None
    return found


def canonical(nano: int, *, binary: bool = False) -> str:
    """The text that the API server stores for an amount in billionths.

    ``binary`` asks for the suffixes ``Ki`` and up, which are used where they are exact and the amount is at least 1024.
    """
    if binary and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        return _binary_text(nano // NANO)
    digits, exponent = _thousands(nano)
    if exponent > 18:
        digits, exponent = digits * 10 ** (exponent - 18), 18
    return f"{digits}{_DECIMAL_SUFFIX[exponent]}"


@lru_cache(maxsize=8192)
def _read(text: str) -> Quantity:
    """Clusters repeat few texts very often, so equal texts share one value."""
    if len(text) <= 18 and text.isascii() and text.isdigit():
        whole = int(text)
        nano = whole * NANO
        return Quantity(nano, canonical(nano) if whole % 1000 == 0 else str(whole))
    return _read_any(text.strip())


def _read_any(text: str) -> Quantity:
    if len(text) > MAX_TEXT:
        raise ValueError(f"a quantity of more than {MAX_TEXT} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        raise ValueError("not a quantity; write a number with an optional suffix such as m, k, M, Mi or Gi")
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction)
    negative = match["sign"] == "-"
    if match["exponent"] is not None:
        power = int(match["exponent"])
        if abs(power) > MAX_EXPONENT:
            raise ValueError(f"an exponent beyond {MAX_EXPONENT}")
        nano = _scaled(digits, power - len(fraction), negative=negative)
        return Quantity(nano, _exponent_text(nano))
    suffix = match["suffix"]
    if suffix in _DECIMAL:
        nano = _scaled(digits, _DECIMAL[suffix] - len(fraction), negative=negative)
        return Quantity(nano, canonical(nano))
    nano = _scaled(digits << 10 * _BINARY.index(suffix), -len(fraction), negative=False)
    nano = min(nano, BINARY_LIMIT * NANO)
    if negative:
        nano = -nano
    return Quantity(nano, canonical(nano, binary=True))


def _spell(amount: object) -> str:
    if isinstance(amount, int) and not isinstance(amount, bool):
        # A huge integer must not be spelled out (quadratic, and refused by Python itself).
        return str(amount) if amount.bit_length() <= 4 * MAX_TEXT else "9" * (MAX_TEXT + 1)
    if isinstance(amount, float):
        return repr(amount)
    raise ValueError("not a quantity; write a number or a text such as 3k or 16Gi")


def _scaled(digits: int, power: int, *, negative: bool) -> int:
    """``digits * 10**power`` in billionths, rounded away from zero."""
    factor: int = 10 ** abs(power + 9)
    nano = digits * factor if power + 9 >= 0 else -(-digits // factor)
    return -nano if negative else nano


def _thousands(nano: int) -> tuple[int, int]:
    """``nano`` as ``digits * 10**exponent`` units, with the largest exponent that is a multiple of three."""
    if nano == 0:
        return 0, 0
    exponent = -9
    while nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    return nano, exponent


def _exponent_text(nano: int) -> str:
    digits, exponent = _thousands(nano)
    return f"{digits}e{exponent}" if exponent else str(digits)


def _binary_text(whole: int) -> str:
    power = 0
    while power < len(_BINARY) - 1 and whole % 1024 == 0:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"
