"""The devices of a cluster as they are now: the answer of ``nodes``, which tables, documents and the page show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError
from hami_plugins.explain.waiting import WaitingReport
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import Problem
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import VendorName
from hami_plugins.occupancy.devices import DeviceOccupancy, NodeUse, Occupancy, SegmentKind
from hami_plugins.occupancy.totals import FleetUse, fleet_use
from hami_plugins.plan import Plan, completeness
from hami_plugins.plan.completeness import Gap
from hami_plugins.plan.slices import PlannedSlice, slices_of

NOBODY_WAITS = WaitingReport()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """Which devices are wanted: of nodes of some names or patterns, of some vendors, with free room; all by default."""

    names: tuple[str, ...] = ()
    vendors: frozenset[VendorName] = frozenset()
    free: bool = False

    def has_node(self, name: str) -> bool:
        """Whether a node is wanted."""
        return not self.names or any(fnmatchcase(name, pattern) for pattern in self.names)

    def has_device(self, device: DeviceOccupancy) -> bool:
        """Whether a device is wanted."""
        return (not self.vendors or device.device.vendor in self.vendors) and (
            not self.free or device.amount(SegmentKind.FREE) > 0
        )


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """Nodes with their devices, and what could not be read.

    ``bare`` counts the wanted nodes without such devices. ``gaps`` are kinds that the listing lacks; ``listed`` is the
    number of objects of each kind in it, empty for a complete source. ``waiting`` are the pods without a node.
    """

    nodes: tuple[NodeUse, ...] = ()
    bare: int = 0
    problems: tuple[Problem, ...] = ()
    gaps: tuple[Gap, ...] = ()
    listed: tuple[tuple[str, int], ...] = ()
    waiting: WaitingReport = NOBODY_WAITS

    @cached_property
    def totals(self) -> tuple[FleetUse, ...]:
        """The devices of all nodes by model."""
        return fleet_use(self.nodes)

    @property
    def devices(self) -> int:
        """How many devices the report has."""
        return sum(len(node.cards) for node in self.nodes)


EVERYTHING = NodeSelection()


def report_of(
    snapshot: ClusterSnapshot,
    registry: Registry,
    wanted: NodeSelection = EVERYTHING,
    waiting: WaitingReport = NOBODY_WAITS,
) -> ClusterReport:
    """The report of a snapshot, with those that wait. Raises ``ManifestError`` for a name that no node has."""
    _check_names(snapshot, wanted.names)
    some = snapshot.only(lambda entry: wanted.has_node(entry.name)) if wanted.names else snapshot
    found = Occupancy(Plan(before=some, after=some, pods=()), registry).nodes
    nodes = tuple(filter(lambda use: use.cards, (_with_wanted(use, wanted) for use in found)))
    listing = snapshot.listing
    return ClusterReport(
        nodes=nodes,
        bare=len(found) - len(nodes),
        problems=snapshot.problems,
        gaps=completeness.gaps(snapshot, (), without_pods="no pods in this listing: every device counts as unused"),
        listed=() if listing is None else tuple(sorted(listing.kinds.items())),
        waiting=waiting,
    )


def narrowed(report: ClusterReport, wanted: NodeSelection) -> ClusterReport:
    """The part of a report of all devices that is wanted; its ``bare`` counts as before."""
    some = (use for use in report.nodes if wanted.has_node(use.name))
    nodes = tuple(filter(lambda use: use.cards, (_with_wanted(use, wanted) for use in some)))
    return replace(report, nodes=nodes)


def held_slices(node: NodeUse) -> Mapping[tuple[str, str], Sequence[PlannedSlice]]:
    """What each container holds, by pod (``namespace/name``) and device. Init containers that are done hold nothing."""
    found: dict[tuple[str, str], list[PlannedSlice]] = {}
    for record in node.entry.pods:
        for each in slices_of(record.allocations, record.containers, node.entry) if record.allocations else ():
            if not (record.init_finished and each.kind is ContainerKind.INIT):
                found.setdefault((record.full_name, each.device), []).append(each)
    return found


def _with_wanted(use: NodeUse, wanted: NodeSelection) -> NodeUse:
    if not wanted.vendors and not wanted.free:
        return use
    cards = tuple(filter(wanted.has_device, use.cards))
    return use if len(cards) == len(use.cards) else replace(use, cards=cards)


def _check_names(snapshot: ClusterSnapshot, names: Iterable[str]) -> None:
    known = [entry.name for entry in snapshot.nodes]
    for name in names:
        if not any(fnmatchcase(each, name) for each in known):
            near = get_close_matches(name, known, n=1) or known[:3]
            some = f"the cluster has {len(known):,}, such as {', '.join(near)}"
            raise ManifestError(f"no node is called {name}; {some}; give a name or a pattern such as 'gpu-*'")
