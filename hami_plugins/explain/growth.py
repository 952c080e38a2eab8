"""How many more nodes of which pool a pod or its gang needs: the answer of an autoscaler, proven by planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from hami_plugins.engine.decide import PodDemand
from hami_plugins.explain import growth_blocks as blocks
from hami_plugins.explain.gang_suggestions import without_unit
from hami_plugins.explain.growth_blocks import BlockKind, GrowthBlock
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.decisions import Placed
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.node_pools import AutoscaledPool, Offering
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.units import NodeName
from hami_plugins.plan import Plan, PlanUnit, PodPlan, Stage
from hami_plugins.plan.costs import offering_of
from hami_plugins.plan.what_if import agents_of
from hami_plugins.suggest.additions import fresh
from hami_plugins.suggest.pool_nodes import PoolNode, pool_nodes, unknown_types

if TYPE_CHECKING:
    from hami_plugins.plan import Planner

MOST_POOLS: Final = 3
"""Pools that are reported for one workload, the best first."""

MOST_LOOKS: Final = 4_000_000
"""How often all trials together look at a node for a pod."""

VOLCANO: Final = "volcano"

_GROWING: Final = frozenset({Stage.NODES, Stage.GANG, Stage.GATE})
"""Where a pod stops that more nodes can help."""

_RANKS: Final = {kind: at for at, kind in enumerate(BlockKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrowth:
    """What one pool can do for a pod and its gang.

    With ``nodes`` more of ``instance_type`` all of it fits, which has been planned; 0 says that no number of them
    does. ``limit`` is how many nodes the pool may have in all, ``None`` for any number. ``blocks`` keep the autoscaler
    from adding them. ``cost`` is what they cost per hour by ``prices``, ``None`` where it has no price of ``offering``.
    """

    pool: AutoscaledPool
    instance_type: str
    nodes: int
    limit: int | None
    blocks: tuple[GrowthBlock, ...] = ()
    offering: Offering | None = None
    cost: Decimal | None = None
    prices: PriceTable | None = None

    @property
    def fits(self) -> bool:
        """Whether the pool may get as many nodes as are needed."""
        return self.nodes > 0 and all(each.kind is not BlockKind.LIMIT for each in self.blocks)


class GrowthSearch:
    """Looks at the pools of a plan's cluster for the pods that find no place in it."""

    def __init__(self, plan: Plan, planner: Planner, prices: PriceTable | None = None) -> None:
        self._plan = plan
        self._planner = planner
        self._prices = prices
        self._units = {unit.name: unit for unit in plan.units}
        self._known: dict[str, tuple[PoolGrowth, ...]] = {}
        self._looks = MOST_LOOKS

    def of(self, refused: PodPlan) -> tuple[PoolGrowth, ...]:
        """What the pools can do for the workload of a refused pod, the best first; empty without pools.

        The same for all pods of a workload, whose first refused one that asks for devices stands for the others.
        """
        unit = self._units.get(refused.unit)
        if unit is None or not self._plan.before.pools or refused.stage not in _GROWING:
            return ()
        if unit.name not in self._known:
            first = self._first_refused(unit)
            agents = agents_of(self._plan.before, first.intake.demand.devices.vendors)
            answers = [self._of_pool(pool, unit, first, agents) for pool in self._plan.before.pools]
            self._known[unit.name] = tuple(sorted(answers, key=_rank)[:MOST_POOLS])
        return self._known[unit.name]

    def _of_pool(self, pool: AutoscaledPool, unit: PlanUnit, refused: PodPlan, agents: Dialect) -> PoolGrowth:
        constraints = refused.pod.constraints
        nodes = pool_nodes(pool, self._plan.before, self._planner.registry, constraints, agents)
        found = [self._of_node(pool, node, unit, refused) for node in nodes]
        if not found:
            return PoolGrowth(pool=pool, instance_type="", nodes=0, limit=pool.most, blocks=(_without_types(pool),))
        best = min(found, key=_rank)
        if pool.obstacle is None:
            return best
        return replace(best, nodes=0, blocks=(GrowthBlock(BlockKind.POOL, *pool.obstacle), *best.blocks))

    def _first_refused(self, unit: PlanUnit) -> PodPlan:
        refused = [each for each in self._plan.pods if each.unit == unit.name and each.stage in _GROWING]
        return next((each for each in refused if each.intake.demand.devices.wants_devices), refused[0])

    def _of_node(self, pool: AutoscaledPool, node: PoolNode, unit: PlanUnit, refused: PodPlan) -> PoolGrowth:
        limit = None if node.room is None else pool.present + node.room
        answer = PoolGrowth(pool=pool, instance_type=node.instance_type, nodes=0, limit=limit)
        constraints = refused.pod.constraints
        if not self._is_large_enough(node, refused):
            message = f"an empty {node.instance_type} does not take the pod"
            return replace(answer, blocks=(GrowthBlock(BlockKind.SIZE, message, "allow larger instance types"),))
        if barred := tuple(blocks.of_node(pool, node, constraints)):
            return replace(answer, blocks=barred)
        needed, why = self._needed(node, unit)
        if not needed:
            return replace(answer, blocks=(GrowthBlock(BlockKind.OTHER, why, "see the reasons above"),))
        kept = [*blocks.unknown_resources(pool, node, constraints), *self._of_volcano(pool, unit, refused)]
        if node.room is not None and needed > node.room:
            kept.append(blocks.limit(pool, node, needed))
        offering = offering_of(node.entry)
        cost = None if self._prices is None else self._prices.of(offering, needed)
        return replace(answer, nodes=needed, blocks=tuple(kept), offering=offering, cost=cost, prices=self._prices)

    def _is_large_enough(self, node: PoolNode, refused: PodPlan) -> bool:
        """Whether the node takes the pod when labels and taints are left aside."""
        demand, policy = refused.intake.demand, refused.intake.policy
        alone = PodDemand(demand.devices, NodeConstraints(requests=refused.pod.constraints.requests))
        entry = replace(node.entry, facts=replace(node.entry.facts, taints=()))
        cluster = replace(self._plan.before, nodes=(entry,))
        return isinstance(self._planner.decider.decide(cluster, alone, policy), Placed)

    def _needed(self, node: PoolNode, unit: PlanUnit) -> tuple[int, str]:
        """The least number of nodes with which the unit is complete; 0, and why, where none is.

        No pod needs more than one node, and more nodes never hurt.
        """
        high = max(unit.size, unit.min_member)
        whole = self._planned(node, unit, high)
        if whole is None:
            return 0, "not worked out: the plan is too large"
        if not _is_complete(whole, unit):
            return 0, _why(whole, unit, high, node.instance_type)
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            tried = self._planned(node, unit, middle)
            if tried is not None and _is_complete(tried, unit):
                high = middle
            else:
                low = middle
        return high, ""

    def _planned(self, node: PoolNode, unit: PlanUnit, count: int) -> Plan | None:
        cluster = without_unit(self._plan.standing, unit)
        looks = (len(cluster.nodes) + count) * unit.size
        if self._looks < looks:
            return None
        self._looks -= looks
        names = (NodeName(f"{node.entry.name}-more-{at}") for at in range(count))
        new = [replace(fresh(node.entry, name), notes=node.entry.notes) for name in names]
        return self._planner.plan(cluster.with_more_nodes(new), (unit,))

    def _of_volcano(self, pool: AutoscaledPool, unit: PlanUnit, refused: PodPlan) -> Sequence[GrowthBlock]:
        members = [each for each in self._plan.pods if each.unit == unit.name]
        if any(each.hold is not None and not each.hold.inside for each in members) and unit.made_late:
            return (blocks.enqueue(pool.autoscaler),)
        fitting = sum(each.count for each in members if each.stage is Stage.GANG)
        if unit.gang and fitting and refused.pod.scheduler == VOLCANO:
            return (blocks.gang(pool.autoscaler, fitting),)
        return ()


def sentence(found: PoolGrowth) -> str:
    """What a pool can do: ``fits after 2 more trn1.32xlarge of NodePool trn1, limit 4 (1 there)``."""
    pool = found.pool
    if not found.nodes:
        return f"{pool.kind} {pool.name} does not help: {'; '.join(each.message for each in found.blocks)}"
    limit = "no limit" if found.limit is None else f"limit {found.limit}"
    cost = ""
    if found.prices is not None:
        cost = f", no price of {found.offering}" if found.cost is None else f", {found.prices.shown(found.cost)}"
    there = f" ({pool.present} there)" if pool.present else ""
    return f"fits after {found.nodes} more {found.instance_type} of {pool.kind} {pool.name}, {limit}{there}{cost}"


def lines(found: PoolGrowth) -> tuple[str, ...]:
    """The sentence after an arrow, then what is in the way with its cure."""
    if not found.nodes:
        first, *others = found.blocks
        told = [f"-> {found.pool.kind} {found.pool.name} does not help: {first.message}", f"   cure: {first.remedy}"]
        return (*told, *(line for each in others for line in (f"   and {each.message}", f"   cure: {each.remedy}")))
    told = [f"-> {sentence(found)}"]
    return (*told, *(line for each in found.blocks for line in (f"   but {each.message}", f"   cure: {each.remedy}")))


def _without_types(pool: AutoscaledPool) -> GrowthBlock:
    if pool.obstacle is not None:
        return GrowthBlock(BlockKind.POOL, *pool.obstacle)
    if unknown := unknown_types(pool):
        return GrowthBlock(
            BlockKind.INSTANCE_TYPE,
            f"nodes of its instance types are not known: {', '.join(unknown)}",
            "add one node by hand; it shows what others will be like",
        )
    return GrowthBlock(
        BlockKind.INSTANCE_TYPE,
        "it has no node, and nothing says what its nodes are like",
        "give --node-groups FILE, as aws eks describe-nodegroup prints it",
    )


def _is_complete(plan: Plan, unit: PlanUnit) -> bool:
    """Whether the gang starts, or all pods of a workload without a gang have a place."""
    stages = [each.stage is Stage.PLACED for each in plan.pods if each.unit == unit.name]
    return any(stages) if unit.gang else all(stages)


def _why(plan: Plan, unit: PlanUnit, nodes: int, instance_type: str) -> str:
    refused = next(each for each in plan.pods if each.unit == unit.name and each.stage is not Stage.PLACED)
    reason = refused.why or refused.words
    return f"it does not fit with {nodes} more {instance_type} either: {reason}"


def _rank(found: PoolGrowth) -> tuple[bool, int, Decimal, int, str]:
    """What fits first, then what is least in the way, then what costs least."""
    worst = max((_RANKS[each.kind] for each in found.blocks), default=-1)
    unpriced = Decimal("Infinity") if found.cost is None else found.cost
    return (not found.fits, worst, unpriced, found.nodes, found.pool.name)
