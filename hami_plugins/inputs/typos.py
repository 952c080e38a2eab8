"""Which known word a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

LONGEST: Final = 120
"""Words beyond this length are not compared; no key or resource is as long."""

MOST_NAMED: Final = 5
"""Known words that are named where none is near."""

_DOMAIN_SLACK: Final = 0.2
_NAME_SLACK: Final = 0.34


def distance(one: str, other: str) -> int:
    """How many characters must be inserted, deleted, replaced, or swapped with their neighbour (optimal alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        older, before, row = before, row, [at]
        for to, wanted in enumerate(other, start=1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, older[to - 2] + 1)
            row.append(cost)
    return row[-1]


class _Match(NamedTuple):
    cost: float
    word: str


def closest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known ``domain/name`` words that this one may be a misspelling of: the nearest, several when equally near.

    Case and the separators ``-``, ``_`` and ``.`` hardly count in the name; a domain must be almost the same.
    """
    if len(word) > LONGEST:
        return ()
    matches = [match for candidate in known if (match := _match(word, candidate)) is not None]
    if not matches:
        return ()
    best = min(matches).cost
    return tuple(sorted(match.word for match in matches if match.cost == best))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known plain word that this one is most likely to mean, ``None`` when none is near."""
    if not word or len(word) > LONGEST:
        return None
    ranked = sorted((distance(_bare(word), _bare(candidate)), candidate) for candidate in known)
    if ranked and ranked[0][0] <= _NAME_SLACK * max(len(word), len(ranked[0][1])):
        return ranked[0][1]
    return None


def instead(word: str, known: Iterable[str]) -> str:
    """The message for an unknown word: which was meant, else some of those there are."""
    names = sorted(known)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean {near}?"
    more = len(names) - MOST_NAMED
    return f"known are {', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _match(word: str, candidate: str) -> _Match | None:
    domain, _, name = word.rpartition("/")
    known_domain, _, known_name = candidate.rpartition("/")
    apart = 0 if domain == known_domain else distance(domain.lower(), known_domain.lower()) or 1
    if apart > _DOMAIN_SLACK * max(len(domain), len(known_domain)):
        return None
    bare, known_bare = _bare(name), _bare(known_name)
    steps = distance(bare, known_bare)
    if not bare or steps > _NAME_SLACK * max(len(bare), len(known_bare)):
        return None
    return _Match(apart + steps, candidate)


def _bare(name: str) -> str:
    return name.lower().translate(_SEPARATORS)


_SEPARATORS: Final = str.maketrans("", "", "-_.")
