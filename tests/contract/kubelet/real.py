"""A real kubelet with containerd as the cases want it, made from the node of ``tests/cluster``."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any

from hami_plugins.kube import paths
from hami_plugins.kube.client import connect
from hami_plugins.kubelet.sockets import KUBELET_SOCKET
from tests.cluster.containerd import SOCKET
from tests.cluster.images import BASE
from tests.cluster.node import DEVICE_PLUGINS, POD_RESOURCES, Node


class RealKubelet:
    """See ``KubeletUnderTest``. ``close`` it when all cases are through."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._client = connect(kubeconfig=str(node.plane.admin_kubeconfig), component="contract")
        self._starting: threading.Thread | None = None
        self.api = self._client
        self.node = node.name
        self.plugin_directory = node.path(DEVICE_PLUGINS)
        self.pod_resources_socket = node.path(POD_RESOURCES)
        self.cdi_directory = node.path("/var/run/cdi")
        self.scratch: Path = node.machine.root / "scratch"
        self.patience = 60.0
        self.quiet = 12.0
        self.cdi_directory.mkdir(parents=True, exist_ok=True)
        self.scratch.mkdir(exist_ok=True)

    def manifest(self, pod: dict[str, Any]) -> dict[str, Any]:
        spec: dict[str, Any] = {**pod["spec"], "hostNetwork": True, "automountServiceAccountToken": False}
        for members in ("containers", "initContainers"):
            spec[members] = [
                {"image": BASE, "imagePullPolicy": "Never", **container} for container in spec.get(members) or ()
            ]
        return {**pod, "spec": spec}

    def environment(self, pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        entries = self._execute(pod, container, "cat", "/proc/1/environ").split("\0")
        return {name: value for name, _, value in (entry.partition("=") for entry in entries) if name}

    def read(self, pod: Mapping[str, Any], container: str, path: str) -> str:
        return self._execute(pod, container, "cat", path)

    def end(self, pod: Mapping[str, Any], container: str) -> None:
        status = self.api.get(paths.pod(pod["metadata"]["namespace"], pod["metadata"]["name"]))["status"]
        ids = {each["name"]: each["containerID"].rpartition("/")[2] for each in status["containerStatuses"]}
        ctr = [str(self._node.plane.programs["ctr"]), "--address", SOCKET, "--namespace", "k8s.io"]
        self._node.machine.run([*ctr, "tasks", "kill", "--signal", "SIGKILL", ids[container]], timeout=30)

    def kill(self) -> None:
        self.close()
        self._node.kubelet.stop(SIGKILL)

    def start(self) -> None:
        """Does not wait until the kubelet says that it is healthy: plugins have to be back before it takes pods in."""
        path = self.plugin_directory / KUBELET_SOCKET
        before = _identity(path)
        self._starting = threading.Thread(target=self._node.kubelet.start)
        self._starting.start()
        deadline = time.monotonic() + self.patience
        while _identity(path) in (before, None):
            assert time.monotonic() < deadline, "the kubelet does not open its socket"
            time.sleep(0.02)

    def close(self) -> None:
        """Waits for a start that is under way."""
        if self._starting is not None:
            self._starting.join()
            self._starting = None

    def _execute(self, pod: Mapping[str, Any], container: str, *command: str) -> str:
        metadata = pod["metadata"]
        return self._node.execute(metadata["namespace"], metadata["name"], command, container=container).stdout


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns
