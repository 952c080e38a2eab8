"""Removes the agent's files, labels and resources from a node.

Mounts of a running container stay: its pod has to end first.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.store import Store
from hami_plugins.model.units import PodUid
from hami_plugins.node.hami_core.library import RECORD
from hami_plugins.wire.fields import Json
from hami_plugins.wire.hami_core import LIBRARY, PRELOAD
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent import competing_plugins, node
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.containers import REMEDY, ContainerDirectories
from volcano_vgpu.agent.kubelet import OTHER_SOCKET, SOCKET
from volcano_vgpu.agent.mig_preparer import JOURNAL, JournalFile, take_back
from volcano_vgpu.agent.node import NodePublisher
from volcano_vgpu.agent.pods import NodePods
from volcano_vgpu.core import register
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.partitions import Partitioner
from volcano_vgpu.monitor.monitor import lock_of, writer_of

SECONDS: Final = 60.0
"""How long the kubelet may take to see that the slots are gone, and the API server to take the changes."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What was (or would be) removed, and what stays, each as a line for people."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class Cleaner:
    """Cleans one node; to be run on it, as the agent is. ``partitioner`` removes the MIG instances that it made."""

    def __init__(self, settings: AgentSettings, api: KubeApi, partitioner: Partitioner | None = None) -> None:
        self._settings = settings
        self._partitioner = partitioner
        self._journal = JournalFile(Path(settings.hook_path) / JOURNAL)
        self._api = api
        self._pods = NodePods(api, settings.node)
        self._specifications = CdiDirectory(Path(settings.cdi_directory), dialect=settings.dialect)
        self._directories = ContainerDirectories(Path(settings.hook_path), Path(settings.lock_path))

    def blocking_reason(self) -> str:
        """Why nothing can be removed now; empty where it can."""
        if SOCKET in competing_plugins.live_sockets(Path(self._settings.kubelet_directory)):
            return f"the agent still answers on {SOCKET}; end it first (remove its DaemonSet from this node)"
        return ""

    def left(self) -> Remains:
        """What is there."""
        self._specifications.look()
        running = self._running()
        removed = [*self._on_node(self._node()), *map(str, self._files(running))]
        return Remains(tuple(removed), self._kept(running))

    def clean(self) -> Remains:
        """Removes it, the node's words first: no slot is on offer without a register."""
        before = self.left()
        running = self._running()
        kept: list[str] = list(before.kept)
        if self._on_node(self._node()) and not self._withdrawn():
            kept.append(f"node {self._settings.node}: the API server did not accept the changes; run this again")
        kept += self._removed(running)
        after = {*self._on_node(self._node()), *map(str, self._files(running))}
        return Remains(tuple(item for item in before.removed if item not in after), tuple(kept))

    def _removed(self, running: Collection[PodUid]) -> list[str]:
        """Removes the files; why each that stays cannot be."""
        reasons = [self._specifications.forget(uid) for uid in self._specifications.pods - frozenset(running)]
        for name in self._directories.names():
            if PodUid(name.partition("_")[0]) not in running:
                try:
                    while not self._directories.remove(name):
                        pass
                except OSError as error:
                    reasons.append(f"{self._directories.path(name)}: {error.strerror or error}; {REMEDY}")
        reasons.append(self._taken_back())
        writer_of(self._settings).let_go()
        for path in self._own_files(frozenset(running)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                reasons.append(f"{path}: {error.strerror or error}")
        return [reason for reason in reasons if reason]

    def _taken_back(self) -> str:
        """Removes the MIG instances that the agent made; why some stay."""
        if not self._journal.path.exists():
            return ""
        if self._partitioner is None:
            return f"{self._journal.path}: MIG instances that the agent made; set flexibleMig, and run this again"
        pods, settings = self._pods.read_of_node(), self._settings
        return take_back(self._journal, self._partitioner, pods, settings.node, settings.spec)

    def _node(self) -> Json:
        return self._api.get(paths.node(self._settings.node))

    def _on_node(self, found: Json) -> list[str]:
        """The annotations and sums of ours that the node has, and its slots."""
        changes = register.withdrawal(found, self._settings)
        name, count = self._settings.node, self._settings.names.count
        annotations = (changes.node.get("metadata") or {}).get("annotations") or {}
        sums = (changes.status.get("status") or {}).get("capacity") or {}
        lines = [f"node {name}: annotation {key}" for key in sorted(annotations)]
        lines += [f"node {name}: capacity {key}" for key in sorted(sums)]
        if register.allocatable(found, count) > 0:
            lines.append(f"node {name}: {register.allocatable(found, count)} {count}")
        return lines

    def _withdrawn(self) -> bool:
        """Takes back what the node says. A publisher does it, by the same rules as while the agent runs."""
        name = f"metadata.name={self._settings.node}"
        own = Store(self._api, Selection(paths.NODES, "Node", fields=name), name="own-node", trim=node.trimmed)
        publisher = NodePublisher(
            self._api,
            own,
            self._settings,
            on_offer=lambda _cards: None,
            luck=random.Random(0),  # noqa: S311 - there is nothing to spread
        )
        with own, publisher:
            return publisher.withdraw(SECONDS)

    def _running(self) -> frozenset[PodUid]:
        """The pods that may still use what they were given."""
        return frozenset(PodUid(str(raw["metadata"]["uid"])) for raw in self._pods.read_of_node() if not finished(raw))

    def _files(self, running: frozenset[PodUid]) -> Iterable[Path]:
        for uid in sorted(self._specifications.pods - running):
            yield self._specifications.path(uid)
        for name in self._directories.names():
            if PodUid(name.partition("_")[0]) not in running:
                yield self._directories.path(name)
        yield from self._own_files(running)
        if self._journal.path.exists():
            yield self._journal.path

    def _own_files(self, running: frozenset[PodUid]) -> list[Path]:
        """Library, socket and lock; the library stays as long as a container has it mounted."""
        hook = Path(self._settings.hook_path)
        plugins = Path(self._settings.kubelet_directory)
        names = [plugins / SOCKET, plugins / OTHER_SOCKET, lock_of(self._settings)]
        if not self._specifications.pods & running and (hook / RECORD).exists():
            names += [hook / LIBRARY, hook / PRELOAD, hook / RECORD]
        return [path for path in names if path.exists()]

    def _kept(self, running: frozenset[PodUid]) -> tuple[str, ...]:
        return tuple(
            f"{self._specifications.path(uid)}: pod {uid} still runs; delete it, and run this again"
            for uid in sorted(self._specifications.pods & running)
        )
