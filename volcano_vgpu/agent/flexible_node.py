"""A node whose MIG instances are made as pods need them, and one whose are not: the same to the agent."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId
from hami_plugins.wire import volcano
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.mig_preparer import JOURNAL, JournalFile, MigPreparer
from volcano_vgpu.agent.pods import NodePods
from volcano_vgpu.agent.reporter import Reporter
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.flexible import FlexibleDiscovery
from volcano_vgpu.discovery.partitions import Partitioner
from volcano_vgpu.discovery.port import Discovery


class WatchedNode:
    """``PromiseSource`` out of the watch of pods and what containers were given. ``key`` is that of allocations."""

    def __init__(self, pods: NodePods, specifications: CdiDirectory, key: str) -> None:
        self._pods = pods
        self._specifications = specifications
        self._key = key

    def pods(self) -> Iterable[Json] | None:
        """See ``PromiseSource``."""
        return self._pods.all() if self._pods.store.healthy else None

    def handed(self) -> Collection[tuple[DeviceId, str, int]]:
        """See ``PromiseSource``. The kubelet's record, and so the specification, outlives a pod and its containers."""
        found = set()
        for (uid, _), devices in self._specifications.allocations.items():
            raw = self._pods.get(uid)
            for each in devices if raw is not None and not finished(raw) else ():
                with contextlib.suppress(WireError):
                    slot = volcano.decode_slot(self._key, each.device)
                    if slot is not None:
                        found.add((slot.device, slot.group, slot.position))
        return found


class FlexibleNode:
    """Without a ``partitioner``, and where the settings do not want it, nothing is made and nothing removed.

    ``discovery`` is what the cards are to be looked for with.
    """

    def __init__(self, settings: AgentSettings, discovery: Discovery, partitioner: Partitioner | None) -> None:
        self.discovery = discovery
        self._settings = settings
        self._partitioner = partitioner if settings.makes_instances else None
        self._preparer: MigPreparer | None = None
        self._journal = JournalFile(Path(settings.hook_path) / JOURNAL)
        self._look_again = lambda: None
        if self._partitioner is not None:
            flexible = FlexibleDiscovery(discovery, self._partitioner, lambda: self._journal.entries)
            self.discovery, self._look_again = flexible, flexible.look_again

    def start(self, pods: NodePods, specifications: CdiDirectory, reporter: Reporter) -> None:
        """Begins to make and remove instances."""
        if self._partitioner is None:
            return
        spec = self._settings.spec
        self._preparer = MigPreparer(
            self._partitioner,
            self._journal,
            WatchedNode(pods, specifications, spec.keys.allocated),
            node=self._settings.node,
            spec=spec,
            on_change=self._look_again,
            on_blocked=lambda found: reporter.mig_blocked(found, pods.by_name),
        )
        self._preparer.start()

    def wake(self) -> None:
        """A pod came, changed or went."""
        if self._preparer is not None:
            self._preparer.wake()

    def stop(self) -> None:
        """Ends; instances stay as they are."""
        if self._preparer is not None:
            self._preparer.stop()
