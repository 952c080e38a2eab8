"""Damage for fuzz tests: values of a JSON document, or characters of a text, become something else."""

import copy
from typing import Any

from hypothesis import strategies as st

junk: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(["", "-1", "1e9"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


def places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document, the document itself excepted."""
    found: list[tuple[Any, ...]] = []
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        found += [(*at, key), *places(value, (*at, key))]
    return found


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values replaced (never the document itself)."""
    hurt = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(places(hurt)))
        holder = hurt
        for step in way:
            holder = holder[step]
        holder[last] = draw(junk)
        if not places(hurt):
            break
    return hurt


@st.composite
def garbled(draw: st.DrawFn, text: str) -> str:
    """The text with up to four characters removed, replaced or inserted, taken from what the formats are made of."""
    letters = list(text)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(letters)))
        kind = draw(st.sampled_from(["drop", "put", "swap"]))
        new = draw(st.one_of(st.sampled_from(list(',;:[]{}"-_ 0915eE.tf\n\x00é\ud800')), st.characters()))
        if kind == "put":
            letters.insert(at, new)
        elif kind == "drop":
            del letters[at : at + draw(st.integers(1, 6))]
        else:
            letters[at : at + 1] = [new]
    return "".join(letters)
