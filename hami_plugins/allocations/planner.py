"""What a product may know beyond the devices of one node: which pods belong together, and what time it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid


class AllocationPlanner:
    """Knows nothing. The cache calls it under its lock, so that one thread at a time is in it."""

    def pod_seen(self, pod: Pod, intake: PodInfo | None) -> None:
        """A pod that asks for devices; ``intake`` while it waits."""

    def pod_gone(self, uid: PodUid) -> None:
        """A pod is gone, or has finished."""

    def group_seen(self, group: PodGroup) -> None:
        """A group of pods that start together."""

    def group_gone(self, namespace: str, name: str) -> None:
        """A group is gone."""

    def reads_notes(self, intake: PodInfo) -> bool:
        """Whether ``objection`` may mind nodes with notes."""
        del intake
        return False

    def objection(self, node: NodeName, intake: PodInfo, cache: AllocationCache) -> str:
        """Why the pod must not begin on the node now although devices may be free; empty where nothing minds."""
        del node, intake, cache
        return ""

    def blocking_reason(self, intake: PodInfo, cache: AllocationCache) -> str:
        """Why it is of no use to place the pod anywhere now."""
        del intake, cache
        return ""

    def preferred(self, node: NodeName, intake: PodInfo, cache: AllocationCache) -> PodDemand | None:
        """What is to be asked of the node in the pod's name, where that is more than the pod says itself."""
        del node, intake, cache
        return None

    def bonus(self, nodes: Iterable[NodeName], intake: PodInfo, cache: AllocationCache) -> Mapping[NodeName, float]:
        """What is added to the scores of nodes; the nodes are all that the scheduler has left for the pod."""
        del nodes, intake, cache
        return {}
