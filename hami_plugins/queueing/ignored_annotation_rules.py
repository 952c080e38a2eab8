"""Annotations that a release of Volcano ignores and a plan reads: rules in addition to those of ``release_rules``.

The releases, and the sources, are in ``vendors.volcano_releases``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hami_plugins.queueing.context import PodContext, asks_for_cards
from hami_plugins.queueing.release_rules import ReleaseRule
from hami_plugins.vendors import ascend, volcano_releases
from hami_plugins.vendors.volcano import GROUP
from hami_plugins.wire.gang_keys import QUEUE_GATE_KEY


def _lists_ids(*, foreign: bool) -> Callable[[PodContext], bool]:
    """Pods that list cards by id under the keys of Volcano, or under those of others."""

    def applies(case: PodContext) -> bool:
        keys = {
            key
            for spec in case.course.specs
            for key in (*spec.keys.use_ids, *spec.keys.avoid_ids)
            if key.startswith("volcano.sh/") is not foreign
        }
        named = any(request.selector.names_ids for request in case.requests())
        return named and any(case.plan.pod.annotations.get(key) for key in keys)

    return applies


def _keeps_its_gang_apart(case: PodContext) -> bool:
    return asks_for_cards(case.plan) and any(request.option(GROUP) is not None for request in case.requests())


def _asks_for_soft_slices(case: PodContext) -> bool:
    return case.plan.pod.annotations.get(ascend.POD_MODE_KEY) == ascend.SOFT


def _asks_for_the_queue_gate(case: PodContext) -> bool:
    return case.plan.pod.annotations.get(QUEUE_GATE_KEY) == "true"


RULES: Final = (
    ReleaseRule(
        name="card-ids",
        quirk=volcano_releases.ID_LISTS,
        applies=_lists_ids(foreign=False),
        words="{volcano} does not look at lists of card ids: it may choose other cards",
        unasked=True,
    ),
    ReleaseRule(
        name="foreign-card-ids",
        quirk=volcano_releases.FOREIGN_ID_LISTS,
        applies=_lists_ids(foreign=True),
        words="{volcano} does not look at lists of card ids under nvidia.com: it may choose other cards",
        unasked=True,
    ),
    ReleaseRule(
        name="gang-together",
        quirk=volcano_releases.GANG_TOGETHER,
        applies=_keeps_its_gang_apart,
        words="{volcano} does not keep the pods of a gang on different cards",
        unasked=True,
    ),
    ReleaseRule(
        name="soft-slices",
        quirk=volcano_releases.NO_SOFT_NPUS,
        applies=_asks_for_soft_slices,
        words=f"{{volcano}} does not read {ascend.POD_MODE_KEY}: the pod gets a slice of a template",
        unasked=True,
    ),
    ReleaseRule(
        name="queue-gate",
        quirk=volcano_releases.NO_QUEUE_GATE,
        applies=_asks_for_the_queue_gate,
        words=f"{{volcano}} does not read {QUEUE_GATE_KEY}: while its queue is full the pod counts as unschedulable, "
        "and an autoscaler may add nodes for it",
        unasked=True,
    ),
)
"""In the order in which they are printed."""
