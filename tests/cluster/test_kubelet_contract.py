"""The real kubelet and containerd keep what the emulated kubelet is built to: the same cases, one test each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.keeping import keeping
from tests.cluster.node import Node
from tests.cluster.real_kubelet import SIDE_BY_SIDE, Trials, trials
from tests.contract.kubelet.cases import CASES, Case


@pytest.fixture(scope="module")
def real(node: Node, request: pytest.FixtureRequest) -> Iterator[Trials]:
    names = {item.name for item in request.session.items}
    wanted = [case for case in CASES if any(f"[{case.name}]" in name for name in names)]
    with trials(node, wanted) as found:
        yield found


@pytest.fixture(scope="module")
def kept(real: Trials, request: pytest.FixtureRequest) -> Iterator[set[str]]:
    with keeping(request.config, "kubelet", [case.sentence for case in CASES], real.versions) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_real_kubelet_keeps_the_promise(case: Case, real: Trials, kept: set[str]) -> None:
    real.run(case)
    kept.add(case.sentence)


def test_what_is_run_side_by_side_are_cases() -> None:
    assert {case.name for case in CASES} >= set(SIDE_BY_SIDE)
