"""What was worked out of each node, kept as long as the node has not changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import NodeName

Value = TypeVar("Value")


class PerNode(Generic[Value]):
    """One value for each node. A node that has changed is another ``NodeEntry``."""

    def __init__(self) -> None:
        self._entries: dict[NodeName, NodeEntry] = {}
        self._values: dict[NodeName, Value] = {}

    def of(self, entry: NodeEntry, make: Callable[[], Value]) -> Value:
        """The value of a node; ``make`` is called where it is not known."""
        if self._entries.get(entry.name) is not entry:
            self._values[entry.name] = make()
            self._entries[entry.name] = entry
        return self._values[entry.name]
