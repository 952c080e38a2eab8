"""A node: containerd and a kubelet on the private machine."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from tests.cluster.api import Object
from tests.cluster.containerd import SOCKET, containerd, import_images
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import PATIENCE, wait_until

_END: Final = "--- end"

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"


class Node:
    """Starts on creation and is then ready for pods. Its paths, sockets and processes are the private machine's."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.machine = plane.machine
        self.name = NODE
        self.containerd = containerd(self.machine, plane.programs)
        self.kubelet = self._kubelet()
        self.containerd.start()
        import_images(self.machine, plane.programs)
        self.kubelet.start()
        self.wait_ready()

    def wait_ready(self, timeout: float = 60.0) -> Object:
        """The Node object once it is Ready and carries no taint."""

        def ready() -> Object | None:
            node = self.plane.api.get(f"/api/v1/nodes/{self.name}")
            conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
            return node if conditions.get("Ready") == "True" and not node["spec"].get("taints") else None

        def story() -> str:
            return json.dumps(self.plane.api.find(f"/api/v1/nodes/{self.name}"), indent=1)

        node = wait_until(ready, f"node {self.name} is Ready and untainted", timeout, show=story)
        assert node is not None
        return node

    def path(self, inside: str) -> Path:
        """How the test reaches a path of the node, such as ``DEVICE_PLUGINS``; unix sockets included."""
        return self.machine.path(inside)

    def execute(
        self,
        namespace: str,
        pod: str,
        arguments: Sequence[str],
        *,
        container: str = "main",
        timeout: float = 30.0 * PATIENCE,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a running container, straight through containerd, so that it works without the kubelet."""
        status = self.plane.api.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]
        every = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
        ids = {each["name"]: each.get("containerID", "") for each in every}
        assert ids.get(container), f"pod {namespace}/{pod} has no running container {container}: {ids}"
        enter = ["tasks", "exec", "--exec-id", secrets.token_hex(6), ids[container].rpartition("/")[2]]
        program = str(self.plane.programs["ctr"])
        return self.machine.run(
            [program, "--address", SOCKET, "--namespace", "k8s.io", *enter, *arguments], timeout=timeout
        )

    def output(self, namespace: str, pod: str, arguments: Sequence[str], *, container: str = "main") -> str:
        """All that a command prints that succeeds: ``ctr`` may end before it has handed on what a short one printed."""
        command = ["/bin/sh", "-c", '"$@" && printf %s "$0"', _END, *arguments]

        def whole() -> str | None:
            done = self.execute(namespace, pod, command, container=container)
            assert done.returncode == 0, done.stderr
            return done.stdout if done.stdout.endswith(_END) else None

        found = wait_until(whole, f"all that {arguments} prints in {pod}/{container}")
        assert found is not None
        return found.removesuffix(_END)

    def _kubelet(self) -> Component:
        health = free_port()
        config = self.machine.root / "kubelet.yaml"
        config.write_text(yaml.safe_dump(_config(self.machine.name, port=free_port(), health=health)))
        arguments = [
            str(self.plane.programs["kubelet"]),
            f"--kubeconfig={self.plane.kubeconfig('kubelet', self.plane.kubelet_token)}",
            f"--config={config}",
            f"--hostname-override={self.name}",
            "--v=4",
        ]
        ready = f"http://127.0.0.1:{health}/healthz"
        return Component(self.machine, "kubelet", arguments, ready=lambda: healthy(ready))


def _config(group: str, *, port: int, health: int) -> Object:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": health,
        "readOnlyPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}, "x509": {}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupRoot": f"/{group}",  # or two clusters on one host would clean up each other's pods
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # by default in the host's /usr
        "resolvConf": "",
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "enforceNodeAllocatable": [],
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "4s",
        "shutdownGracePeriod": "0s",
    }
