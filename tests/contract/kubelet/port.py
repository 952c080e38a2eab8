"""What the cases ask of a kubelet, whichever it is: the emulated one, or the real one with containerd.

Only what differs is here; pods, nodes and the sockets are the same for both and reached by ``api`` and paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from hami_plugins.kube.port import KubeApi


class KubeletUnderTest(Protocol):
    """A node of its own, with nothing on it but the pods of one case at a time.

    ``patience`` is how many seconds a case waits for something that is to happen, ``quiet`` how many it waits to see
    that something does not: two periods of the kubelet's slowest loop.
    """

    api: KubeApi
    node: str
    plugin_directory: Path
    pod_resources_socket: Path
    cdi_directory: Path
    scratch: Path
    patience: float
    quiet: float

    def manifest(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with what this node needs to run it: an image, host network, ..."""

    def environment(self, pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        """The environment of a running container."""

    def read(self, pod: Mapping[str, Any], container: str, path: str) -> str:
        """A file as a running container sees it."""

    def end(self, pod: Mapping[str, Any], container: str) -> None:
        """Ends the main process of a running container with a failure, from outside of Kubernetes."""

    def kill(self) -> None:
        """Ends the kubelet at once (kill -9); containers run on."""

    def start(self) -> None:
        """Starts the kubelet again; returns when kubelet.sock is open."""
