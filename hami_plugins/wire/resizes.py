"""The annotations by which the memory of a running container's slice grows and shrinks.

A user asks (``ASKED_KEY``); the allocator writes what it counts (``BOOKED_KEY``), the node agent the most that it lets
the container book (``IN_FORCE_KEY``), and both why an ask is not followed (``REFUSED_KEY``). Amounts are in the unit of
the allocation (MiB, where the agent has no ``gpuMemoryFactor``), by container: ``main=8192``. An ask may end with
another word, such as the time, so that the same ask can be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, MiB

ASKED_KEY: Final = "hami-plugins.io/resize-memory"
BOOKED_KEY: Final = "hami-plugins.io/booked-memory"
IN_FORCE_KEY: Final = "hami-plugins.io/memory-in-force"
REFUSED_KEY: Final = "hami-plugins.io/resize-refused"

WRITTEN_KEYS: Final = (BOOKED_KEY, IN_FORCE_KEY, REFUSED_KEY)
"""What allocator and agents alone write."""

KEYS: Final = (ASKED_KEY, *WRITTEN_KEYS)

_BETWEEN: Final = ": "

Amounts = Mapping[str, MiB]
"""Memory by the name of the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResize:
    """What the annotations of a pod say. ``refused`` is why ``ask``, as it is written now, is not followed.

    ``problems`` are annotations that cannot be read; they count as if they were not there.
    """

    ask: str = ""
    asked: Amounts = field(default_factory=dict)
    booked: Amounts = field(default_factory=dict)
    in_force: Amounts = field(default_factory=dict)
    refused: str = ""
    problems: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The message about the resize; empty if none was requested."""
        parts = [
            f"{word} {encode(amounts)} MiB"
            for word, amounts in (("asked", self.asked), ("booked", self.booked), ("in force", self.in_force))
            if amounts
        ]
        refused = (f"refused: {self.refused}",) if self.refused else ()
        return "; ".join((*parts, *refused, *self.problems))


def decode(annotations: Mapping[str, str]) -> PodResize | None:
    """What a pod's annotations say; ``None`` for one that was never to be resized."""
    if not any(annotations.get(key) for key in KEYS):
        return None
    problems: list[str] = []

    def read(key: str) -> Amounts:
        text = annotations.get(key, "")
        try:
            return amounts(key, text) if text else {}
        except WireError as error:
            problems.append(str(error))
            return {}

    ask = annotations.get(ASKED_KEY, "")
    of_ask, between, reason = annotations.get(REFUSED_KEY, "").partition(_BETWEEN)
    return PodResize(
        ask=ask,
        asked=read(ASKED_KEY),
        booked=read(BOOKED_KEY),
        in_force=read(IN_FORCE_KEY),
        refused=reason if between and ask and of_ask == _shown(ask) else "",
        problems=tuple(problems),
    )


def amounts(key: str, text: str) -> Amounts:
    """``main=8192,side=1024``. Raises ``WireError``."""
    found: dict[str, MiB] = {}
    for part in text.split(" ", 1)[0].split(","):
        name, _, number = part.partition("=")
        if not (name and number.isascii() and number.isdigit() and 0 < int(number[:11]) <= INT32_MAX):
            raise WireError(key, text, "expected CONTAINER=MIB with MIB above 0, such as main=8192")
        if name in found:
            raise WireError(key, text, f"container {name} is named twice")
        found[name] = MiB(int(number[:11]))
    return found


def encode(found: Amounts) -> str:
    """The text of amounts, by container."""
    return ",".join(f"{name}={amount}" for name, amount in sorted(found.items()))


def refusal(ask: str, reason: str) -> str:
    """The value that says why an ask is not followed."""
    return f"{_shown(ask)}{_BETWEEN}{reason}"


def _shown(ask: str) -> str:
    """An ask in front of a reason: what separates the two is not in it."""
    return ask.replace(_BETWEEN, ":")
