"""The devices of a node as a drawing: where each stands, how they are linked, who holds what, which set is meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.engine.apply import record_of, with_pod
from hami_plugins.engine.blockers import Blocked
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.device_links import WiringLayout
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.plan import Plan, PodPlan, Stage
from hami_plugins.plan.slices import runs


class DeviceMark(StrEnum):
    """The role of a device in the drawing."""

    FREE = "free"
    OURS = "ours"
    HELD = "held"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class DrawnDevice:
    """A device of the drawing. ``meant`` says that it belongs to the set that would be allocated."""

    index: int
    row: int
    column: int
    mark: DeviceMark
    pods: tuple[str, ...] = ()
    meant: bool = False


class DrawnLink(NamedTuple):
    """A link between two spots, by their places in the drawing; ``inside`` joins two of one pod or of the set meant."""

    one: int
    other: int
    works: bool
    wraps: bool
    inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The linked devices of one node. ``orders`` are the devices of each pod in the order in which it counts them."""

    node: str
    title: str
    spots: tuple[DrawnDevice, ...]
    lines: tuple[DrawnLink, ...]
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def holders(self) -> tuple[str, ...]:
        """The pods that hold something, in the order of their first devices."""
        return tuple(dict.fromkeys(pod for spot in self.spots for pod in spot.pods))

    def indexes_of(self, pod: str) -> str:
        """The devices of a pod: ``0-3,6``, with the order in which it counts them where that is another."""
        listed = runs(spot.index for spot in self.spots if pod in spot.pods)
        order = dict(self.orders).get(pod, ())
        if list(order) == sorted(order):
            return listed
        return f"{listed}, in the order {','.join(map(str, order))}"

    @property
    def words(self) -> str:
        """The drawing for those who cannot see it."""
        told = [f"{self.title} of {self.node}"]
        told += [f"{pod} holds {self.indexes_of(pod)}" for pod in self.holders]
        groups = (
            ("free", [spot.index for spot in self.spots if spot.mark is DeviceMark.FREE]),
            ("unhealthy", [spot.index for spot in self.spots if spot.mark is DeviceMark.BROKEN]),
            ("the nearest set", [spot.index for spot in self.spots if spot.meant]),
        )
        told += [f"{name} {runs(found)}" for name, found in groups if found]
        dead = [f"{self.spots[line.one].index}-{self.spots[line.other].index}" for line in self.lines if not line.works]
        return "; ".join([*told, *([f"links that do not work {', '.join(dead)}"] if dead else [])])


def drawings(
    entry: NodeEntry, registry: Registry, *, ours: Collection[str] = (), meant: Collection[int] = ()
) -> Iterator[Drawing]:
    """A drawing for each vendor of the node whose devices are linked.

    ``ours`` are the pods (``namespace/name``) that the drawing is about, ``meant`` the positions of a set.
    """
    for vendor in entry.state.shape.positions:
        spec = registry[vendor]
        layout = None if spec.topology.layout is None else spec.topology.layout(entry.state.shape)
        if layout is not None:
            yield _drawing(entry, layout, ours, meant)


def of_blocked(blocked: Blocked, spec: VendorSpec) -> Drawing | None:
    """The node of a refusal with the set that would do; ``None`` where its devices are not drawn."""
    layout = None if spec.topology.layout is None else spec.topology.layout(blocked.entry.state.shape)
    return None if layout is None else _drawing(blocked.entry, layout, (), blocked.members)


def of_pod(plan: PodPlan, registry: Registry) -> Iterator[Drawing]:
    """The node of a placed pod as it is then, where the pod gets some of the linked devices and not all."""
    placed = plan.decision
    if isinstance(placed, Placed):
        entry = plan.before.nodes[plan.before.position[placed.node]]
        yield from _partly(with_pod(entry, record_of(plan.pod, placed)), registry, {plan.pod.full_name})


def of_running(record: PodRecord, entry: NodeEntry, registry: Registry) -> Iterator[Drawing]:
    """The same for a pod that runs."""
    yield from _partly(entry, registry, {record.full_name})


def of_plan(plan: Plan, registry: Registry) -> Iterator[Drawing]:
    """The nodes on which pods of a plan get some of the linked devices and not all, in the order of the plan."""
    ours: dict[NodeName, set[str]] = {}
    for each in plan.pods:
        if isinstance(each.decision, Placed) and each.stage is Stage.PLACED:
            ours.setdefault(each.decision.node, set()).add(each.pod.full_name)
    for node, pods in ours.items():
        yield from _partly(plan.after.nodes[plan.after.position[node]], registry, pods)


def _partly(entry: NodeEntry, registry: Registry, ours: Collection[str]) -> Iterator[Drawing]:
    for drawing in drawings(entry, registry, ours=ours):
        if any(1 < sum(pod in spot.pods for spot in drawing.spots) < len(drawing.spots) for pod in ours):
            yield drawing


def _drawing(entry: NodeEntry, layout: WiringLayout, ours: Collection[str], meant: Collection[int]) -> Drawing:
    pods = _pods(entry)
    spots: list[DrawnDevice] = []
    place: dict[int, int] = {}
    for at, row, column in layout.spots:
        place[at] = len(spots)
        device, holders = entry.state.shape.devices[at], pods[at]
        if any(pod in ours for pod in holders):
            mark = DeviceMark.OURS
        elif holders:
            mark = DeviceMark.HELD
        else:
            mark = DeviceMark.FREE if device.healthy and not device.cordoned else DeviceMark.BROKEN
        spots.append(DrawnDevice(device.index, row, column, mark, holders, at in meant))
    lines = tuple(
        DrawnLink(place[one], place[other], works, wraps, works and _inside(spots[place[one]], spots[place[other]]))
        for one, other, works, wraps in layout.links
    )
    orders = tuple(_orders(entry, {entry.ids[at]: spots[of].index for at, of in place.items()}))
    return Drawing(node=entry.name, title=layout.title, spots=tuple(spots), lines=lines, orders=orders)


def _orders(entry: NodeEntry, index: Mapping[DeviceId, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for pod in entry.pods:
        shares = (share.device for allocation in pod.allocations for share in allocation.shares)
        if order := tuple(dict.fromkeys(index[device] for device in shares if device in index)):
            yield pod.full_name, order


def _inside(one: DrawnDevice, other: DrawnDevice) -> bool:
    if one.meant and other.meant:
        return True
    return one.mark is other.mark is DeviceMark.OURS and not set(one.pods).isdisjoint(other.pods)


def _pods(entry: NodeEntry) -> Sequence[tuple[str, ...]]:
    """Who holds something of each device."""
    position = {device: at for at, device in enumerate(entry.ids)}
    found: list[dict[str, None]] = [{} for _ in entry.ids]
    for pod in entry.pods:
        for allocation in pod.allocations:
            for share in allocation.shares:
                at = position.get(share.device)
                if at is not None:
                    found[at][pod.full_name] = None
    return [tuple(each) for each in found]
