"""One pod asked of many nodes: of those that the cache knows, and of those that only the caller knows.

A scheduler that sends whole nodes may send some that do not exist: an autoscaler asks about nodes that it could create.
They are taken as their objects describe them, without pods. A node that the cache knows is asked with its pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hami_plugins.allocations.cache import UNKNOWN_NODE, AllocationCache
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import WireError
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import Left
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json


def as_it_is(raw: Json) -> Json:
    """The node, of which nothing more is known."""
    return raw


class NodeAnswers:
    """The answers to one call about ``intake``; ``given`` are the Nodes that came with it, by name.

    ``described`` says what a node that does not exist yet will say of its devices; it may raise ``WireError``.

    ``unreadable`` collects why given nodes that the cache does not know cannot be read.
    """

    __slots__ = ("_ask_without_quota", "_described", "_strangers", "ask", "cache", "given", "intake", "unreadable")

    def __init__(
        self,
        cache: AllocationCache,
        intake: PodInfo,
        given: Mapping[NodeName, Json],
        described: Callable[[Json], Json] = as_it_is,
    ) -> None:
        self.cache = cache
        self.intake = cache.within_quota(intake)
        self.given = given
        self._described = described
        self.unreadable: dict[NodeName, str] = {}
        self.ask = cache.asking(self.intake)
        self._ask_without_quota = self.ask if self.intake is intake else cache.asking(intake)
        self._strangers: dict[NodeName, NodeEntry | None] = {}

    @property
    def left(self) -> Left:
        """What the quotas of the pod's namespace leave."""
        return self.intake.demand.headroom

    def answers(self, nodes: Iterable[NodeName]) -> dict[NodeName, Fit | Refusal]:
        """What each node says to the pod. Nodes in one state fit alike, unless names of cards matter."""
        found: dict[NodeName, Fit | Refusal] = {}
        for node in nodes:
            entry = self.asked(node)
            found[node] = UNKNOWN_NODE if entry is None else self.ask(entry)
        return found

    def asked(self, node: NodeName) -> NodeEntry | None:
        """The node without what the pod itself is assumed to hold there; ``None`` for one that is not known."""
        return self.cache.entry_without(node, self.intake.pod.uid) or self._stranger(node)

    def entry(self, node: NodeName) -> NodeEntry | None:
        """The node with everybody who holds something there."""
        return self.cache.entry(node) or self._stranger(node)

    def lasts(self, node: NodeName) -> bool:
        """Whether a refusal would stay if all pods of the node were evicted.

        Quota headroom is ignored: an evicted pod may give back the shortage.
        """
        bare = self.cache.bare(node) or self._stranger(node)
        return bare is None or not isinstance(self._ask_without_quota(bare), Fit)

    def _stranger(self, node: NodeName) -> NodeEntry | None:
        raw = self.given.get(node)
        if raw is None:
            return None
        if node not in self._strangers:
            try:
                self._strangers[node] = self.cache.stranger(objects.node_object(self._described(raw)))
            except WireError as error:
                self._strangers[node], self.unreadable[node] = None, str(error)
        return self._strangers[node]
