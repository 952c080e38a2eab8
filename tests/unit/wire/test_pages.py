"""Pages of the API server."""

from __future__ import annotations

import gc

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire.pages import load_page


def test_a_page_is_parsed_from_bytes_and_text() -> None:
    assert load_page("page", b'{"items": [1]}') == load_page("page", '{"items": [1]}') == {"items": [1]}


@pytest.mark.parametrize("data", [b"{", "{", b"\xff{"])
def test_text_that_is_no_json_is_an_error_that_names_the_page(data: bytes | str) -> None:
    with pytest.raises(WireError, match="page 3: not JSON"):
        load_page("page 3", data)


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_left_as_it_was_found(collecting: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        load_page("page", b"[]")
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
