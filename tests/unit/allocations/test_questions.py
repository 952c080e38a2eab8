"""Pods in calls without an identity: what real pods ask is answered, giants are refused before they are worked on."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.questions import intake_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import WireError
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_pod

CLUSTER = Cluster()
USE_IDS = "volcano.sh/vgpu-use-gpuuuid"


def asked(raw: Any) -> PodInfo:
    return intake_of(raw, CLUSTER.cache.intake)


def pod(**changes: Any) -> dict[str, Any]:
    raw = a_pod()
    for key, value in changes.items():
        (raw["metadata"] if key in ("name", "annotations") else raw["spec"])[key] = value
    return raw


def containers(count: int, name: str = "c{}") -> list[dict[str, Any]]:
    return [{"name": name.format(number)} for number in range(count)]


@pytest.mark.parametrize(
    "raw",
    [
        pod(),
        pod(containers=containers(100), initContainers=containers(100)),
        pod(annotations={"note": "x" * 250_000}),
        pod(name="p" * 253),
        pod(annotations={USE_IDS: ",".join(f"GPU-{number}" for number in range(1_000))}),
    ],
)
def test_a_pod_that_an_api_server_can_hold_is_read(raw: Any) -> None:
    assert asked(raw).pod.name == raw["metadata"]["name"]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (pod(containers=containers(200), initContainers=containers(57)), "257 containers: limit is 256"),
        (pod(annotations={"note": "x" * 300_000}), "bytes of annotations: limit is 262144"),
        (pod(annotations={"x" * 300_000: ""}), "bytes of annotations: limit is 262144"),
        (pod(name="p" * 254), "a name of more than 253"),
        (pod(containers=containers(1, "c" * 254)), "a name of more than 253"),
        (pod(annotations={USE_IDS: ",".join(f"GPU-{number}" for number in range(2_000))}), "limit is 1024"),
    ],
)
def test_a_giant_is_refused(raw: Any, why: str) -> None:
    with pytest.raises(WireError, match=why):
        asked(raw)


@pytest.mark.parametrize("raw", [{"metadata": 1, "spec": 2}, {"metadata": {"annotations": 3}}, pod(containers=4)])
def test_what_has_another_form_is_refused_by_its_reader(raw: Any) -> None:
    with pytest.raises(WireError):
        asked(raw)
