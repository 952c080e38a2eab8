"""Many nodes are asked in slices: everybody else has the lock between them, and the time of one call is limited."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import pytest

from hami_plugins.allocator import time_slices as module
from hami_plugins.allocator.time_slices import listed, slices
from hami_plugins.model.units import NodeName
from hami_plugins.web.documents import TakesLongError
from tests.threads import apart

NODES = tuple(NodeName(f"n{number}") for number in range(20))


def slow(nodes: Iterable[NodeName]) -> Mapping[NodeName, int]:
    """Each node takes five milliseconds, a quarter of a slice."""
    found = {}
    for node in nodes:
        time.sleep(0.005)
        found[node] = len(node)
    return found


def quick(nodes: Iterable[NodeName]) -> Mapping[NodeName, int]:
    return {node: len(node) for node in nodes}


def test_every_node_is_asked_once_in_its_order() -> None:
    found = apart(lambda: [dict(each) for each in slices(NODES, slow, threading.Lock())])
    assert len(found) > 1
    assert [node for each in found for node in each] == list(NODES)


def test_another_thread_has_the_lock_between_two_slices() -> None:
    lock = threading.Lock()
    seen: list[int] = []
    done = 0

    def other() -> None:
        while done < len(NODES):
            with lock:
                seen.append(done)

    thread = threading.Thread(target=other)

    def all_of_them() -> None:
        nonlocal done
        for each in slices(NODES, slow, lock):
            assert lock.locked()
            if not done:
                thread.start()
            done += len(each)

    apart(all_of_them)
    thread.join()
    assert any(0 < count < len(NODES) for count in seen)


def test_nodes_beyond_the_time_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 0.03)
    found = apart(lambda: [node for each in slices(NODES, slow, threading.Lock()) for node in each])
    assert 0 < len(found) < len(NODES)


def test_an_event_loop_asks_no_second_slice() -> None:
    async def asked(ask: Callable[[Iterable[NodeName]], Mapping[NodeName, int]]) -> int:
        return sum(len(each) for each in slices(NODES, ask, threading.Lock()))

    assert apart(lambda: asyncio.run(asked(quick))) == len(NODES)
    with pytest.raises(TakesLongError):
        apart(lambda: asyncio.run(asked(slow)))


def test_names_are_asked_once_and_strangers_are_few() -> None:
    known = frozenset(NODES)
    strangers = tuple(NodeName(f"s{number}") for number in range(5_000))
    assert listed([*NODES, *NODES], known) == NODES
    few = listed([*strangers[:500], *NODES], known)
    assert few == (*strangers[:500], *NODES)
    many = listed([*strangers, *NODES], known)
    assert set(NODES) <= set(many)
    assert len(many) < 2_000
