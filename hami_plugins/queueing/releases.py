"""Where a release of Volcano does something else than a plan says, because the plan does what people would want.

Nothing else in a plan depends on the release; the rules are data, in ``volcano_rules``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.engine.intake import Rules
from hami_plugins.errors import ManifestError
from hami_plugins.queueing import ignored_annotation_rules, preemption_rules, release_rules
from hami_plugins.queueing.context import PlanContext, PodContext, is_volcanos
from hami_plugins.queueing.release_rules import ReleaseRule
from hami_plugins.queueing.stages import Difference, PodPlan
from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version, known_names, release_name
from hami_plugins.wire import allocator_mark

PREFIX: Final = "volcano-"

_RULES: Final = (*ignored_annotation_rules.RULES, *release_rules.RULES, *preemption_rules.RULES)


def release_of(text: str) -> Version:
    """The release that ``--scheduler`` names (``volcano-1.14``, ``volcano-1.15.1``).

    Raises ``ManifestError`` for one whose behaviour is not known, and for anything else.
    """
    found = volcano_releases.known_release(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else None
    if found is None:
        raise ManifestError(
            f"--scheduler {text}: not a known release; write {PREFIX}RELEASE with one of {known_names()}, or a series "
            f"such as {PREFIX}1.14"
        )
    return found


def assigner_of(text: str) -> DeviceAssigner:
    """Who says which cards pods get, as ``--assigner`` names it. Raises ``ManifestError`` for anything else."""
    try:
        return DeviceAssigner(text)
    except ValueError:
        raise ManifestError(f"--assigner {text}: not one of {', '.join(DeviceAssigner)}") from None


def ranked(rules: Rules, release: Version | None, assigner: DeviceAssigner | None) -> Rules:
    """The rules of a cluster as a release ranks, or the component that assigns devices: from 1.15 on, and by the
    allocator, the policy also orders the cards of a node.
    """
    nodes_only = volcano_releases.RANKS_NODES_ONLY.holds(release, assigner or DeviceAssigner.VOLCANO)
    orders = rules.policies.volcano_orders_cards or not nodes_only
    return replace(rules, policies=replace(rules.policies, volcano_orders_cards=orders))


def differences(
    course: PlanContext, release: Version | None, assigner: DeviceAssigner | None = None
) -> Iterator[tuple[Difference, ...]]:
    """The release's deviation, for each pod of the plan in turn, except where ``assigner`` corrects it.

    Without a release it is what any may do with what the pod asks for. Without ``assigner`` the mark on a pod counts.
    """
    rules = [rule for rule in _RULES if rule.unasked or release is not None]
    for plan in course.plans:
        case, held = PodContext(plan, course), assigner or _marked(plan)
        known = [rule for rule in rules if rule.quirk.holds(release, held)] if is_volcanos(plan) else []
        yield tuple(_told(rule, case, release) for rule in known if rule.applies(case))


def _marked(plan: PodPlan) -> DeviceAssigner:
    """Whose allocation a pod waits for, as the allocator has marked it."""
    notes = plan.pod.annotations
    mark = notes.get(allocator_mark.KEY, "")
    return DeviceAssigner(mark) if mark in tuple(DeviceAssigner) else DeviceAssigner.VOLCANO


def _told(rule: ReleaseRule, case: PodContext, release: Version | None) -> Difference:
    """The sentence of a rule for one pod."""
    words = rule.words if isinstance(rule.words, str) else rule.words(case)
    if release is not None:
        name = f"Volcano {release_name(release)}"
    else:
        name = "Volcano" if rule.quirk.spans == volcano_releases.EVERY else str(rule.quirk)
    return Difference(rule.name, words.replace("{volcano}", name))
