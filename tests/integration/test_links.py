"""Every relative link of a page leads to a file that is there, and to a heading or anchor of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=TREE, capture_output=True, text=True, check=True)  # noqa: S607
    return [name for name in listed.stdout.split() if (TREE / name).exists()]


def prose(page: Path) -> str:
    """The page without its blocks and inline code, which contain no links."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), _FENCED.sub("", page.read_text()))


def anchors(page: Path) -> frozenset[str]:
    """As GitHub names headings: lower case, no punctuation, hyphens for spaces, and a number behind a second one."""
    text = _FENCED.sub("", page.read_text())
    found: list[str] = re.findall(r'<a id="([^"]+)">', text)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        again = sum(1 for each in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", each))
        found.append(f"{name}-{again}" if again else name)
    return frozenset(found)


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("name", pages())
def test_every_relative_link_leads_somewhere(name: str) -> None:
    assert list(broken(TREE / name)) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two & `three`\n\n## Again\n\n## Again\n\n"
        "[a](#one-two--three) [b](page.md#again-1) [c](https://example.com/none) `[d](none.md)`\n"
        "[e](#one) [f](none.md) [g](page.md#again-2)\n\n```\n[h](none.md)\n# Not a heading\n```\n[i](#not-a-heading)\n"
    )
    assert list(broken(page)) == ["#one", "none.md", "page.md#again-2", "#not-a-heading"]
