"""The emulated kubelet as the cases want it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hami_plugins.kube.client import connect_to
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet import EmulatedKubelet, RunningContainer, Times
from tests.waiting import PATIENCE


class EmbeddedKubelet:
    """See ``KubeletUnderTest``."""

    def __init__(self, api: KubeApi, node: str, root: Path) -> None:
        self.kubelet = EmulatedKubelet(api, node, root, times=Times.fast())
        self.api = api
        self.node = node
        self.plugin_directory = self.kubelet.plugin_directory
        self.pod_resources_socket = self.kubelet.pod_resources_socket
        self.cdi_directory = self.kubelet.cdi_directory
        self.scratch = root / "scratch"
        self.patience = PATIENCE
        self.quiet = 0.5
        self.scratch.mkdir()

    def manifest(self, pod: dict[str, Any]) -> dict[str, Any]:
        containers = [{"image": "localhost/base:1", **each} for each in pod["spec"]["containers"]]
        inits = [{"image": "localhost/base:1", **each} for each in pod["spec"].get("initContainers") or ()]
        return {**pod, "spec": {**pod["spec"], "containers": containers, "initContainers": inits}}

    def environment(self, pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        return self._container(pod, container).env

    def read(self, pod: Mapping[str, Any], container: str, path: str) -> str:
        for mount in self._container(pod, container).mounts:
            if path.startswith(mount.container):
                return Path(mount.host + path.removeprefix(mount.container)).read_text()
        raise FileNotFoundError(path)

    def end(self, pod: Mapping[str, Any], container: str) -> None:
        assert self.kubelet.finish(pod["metadata"]["uid"], container, exit_code=137)

    def kill(self) -> None:
        self.kubelet.stop()

    def start(self) -> None:
        self.kubelet.start()

    def _container(self, pod: Mapping[str, Any], name: str) -> RunningContainer:
        return self.kubelet.containers(pod["metadata"]["uid"], name)[-1]


@contextmanager
def embedded_kubelet() -> Iterator[EmbeddedKubelet]:
    """A cluster of one node, running; its directory is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as root, ApiServer() as server:
        server.put(bare_node("node1"))
        client = connect_to(server.url, component="kubelet")
        kubelet = EmbeddedKubelet(client, "node1", Path(root))
        kubelet.start()
        try:
            yield kubelet
        finally:
            kubelet.kill()
            client.close()
