"""``README.md`` of this folder: ``python -m tests.golden.readme`` writes it from the data, the tests and the rules."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.golden import cases, corpus, scenarios
from tests.golden.rules import all_rules

HERE: Final = Path(__file__).parent
FILE: Final = HERE / "README.md"

_READS = re.compile(r"\"((?:hami-core|hami-vendors|koordinator|neuron|volcano)/[a-z0-9-]+\.yaml)\"")
_HEAD: Final = """\
# Golden data

What other schedulers answer, kept as data. Generated: `python -m tests.golden.readme` writes this page anew, and a test
holds it to what is here.

| folder | what | run by |
| --- | --- | --- |
| `vectors/` | cases from the references, one shape per file | one parametrised test per file, `test_*.py` |
| `corpus/` | answers that the real HAMi and Volcano gave | `test_corpus.py`, `python -m tests.golden.corpus FILE...` |
| `rules/` | the differences from those answers that are meant, each a predicate | the same |
| `scenarios/` | whole clusters before a submission, and what Volcano made of it | `test_scenarios.py`, \
`python -m tests.golden.scenarios DIR...` |
| `shared_region/` | files of HAMi-core's shared region, one of each layout, and broken ones | `test_shared_region.py` |
| `torchx/` | what TorchX submits | `tests/unit/report/test_workloads.py`, `tests/cluster/test_neuron_torchx.py` |
| `torchx/named-resources/` | what it submits for each of our named resources | `tests/cluster/test_neuron_torchx.py`, \
`make test-torchx ARGS=--update-golden` |
| `reports/` | manifests after users' reports, and the verdict that the references say | `test_reports.py` |
| `translations/` | manifests of guides and examples, and what becomes of them in other words | `test_translations.py` |
| `output/` | what the commands print | `test_output.py`, `python -m tests.golden.output` |
| `wire_keys.txt` | every name on the wire | `test_wire_keys.py`, `pytest --update-golden` |
| `vet_rules.txt` | every rule of `vet` | `test_vet_rules.py` |

Where two sources disagree, a recorded answer wins over an upstream test, that over code that was read, that over a
value that was inferred, and that over prose. An ambiguous vector is decided, not left out: its test runs one way.
"""


_SCENARIOS: Final = """\
Plans of submissions that the real Volcano 1.14.1 answered: pods here of pods there. *explained* is a fault of Volcano
of which the plan says what it will be (`plan --scheduler volcano-1.14.1`).
Those from 101 on were recorded on the private machine of `tests/cluster`, each more than once, with the same answer.
"""


def text() -> str:
    """The whole page."""
    parts = (_HEAD, *_vectors(), *_deviations(), *_agreement(), *_rules(), *_scenarios())
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
        yield "| file | test | cases | open | by section of the document |\n| --- | --- | ---: | ---: | --- |"
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
    FILE.write_text(text(), encoding="utf-8")
