"""Cards cut by MIG: Volcano allocates slots of a geometry, and each container sees the instance that its slot means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from tests.cluster.agents import NodeAgent, card, uuid
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.slices import IDS, gpu, pods, said, settled, volcano_pod, wait_refused, wait_serving
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
NAME: Final = "volcano-vgpu-device-config"
GEOMETRIES: Final = {
    "nvidia": {
        "resourceCountName": "volcano.sh/vgpu-number",
        "resourceMemoryName": "volcano.sh/vgpu-memory",
        "resourceCoreName": "volcano.sh/vgpu-cores",
        "deviceSplitCount": 10,
        "gpuMemoryFactor": 1,
        "knownMigGeometries": [
            {
                "models": ["A100-SXM4-40GB"],
                "allowedGeometries": [
                    {"group": "small", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]},
                    {
                        "group": "mixed",
                        "geometries": [
                            {"name": "2g.10gb", "memory": 10240, "count": 3},
                            {"name": "1g.5gb", "memory": 5120, "count": 1},
                        ],
                    },
                ],
            }
        ],
    }
}
CUT: Final = [
    {"uuid": f"MIG-2g-{at}", "profile": "2g.10gb", "memory": 9856, "start": 2 * at, "size": 2} for at in range(3)
] + [{"uuid": "MIG-1g-0", "profile": "1g.5gb", "memory": 4864, "start": 6, "size": 1}]


@pytest.fixture(scope="module")
def partitioned(control_plane: ControlPlane, node: Node, volcano: Volcano) -> Iterator[NodeAgent]:
    """An agent in MIG mode with one card that is cut as the group "mixed", and a scheduler that knows the geometry."""
    document = yaml.safe_dump(GEOMETRIES)
    control_plane.apply(MAPS, {"metadata": {"name": NAME}, "data": {"device-config.yaml": document}})
    agent = NodeAgent(node, "partitioned", settings={"mode": "mig"}, device_config=document)
    agent.cards(card(1, mig=CUT))
    try:
        agent.start(10)
        volcano.restart_scheduler()  # it reads the ConfigMap once
        wait_serving(control_plane, gpu(memory=8000))
        yield agent
    finally:
        agent.stop()
        control_plane.api.delete(f"{MAPS}/{NAME}")
        volcano.restart_scheduler()


def test_each_container_sees_the_instance_of_its_slot(
    partitioned: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    seen: dict[str, str] = {}
    for at in range(3):
        control_plane.api.create(pods(namespace), volcano_pod(f"p{at}", gpu(memory=8000)))
        (found,) = settled(control_plane, namespace, [f"p{at}"])
        slot = found["metadata"]["annotations"][IDS].partition(",")[0]
        env = said(control_plane, namespace, f"p{at}").slice
        assert set(env) == {"NVIDIA_VISIBLE_DEVICES"}
        seen[slot] = env["NVIDIA_VISIBLE_DEVICES"]
    assert seen == {f"{uuid(1)}[mixed-{at}]": f"MIG-2g-{at}" for at in range(3)}


def test_a_slot_of_a_cut_that_the_card_does_not_have_is_refused_with_the_remedy(
    partitioned: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    name = next(name for name in (f"p{at}" for at in range(10)) if "[small-" in slot_of(control_plane, namespace, name))
    text = wait_refused(control_plane, namespace, name, "nvidia-smi mig")
    assert f"{uuid(1)}[small-" in text
    partitioned.cards(card(1, mig=[{**CUT[3], "uuid": f"MIG-1g-{at}", "start": at} for at in range(7)]))
    try:
        settled(control_plane, namespace, [name])
        (visible,) = said(control_plane, namespace, name).slice.values()
        assert visible.startswith("MIG-1g-")
    finally:
        control_plane.clear_namespace(namespace)
        partitioned.cards(card(1, mig=CUT))
        wait_serving(control_plane, gpu(memory=8000))


def slot_of(plane: ControlPlane, namespace: str, name: str) -> str:
    """The slot that Volcano allocates to a small pod. It sticks to a cut that was in use until it hears of the node."""
    plane.clear_namespace(namespace)
    plane.touch_node()
    plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=3000)))
    return wait_until(
        lambda: str(plane.api.get(f"{pods(namespace)}/{name}")["metadata"]["annotations"][IDS]),
        "a slot is allocated",
        60,
    )


def test_a_pod_of_whole_cards_gets_none_that_is_cut(
    partitioned: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("whole", annotations={"volcano.sh/vgpu-mode": "hami-core"})
    control_plane.api.create(pods(namespace), body)
    wait_until(lambda: control_plane.events(namespace, "whole"), "Volcano has looked at the pod")
    assert not control_plane.api.get(f"{pods(namespace)}/whole")["spec"].get("nodeName")
