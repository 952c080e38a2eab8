"""The cluster as it would be: without some pods or nodes, with more nodes, under other policies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from hami_plugins.engine.apply import removed
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import fleets
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName, VendorName
from hami_plugins.vendors import koordinator, nvidia, volcano

_DIALECTS: Final = {
    nvidia.SPEC.name: Dialect.HAMI,
    volcano.SPEC.name: Dialect.VOLCANO,
    koordinator.NAME: Dialect.KOORDINATOR,
}
_NODE_POLICIES: Final = ("binpack", "spread")
_DEVICE_POLICIES: Final = ("binpack", "spread", "numa", "mutex", "topology-aware")


def without(snapshot: ClusterSnapshot, names: Iterable[str]) -> ClusterSnapshot:
    """The cluster without ``pod/<namespace>/<name>`` and ``node/<name>``.

    Raises ``ManifestError`` for anything that is not in the cluster: a question about nothing has no answer.
    """
    for name in names:
        kind, _, rest = name.partition("/")
        if kind in {"pod", "pods"} and "/" in rest:
            snapshot = _without_pod(snapshot, rest)
        elif kind in {"node", "nodes"} and rest:
            snapshot = _without_node(snapshot, rest)
        else:
            raise ManifestError(f"--without {name}: write pod/<namespace>/<name> or node/<name>")
    return snapshot


def with_nodes(snapshot: ClusterSnapshot, words: Sequence[str], registry: Registry) -> ClusterSnapshot:
    """The cluster with more nodes, each given as ``<shape>=<count>``."""
    if not words:
        return snapshot
    added = snapshot_of(fleets.objects_of(fleets.add_nodes(*words, agents=agents_of(snapshot))), registry)
    for entry in added.nodes:
        if entry.name in snapshot.position:
            raise ManifestError(f"--add-nodes: the cluster has a node {entry.name} already")
    return snapshot.with_more_nodes(added.nodes)


def agents_of(snapshot: ClusterSnapshot, asked: Collection[VendorName] = ()) -> Dialect:
    """Whose node agent would run on further nodes: the one that publishes all cards of NVIDIA's, else HAMi's.

    Where no node has such cards yet, it is the one that a pod counts on that asks for devices of ``asked``.
    """
    there = {vendor for entry in snapshot.nodes for vendor in entry.state.shape.positions}
    vendors = there & _DIALECTS.keys() or asked
    found = [dialect for vendor, dialect in _DIALECTS.items() if vendor in vendors]
    return found[0] if len(found) == 1 else Dialect.HAMI


def with_policy(rules: Rules, words: str) -> Rules:
    """The rules with other defaults, given as ``node=spread,device=binpack``; a pod's own annotations still win.

    ``device`` is Volcano's ``deviceshare.SchedulePolicy``, and also Koordinator's scoring if it has one of that name.
    """
    policies = rules.policies
    for part in filter(None, (part.strip() for part in words.split(","))):
        key, equals, value = part.partition("=")
        if key == "node" and value in _NODE_POLICIES:
            policies = replace(policies, node=value)
        elif key == "device" and value in _DEVICE_POLICIES:
            policies = _with_device_policy(policies, value)
        else:
            known = {"node": _NODE_POLICIES, "device": _DEVICE_POLICIES}.get(key)
            allowed = f"{key}= takes {', '.join(known)}" if known else "write node=<policy> or device=<policy>"
            raise ManifestError(f"--policy {part}: {allowed}" if equals else f"--policy {part}: write node= or device=")
    return replace(rules, policies=policies)


def _with_device_policy(policies: PolicyDefaults, value: str) -> PolicyDefaults:
    changed = replace(policies, device=value)
    return replace(changed, volcano=value, koordinator=value) if value in {"binpack", "spread"} else changed


def _without_pod(snapshot: ClusterSnapshot, full_name: str) -> ClusterSnapshot:
    def leaves(record: PodRecord) -> bool:
        return record.full_name == full_name

    after = removed(snapshot, leaves)
    if after is snapshot:
        known = [record.full_name for entry in snapshot.nodes for record in entry.pods]
        raise ManifestError(f"--without pod/{full_name}: no such pod runs in this cluster{_near(full_name, known)}")
    return after


def _without_node(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    if NodeName(name) not in snapshot.position:
        raise ManifestError(f"--without node/{name}: no such node{_near(name, list(snapshot.position))}")
    return snapshot.only(lambda entry: entry.name != name)


def _near(name: str, known: Sequence[str]) -> str:
    found = get_close_matches(name, known[:20_000], n=1)
    return f"; is it {found[0]}?" if found else ""
