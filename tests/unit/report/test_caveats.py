"""Where Volcano may do otherwise: said beside the pods that it concerns, and beside no others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins.engine.registry import Registry
from hami_plugins.report import manifests, workloads
from hami_plugins.report.listing import snapshot_of
from hami_plugins.report.plan import Planner, PodPlan, Stage, caveats, submission
from hami_plugins.vendors import volcano
from hami_plugins.wire import volcano_config
from tests.unit.report.plans import a_plan, asking
from tests.unit.report.test_turns import GPU, MEMORY, a_group, a_node, a_pod

GEOMETRIES = {
    "nvidia": {
        "knownMigGeometries": [
            {
                "models": ["A100"],
                "allowedGeometries": [
                    {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]}
                ],
            }
        ]
    }
}
REGISTRY = Registry([volcano.configured(volcano_config.decode(GEOMETRIES))])


def planned(node: dict[str, Any], pod: dict[str, Any]) -> PodPlan:
    snapshot = snapshot_of([node, a_group(least=1)], REGISTRY)
    read = workloads.read(manifests.read(yaml.safe_dump(pod), source="test"), pod_groups=snapshot.pod_groups)
    (found,) = Planner(REGISTRY).plan(snapshot, submission.units(read, snapshot)).pods
    return found


def annotated(key: str, text: str, *, group: str = "") -> dict[str, Any]:
    pod = a_pod(group=group)
    pod["metadata"]["annotations"][key] = text
    return pod


def registered(text: str) -> dict[str, Any]:
    node = a_node()
    node["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = text
    return node


def a_card(name: str, *, healthy: str = "true", mode: str = "hami-core") -> str:
    return f"{name},10,40960,NVIDIA-NVIDIA A100,{healthy},{mode}:"


def containers(*memory: int) -> list[dict[str, Any]]:
    return [
        {"name": f"c{at}", "resources": {"limits": {GPU: "1", MEMORY: str(amount)}}} for at, amount in enumerate(memory)
    ]


def test_a_plain_pod_has_none() -> None:
    assert planned(a_node(), a_pod()).notes == ()


@pytest.mark.parametrize(
    ("pod", "note"),
    [
        pytest.param(annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1"), caveats.IDS, id="wanted ids"),
        pytest.param(annotated("nvidia.com/nouse-gpuuuid", "GPU-n1-0"), caveats.IDS, id="unwanted ids"),
        pytest.param(a_pod(initContainers=containers(6000)), caveats.INIT, id="init container"),
        pytest.param(
            annotated("volcano.sh/vgpu-podgroup-policy", "spread", group="g"), caveats.GANG, id="gang that spreads"
        ),
    ],
)
def test_what_a_pod_asks_for(pod: dict[str, Any], note: str) -> None:
    found = planned(a_node(), pod)
    assert (found.stage, found.notes) == (Stage.PLACED, (note,))


@pytest.mark.parametrize(
    ("sick", "stage"),
    [
        pytest.param(a_card("a", healthy="false") + a_card("b"), Stage.PLACED, id="placed beside it"),
        pytest.param(a_card("a", healthy="false"), Stage.NODES, id="refused because of it"),
    ],
)
def test_an_unhealthy_card(sick: str, stage: Stage) -> None:
    found = planned(registered(sick), a_pod())
    assert (found.stage, found.notes) == (stage, (caveats.HEALTH,))


def test_a_refusal_with_healthy_cards_has_none() -> None:
    found = planned(registered(a_card("a")), a_pod(memory=50000))
    assert (found.stage, found.notes) == (Stage.NODES, ())


@pytest.mark.parametrize(
    ("memory", "notes"),
    [
        pytest.param((4000, 4000), (caveats.SLOTS,), id="two slots of one card"),
        pytest.param((4000,), (), id="one slot"),
    ],
)
def test_slots_of_one_card(memory: tuple[int, ...], notes: tuple[str, ...]) -> None:
    pod = a_pod()
    pod["spec"]["containers"] = containers(*memory)
    node = registered(a_card("a", mode="mig"))
    node["status"]["allocatable"][MEMORY] = "50000"
    found = planned(node, pod)
    assert (found.stage, found.notes) == (Stage.PLACED, notes)


def test_other_schedulers_do_as_they_say() -> None:
    assert a_plan(asking(memory=10**9)).pods[0].notes == ()
