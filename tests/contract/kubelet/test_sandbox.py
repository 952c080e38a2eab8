"""The emulated kubelet keeps the real one's promises."""

from __future__ import annotations

import pytest

from tests.contract.kubelet.cases import CASES, Case
from tests.contract.kubelet.embedded import embedded_kubelet
from tests.contract.kubelet.trial import Trial


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_emulated_kubelet_keeps_the_promise(case: Case) -> None:
    with embedded_kubelet() as kubelet, Trial(kubelet, case.name) as trial:
        case.run(trial)
