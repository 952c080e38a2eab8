"""Removes from a cluster what a release of the chart leaves there that Helm does not know of.

The agents are ended first: each cleans its own node when it sees that its DaemonSet goes (``for_good``), and only they
reach its files. The steps here are for nodes whose agent could not do that: it was missing, or its pod never ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog

from hami_plugins.engine.eligibility import selected
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths, removal
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.wire import lenient, node_devices, pods
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.cleanup import Remains
from volcano_vgpu.core import register
from volcano_vgpu.core.settings import AgentSettings

_NOT_FOUND: Final = 404

_log = structlog.get_logger(__name__)


class AgentRelease(removal.Release):
    """The identity of a release, and its objects."""

    @property
    def daemon_set(self) -> str:
        """The DaemonSet, as nodes name it."""
        return f"{self.namespace}/{self.name}-agent"

    @property
    def agents(self) -> str:
        """The path of the DaemonSet."""
        return paths.daemon_set(self.namespace, f"{self.name}-agent")

    @property
    def workloads(self) -> tuple[str, ...]:
        """What runs, and writes again what is removed under it."""
        return (self.agents,)


def for_good(api: KubeApi, daemon_set: str, node: str, labels: Mapping[str, str]) -> bool:
    """Whether an agent that ends will not come back to the node of that name, with these labels.

    Its DaemonSet (``NAMESPACE/NAME``) is deleted, or being deleted, or no longer chooses the node, by selector or
    affinity. Where that cannot be told, or no DaemonSet is named, it will come back.
    """
    namespace, slash, name = daemon_set.partition("/")
    if not slash:
        return False
    try:
        found = api.get(paths.daemon_set(namespace, name))
    except KubeError as error:
        if error.status == _NOT_FOUND:
            return True
        _log.warning("daemon_set_not_read", daemon_set=daemon_set, error=str(error))
        return False
    if pods.leaving(found):
        return True
    template = lenient.inside(found, "spec", "template", "spec")
    places = {key: template[key] for key in ("nodeSelector", "affinity") if key in template}
    return not selected(node, labels, pods.pod({"metadata": {"name": name}, "spec": places}).constraints)


class Uninstaller:
    """Removes one release's remains. ``settings`` say how its resources are called."""

    def __init__(
        self,
        api: KubeApi,
        settings: AgentSettings,
        release: AgentRelease,
        *,
        patience: float = removal.PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._settings = settings
        self._release = release
        self._patience = patience
        self._sleep = sleep

    def left(self) -> Remains:
        """What is there."""
        workloads = [path for path in self._release.workloads if removal.find(self._api, path)]
        return Remains((*workloads, *self._words(self._nodes())))

    def remove(self) -> Remains:
        """Removes it, those who write first; what does not end in time stays, with its nodes. Raises ``KubeError``."""
        found, nodes = self.left(), self._nodes()
        for path in self._release.workloads:
            removal.remove(self._api, path, removal.FOREGROUND)
        late = removal.late(self._api, self._release.workloads, patience=self._patience, sleep=self._sleep)
        stuck = dict(self._agents()) if self._release.agents in late else {}
        ended = [name for name in nodes if name not in stuck.values()]
        for name in ended:
            self._withdraw(name)
        left = {*late, *self._words(nodes)}
        kept = [
            f"{path}: its pods have not ended within {self._patience:g} s; find the cause and try again"
            for path in late
        ]
        kept += [f"pod {pod} on node {name} has not ended, so the node was left alone" for pod, name in stuck.items()]
        kept += [f"{line}: it was written again; find its writer" for line in self._words(ended)]
        return Remains(tuple(line for line in found.removed if line not in left), tuple(kept))

    def _words(self, nodes: Iterable[str]) -> list[str]:
        return [line for name in nodes for line in self._on(name)]

    def _nodes(self) -> tuple[str, ...]:
        """Those that the release speaks for, and those with its agents on them; another release's are its own."""
        said: dict[str, str] = {}
        for page in self._api.list_pages(Selection(paths.NODES, "Node")):
            for node in page.items:
                if owner := register.annotations_of(node).get(node_devices.AGENTS_KEY):
                    said[str(node["metadata"]["name"])] = owner
        ours = {name for name, owner in said.items() if owner == self._release.daemon_set}
        return tuple(sorted(ours | {name for _, name in self._agents() if name not in said}))

    def _agents(self) -> Iterator[tuple[str, str]]:
        """The pods of the agents, each with its node."""
        agents = removal.find(self._api, self._release.agents)
        if agents is None:
            return
        uid = agents["metadata"].get("uid")
        for pod in self._pods():
            where = pods.node_of(pod)
            if where and any(owner.get("uid") == uid for owner in pods.owners(pod)):
                yield str(pod["metadata"]["name"]), where

    def _pods(self) -> Iterator[Json]:
        for page in self._api.list_pages(Selection(paths.pods(self._release.namespace), "Pod")):
            yield from page.items

    def _on(self, name: str) -> list[str]:
        """What a node still says."""
        node = removal.find(self._api, paths.node(name))
        if node is None:
            return []
        changes = register.withdrawal(node, self._settings)
        annotations = (changes.node.get("metadata") or {}).get("annotations") or {}
        sums = (changes.status.get("status") or {}).get("capacity") or {}
        return [f"node {name}: annotation {key}" for key in sorted(annotations)] + [
            f"node {name}: capacity {key}" for key in sorted(sums)
        ]

    def _withdraw(self, name: str) -> None:
        """Takes back what a node says: sums and slots first, for Volcano must never meet slots without a register."""
        node = removal.find(self._api, paths.node(name))
        if node is None:
            return
        changes = register.withdrawal(node, self._settings)
        if changes.status:
            self._api.merge_patch(paths.node_status(name), changes.status)
        if changes.node:
            self._api.merge_patch(paths.node(name), changes.node)
