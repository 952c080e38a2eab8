"""Node agents as separate processes, each with an embedded kubelet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hami_plugins.cli.live.processes import DemoProcess
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.sandbox.kubelet import EmulatedKubelet

_SETTING: Final = "HAMI_PLUGINS__VOLCANO_VGPU__"
_LIBRARY: Final = "library"


def put_library(root: Path) -> None:
    """Puts something in the place of HAMi-core's library, which all agents under ``root`` share."""
    (root / _LIBRARY).mkdir()
    (root / _LIBRARY / "libvgpu.so").write_bytes(b"stands in for HAMi-core: nothing runs in these containers\n")


def user(node: str) -> str:
    """The token of a node's agent; the API server has to know it."""
    return f"agent-{node}"


def started(root: Path, server: ApiServer, kubelet: EmulatedKubelet, *, cards: Path) -> DemoProcess:
    """The agent of a node with the cards of a file; its own files are under ``root``."""
    node = kubelet.node
    access = server.kubeconfig(root / f"{node}.kubeconfig", token=user(node))
    files = {"--cards-file": cards, "--kubeconfig": access}
    arguments = ["--node-name", node, *(str(word) for option in files.items() for word in option)]
    return DemoProcess("agent", ["agent", *arguments], _settings(root, kubelet), root / f"{node}.log")


def _settings(root: Path, kubelet: EmulatedKubelet) -> dict[str, str]:
    own = root / kubelet.node
    chosen = {
        "KUBELET_DIRECTORY": kubelet.plugin_directory,
        "POD_RESOURCES_SOCKET": kubelet.pod_resources_socket,
        "CDI_DIRECTORY": kubelet.cdi_directory,
        "HOOK_PATH": own / "hook",
        "LOCK_PATH": own / "lock",
        "LIBRARY_SOURCE": root / _LIBRARY,
        "START_JITTER": 0,
        "LISTEN__HOST": "127.0.0.1",
        "LISTEN__PORT": 0,
        # The stand-in counts what pods hold anew in each session, so its cache is never in need of healing.
        "SCHEDULER__TOUCH": "never",
    }
    return {f"{_SETTING}{name}": str(value) for name, value in chosen.items()}
