"""Who wrote an allocation after its pod was bound, by the API server's record."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.writers import placed_by, written_later
from hami_plugins.vendors.volcano import SPEC
from tests.unit.volcano_vgpu.allocation.cluster import IDS, Cluster, a_pod

BOUND = "2026-08-21T10:00:00Z"
SOON, LATER = "2026-08-21T10:00:10Z", "2026-08-21T10:00:11Z"


def written(
    time: object,
    *,
    key: str = IDS,
    manager: str = "kubectl-annotate",
    bound: object = BOUND,
    condition: str = "PodScheduled",
) -> Any:
    """A bound pod with an annotation written by another client."""
    pod = a_pod(node="n1", ids="GPU-n1-0,NVIDIA,1,0:")
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{key}": {}}}}
    pod["metadata"]["managedFields"] = [
        {"manager": "kubelet", "time": LATER, "fieldsV1": {"f:status": {}}},
        {"manager": manager, "time": time, "fieldsV1": fields},
    ]
    pod["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": LATER},
        {"type": condition, "status": "True", "lastTransitionTime": bound},
    ]
    return pod


@pytest.mark.parametrize(
    ("pod", "who"),
    [
        (written(LATER), f"kubectl-annotate (at {LATER})"),
        (written(LATER, manager=""), f"an unknown writer (at {LATER})"),
        (written(SOON), ""),
        (written(LATER, key="note"), ""),
        (written(LATER, bound=None), ""),
        (written(LATER, condition="Initialized"), ""),
        (written("2026-08-21T10:30:00"), ""),
        (written("yesterday"), ""),
        (written(None), ""),
        (a_pod(), ""),
        ({"metadata": {"managedFields": [3, {}]}, "status": {"conditions": "?"}}, ""),
    ],
)
def test_who_wrote_later_is_told_where_that_is_known(pod: Any, who: str) -> None:
    assert written_later(pod, (IDS, SPEC.keys.more)) == who


def test_a_pod_that_comes_bound_with_an_allocation_that_was_edited_is_found_and_holds_what_is_written() -> None:
    cluster = Cluster()
    for kind in ("added", "modified"):
        cluster.shows(written(LATER), kind)
        (found,) = cluster.cache.findings()
        assert found.finding.value == "changed-after-binding"
        assert f"that kubectl-annotate (at {LATER}) wrote after it was bound" in found.text
    assert cluster.predicate(a_pod("b", memory=40_959))["status"] == ""


def test_a_pod_that_was_seen_before_the_edit_keeps_what_it_had_and_what_that_was_is_told() -> None:
    cluster, pod = Cluster(), a_pod(node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")
    cluster.shows(pod)
    cluster.shows(written(LATER))
    (found,) = cluster.cache.findings()
    assert "was bound with GPU-n1-0" in found.text
    assert cluster.predicate(a_pod("b", memory=40_000))["status"]


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({"f:spec": {"f:nodeName": {}}}, "kubectl-create"),
        ({"f:spec": {"f:containers": {}}}, ""),
        ({"f:status": {"f:nodeName": {}}}, ""),
        ("odd", ""),
    ],
)
def test_who_created_a_pod_with_its_node_is_told(fields: object, who: str) -> None:
    pod = {"metadata": {"managedFields": [{"manager": "kubectl-create", "fieldsV1": fields}]}}
    assert placed_by(pod) == who


def test_without_a_name_somebody_placed_it_and_without_a_record_nobody() -> None:
    assert (
        placed_by({"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {"f:nodeName": {}}}}]}})
        == "an unknown writer"
    )
    assert placed_by(a_pod()) == ""
