"""A new pod that brings its node and an allocation is refused: no scheduler has seen it."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.arrivals import objection

KEYS = ("volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node")


def pod(node: object = "n1", annotations: object = None, **metadata: Any) -> dict[str, Any]:
    about = {"name": "p", "namespace": "team", "annotations": annotations, **metadata}
    return {"metadata": about, "spec": {"nodeName": node, "containers": []}}


@pytest.mark.parametrize("key", KEYS)
def test_it_is_told_which_fields_contradict_each_other_and_what_to_remove(key: str) -> None:
    assert objection(pod(annotations={key: "x", "other": "y"}), KEYS) == (
        f"pod team/p sets spec.nodeName: n1 and the annotation {key}, which only a scheduler writes; remove both, so "
        "that a scheduler places the pod"
    )


def test_a_pod_without_a_name_is_named_by_how_its_name_begins() -> None:
    raw = pod(annotations={KEYS[0]: "x"}, generateName="job-")
    del raw["metadata"]["name"]
    assert objection(raw, KEYS).startswith("pod team/job- sets")


@pytest.mark.parametrize(
    "raw",
    [
        pod(annotations={}),
        pod(annotations={"other": "x"}),
        pod(annotations=None),
        pod(node="", annotations={KEYS[0]: "x"}),
        pod(node=None, annotations={KEYS[0]: "x"}),
        pod(annotations=7),
        pod(node=7, annotations={KEYS[0]: "x"}),
        {"metadata": {"annotations": {KEYS[0]: "x"}}},
        {"metadata": 1, "spec": 2},
        {},
    ],
)
def test_every_other_pod_is_left_to_others(raw: dict[str, Any]) -> None:
    assert objection(raw, KEYS) == ""
