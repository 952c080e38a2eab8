"""``demo``: a story that ends well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Type


def test_the_demo_needs_nothing_and_ends_with_the_page(
    type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = type_in("demo")
    assert (said.code, said.err) == (0, "")
    page = tmp_path / "build" / "demo.html"
    assert page.as_uri() in said.out
    assert "research/giant" in page.read_text(encoding="utf-8")


def test_the_page_can_go_elsewhere(type_in: Type, tmp_path: Path) -> None:
    type_in("demo", "--html", tmp_path / "x.html")
    assert (tmp_path / "x.html").exists()
