"""Lines out of pieces."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.kube.lines import lines

_OBJECTS = st.lists(st.dictionaries(st.text(), st.text(), max_size=3), max_size=8)


@given(_OBJECTS, st.lists(st.integers(0, 400), max_size=20))
def test_the_same_lines_come_out_wherever_the_network_cuts(objects: list[dict[str, str]], cuts: list[int]) -> None:
    text = b"".join(json.dumps(each).encode() + b"\n" for each in objects)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert [json.loads(line) for line in lines(chunks)] == objects


def test_what_has_no_end_is_no_line() -> None:
    assert list(lines([b"a\nb"])) == [b"a"]


def test_empty_lines_and_carriage_returns_are_left_out() -> None:
    assert list(lines([b"a\r\n\r\n", b"\n", b"b\n"])) == [b"a", b"b"]
