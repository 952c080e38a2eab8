"""HAMi's ``hami.io/device-scoring-weights``: ``slot=1,core=1,memory=3``.

An invalid one makes HAMi's Filter answer with an error, so the words of the error are part of the protocol.
"""

from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.policy import Weights
from hami_plugins.wire import scalars

KEY: Final = "hami.io/device-scoring-weights"


def parse(text: str, *, key: str = KEY) -> Weights:
    """The weights; all three must be given once, none negative, not all zero. Raises ``WireError``."""
    try:
        return _weights(text)
    except ValueError as error:
        raise WireError(key, text, str(error)) from None


def encode(weights: Weights) -> str:
    """The annotation for the weights."""
    return f"slot={weights.slot},core={weights.core},memory={weights.memory}"


def spelled(error: WireError) -> str:
    """The error as HAMi's Filter spells it."""
    return f"invalid {error.key} annotation {scalars.quoted(error.text)}: {error.why}"


def _weights(text: str) -> Weights:
    parts = text.split(",")
    if len(parts) != 3:
        raise ValueError("expected slot, core, and memory weights")
    found: dict[str, int] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError("expected key=value entries")
        if name in found:
            raise ValueError(f"duplicate {scalars.quoted(name)} weight")
        found[name] = _weight(name, value.strip())
    if not any(found.values()):
        raise ValueError("at least one weight must be positive")
    return Weights(found["slot"], found["core"], found["memory"])


def _weight(name: str, text: str) -> int:
    try:
        weight = scalars.integer(text, low=-scalars.INT64_MAX - 1, high=scalars.INT64_MAX)
    except ValueError:
        raise ValueError(f"{scalars.quoted(name)} weight must be an integer") from None
    if weight < 0:
        raise ValueError(f"{scalars.quoted(name)} weight must not be negative")
    if name not in Weights._fields:
        raise ValueError(f"unknown weight {scalars.quoted(name)}")
    return weight
