"""Where a release of Volcano does something else than a plan says, because the plan does what people would want.

Nothing else in a plan depends on the release; the rules are data, in ``volcano_rules``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.errors import ManifestError
from hami_plugins.queueing.context import PlanContext, PodContext, is_volcanos
from hami_plugins.queueing.release_rules import RULES, ReleaseRule
from hami_plugins.queueing.stages import Difference, PodPlan
from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import TRIED, DeviceAssigner, Version
from hami_plugins.wire import allocator_mark

PREFIX: Final = "volcano-"


def release_of(text: str) -> Version:
    """The release that ``--scheduler`` names (``volcano-1.14``, ``volcano-1.15.1``).

    Without a patch it is the one that was tried, where there is one, else the first of its kind. Raises
    ``ManifestError`` for anything else.
    """
    named = text.removeprefix(PREFIX)
    found = volcano_releases.version_of(named) if text.startswith(PREFIX) else None
    if found is None:
        raise ManifestError(f"--scheduler {text}: no release; write {PREFIX}1.14 or {PREFIX}{TRIED}")
    return TRIED if named.count(".") == 1 and found[:2] == TRIED[:2] else found


def assigner_of(text: str) -> DeviceAssigner:
    """Who says which cards pods get, as ``--assigner`` names it. Raises ``ManifestError`` for anything else."""
    try:
        return DeviceAssigner(text)
    except ValueError:
        raise ManifestError(f"--assigner {text}: not one of {', '.join(DeviceAssigner)}") from None


def differences(
    course: PlanContext, release: Version | None, assigner: DeviceAssigner | None = None
) -> Iterator[tuple[Difference, ...]]:
    """What the release does otherwise, for each pod of the plan in turn, less what ``assigner`` puts right.

    Without a release it is what any may do with what the pod asks for. Without ``assigner`` the mark on a pod counts.
    """
    rules = [rule for rule in RULES if rule.unasked or release is not None]
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
        name = f"Volcano {release}"
    else:
        name = "Volcano" if rule.quirk.spans == volcano_releases.EVERY else str(rule.quirk)
    return Difference(rule.name, words.replace("{volcano}", name))
