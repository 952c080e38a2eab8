"""Everything that the serving of containers needs of the rest of the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.checkpoint import Checkpoint
from hami_plugins.node.kubelet.pod_resources import ContainerDevices
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.containers import ContainerDirectories
from volcano_vgpu.core.edits import EditSettings
from volcano_vgpu.core.refusals import ContainerRefusal
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer


class Pods(Protocol):
    """The pods of this node: ``get``, ``by_name`` and ``all`` from the watch, the others from the API server."""

    def get(self, uid: str) -> Json | None:
        """The pod with that UID."""

    def by_name(self, namespace: str, name: str) -> Json | None:
        """The pod of that name."""

    def all(self) -> Collection[Json]:
        """Every pod."""

    def first(self, uid: str) -> Mapping[str, str] | None:
        """The annotations of a pod when it was first shown on this node; ``None`` where that is not known."""

    def read(self, namespace: str, name: str) -> Json | None:
        """The pod as it is now, ``None`` where there is none. Raises ``KubeError``."""

    def read_of_node(self) -> Collection[Json]:
        """The pods of this node as they are now. Raises ``KubeError``."""


class Outcomes(Protocol):
    """Receives the outcome of each call; it must not block."""

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:
        """These containers of a pod have what they were allocated."""

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:
        """A container does not get what it asks for."""


class Reservations:
    """Reservations of pods that are decided concurrently; to be used under its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: dict[PodUid, PodRecord | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that the serving of containers needs of the rest.

    ``resource`` is the one that the kubelet counts; ``unlimited`` says why no limit would hold on this node, where that
    is so. ``reservations`` are shared by all that serve containers of the node.
    """

    resource: str
    offer: Callable[[], NodeOffer]
    settings: Callable[[], EditSettings]
    pods: Pods
    checkpoint: Callable[[], Checkpoint]
    listed: Callable[[], Iterable[ContainerDevices]]
    specifications: CdiDirectory
    directories: ContainerDirectories
    outcomes: Outcomes
    unlimited: Callable[[], ContainerRefusal | None] = lambda: None
    reservations: Reservations = field(default_factory=Reservations)
