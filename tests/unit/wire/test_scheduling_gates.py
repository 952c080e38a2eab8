"""What a pod with scheduling gates waits for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hami_plugins.model.pods import Pod
from hami_plugins.wire import scheduling_gates

NO_SCHEDULER = "no scheduler looks at it before"


def told(*gates: str, labels: Mapping[str, str] | None = None) -> str:
    return scheduling_gates.told(Pod(namespace="team", name="p", gates=gates, labels=labels or {}))


def test_gates_are_named_and_of_others_nothing_more_is_known() -> None:
    assert told("mine") == f"the scheduling gate mine; {NO_SCHEDULER} it is removed"
    assert told("mine", "yours") == f"the scheduling gates mine, yours; {NO_SCHEDULER} they are removed"


def test_of_kueues_gate_for_its_quota_it_is_told_which_queue_and_where_to_look() -> None:
    gate = "kueue.x-k8s.io/admission"
    why = told(gate, labels={"kueue.x-k8s.io/queue-name": "research"})
    assert f"{gate}: Kueue removes it when LocalQueue research admits the pod" in why
    assert "`kubectl get workloads -n team`" in why
    assert "when its LocalQueue admits the pod" in told("mine", gate)


@pytest.mark.parametrize(
    ("gate", "when"),
    [
        ("kueue.x-k8s.io/topology", "it has chosen a topology domain"),
        ("kueue.x-k8s.io/elastic-job", "it admits the job at its new size"),
    ],
)
def test_kueues_other_gates_do_not_wait_for_its_quota(gate: str, when: str) -> None:
    assert f"{gate}: Kueue removes it when {when}" in told(gate)
    assert "LocalQueue" not in told(gate)
