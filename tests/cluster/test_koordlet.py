"""Pods in HAMi's dialect with the real koordlet: its hook sets their limits through NRI, and the adapter sets none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from hami_plugins.wire.koordinator import INJECTED, decode
from koordinator_adapter.core import allocations
from tests.cluster.allocator import Replica
from tests.cluster.api import Object
from tests.cluster.containerd import SOCKET
from tests.cluster.koordinator import DEVICES, Koordinator
from tests.cluster.koordinator_adapter import NODE_RULES, OPT_IN, Adapter
from tests.cluster.koordlet import LOCKS, Koordlet, a_card
from tests.cluster.node import Node
from tests.cluster.objects import container, pod
from tests.cluster.waiting import wait_until

LABEL: Final = "koordinator.sh/gpu-isolation-provider"
ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
SLICE: Final = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 30}
HOOKED: Final = ("NVIDIA_", "CUDA_", "LD_PRELOAD")
NODE_RIGHTS: Final = (*NODE_RULES, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]})


class Beside:
    """koordlet, the server and the part on the node, all running."""

    def __init__(self, koordlet: Koordlet, adapter: Adapter, part: Replica) -> None:
        self.koordlet, self.adapter, self.part = koordlet, adapter, part
        self.plane, self.node = koordlet.plane, koordlet.node

    def label(self) -> str | None:
        """The node's promise of limits."""
        found: str | None = self.plane.api.get(f"/api/v1/nodes/{self.node.name}")["metadata"]["labels"].get(LABEL)
        return found

    def wait_promised(self, promised: float) -> None:
        """Wait until the part on the node says of its label that it is there, or is not."""
        name = "koordinator_adapter_node_limits_promised"
        wait_until(
            lambda: self.part.metric(name) == promised, f"{name} is {promised}", 60, show=self.part.component.log
        )

    def run(self, namespace: str, body: Object) -> Object:
        """The pod once it runs on the node."""
        self.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", body)
        self.adapter.koordinator.wait_bound(namespace, body["metadata"]["name"])
        return self.plane.wait_for_pod(namespace, body["metadata"]["name"], "Running", 90)

    def restart(self, namespace: str, name: str) -> None:
        """Ends the program of the pod's container and waits until it runs again."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        (status,) = self.plane.api.get(path)["status"]["containerStatuses"]
        ctr = [str(self.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io"]
        ended = self.node.machine.run(
            [*ctr, "tasks", "kill", "--signal", "SIGKILL", status["containerID"].rpartition("/")[2]]
        )
        assert ended.returncode == 0, ended.stderr

        def again() -> bool:
            (now,) = self.plane.api.get(path)["status"]["containerStatuses"]
            return bool(now["restartCount"] > status["restartCount"] and "running" in now["state"])

        wait_until(again, f"{name} runs again", 60)

    def environment(self, namespace: str, name: str, container: str = "main") -> Mapping[str, str]:
        """What the program of a container sees of cards."""
        text = self.node.output(namespace, name, ["cat", "/proc/1/environ"], container=container)
        found = dict(each.partition("=")[::2] for each in text.split("\0") if each)
        return {key: value for key, value in found.items() if key.startswith(HOOKED)}


@pytest.fixture(scope="module")
def koordlet(koordinator: Koordinator, node: Node) -> Iterator[Koordlet]:
    """Runs, and reports two cards of 40 GiB."""
    assert "koordlet" in node.plane.programs, "no koordlet is built: run with KOORDINATOR=1.8"
    known = LOCKS.exists()
    folder = node.machine.root / "vgpu"
    made = Koordlet(koordinator, node, folder / "libvgpu.so")
    made.start(a_card(0), a_card(1))
    yield made
    made.stop()
    if not known:
        LOCKS.rmdir()


@pytest.fixture(scope="module")
def beside(koordlet: Koordlet, koordinator: Koordinator) -> Iterator[Beside]:
    plane, name = koordlet.plane, koordlet.node.name
    root = plane.machine.root
    library = root / "library"
    library.mkdir()
    (library / "libvgpu.so").write_bytes(Path(sys.executable).read_bytes()[:64])
    injection = {"hookPath": str(root / "vgpu")}
    settings = {"injection": injection, "node": {"librarySource": str(library), "every": 1}}
    part = Replica(
        plane,
        "node-part",
        settings,
        product="koordinator",
        word="node",
        rules=NODE_RIGHTS,
        arguments=("--node-name", name),
    )
    translation = {"runtimeClass": ""}
    with Adapter(koordinator, injection={**injection, "mode": "auto"}, translation=translation) as adapter:
        part.component.start()
        found = Beside(koordlet, adapter, part)
        found.wait_promised(1)
        wait_until(lambda: _sums(found) == "200", "the node offers its cards", 60, show=koordinator.manager.log)
        yield found
        part.component.stop()


def _sums(beside: Beside) -> str:
    status = beside.plane.api.get(f"/api/v1/nodes/{beside.node.name}")["status"]
    return str(status["allocatable"].get("koordinator.sh/gpu.shared"))


def a_pod(name: str, limits: Mapping[str, Any], **more: Any) -> Object:
    """A pod to be translated that runs on the real node."""
    body = pod(name, container(limits=limits), **more)
    body["metadata"]["labels"] = dict(OPT_IN)
    return body


@pytest.mark.parametrize(
    ("limits", "env"),
    [
        (
            SLICE,
            {"NVIDIA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_MEMORY_LIMIT": "8589934592", "CUDA_DEVICE_SM_LIMIT": "30"},
        ),
        (
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 25, "nvidia.com/gpucores": 20},
            {
                "NVIDIA_VISIBLE_DEVICES": "0,1",
                "CUDA_DEVICE_MEMORY_LIMIT": "10737418240",
                "CUDA_DEVICE_SM_LIMIT": "20",
            },
        ),
        ({"nvidia.com/gpu": 1}, {"NVIDIA_VISIBLE_DEVICES": "0"}),
    ],
    ids=["memory", "percentage of two", "whole"],
)
def test_a_container_has_what_koordlets_hook_gives_as_the_translation_promised(
    beside: Beside, namespace: str, limits: Mapping[str, Any], env: Mapping[str, str]
) -> None:
    found = beside.run(namespace, a_pod("a", limits))
    shared = {"LD_PRELOAD": str(beside.koordlet.library)} if len(env) > 1 else {}
    assert beside.environment(namespace, "a") == {**env, **shared}
    held = allocations.assigned(decode(found["metadata"]["annotations"][ALLOCATED]))
    if shared:
        assert str(held[0].memory << 20) == env["CUDA_DEVICE_MEMORY_LIMIT"]
        assert str(held[0].cores) == env["CUDA_DEVICE_SM_LIMIT"]
        mounts = beside.node.output(namespace, "a", ["cat", "/proc/self/mountinfo"])
        assert f" {beside.koordlet.library} " in mounts
        assert f" {LOCKS} " in mounts


def test_we_stand_aside_where_koordlet_acts(beside: Beside, namespace: str) -> None:
    """Its hook acts on every container, and nothing of ours is in the pod; the Device object stays koordlet's."""
    body = a_pod("a", SLICE, init=[container("first", command=["env"])])
    body["spec"]["containers"].append(container("second"))
    found = beside.run(namespace, body)
    assert INJECTED not in found["metadata"]["annotations"]
    assert not [key for key in found["metadata"]["annotations"] if key.startswith("hami-plugins.io/memory-limit")]
    assert not found["spec"].get("volumes")
    assert not [each for each in found["spec"]["containers"] if each.get("env")]
    limits = beside.environment(namespace, "a")
    assert limits["CUDA_DEVICE_MEMORY_LIMIT"] == "8589934592"
    assert beside.environment(namespace, "a", "second") == limits
    assert "CUDA_DEVICE_MEMORY_LIMIT=8589934592\n" in beside.plane.pod_log(namespace, "a", "first")
    device = beside.plane.api.get(f"{DEVICES}/{beside.node.name}")
    assert [each["id"] for each in device["spec"]["devices"]] == ["GPU-koordlet-0", "GPU-koordlet-1"]
    assert not [beside.adapter.writes(what) for what in ("created", "changed", "sums") if beside.adapter.writes(what)]
    assert beside.adapter.server.metric("koordinator_adapter_unlimited_pods") == 0
    assert beside.part.metric("koordinator_adapter_node_label_writes_total", label="HAMi-core") == 1
    assert '"limits_by":"koordlet"' in beside.part.component.log()


def test_without_koordlet_the_promise_ends_and_the_server_sets_limits_for_new_pods(
    beside: Beside, namespace: str
) -> None:
    """A container that starts again meanwhile has no limits, and is named; with koordlet back all is as before."""
    beside.run(namespace, a_pod("old", SLICE, restart="Always"))
    limited = beside.environment(namespace, "old")
    beside.koordlet.stop()
    beside.wait_promised(0)
    assert beside.label() is None
    assert "no koordlet with feature gate GPUEnvInject is known to run here" in beside.part.component.log()
    assert beside.environment(namespace, "old") == limited
    unlimited = beside.adapter.server
    wait_until(lambda: unlimited.metric("koordinator_adapter_unlimited_pods") == 1, "the pod is counted", 30)
    beside.restart(namespace, "old")
    assert beside.environment(namespace, "old") == {}
    new = a_pod("new", SLICE)
    wait_until(lambda: INJECTED in beside.adapter.asked(namespace, new)["metadata"]["annotations"], "ours are set", 30)
    beside.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", new)
    assert "didn't match Pod's node affinity" in beside.adapter.koordinator.wait_refused(namespace, "new")
    beside.plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/new")
    beside.koordlet.start()
    beside.wait_promised(1)
    beside.restart(namespace, "old")
    assert beside.environment(namespace, "old") == limited
    wait_until(lambda: unlimited.metric("koordinator_adapter_unlimited_pods") == 0, "no pod is counted", 30)
