"""The part of the one decision that is about claims: what a node says to a pod's claims, devices of vendors aside.

Only pods with claims come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hami_plugins.engine.claims import reasons
from hami_plugins.engine.claims.device_filter import Matcher
from hami_plugins.engine.claims.needs import (
    ClaimNeeds,
    ClaimTrouble,
    NeededClaim,
    PlainRequest,
    needed,
    of_plain,
)
from hami_plugins.engine.claims.pools import NodePool, PoolIndex, PoolMember, chosen
from hami_plugins.engine.claims.rules import ClaimRules, rules_of
from hami_plugins.engine.claims.search import ClaimSearch, NodeDevices, SearchGivenUpError
from hami_plugins.model.claims import (
    ClaimAllocation,
    ClaimedDevice,
    DeviceChoice,
    DynamicResources,
    PlacedClaim,
    PoolDevice,
    PoolId,
    PoolUsage,
)
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import FilterReason
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Requirement

EVENT: Final = "cannot allocate all claims"
ELSEWHERE: Final = "resourceclaim not available on the node"
"""What kube-scheduler says on a pod (``dynamicresources.go`` of 1.34.4)."""

_NO_WISH: Final = ClaimNeeds("")

ClaimAnswer: TypeAlias = tuple[PlacedClaim, ...] | FilterReason
"""What the claims of a pod get on a node, or why not."""


class ClaimChecker:
    """Asks nodes about claims. Remembers the pools of the last cluster, and answers by wish."""

    def __init__(self, rules: ClaimRules | None = None) -> None:
        self._rules = rules
        self._devices: _Devices | None = None

    def asked(
        self, snapshot: ClusterSnapshot, wish: ClaimNeeds | None, requests: Iterable[tuple[str, int]]
    ) -> AskedClaims | ClaimTrouble | None:
        """The claims that a pod with these plain requests needs; ``None`` where nodes need not be asked."""
        dynamic = snapshot.dynamic
        mapped = frozenset(name for name, _ in requests if name in dynamic.stands_for)
        wish = wish or _NO_WISH
        if not wish.claims and not mapped:
            return None
        claims = needed(wish, dynamic)
        if isinstance(claims, ClaimTrouble):
            return claims
        devices = self._devices
        if devices is None or devices.slices is not dynamic.slices or devices.classes is not dynamic.classes:
            rules = self._rules or rules_of({entry.facts.kubelet for entry in snapshot.nodes})
            devices = self._devices = _Devices(dynamic, rules)
        plain = tuple(each for each in wish.plain if each.resource in mapped)
        return AskedClaims(devices, dynamic, claims, plain, mapped)


class _Devices:
    """The devices of a cluster, and which of them selectors choose."""

    def __init__(self, dynamic: DynamicResources, rules: ClaimRules) -> None:
        self.slices, self.classes, self.rules = dynamic.slices, dynamic.classes, rules
        self.index = PoolIndex(dynamic.slices, rules)
        self.matcher = Matcher(dynamic.classes)


@dataclass(frozen=True, slots=True, eq=False)
class AskedClaims:
    """The claims of one pod, to be asked of nodes. ``mapped`` are the resources of the pod that classes stand for.

    ``plain`` are its requests of them, but for those of resources of vendors.
    """

    _devices: _Devices
    _dynamic: DynamicResources
    claims: tuple[NeededClaim, ...]
    plain: tuple[PlainRequest, ...]
    mapped: frozenset[str]

    def by_claims(self, entry: NodeEntry) -> frozenset[str]:
        """The plain resources of the pod that a node has no device plugin for, so that devices of classes are used."""
        listed = entry.facts.allocatable
        zero = self._devices.rules.zero_is_a_plugin
        return frozenset(
            name for name in self.mapped if (found := listed.get(name)) is None or (not found.nano and not zero)
        )

    @property
    def key(self) -> object:
        """Equal for pods whose claims get the same answers in one state of a cluster; it holds on to its devices."""
        return self.claims, self.plain, self.mapped, self._devices

    @property
    def taken(self) -> Mapping[PoolId, PoolUsage]:
        """What is taken of the pools."""
        return self._dynamic.taken

    def pools(self, entry: NodeEntry) -> Iterator[PoolId]:
        """The pools on which the answer of a node depends."""
        return (pool.id for pool in self._devices.index.reached_by(entry))

    def answer(self, entry: NodeEntry) -> ClaimAnswer:
        """What a node says. Raises ``SearchStoppedError`` where it ends the scheduling of the pod."""
        pools = self._devices.index.reached_by(entry)
        for each in self.claims:
            if each.given is not None and each.given.terms is not None and not chosen(each.given.terms, entry):
                return FilterReason(reasons.elsewhere(each), event=ELSEWHERE)
        by_claims = self.by_claims(entry)
        plain = of_plain((each for each in self.plain if each.resource in by_claims), self._dynamic.stands_for)
        wanted = tuple(each for each in self.claims if each.given is None) + ((plain,) if plain is not None else ())

        def accepts(member: PoolMember, choice: DeviceChoice) -> bool:
            return self._devices.matcher.accepts(member, choice, entry)

        devices = NodeDevices(pools, self._dynamic.taken, accepts, self._devices.rules)
        try:
            search = ClaimSearch(devices, wanted)
            if search.found():
                return self._placed(entry, pools, wanted, search.results)
            return FilterReason(reasons.why_not(devices, wanted), event=EVENT)
        except SearchGivenUpError as error:
            return FilterReason(f"not known: {error}", unknown=True)

    def _placed(
        self,
        entry: NodeEntry,
        pools: Sequence[NodePool],
        wanted: Sequence[NeededClaim],
        results: Sequence[Sequence[ClaimedDevice]],
    ) -> tuple[PlacedClaim, ...]:
        members = {member.id: member for pool in pools for member in pool.members}
        had = tuple(
            PlacedClaim(each.name, each.claim, each.spec, each.given, new=False)
            for each in self.claims
            if each.given is not None
        )
        return had + tuple(
            PlacedClaim(each.name, each.claim, each.spec, ClaimAllocation(tuple(found), _terms(entry, found, members)))
            for each, found in zip(wanted, results, strict=True)
        )


def _terms(
    entry: NodeEntry, found: Sequence[ClaimedDevice], members: Mapping[PoolDevice, PoolMember]
) -> tuple[tuple[Requirement, ...], ...] | None:
    """The nodes on which a claim with these devices can be used: one that all of them are for."""
    selections = [members[each.device].nodes for each in found]
    if any(each.node is not None for each in selections):
        return ((Requirement("metadata.name", "In", (entry.name,), on_field=True),),)
    merged: list[Requirement] = []
    for each in selections:
        matching = [term for term in each.terms or () if chosen((term,), entry)]
        merged.extend(one for one in (matching[0] if matching else ()) if one not in merged)
    return (tuple(merged),) if merged else None
