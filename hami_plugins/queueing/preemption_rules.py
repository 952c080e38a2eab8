"""Rules for plans that evict pods, by Volcano release without the allocator: in addition to those of ``release_rules``.

The releases, and the sources, are in ``vendors.volcano_releases``.
"""

from __future__ import annotations

from typing import Final

from hami_plugins.queueing.context import PodContext, asks_for_cards
from hami_plugins.queueing.release_rules import ReleaseRule
from hami_plugins.vendors import volcano_releases


def _needs_evictions(case: PodContext) -> bool:
    return case.plan.by_eviction is not None and asks_for_cards(case.plan)


def _needs_evictions_as_a_gang(case: PodContext) -> bool:
    return _needs_evictions(case) and case.unit.gang and case.unit.min_member > 1


RULES: Final = (
    ReleaseRule(
        name="evicts-in-vain",
        quirk=volcano_releases.EVICTS_IN_VAIN,
        applies=_needs_evictions,
        words="{volcano} evicts the lowest priorities of a node, on whichever cards they are: where no card has room "
        "afterwards they are evicted in vain",
    ),
    ReleaseRule(
        name="waits-fragmented",
        quirk=volcano_releases.TAKES_BACK,
        applies=_needs_evictions,
        words="{volcano} takes its evictions back where no card has room afterwards: then the pod waits, and no pod is "
        "evicted for it",
    ),
    ReleaseRule(
        name="victims-still-running",
        quirk=volcano_releases.VICTIMS_STILL_RUNNING,
        applies=_needs_evictions,
        words="{volcano} with enableTopologyAwarePreemption binds the pod while its victims still run: their cards are "
        "allocated twice until they end",
    ),
    ReleaseRule(
        name="foreign-gang-cards",
        quirk=volcano_releases.FOREIGN_GANG_CARDS,
        applies=_needs_evictions_as_a_gang,
        words="{volcano} binds a gang that preempts with cards of other nodes",
    ),
    ReleaseRule(
        name="stripped-victims",
        quirk=volcano_releases.STRIPPED_VICTIMS,
        applies=_needs_evictions,
        words="{volcano} takes the allocation off running pods that it tries to evict and then keeps, unless their "
        "volcano.sh/bind-phase is success: afterwards their cards count as free",
    ),
)
"""In the order in which they are printed."""
