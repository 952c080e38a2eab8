"""Whole clusters, planned: submitted objects on a listing, and the real Volcano's results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from hami_plugins.config import settings
from hami_plugins.engine.intake import OVERCOMMIT
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.manifests import Document
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.plan import Plan, Planner, PodPlan, Stage, submission, what_if
from hami_plugins.vendors.volcano_releases import TRIED

FOLDER: Final = Path(__file__).parent / "scenarios"

PRIORITIES: Final = {"low": 10, "high": 1000}
"""The classes that existed; listings do not hold them."""

STAGES: Final[Mapping[str, frozenset[Stage]]] = {
    "enqueue": frozenset({Stage.GATE}),
    "allocate": frozenset({Stage.NODES, Stage.GANG, Stage.REQUEST}),
    "not-volcano": frozenset({Stage.ELSEWHERE}),
    "scheduling-gate": frozenset({Stage.GATE}),
    "no-podgroup": frozenset({Stage.GATE}),
}
"""Where a pod that waits may stop in a plan, by where it stopped in Volcano."""

UNSAID: Final[Mapping[str, Any]] = {
    "title": "",
    "kind": "rule",
    "placed": {},
    "devices": {},
    "pending": {},
    "pending_stage": {},
    "rejected": {},
    "victims": {},
    "stable": True,
    "stable_counts": True,
    "stable_devices": False,
}
"""What holds where an answer leaves a member out."""

REFUSED: Final = frozenset({Stage.QUOTA, Stage.ADMISSION})
"""Stages of objects that the API server does not take."""


@dataclass(frozen=True)
class Scenario:
    """One folder, planned as it stands, and as it is after what happened later (``during``)."""

    name: str
    expect: dict[str, Any]
    plan: Plan
    earlier: Plan
    mistaken: frozenset[str]

    @cached_property
    def placed(self) -> dict[str, Placed]:
        """The placements by pod, named as in ``expect.yaml``, including those after evictions."""
        return {named(each.pod): each.place for each in self.plan.pods if each.place is not None}

    @cached_property
    def victims(self) -> dict[str, str]:
        """The pods that are evicted, and their nodes."""
        return {named(victim.pod): victim.node for each in self.plan.evictions for victim in each.victims}

    @cached_property
    def pending(self) -> dict[str, PodPlan]:
        """The pods that exist and have no place."""
        return {
            named(each.pod): each
            for each in self.plan.pods
            if each.place is None and not self._absent(each) and each.stage not in REFUSED
        }

    @cached_property
    def rejected(self) -> frozenset[str]:
        """The objects that are refused, as ``kind/name`` or ``kind/namespace/name``."""
        return self.mistaken | frozenset(
            plain_key(f"pod/{each.pod.full_name}" if not self._late(each) else each.unit)
            for each in self.plan.pods
            if each.stage in REFUSED and not (self._late(each) and each.stage is Stage.QUOTA)
        )

    @cached_property
    def jobs(self) -> dict[str, int]:
        """How many pods each Volcano Job has."""
        found = {unit.name.partition("/")[2].removeprefix("default/"): 0 for unit in self.plan.units if unit.made_late}
        for each in self.plan.pods:
            if self._late(each) and not self._absent(each) and each.stage not in REFUSED:
                found[each.unit.partition("/")[2].removeprefix("default/")] += 1
        return found

    @cached_property
    def by_pod(self) -> dict[str, PodPlan]:
        """Every pod."""
        return {named(each.pod): each for each in self.plan.pods}

    @cached_property
    def said(self) -> dict[str, dict[str, str]]:
        """What Volcano does otherwise: the sentences by rule, for each pod that they are about."""
        found: dict[str, dict[str, str]] = {}
        for each in (*self.plan.pods, *self.earlier.pods):
            for rule, words in each.differences:
                found.setdefault(named(each.pod), {}).setdefault(rule, words)
        return found

    def _late(self, plan: PodPlan) -> bool:
        return any(unit.name == plan.unit and unit.made_late for unit in self.plan.units)

    def _absent(self, plan: PodPlan) -> bool:
        """A pod of a Job that its controller has not created: the Job is not enqueued, or the quota is full."""
        gated = plan.pod.gated
        return self._late(plan) and not gated and plan.stage in {Stage.GATE, Stage.QUOTA} and not is_inside(plan)


def is_inside(plan: PodPlan) -> bool:
    """Whether a pod is enqueued and is kept back by its queue's share only."""
    return plan.hold is not None and plan.hold.inside


def named(pod: Pod | PodRecord) -> str:
    """A pod as ``expect.yaml`` names it."""
    return pod.name if pod.namespace == "default" else pod.full_name


def plain_key(key: str) -> str:
    """An object as ``kind/name`` or ``kind/namespace/name``, however it was written."""
    kind, _, rest = key.lower().partition("/")
    return f"{kind}/{rest.removeprefix('default/')}"


def names() -> list[str]:
    """The scenarios that are kept here."""
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / "expect.yaml").exists())


def scenario(folder: Path) -> Scenario:
    """A folder, planned."""
    expect = _expected(folder)
    config = folder / "device-config.yaml"
    found = settings.parse(config.read_text(encoding="utf-8") if config.exists() else "")
    registry = found.registry()
    about = expect.get("submission", {})
    nested = about.get("hierarchy", False)  # off by default
    factor = Fraction(str(about.get("overcommit_factor", OVERCOMMIT)))
    plugin = about.get("queue_plugin", "")
    rules = replace(found.rules(), queue_plugin=plugin, queue_hierarchy=nested, overcommit=factor)
    before = snapshot_of([_listing(folder)], registry)
    before = replace(before, priorities={**before.priorities, **PRIORITIES})
    text = (folder / "submit.yaml").read_text(encoding="utf-8")
    documents, refused = _acceptable(manifests.read(text, source="submit.yaml"), before)
    submitted = workloads.read(documents, pod_groups=before.pod_groups)
    before = submission.with_objects(before, submitted)
    planner = Planner(registry, rules, release=TRIED)
    preemption = about.get("preemption", False)  # the action enqueue is off then, as preemption needs it
    earlier = planner.plan(before, submission.units(submitted, before), preemption=preemption)
    # Pods that ended while the submission was waiting.
    ended = [f"pod/{event['pod'] if '/' in event['pod'] else 'default/' + event['pod']}" for event in during(expect)]
    later = what_if.without(before, ended)
    plan = planner.plan(later, submission.units(submitted, later), preemption=preemption) if ended else earlier
    return Scenario(folder.name, expect, plan, earlier, refused)


def unplanned(folder: Path) -> Scenario:
    """A folder of which no plan can be made."""
    nothing = Plan(before=ClusterSnapshot(), after=ClusterSnapshot(), pods=())
    return Scenario(folder.name, _expected(folder), nothing, nothing, frozenset())


def _expected(folder: Path) -> dict[str, Any]:
    return {**UNSAID, **yaml.safe_load((folder / "expect.yaml").read_text(encoding="utf-8"))}


def _acceptable(documents: Iterable[Document], before: ClusterSnapshot) -> tuple[list[Document], frozenset[str]]:
    """The documents that a webhook takes, and the names of the others, which are Jobs and the like with mistakes."""
    taken: list[Document] = []
    refused: set[str] = set()
    for document in documents:
        try:
            workloads.read([document], pod_groups=before.pod_groups)
        except ManifestError:
            metadata: Any = document.raw.get("metadata") or {}
            namespace = metadata.get("namespace", "default")
            refused.add(plain_key(f"{document.raw.get('kind')}/{namespace}/{metadata.get('name')}"))
        else:
            taken.append(document)
    return taken, frozenset(refused)


def during(expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [event for event in expect.get("during") or [] if event.get("pod")]


def _listing(folder: Path) -> Any:
    packed = folder / "before.json.gz"
    if packed.exists():
        with gzip.open(packed, "rt", encoding="utf-8") as listing:
            return json.load(listing)
    return json.loads((folder / "before.json").read_text(encoding="utf-8"))
