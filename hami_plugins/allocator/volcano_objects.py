"""The objects that decide which pods Volcano evicts for which, as the watches show them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.allocator.object_store import ObjectStore
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.units import NodeName
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json

_NO_FACTS: Final = NodeFacts()


class VolcanoObjects:
    """Queues, PriorityClasses, and what a scheduler looks at on nodes. Safe to use from any thread.

    One that cannot be read keeps what it said before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues = ObjectStore(_queue)
        self._classes = ObjectStore(_class)
        self._facts = ObjectStore(_facts)
        self._entries: dict[NodeName, tuple[NodeEntry, NodeFacts, NodeEntry]] = {}

    def queue_changed(self, change: ObjectChange) -> None:
        """A Queue came, changed or went."""
        self._queues.changed(change)

    def class_changed(self, change: ObjectChange) -> None:
        """A PriorityClass came, changed or went."""
        self._classes.changed(change)

    def node_changed(self, change: ObjectChange) -> None:
        """A node came, changed or went."""
        self._facts.changed(change)

    def added_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with these objects. Nodes that have not changed since the last call are the same values."""
        with self._lock:
            nodes = tuple(self._with_facts(snapshot, self._facts.by_name()))
        return replace(
            snapshot,
            nodes=nodes,
            queues=self._queues.by_name(),
            priorities=self._classes.by_name(),
        )

    def _with_facts(self, snapshot: ClusterSnapshot, facts: Mapping[str, NodeFacts]) -> Iterator[NodeEntry]:
        before, self._entries = self._entries, {}
        for entry in snapshot.nodes:
            of_node = facts.get(entry.name, _NO_FACTS)
            known = before.get(entry.name)
            if known is None or known[0] is not entry or known[1] is not of_node:
                known = entry, of_node, replace(entry, facts=of_node)
            self._entries[entry.name] = known
            yield known[2]


def _queue(raw: Json) -> tuple[str, Queue]:
    found, _ = objects.readable_queue(raw)
    return found.name, found


def _class(raw: Json) -> tuple[str, int]:
    found = objects.priority_class(raw)
    return found.name, found.value


def _facts(raw: Json) -> tuple[str, NodeFacts]:
    return objects.node_object(raw).name, objects.node_facts(raw)
