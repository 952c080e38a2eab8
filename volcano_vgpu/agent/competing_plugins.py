"""Who else owns the cards of this node, or the resource by which they are handed out.

Two plugins that share the same cards do not know of each other's slices: pods get memory twice, or a whole card instead
of a slice. So the agent does not start while another plugin serves the cards, and names that plugin.
"""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hami_plugins.node.kubelet import sockets
from hami_plugins.vendors import nvidia
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import finished, leaving
from volcano_vgpu.agent.kubelet import SOCKET
from volcano_vgpu.core import register, slots

WHOLE_CARDS: Final = nvidia.RESOURCES.count
"""The resource of NVIDIA's own plugin, and of HAMi's."""

_NVIDIAS: Final = re.compile(r"nvidia-.*\.sock|nvidia\.sock|volcano\.sock|hami-.*\.sock")
_CARD_PLUGIN: Final = re.compile(r"nvidia.*device-plugin|k8s-device-plugin|vgpu|hami|gpu-?share")
_ANSWER_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class CompetingPlugin:
    """Another owner: who or what it is, and what to do."""

    sentence: str
    remedy: str

    def __str__(self) -> str:
        """Both, as they are logged and reported."""
        return f"{self.sentence}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """The node's state: sockets with a listening process, the node, its pods, and the ids that the kubelet remembers
    for each resource (``Checkpoint.registered``). ``own_pod`` is the UID or the name of the agent's own pod."""

    sockets: tuple[str, ...]
    node: Json
    pods: tuple[Json, ...] = ()
    remembered: Mapping[str, Collection[str]] = field(default_factory=dict)
    own_pod: str = ""


def live_sockets(directory: Path) -> tuple[str, ...]:
    """The names of the sockets in the kubelet's plugin directory on which a server answers, except the kubelet's."""
    try:
        found = sorted(directory.iterdir())
    except OSError:
        return ()
    return tuple(path.name for path in found if path.name != sockets.KUBELET_SOCKET and _answers(path))


def rivals(around: NodeEnvironment, *, resource: str, directory: str) -> tuple[CompetingPlugin, ...]:
    """Everybody who owns the same cards or the same resource.

    An agent that ran here before, in whichever dialect, is none: its slots are known by their names.
    """
    suspects = _suspects(around, directory)
    named = f" (it may be {', '.join(suspects)})" if suspects else ""
    found = [_of_socket(name, named) for name in around.sockets if name == SOCKET or _NVIDIAS.fullmatch(name)]
    cards = register.allocatable(around.node, WHOLE_CARDS)
    if cards > 0 and not _ours(around.remembered.get(WHOLE_CARDS, ())):
        found.append(
            CompetingPlugin(
                f"the node offers {cards} {WHOLE_CARDS}: another plugin allocates the same cards{named}",
                f"remove it from this node, or take the node out of its selector; {WHOLE_CARDS} must be 0",
            )
        )
    number = register.allocatable(around.node, resource) if resource != WHOLE_CARDS else 0
    if number > 0 and not _ours(around.remembered.get(resource, ())):
        found.append(
            CompetingPlugin(
                f"the node offers {number} {resource} that the agent did not offer{named}",
                "remove the other plugin from this node; the kubelet forgets its slots some seconds later",
            )
        )
    if not found:
        found.extend(
            CompetingPlugin(
                f"pod {name} has the kubelet's plugin directory mounted and looks like another plugin for the cards",
                "remove it from this node, or set exclusive: ignore if it is not one",
            )
            for name in suspects
        )
    return tuple(found)


def _of_socket(name: str, named: str) -> CompetingPlugin:
    if name == SOCKET:
        return CompetingPlugin(f"another agent answers on {name}{named}", "stop it first; one agent serves a node")
    return CompetingPlugin(
        f"another device plugin answers on {name}{named}", "remove it from this node before the agent takes over"
    )


def _ours(remembered: Iterable[str]) -> bool:
    """Whether the offered slots are those of an earlier agent: it left names, and no other component did."""
    names = tuple(remembered)
    return bool(names) and all(name.startswith("vgpu-") and slots.foreign_card_of(name) is None for name in names)


def _suspects(around: NodeEnvironment, directory: str) -> tuple[str, ...]:
    """Pods that could be the other plugin, with their images."""
    found: list[str] = []
    for pod in around.pods:
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        own = around.own_pod in (metadata.get("uid"), metadata.get("name"))
        if finished(pod) or leaving(pod) or own or not _mounts(spec, directory):
            continue
        images = [str(each.get("image") or "") for each in spec.get("containers") or []]
        name = f"{metadata.get('namespace')}/{metadata.get('name')}"
        if _CARD_PLUGIN.search(" ".join((name, *images))):
            found.append(f"{name} with image {', '.join(images)}")
    return tuple(found)


def _mounts(spec: Mapping[str, Any], directory: str) -> bool:
    """Whether a pod sees the plugin directory: it, or a directory above it, is among its host paths."""
    wanted = Path(directory)
    paths = [str((volume.get("hostPath") or {}).get("path") or "") for volume in spec.get("volumes") or []]
    return any(Path(path) in (wanted, *wanted.parents) and path != "/" for path in paths if path)


def _answers(path: Path) -> bool:
    """Whether a server listens. A file that a plugin left behind when it died refuses connections."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_ANSWER_SECONDS)
            probe.connect(str(path))
    except OSError:
        return False
    return True
