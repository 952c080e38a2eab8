"""What the pods of a plan cost per hour: of each node that they run on, the share of its devices that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from hami_plugins.allocations.held_amounts import part_of
from hami_plugins.engine.usage import held_by
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.decisions import Placed
from hami_plugins.model.node_pools import CAPACITY_BLOCK_END, INSTANCE_TYPE, CapacityType, Offering
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.plan.planner import Plan
from hami_plugins.queueing.stages import Stage
from hami_plugins.wire import karpenter, node_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyCost:
    """An amount per hour, and what is not in it because it has no price."""

    amount: Decimal
    unpriced: tuple[str, ...] = ()


def of_pods(plan: Plan, prices: PriceTable) -> HourlyCost:
    """What the placed pods cost. A pod without devices costs nothing: what it uses is there with the devices."""
    amount, unpriced = Fraction(0), dict[str, None]()
    for each in plan.pods:
        if each.stage is not Stage.PLACED or not isinstance(each.decision, Placed):
            continue
        entry = each.before.nodes[each.before.position[each.decision.node]]
        part = _part(each.decision, entry)
        offering = offering_of(entry)
        price = prices.of(offering)
        if price is not None:
            amount += Fraction(price) * part * each.count
        elif part:
            unpriced[str(offering)] = None
    return HourlyCost(amount=_decimal(amount), unpriced=tuple(sorted(unpriced)))


def of_nodes(nodes: Iterable[NodeEntry], prices: PriceTable) -> HourlyCost:
    """What whole nodes cost."""
    amount, unpriced = Decimal(0), dict[str, None]()
    for offering in map(offering_of, nodes):
        price = prices.of(offering)
        if price is None:
            unpriced[str(offering)] = None
        else:
            amount += price
    return HourlyCost(amount=amount, unpriced=tuple(sorted(unpriced)))


def _part(placed: Placed, entry: NodeEntry) -> Fraction:
    """The share of the node's devices that a pod holds."""
    held = held_by(placed.containers)
    devices = sum((part_of(each, entry.device(name)) for name, each in held.items()), Fraction(0))
    return devices / len(entry.ids) if devices else Fraction(0)


def offering_of(entry: NodeEntry) -> Offering:
    """What a node is, as a price table calls it, by the labels of Karpenter and of EKS."""
    labels = entry.facts.labels
    return Offering(labels.get(INSTANCE_TYPE) or "no instance type", _capacity_of(labels))


def _capacity_of(labels: Mapping[str, str]) -> CapacityType:
    of_karpenter, of_eks = labels.get(karpenter.CAPACITY_TYPE), labels.get(node_groups.CAPACITY_TYPE)
    if of_karpenter == CapacityType.SPOT or of_eks == node_groups.SPOT:
        return CapacityType.SPOT
    block = labels.get(karpenter.RESERVATION_TYPE) == CapacityType.CAPACITY_BLOCK
    if block or of_eks == node_groups.CAPACITY_BLOCK or CAPACITY_BLOCK_END in labels:
        return CapacityType.CAPACITY_BLOCK
    return CapacityType.ON_DEMAND


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(amount.numerator) / Decimal(amount.denominator)
