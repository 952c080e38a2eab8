"""Node pools from listings: Karpenter's objects, Cluster Autoscaler's status, and what AWS says of its node groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.node_pools import INSTANCE_TYPE, AutoscaledPool, Autoscaler, BlockingReason, Reservation
from hami_plugins.model.pods import Requirement
from hami_plugins.wire import karpenter, node_groups
from hami_plugins.wire.fields import Json
from hami_plugins.wire.karpenter import NodeClass, NodeClassName
from hami_plugins.wire.node_groups import CAPACITY_BLOCK, CAPACITY_TYPE, GROUP_LABEL, DescribedGroup, GroupSize

_EKSCTL_LABEL: Final = "alpha.eksctl.io/nodegroup-name"


class NodePoolObjects:
    """Takes the objects in any order. Of two with one name the first counts."""

    def __init__(self) -> None:
        self._pools: dict[str, tuple[AutoscaledPool, NodeClassName]] = {}
        self._classes: dict[NodeClassName, NodeClass] = {}
        self._sizes: dict[str, GroupSize] | None = None
        self._described: dict[str, DescribedGroup] = {}
        self._reservations: dict[str, Reservation] = {}

    def takes(self, kind: str, raw: Json) -> bool:
        """Whether an object is one of these; it is then taken. Raises ``WireError`` for one that cannot be read."""
        if karpenter.is_pool(kind, raw):
            pool, of_class = karpenter.node_pool(raw)
            if pool.name in self._pools:
                raise WireError(f"nodepool {pool.name}", pool.name, "listed twice; the first counts")
            self._pools[pool.name] = pool, of_class
        elif karpenter.is_class(kind, raw):
            found = karpenter.node_class(raw)
            self._classes.setdefault(found.name, found)
        elif node_groups.is_status(kind, raw):
            self._sizes = (self._sizes or {}) | {each.name: each for each in node_groups.sizes(raw)}
        else:
            return self._takes_answer(raw)
        return True

    def _takes_answer(self, raw: Json) -> bool:
        """What the AWS command line printed."""
        groups, reserved = node_groups.described(raw), node_groups.reservations(raw)
        for group in groups or ():
            known = self._described.get(group.name)
            self._described[group.name] = group if known is None else _together(known, group)
        for each in reserved or ():
            self._reservations.setdefault(each.id, each)
        return groups is not None or reserved is not None

    def finish(self) -> tuple[AutoscaledPool, ...]:
        """The pools, Karpenter's first, each by name."""
        found = [self._with_class(pool, of_class) for pool, of_class in self._pools.values()]
        ordered = sorted(found, key=lambda pool: pool.name)
        return (*ordered, *sorted(self._groups(), key=lambda pool: pool.name))

    def _with_class(self, pool: AutoscaledPool, of_class: NodeClassName) -> AutoscaledPool:
        found = self._classes.get(of_class)
        if found is None:
            return pool
        pool = karpenter.with_class(pool, found)
        listed = {each.id: each for each in pool.reservations}
        for each in self._reservations.values():
            # Karpenter lists only those that it can use now.
            known = listed.get(each.id)
            listed[each.id] = replace(each, usable=False) if known is None else replace(known, available=each.available)
        return replace(pool, reservations=tuple(listed.values()))

    def _groups(self) -> Iterator[AutoscaledPool]:
        sizes = self._sizes or {}
        for name in dict.fromkeys((*sizes, *self._described)):
            size = sizes.get(name)
            known = self._described.get(name) or DescribedGroup(name=name, group=node_groups.managed_name(name))
            types = known.instance_types
            obstacle = None if size is None else size.obstacle
            if size is None and self._sizes is not None:
                obstacle = BlockingReason(
                    f"Cluster Autoscaler does not list the Auto Scaling group {name} in its status",
                    "tag the group k8s.io/cluster-autoscaler/enabled and k8s.io/cluster-autoscaler/CLUSTER",
                )
            yield AutoscaledPool(
                name=known.group or name,
                autoscaler=Autoscaler.CLUSTER_AUTOSCALER,
                member=_member(known),
                requirements=(Requirement(INSTANCE_TYPE, "In", types),) if types else (),
                labels=known.labels or ({GROUP_LABEL: known.group} if known.group else {}),
                taints=known.taints,
                present=known.target if size is None else size.target,
                most=known.most if size is None else size.most,
                declared=known.resources,
                zones=known.zones,
                reservations=self._of_types(known) if known.labels.get(CAPACITY_TYPE) == CAPACITY_BLOCK else (),
                obstacle=obstacle,
            )

    def _of_types(self, known: DescribedGroup) -> tuple[Reservation, ...]:
        return tuple(each for each in self._reservations.values() if each.instance_type in known.instance_types)


def _together(one: DescribedGroup, other: DescribedGroup) -> DescribedGroup:
    """What two answers say of one group: that of EKS and that of EC2."""
    return DescribedGroup(
        name=one.name,
        group=one.group or other.group,
        instance_types=one.instance_types or other.instance_types,
        labels={**other.labels, **one.labels},
        taints=tuple(dict.fromkeys((*one.taints, *other.taints))),
        resources={**one.resources, **other.resources},
        zones=one.zones or other.zones,
        target=one.target or other.target,
        most=max(one.most, other.most),
    )


def _member(known: DescribedGroup) -> tuple[str, str]:
    if known.group:
        return GROUP_LABEL, known.group
    return _EKSCTL_LABEL, known.labels.get(_EKSCTL_LABEL, "")
