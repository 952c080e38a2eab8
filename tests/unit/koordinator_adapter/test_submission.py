"""Objects of a server, made ready to be created again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.submission import submission
from tests.unit.koordinator_adapter.written import pod, translated

METADATA = {"name": "a", "namespace": "n", "labels": {"app": "x"}}
SERVERS = {"uid": "u", "resourceVersion": "7", "creationTimestamp": "t", "managedFields": [], "generation": 2}


def a_job(**spec: Any) -> dict[str, Any]:
    labels = {"app": "x", "controller-uid": "u", "batch.kubernetes.io/job-name": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    body = {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": METADATA | SERVERS, "spec": body, "status": {}}


def test_what_a_server_writes_is_left_out_and_the_given_object_stays() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"}
    raw = pod({"nvidia.com/gpu": 1}, nodeName="n1", ephemeralContainers=[{}])
    raw["metadata"] = METADATA | SERVERS | {"annotations": applied}
    raw["status"] = {"phase": "Running"}
    before = copy.deepcopy(raw)
    found = submission(raw)
    assert found["metadata"] == METADATA | {"annotations": {"mine": "x"}}
    assert found["spec"] == {"containers": raw["spec"]["containers"]}
    assert "status" not in found
    assert raw == before


def test_a_job_finds_its_pods_by_new_labels_unless_its_author_chose_them() -> None:
    assert submission(a_job())["spec"] == {
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    }
    chosen = a_job(manualSelector=True)
    assert submission(chosen)["spec"] == chosen["spec"]


@pytest.mark.parametrize(("group", "kept"), [("podgroup-u", False), ("podgroup-other", True), ("team", True)])
def test_the_group_that_volcano_makes_for_one_pod_goes_with_it(group: str, *, kept: bool) -> None:
    raw = {"kind": "Pod", "metadata": METADATA | SERVERS | {"annotations": {"scheduling.k8s.io/group-name": group}}}
    assert ("annotations" in submission(raw)["metadata"]) is kept


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"kind": "Pod", "metadata": 7, "spec": [1]}])
def test_what_is_no_object_is_none_afterwards_either(raw: dict[str, Any]) -> None:
    assert submission(raw)["metadata"] == {}


@pytest.mark.parametrize("target", ["koordinator", "volcano"])
def test_a_pod_that_names_its_node_is_refused_because_nobody_would_count_it(target: str) -> None:
    found = translated(pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}, nodeName="n1"), target)
    assert found.fidelity is Fidelity.REFUSED
    assert [each.about for each in found.findings] == ["nodeName"]
    assert not translated(pod({"nvidia.com/gpu": 1}, nodeName="n1"), "hami").findings
