"""The garbage collector is kept away from what stays, and from nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from hami_plugins.cli.kit.memory import undisturbed
from tests.waiting import wait_for


class Cache:
    """Something large that refers to itself, as what has threads and callbacks does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector is left as it was found."""
    yield
    gc.unfreeze()
    gc.enable()


def test_what_was_taken_in_before_and_is_garbage_by_now_goes_when_much_is_taken_in_again() -> None:
    with undisturbed():
        first = Cache()
    found = weakref.ref(first)
    del first
    with undisturbed():
        pass
    assert found() is None


def test_what_is_taken_in_is_not_looked_at_again() -> None:
    with undisturbed():
        assert not gc.isenabled()
        kept = Cache()
    assert gc.isenabled()
    assert not any(each is kept for each in gc.get_objects())


def test_where_nothing_comes_the_collector_is_back_after_a_while() -> None:
    with undisturbed(longest=0.01):
        wait_for(gc.isenabled, "the collector is back")
