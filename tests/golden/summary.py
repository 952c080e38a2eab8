"""``python -m tests.golden.summary``: which test runs each vector, every deviation, and the agreement."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.golden import cases, corpus, scenarios
from tests.golden.rules import all_rules

HERE: Final = Path(__file__).parent

_READS = re.compile(r"\"((?:hami-core|hami-vendors|koordinator|neuron|volcano)/[a-z0-9-]+\.yaml)\"")
_PAGE: Final = "[upstream.md](../../docs/reference/upstream.md)"
_SCENARIOS: Final = """\
Plans of submissions that the real Volcano 1.14.1 answered: pods here of pods there. *explained* is a fault of Volcano
of which the plan says what it will be (`plan --scheduler volcano-1.14.1`).
Those from 101 on were recorded on the private machine of `tests/cluster`, each more than once, with the same answer.
"""


def text() -> str:
    """The whole page."""
    parts = (*_vectors(), *_deviations(), *_agreement(), *_rules(), *_scenarios())
    return "\n".join(parts) + "\n"


def _vectors() -> Iterator[str]:
    readers = _readers()
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in sorted(cases.VECTORS.rglob("*.yaml")):
        by_folder[path.parent.name].append(path.relative_to(cases.VECTORS).as_posix())
    total = sum(len(cases.of(file)) for files in by_folder.values() for file in files)
    yield f"## Vectors\n\n{total} cases. *open* are those that their source leaves ambiguous."
    for folder, files in by_folder.items():
        counted = sum(len(cases.of(file)) for file in files)
        yield f"\n### {folder}: {counted} cases in {len(files)} files\n"
        yield f"| file | test | cases | open | by section of {_PAGE} |\n| --- | --- | ---: | ---: | --- |"
        yield from (_row(file, readers.get(file, ())) for file in files)


def _row(file: str, readers: Iterable[str]) -> str:
    found = cases.of(file)
    sections = Counter(str(case.about.get("section", "-")) for case in found)
    counted = ", ".join(f"{section}: {count}" for section, count in sorted(sections.items(), key=_by_number))
    tests = ", ".join(f"`{name}`" for name in readers)
    unclear = sum(1 for case in found if case.about.get("ambiguous"))
    return f"| `{file.partition('/')[2]}` | {tests} | {len(found)} | {unclear} | {counted} |"


def _by_number(item: tuple[str, int]) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in re.findall(r"\d+", item[0])), item[0]


@cache
def _readers() -> Mapping[str, tuple[str, ...]]:
    """Which tests run which file."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        for file in dict.fromkeys(_READS.findall(path.read_text(encoding="utf-8"))):
            found[file].append(path.stem)
    return {file: tuple(names) for file, names in found.items()}


def unread() -> list[str]:
    """Files of vectors that no test runs."""
    files = (path.relative_to(cases.VECTORS).as_posix() for path in cases.VECTORS.rglob("*.yaml"))
    return sorted(file for file in files if file not in _readers())


def _deviations() -> Iterator[str]:
    yield "\n## Deviations from vectors\n\nEach is asserted as what we do instead, beside the test that is named."
    for path in sorted(HERE.glob("test_*.py")):
        module = import_module(f"tests.golden.{path.stem}")
        by_reason: dict[str, list[str]] = defaultdict(list)
        for name, value in getattr(module, "DEVIATIONS", {}).items():
            for reason in dict.fromkeys(_reasons(value)):
                by_reason[reason].append(name)
        if by_reason:
            yield f"\n### `{path.stem}`\n\n| vectors | what differs, and why |\n| --- | --- |"
            yield from (f"| {', '.join(names)} | {_cell(reason)} |" for reason, names in by_reason.items())


def _reasons(value: object) -> Iterator[str]:
    """The reasons in a deviation: a text, a text with what we answer instead, or several of those by member."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from _reasons(value[0])
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _reasons(each)


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


@cache
def _judgement() -> corpus.Judgement:
    return corpus.judged(corpus.cases(sorted((HERE / "corpus").glob("*.jsonl.gz"))))


def _agreement() -> Iterator[str]:
    yield "\n## Agreement with recorded answers\n"
    yield "| vendor | cases | agree | explained by a rule | unexplained |\n| --- | ---: | ---: | ---: | ---: |"
    for vendor, *numbers in _judgement().rows():
        yield f"| {vendor} | {' | '.join(map(str, numbers))} |"


def _rules() -> Iterator[str]:
    yield "\n### Rules\n\n| rule | cases | e.g. | why |\n| --- | ---: | --- | --- |"
    by_rule = _judgement().by_rule
    for rule in sorted(all_rules(), key=lambda rule: rule.name):
        met = by_rule.get(rule.name, [])
        shown = ", ".join((*rule.examples, *met)[:2])
        yield f"| {rule.name} | {len(met)} | {shown} | {_cell(rule.reason)} |"


def _scenarios() -> Iterator[str]:
    yield f"\n## Whole clusters\n\n{_SCENARIOS}"
    yield "| scenario | kind | placed | waiting | refused | Volcano's cards possible | verdict | Volcano's faults |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in scenarios.rows(scenarios.judgements()))


if __name__ == "__main__":
    sys.stdout.write(text())
