"""What a plan says of MIG instances that NVIDIA's device plugin offers, and kube-scheduler counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hami_plugins.engine import static_mig
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.quantity import NANO
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.queueing.stages import PodPlan

_PLUGIN = "NVIDIA's device plugin, strategy"


def notes(plan: PodPlan, snapshot: ClusterSnapshot, registry: Registry) -> Iterator[str]:
    """What the amounts of a pod count, where it got them, and profiles that do not exist."""
    requests = plan.pod.constraints.requests
    entry = plan.before.node(plan.decision.node) if isinstance(plan.decision, Placed) else None
    for name, amount in static_mig.asked(requests, registry).items():
        if name == static_mig.CARDS:
            yield from _of_single(amount, entry)
        else:
            yield from _of_partition(name, amount, entry, snapshot)
    owner = registry.owner_of(static_mig.CARDS)
    if entry is None and owner is not None and any(name == static_mig.CARDS for name, _ in requests):
        yield from _left_out(snapshot, owner)


def _of_partition(name: str, asked: int, entry: NodeEntry | None, snapshot: ClusterSnapshot) -> Iterator[str]:
    profile = static_mig.profile_of(name)
    if entry is not None:
        yield f"{name}={asked} counts MIG instances ({_PLUGIN} mixed): {_balance(name, entry)}"
    elif static_mig.is_offered(snapshot, name):
        return
    elif static_mig.has_card(profile):
        nodes = Counter(each for node in snapshot.nodes for each in static_mig.offered(node.facts))
        others = ", ".join(f"{each} on {count}" for each, count in sorted(nodes.items()))
        yield f"no node offers {name}; by nodes there is: {others or 'no MIG instance'}"
    else:
        yield f"no NVIDIA card known here has the MIG profile {profile!r}; profiles are {static_mig.listed()}"


def _of_single(asked: int, entry: NodeEntry | None) -> Iterator[str]:
    whose = "no node is registered for HAMi, so kube-scheduler counts it"
    if entry is None:
        yield f"{static_mig.CARDS}={asked}: {whose}, as what NVIDIA's device plugin offers on each node"
    elif static_mig.is_single(entry.facts):
        profile = static_mig.single_profile(entry.facts)
        what = f"MIG instances{f' {profile}' if profile else ''} ({_PLUGIN} single)"
        yield f"{static_mig.CARDS}={asked} counts {what}: {_balance(static_mig.CARDS, entry)}; {whose}"
    else:
        yield f"{static_mig.CARDS}={asked} counts whole cards: {_balance(static_mig.CARDS, entry)}; {whose}"


def _balance(name: str, entry: NodeEntry) -> str:
    have = entry.facts.allocatable.get(name)
    used = entry.requested.get(name, 0) // NANO
    return f"{entry.name} offers {0 if have is None else have.nano // NANO}, {used} in use"


def _left_out(snapshot: ClusterSnapshot, owner: VendorSpec) -> Iterator[str]:
    """Instances that a pod of HAMi's does not get, because their nodes are not HAMi's."""
    nodes = [
        entry
        for entry in snapshot.nodes
        if static_mig.is_single(entry.facts) and owner.name not in entry.state.shape.positions
    ]
    if nodes:
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        yield (
            f"{nodes[0].name}{more} offers {static_mig.CARDS} as MIG instances ({_PLUGIN} single), of which HAMi "
            "allocates none: label the pod hami.io/webhook: ignore, and kube-scheduler counts them"
        )
