"""Kinds that every cluster has and a listing lacks: without them a decision answers a different question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot, Listing
from hami_plugins.model.pods import Pod
from hami_plugins.wire import kubernetes_gangs
from hami_plugins.wire.gang_keys import GROUP_KEY

REMEDY: Final = "list the whole cluster: kubectl get nodes,pods,resourcequotas,queues,podgroups -A -o json"
"""How to list the inputs of a decision; without Volcano there are no queues and pod groups."""

SYSTEM_NAMESPACE: Final = "kube-system"
"""A new cluster has pods in this namespace alone."""


class Gap(NamedTuple):
    """A kind of which the listing has no object, or too few, and what that means for a decision."""

    kind: str
    why: str

    @property
    def message(self) -> str:
        """The reason and the remedy."""
        return f"{self.why}; {REMEDY}"


NO_CLASSES: Final = Gap(
    "PriorityClass",
    "no priority classes in this listing: policies of preemption, and perhaps PodDisruptionBudgets, are not looked at "
    "(also list priorityclasses,poddisruptionbudgets)",
)
"""Every cluster has those of its system pods."""


NO_NATIVE_GANGS: Final = Gap(
    "PodGroup",
    "no gangs of Kubernetes in this listing, but pods name some: what they wait for is not known (also list "
    "podgroups.scheduling.k8s.io, or workloads.scheduling.k8s.io of 1.35)",
)
"""Only the group of a gang says how many of its pods start together."""


def gaps(
    snapshot: ClusterSnapshot,
    pods: Iterable[Pod],
    *,
    without_pods: str = "no pods in this listing: planned on an idle cluster",
    evicting: bool = False,
) -> tuple[Gap, ...]:
    """What the listing of the snapshot lacks for decisions about these pods; nothing for a complete source.

    ``without_pods`` is the reason given where the listing has no pods; ``evicting`` says that victims are looked for.
    Only kinds count of which every cluster has
    objects, so that a missing one is certain. A cluster may well have no ResourceQuota.
    """
    listing = snapshot.listing
    if listing is None:
        return ()
    found = tuple(_gaps(listing, snapshot, tuple(pods), without_pods))
    return found if not evicting or listing.kinds.get("PriorityClass") else (*found, NO_CLASSES)


def _gaps(listing: Listing, snapshot: ClusterSnapshot, pods: tuple[Pod, ...], without_pods: str) -> Iterator[Gap]:
    if not listing.kinds.get("Pod"):
        yield Gap("Pod", without_pods)
    elif len(listing.pod_namespaces) == 1 and SYSTEM_NAMESPACE not in listing.pod_namespaces:
        (only,) = listing.pod_namespaces
        why = f"this listing has pods of namespace {only} only: pods of other namespaces count as absent"
        yield Gap("Pod", why)
    named = [pod for pod in pods if pod.native_group and pod.scheduler != VOLCANO]
    if named and not any(kubernetes_gangs.of_record(group.name) for group in snapshot.pod_groups.values()):
        yield NO_NATIVE_GANGS
    if not any(pod.scheduler == VOLCANO for pod in pods):
        return
    if not snapshot.queues:
        yield Gap("Queue", "no queues in this listing: limits of Volcano's queues are not checked")
    if not listing.kinds.get("PodGroup") and _names_groups(snapshot):
        why = "no pod groups in this listing, but pods name some: what gangs wait for is not known"
        yield Gap("PodGroup", why)


def _names_groups(snapshot: ClusterSnapshot) -> bool:
    running = any(record.group for entry in snapshot.nodes for record in entry.pods)
    return running or any(pod.annotations.get(GROUP_KEY) for pod in snapshot.pending)
