"""What is remembered, of texts and of what was said, never takes more room than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.allocator.memory import LogOnce, LruCache


class Reader:
    """Reads a text, and knows which it has read."""

    def __init__(self) -> None:
        self.read: list[bytes] = []

    def __call__(self, text: bytes) -> str:
        self.read.append(text)
        return text.decode("ascii")


def test_a_text_that_comes_again_is_not_read_again() -> None:
    reader = Reader()
    remembered = LruCache(reader, most=10, largest=5)
    assert [remembered(b"one"), remembered(b"two"), remembered(b"one")] == ["one", "two", "one"]
    assert reader.read == [b"one", b"two"]


def test_the_text_that_was_asked_for_longest_ago_goes_first() -> None:
    reader = Reader()
    remembered = LruCache(reader, most=6, largest=5)
    for text in (b"one", b"two", b"one", b"six", b"one", b"two"):
        remembered(text)
    assert reader.read == [b"one", b"two", b"six", b"two"]


def test_a_large_text_is_read_each_time_and_drives_nothing_out() -> None:
    reader = Reader()
    remembered = LruCache(reader, most=6, largest=5)
    for text in (b"one", b"larger", b"larger", b"one"):
        remembered(text)
    assert reader.read == [b"one", b"larger", b"larger"]


def test_what_cannot_be_read_is_not_remembered() -> None:
    remembered = LruCache(Reader(), most=6, largest=5)
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            remembered(b"\xff")
    assert remembered.size == 0


@given(st.lists(st.binary(max_size=8).map(bytes.hex).map(str.encode), max_size=40))
def test_no_more_than_fits_is_remembered_whatever_comes(texts: list[bytes]) -> None:
    reader = Reader()
    remembered = LruCache(reader, most=20, largest=12)
    for text in texts:
        assert remembered(text) == text.decode("ascii")
        assert remembered.size <= 20
    assert set(reader.read) == set(texts)


def test_what_was_said_lately_is_not_said_first_and_only_the_last_of_it_is_known() -> None:
    heard = LogOnce(most=2)
    assert [heard.first(said) for said in ("a", "b", "a", "b")] == [True, True, False, False]
    assert [heard.first(said) for said in ("a", "c", "a", "b")] == [False, True, False, True]
