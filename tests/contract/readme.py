"""``README.md`` of this folder: ``python -m tests.contract.readme`` writes it from the cases and the last real run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.contract import apiserver, record
from tests.contract.corrections import CORRECTIONS
from tests.contract.kubelet.cases import CASES as KUBELET_CASES
from tests.contract.record import Run

FILE: Final = Path(__file__).with_name("README.md")

_HEAD: Final = """\
# Contracts

One promise, every implementation. Generated: `python -m tests.contract.readme` writes this page anew, and a test holds
it to the cases.

| folder | who is held to it in `make test` | who is held to it in `make test-cluster` |
| --- | --- | --- |
| `apiserver/` | the embedded API server | kube-apiserver, `tests/cluster/test_apiserver_contract.py` |
| `kubelet/` | the emulated kubelet | kubelet and containerd, `tests/cluster/test_kubelet_contract.py` |
| `test_vendors.py`, `test_new_vendor.py` | every vendor | |

The cases are the same functions on both sides. Where the real component contradicts a case, the case is wrong, and the
emulator with it. A run of all cases of a suite that all hold, with `--update-golden`, writes down the day and the
versions in `real_run.json`, for each release of Kubernetes; a case that is younger than that has a dash in its column.
Where releases differ, each has a case of its own, and the other one says *another release* in its column.

No case is for an emulator alone: faults on purpose and deaths at a chosen step, which a real component has no handle
for, are no promises of Kubernetes and are tested in `tests/integration/sandbox`.

    make test-cluster ARGS='-k contract --update-golden'
    make test-cluster ARGS='-k contract --update-golden' KUBERNETES=1.36
    python -m tests.contract.readme
"""


def text() -> str:
    """The whole page."""
    every = {case.claim: case.of for case in apiserver.CASES}
    parts = (
        _HEAD,
        *_suite("API server", "apiserver", every),
        *_suite("Kubelet", "kubelet", dict.fromkeys((case.sentence for case in KUBELET_CASES), _of_every_release)),
        *_corrections(),
    )
    return "\n".join(parts) + "\n"


def _suite(title: str, name: str, claims: Mapping[str, Callable[[str], bool]]) -> Iterator[str]:
    runs = record.runs().get(name, [])
    yield f"## {title}\n"
    yield f"{len(claims)} cases.\n"
    for run in runs:
        versions = ", ".join(f"{part} {version}" for part, version in run["versions"].items())
        yield f"- {len(set(run['kept']) & set(claims))} of them against {versions} on {run['day']}"
    releases = "".join(f" {record.tested(run)} |" for run in runs)
    yield f"\n| case | emulator |{releases}\n| --- | --- |{' --- |' * len(runs)}"
    for claim, of in claims.items():
        embedded = "yes" if of(apiserver.EMBEDDED) else "another release"
        cells = " | ".join(_kept(run, claim, of) for run in runs)
        yield f"| {_cell(claim)} | {embedded} | {cells} |"
    yield ""


def _kept(run: Run, claim: str, of: Callable[[str], bool]) -> str:
    if not of(record.tested(run)):
        return "another release"
    return "yes" if claim in run["kept"] else "-"


def _of_every_release(_: str) -> bool:
    return True


def _corrections() -> Iterator[str]:
    yield "## What the real components corrected\n"
    yield "All of it at the API server; no case of the kubelet was contradicted.\n"
    yield "| about | claimed at first | real |\n| --- | --- | --- |"
    yield from (f"| {_cell(each.about)} | {_cell(each.claimed)} | {_cell(each.real)} |" for each in CORRECTIONS)


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
