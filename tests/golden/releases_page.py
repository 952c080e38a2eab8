"""The page about releases of Volcano: ``python -m tests.golden.releases_page`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from hami_plugins.queueing.release_table import SECTIONS, ReleaseRow
from hami_plugins.vendors.volcano_releases import KNOWN, KnownRelease

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "volcano-releases.md"
INTRODUCTION = """\
# Releases of Volcano

For operators who choose or upgrade Volcano: what each release does otherwise with devices. `plan`, `explain` and `vet`
take a release (`--scheduler volcano-1.15`); `hami-plugins allocator conf --check FILE --scheduler volcano-1.16` names
what does not go together with it. A release that is not in the first table is refused with the list.

## What was run

| release | known by |
| --- | --- |
"""
BASIS = """
*cluster tests*: built, started and tested ([support](support.md)). *sources read*: nothing was run, the tables are what
the source says. *preemption tried*: the rows on preemption were seen with that release, by hand and without a kubelet;
the other rows were read. A series (`volcano-1.15`) means 1.14.1 for 1.14, else the newest release of this table.
`hami_plugins/vendors/volcano_releases.py` has the file and the line of each row.
"""


def page() -> str:
    """The page with the releases as the program has them."""
    known = "".join(f"| {each.name} | {each.evidence} |\n" for each in KNOWN)
    return "".join((INTRODUCTION, known, BASIS, *_sections()))


def _sections() -> Iterator[str]:
    for title, rows in SECTIONS:
        yield f"\n## {title}\n\n| | releases | |\n| --- | --- | --- |\n"
        for row in rows:
            yield from _lines(row)


def _lines(row: ReleaseRow) -> Iterator[str]:
    """A line for each answer, with the releases that give it."""
    answers: dict[str, list[KnownRelease]] = {}
    for each in KNOWN:
        answers.setdefault(row.answer(each.version), []).append(each)
    subject = row.subject
    for answer, releases in answers.items():
        yield f"| {subject} | {'all' if len(releases) == len(KNOWN) else spans(releases)} | {answer} |\n"
        subject = ""


def spans(releases: Sequence[KnownRelease]) -> str:
    """Releases, neighbours as spans: ``1.14.0 to 1.14.2, 1.15.0``."""
    runs = groupby(enumerate(releases), key=lambda each: KNOWN.index(each[1]) - each[0])
    named = ([each.name for _, each in run] for _, run in runs)
    return ", ".join(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" for names in named)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
