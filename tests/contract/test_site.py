"""The site's list of pages is what lies in docs/, in the folders that it is grouped by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

TREE = Path(__file__).parents[2]


def navigation() -> list[Any]:
    text = (TREE / "mkdocs.yml").read_text()
    found: list[Any] = yaml.safe_load(re.sub(r"!!python\S+", "", text))["nav"]
    return found


def listed() -> list[str]:
    return [
        page for entry in navigation() for page in ([entry] if isinstance(entry, str) else next(iter(entry.values())))
    ]


def test_every_page_is_in_the_navigation_once_and_nothing_else() -> None:
    there = sorted(str(page.relative_to(TREE / "docs")) for page in (TREE / "docs").rglob("*.md"))
    assert sorted(listed()) == there


def test_a_group_has_the_name_of_its_folder() -> None:
    groups = [entry for entry in navigation() if not isinstance(entry, str)]
    for group in groups:
        ((title, pages),) = group.items()
        assert {page.partition("/")[0] for page in pages} == {title.lower()}


def test_pages_of_the_site_fetch_nothing_from_elsewhere() -> None:
    text = (TREE / "mkdocs.yml").read_text()
    assert "font: false" in text
    assert "extra_javascript" not in text
    assert not re.search(r"https?://", text)


def test_every_test_that_the_page_about_the_audit_names_is_there() -> None:
    page = (TREE / "docs" / "project" / "audit.md").read_text()
    named = set(re.findall(r"`((?:unit|integration|golden|contract|cluster|torchx)/[^`]*)`", page))
    assert len(named) > 50
    assert [name for name in sorted(named) if not (TREE / "tests" / name).exists()] == []
