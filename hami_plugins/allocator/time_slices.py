"""Many nodes are asked in slices, between which others have the lock, and for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import filterfalse, islice
from threading import Lock
from typing import Final, TypeVar

from hami_plugins.model.units import NodeName
from hami_plugins.web.documents import TakesLongError, runs_a_loop

Answer = TypeVar("Answer")

BUDGET: Final = 1.0
"""Seconds for which the nodes of one call are asked."""

STRANGERS: Final = 1_000
"""Nodes of one call that are not known: a scheduler's watch may be ahead of ours."""

_SLICE: Final = 0.02
"""Seconds for which many nodes are asked before others have the lock."""

_PAUSE: Final = 0.0005


def listed(nodes: Iterable[NodeName], known: Collection[NodeName]) -> tuple[NodeName, ...]:
    """The nodes, each once; of those that are not known no more than a watch may be behind."""
    once = tuple(dict.fromkeys(nodes))
    if len(once) <= len(known) + STRANGERS:
        return once
    names = frozenset(known)
    return (*filter(names.__contains__, once), *islice(filterfalse(names.__contains__, once), STRANGERS))


def slices(
    nodes: tuple[NodeName, ...], ask: Callable[[Iterable[NodeName]], Mapping[NodeName, Answer]], lock: Lock
) -> Iterator[Mapping[NodeName, Answer]]:
    """What nodes answer, in slices with the ``lock`` held, until ``BUDGET`` is used up. The nodes differ.

    Raises ``TakesLongError`` in the thread of an event loop where one slice is not enough.
    """
    asked, end = 0, time.monotonic() + BUDGET
    while asked < len(nodes) and time.monotonic() < end:
        if asked:
            if runs_a_loop():
                raise TakesLongError(f"{len(nodes)} nodes take longer than {_SLICE} s")
            time.sleep(_PAUSE)  # another thread gets a lock only while its last holder sleeps
        with lock:
            answers = ask(_for_a_while(islice(nodes, asked, None)))
            yield answers
        asked += len(answers)


def _for_a_while(nodes: Iterable[NodeName]) -> Iterator[NodeName]:
    until = time.monotonic() + _SLICE
    for node in nodes:
        yield node
        if time.monotonic() >= until:
            return
