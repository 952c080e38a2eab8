"""Pages of the API server."""

from __future__ import annotations

import gc

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire.pages import IncompleteError, load_page


def test_a_page_is_parsed_from_bytes_and_text() -> None:
    assert load_page("page", b'{"items": [1]}') == load_page("page", '{"items": [1]}') == {"items": [1]}


@pytest.mark.parametrize("data", [b"{", "{", b"\xff{"])
def test_text_that_is_no_json_is_an_error_that_names_the_page(data: bytes | str) -> None:
    with pytest.raises(WireError, match="page 3: not JSON"):
        load_page("page 3", data)


@pytest.mark.parametrize(("text", "cut"), [('{"a":', True), (b'{"a":"\xc3\xa9', True), ("{a", False), ("{} {", False)])
def test_text_that_only_lacks_its_end_is_told_from_other_text(text: bytes | str, cut: bool) -> None:
    with pytest.raises(WireError) as raised:
        load_page("page", text)
    assert isinstance(raised.value, IncompleteError) is cut


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_left_as_it_was_found(collecting: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        load_page("page", b"[]")
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
