"""Other pods' allocations are those the node handed to them, whatever their annotations contain today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.checkpoint import CheckpointEntry
from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import COUNT, container, pod
from volcano_vgpu.core.refusals import ContainerRefusal

MORE = "hami-plugins.io/vgpu-more-ids"
SMALL, LARGE = "GPU-a,NVIDIA,1000,10:", "GPU-a,NVIDIA,40000,10:"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def started(node: Node, raw: Any, *names: str) -> list[str]:
    node.create(raw)
    assert node.kubelet.admit(raw) == ""
    return [node.kubelet.start(raw["metadata"]["uid"], name) for name in names or ("main",)]


def patched(raw: Any, **annotations: str | None) -> dict[str, Any]:
    """The pod after its owner wrote its annotations."""
    found: dict[str, Any] = json.loads(json.dumps(raw))
    found["metadata"]["resourceVersion"] = "2"
    for key, text in annotations.items():
        name = MORE if key == "more" else f"volcano.sh/{key.replace('_', '-')}"
        found["metadata"]["annotations"].pop(name, None)
        if text is not None:
            found["metadata"]["annotations"][name] = text
    return found


PATCHES: list[dict[str, str | None]] = [
    {"vgpu_ids_new": "GPU-a,NVIDIA,40960,100:"},
    {"vgpu_ids_new": "GPU-a,NVIDIA,40960,10:GPU-b,NVIDIA,40960,10:"},
    {"vgpu_ids_new": "GPU-b,NVIDIA,1000,10:"},
    {"vgpu_ids_new": "GPU-a,NVIDIA,1,0:"},
    {"vgpu_ids_new": "nonsense"},
    {"vgpu_ids_new": None},
    {"more": "main=GPU-a,NVIDIA,40960,0:"},
    {"vgpu_node": "n2"},
]


@pytest.mark.parametrize("restarted", [False, True], ids=["same agent", "restarted agent"])
@pytest.mark.parametrize("patch", PATCHES)
def test_a_running_pod_that_changes_its_annotations_blocks_no_other_pod_and_frees_nothing(
    node: Node, patch: dict[str, str | None], restarted: bool
) -> None:
    raw = pod(ids=SMALL)
    assert started(node, raw) == [""]
    before = node.specified()
    node.pods.put(patched(raw, **patch))
    if restarted:
        node.restart_agent()
    (refused,) = started(node, pod(name="large", ids="GPU-a,NVIDIA,40960,10:"))
    assert "Volcano allocated 41960 memory of GPU-a, which has 40960" in refused
    assert started(node, pod(name="rest", ids="GPU-a,NVIDIA,39960,10:")) == [""]
    assert started(node, pod(name="other", ids="GPU-b,NVIDIA,40960,100:")) == [""]
    assert {name: node.specified()[name] for name in before} == before


def test_an_init_container_that_borrowed_a_slice_holds_it_once(node: Node) -> None:
    raw = pod(ids=LARGE, init=[container("init", count=1, memory=1000)])
    assert started(node, raw, "init") == [""]
    assert started(node, pod(name="rest", ids="GPU-a,NVIDIA,960,10:")) == [""]


def test_a_sidecar_holds_its_slice_whatever_is_written_of_it_later(node: Node) -> None:
    side = container("side", count=1, memory=40_000) | {"restartPolicy": "Always"}
    raw = pod(container("main"), init=[side], ids="")
    raw["metadata"]["annotations"][MORE] = "side=GPU-a,NVIDIA,40000,0:"
    assert started(node, raw, "side") == [""]
    node.pods.put(patched(raw, more=None))
    (refused,) = started(node, pod(name="large", ids="GPU-a,NVIDIA,961,10:"))
    assert "Volcano allocated 40961 memory of GPU-a" in refused


def test_a_container_whose_slice_was_refused_takes_no_room(node: Node) -> None:
    raw = pod(
        container("main", count=1, memory=1000),
        container("greedy", count=1, memory=1),
        ids="GPU-a,NVIDIA,1000,0:;GPU-a,NVIDIA,39000,0:",
    )
    assert started(node, raw) == [""]
    assert started(node, pod(name="rest", ids="GPU-a,NVIDIA,39960,0:")) == [""]


def test_a_pod_that_is_being_served_counts_with_what_was_decided(node: Node) -> None:
    """Its specification is not written yet, and its annotations are changed meanwhile."""
    raw, rival = pod(ids=LARGE), pod(name="rival", ids="GPU-a,NVIDIA,2000,10:")
    for each in (raw, rival):
        node.create(each)
        assert node.kubelet.admit(each) == ""
    make, refused = node.directories.make, []

    def interrupted(names: Any) -> ContainerRefusal | None:
        node.directories.make = make  # type: ignore[method-assign]
        node.pods.put(patched(raw, vgpu_ids_new="GPU-a,NVIDIA,1,10:"))
        refused.append(node.kubelet.start("uid-rival", "main"))
        return make(names)

    node.directories.make = interrupted  # type: ignore[method-assign]
    assert node.kubelet.start("uid-p", "main") == ""
    assert "Volcano allocated 42000 memory of GPU-a" in refused[0]
    assert node.kubelet.start("uid-rival", "main") == refused[0]


@pytest.mark.parametrize(
    ("ids", "room"),
    [
        ("GPU-a,NVIDIA,1000,10:", 39_960),
        ("GPU-a,NVIDIA,40960,100:", 39_960),
        ("GPU-a,NVIDIA,1000,0:", 39_960),
        ("GPU-a,NVIDIA,1000,10:GPU-a,NVIDIA,1000,10:", 39_960),
    ],
)
def test_a_pod_of_another_plugin_counts_with_at_most_its_request(node: Node, ids: str, room: int) -> None:
    foreign = pod(container("main", count=1, memory=1000, cores=10), name="foreign", ids=ids)
    node.create(foreign)
    node.kubelet.entries["uid-foreign", "main"] = CheckpointEntry(
        pod_uid=PodUid("uid-foreign"),
        container="main",
        resource=COUNT,
        device_ids=frozenset({"theirs"}),
        response=messages.ContainerAllocateResponse(),
    )
    (refused,) = started(node, pod(name="large", ids=f"GPU-a,NVIDIA,{room + 1},90:"))
    assert "Volcano allocated 40961 memory of GPU-a" in refused
    assert started(node, pod(name="rest", ids=f"GPU-a,NVIDIA,{room},90:")) == [""]
