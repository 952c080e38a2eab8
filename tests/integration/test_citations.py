"""Every cited source is on a page of this repository."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parents[2]
UPSTREAM = TREE / "docs" / "reference" / "upstream.md"
VECTORS = TREE / "tests" / "golden" / "vectors"
TRIALS = TREE / "docs" / "reference" / "trials.md"

ROWS_CITED = re.compile(r"trials\.md`{0,2},? ((?:[VKO]\d+(?:,\s|\s(?:and|to)\s)?)+)")
"""Rows that follow the page's name: ``V4``, ``V1 to V4 and V8``."""

TABLES = "hami-core|hami-vendors|volcano|koordinator|neuron"
SECTIONS_CITED = re.compile(rf"upstream\.md ((?:(?:{TABLES}) [0-9A][0-9A., -]*)+)")
"""Tables and sections: ``upstream.md volcano 2.5, 6.6``."""

WRITTEN = {"cluster-numbers.md", "pace.md", "kube_pace.md", "soak.md", "page.md", "none.md"}
"""Reports that a run writes into ``build``, and pages that tests make up."""


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of each file that git knows; lines that go on are joined, so that a citation is in one piece."""
    listed = subprocess.run(["git", "ls-files"], cwd=TREE, capture_output=True, text=True, check=True)  # noqa: S607
    for name in listed.stdout.splitlines():
        path = TREE / name
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):  # a link to a folder is listed as a file
            continue
        yield name, re.sub(r"\n[ #]*", " ", text)


def test_each_row_of_the_trials_that_is_cited_is_on_their_page() -> None:
    there = set(re.findall(r"^\| ([VKO]\d+) \|", TRIALS.read_text(), re.MULTILINE))
    cited = {
        (name, row)
        for name, text in texts()
        for found in ROWS_CITED.findall(text)
        for row in re.findall(r"[VKO]\d+", found)
    }
    assert len(cited) > 50
    assert not {each for each in cited if each[1] not in there}


def test_each_page_that_is_named_is_in_the_repository() -> None:
    pages = {name.rpartition("/")[2] for name, _ in texts() if name.endswith(".md")} | WRITTEN
    missing = {
        (name, page)
        for name, text in texts()
        if name != "tests/integration/test_citations.py"
        for page in re.findall(r"[\w.-]+\.md\b", text)
        if page not in pages
    }
    assert not missing


def test_sections_and_rows_are_cited_of_the_two_pages_that_number_them() -> None:
    cited = {
        (name, page)
        for name, text in texts()
        for page in re.findall(r"\b([a-z-]+\.md)`{0,2} (?:(?:section|fact) )?\d+(?:\.\d+)*\b", text)
    }
    assert not cited


def test_each_section_that_is_cited_has_a_row_among_the_upstream_sources() -> None:
    sections = {table: set(_sections(rows)) for table, rows in _tables()}
    cited = {
        (name, table, section)
        for name, text in texts()
        for found in SECTIONS_CITED.findall(text)
        for table, listed in re.findall(rf"({TABLES}) ([0-9A., -]+)", found)
        for section in re.findall(r"[0-9A]+(?:\.\d+)?", listed)
    }
    assert len(cited) > 300
    assert not {each for each in cited if not _covered(each[2], sections[each[1]])}


def test_each_case_of_a_vector_names_a_section_with_a_row() -> None:
    sections = {table: set(_sections(rows)) for table, rows in _tables()}
    named = {
        (path.parent.name, section)
        for path in VECTORS.rglob("*.yaml")
        for section in re.findall(r"^  section: '?([0-9A][0-9.]*)'?$", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 200
    assert not {each for each in named if not _covered(each[1], sections[each[0]])}


def _tables() -> list[tuple[str, str]]:
    return re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", UPSTREAM.read_text(), re.DOTALL | re.MULTILINE)


def _sections(rows: str) -> Iterator[str]:
    """The first column, one by one: ``2.3 to 2.6`` is four of them."""
    for cell in re.findall(r"^\| ([0-9A][^|]*) \|", rows, re.MULTILINE):
        for part in cell.split(", "):
            first, _, last = part.partition(" to ")
            head, _, start = first.rpartition(".")
            yield first
            if last:
                yield from (f"{head}.{at}" for at in range(int(start), int(last.rpartition(".")[2]) + 1))


def _covered(section: str, rows: set[str]) -> bool:
    return section in rows or section.partition(".")[0] in rows
