"""Whole clusters: what the real Volcano 1.14.1 did with a submission, and what a plan of the same says."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.config import settings
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.report import manifests, workloads
from hami_plugins.report.listing import snapshot_of
from hami_plugins.report.plan import Plan, Planner, PodPlan, Stage, submission, what_if

FOLDER = Path(__file__).parent / "scenarios"
NAMES = sorted(folder.name for folder in FOLDER.iterdir())

PRIORITIES = {"low": 10, "high": 1000}
"""The classes that existed; listings do not hold them."""

STAGES = {
    "enqueue": {Stage.GATE},
    "allocate": {Stage.NODES, Stage.GANG},
    "not-volcano": {Stage.ELSEWHERE},
    "scheduling-gate": {Stage.GATE},
    "no-podgroup": {Stage.GATE},
}

FAULTS = {
    "45-unhealthy-card": "Volcano gives p1 the card that is marked unhealthy; the plan gives it the healthy one.",
    "69-gang-and-selectors": "The gang that cannot be keeps Volcano busy for a dozen sessions; the answer is the same.",
    "72-notready-without-taint": "Without a taint, a node that is not ready takes pods, as under kube-scheduler.",
    "81-pending-gang-before": "Ids on pods without a node are leftovers; the plan counts none of them.",
    "83-gang-after-room": "Volcano binds the gang with stale ids, a card named by several; here each has its own.",
}
"""Where Volcano did what a user would call a bug: what the plan says instead. The sets of pods are the same."""


@dataclass(frozen=True)
class Scenario:
    """One folder, planned."""

    expect: dict[str, Any]
    plan: Plan

    @property
    def placed(self) -> dict[str, Placed]:
        """The placements by pod, named as in ``expect.yaml``."""
        return {
            named(each.pod): each.decision
            for each in self.plan.pods
            if each.stage is Stage.PLACED and isinstance(each.decision, Placed)
        }

    @property
    def others(self) -> dict[str, PodPlan]:
        """The pods without a place."""
        return {named(each.pod): each for each in self.plan.pods if each.stage is not Stage.PLACED}


def named(pod: Pod) -> str:
    return pod.name if pod.namespace == "default" else pod.full_name


@cache
def scenario(name: str) -> Scenario:
    folder = FOLDER / name
    expect = yaml.safe_load((folder / "expect.yaml").read_text(encoding="utf-8"))
    config = folder / "device-config.yaml"
    found = settings.parse(config.read_text(encoding="utf-8") if config.exists() else "")
    registry = found.registry()
    with gzip.open(folder / "before.json.gz", "rt", encoding="utf-8") as listing:
        before = snapshot_of([json.load(listing)], registry)
    before = replace(before, priorities={**before.priorities, **PRIORITIES})
    # Pods that ended while the submission was waiting.
    before = what_if.without(before, [f"pod/default/{event['pod']}" for event in expect.get("during", [])])
    text = (folder / "submit.yaml").read_text(encoding="utf-8")
    submitted = workloads.read(manifests.read(text, source="submit.yaml"), pod_groups=before.pod_groups)
    before = submission.with_objects(before, submitted)
    return Scenario(expect, Planner(registry, found.rules()).plan(before, submission.units(submitted, before)))


every_scenario = pytest.mark.parametrize("name", NAMES)


@every_scenario
def test_the_same_pods_find_a_place(name: str) -> None:
    given = scenario(name)
    rejected = {key.split("/", 1)[1].removeprefix("default/") for key in given.expect["rejected"]}
    assert given.placed.keys() == given.expect["placed"].keys()
    assert given.others.keys() == given.expect["pending"].keys() | rejected


@every_scenario
def test_the_others_stop_where_they_stop_in_volcano(name: str) -> None:
    given = scenario(name)
    for pod, stage in given.expect["pending_stage"].items():
        assert given.others[pod].stage in STAGES[stage], pod
    for key in given.expect["rejected"]:
        pod = given.others[key.split("/", 1)[1].removeprefix("default/")]
        assert pod.stage in {Stage.QUOTA, Stage.ADMISSION}


@every_scenario
def test_pods_at_the_gate_hear_what_volcano_says_of_their_gang(name: str) -> None:
    given = scenario(name)
    for pod, stage in given.expect["pending_stage"].items():
        if stage == "enqueue":
            said = given.expect["pending"][pod].partition("PodGroup event: ")[2].split(" | ")
            assert given.others[pod].words in said


@every_scenario
def test_no_card_holds_more_than_it_has(name: str) -> None:
    after: ClusterSnapshot = scenario(name).plan.after
    for entry in after.nodes:
        for device, used in zip(entry.state.shape.devices, entry.state.usage, strict=True):
            assert used.slots <= device.slots
            assert used.memory <= device.memory
            assert used.cores <= device.cores


@every_scenario
def test_cards_are_volcanos_where_these_do_not_vary(name: str) -> None:
    given = scenario(name)
    if given.expect["kind"] == "fault" or not given.expect["stable_devices"] or "during" in given.expect:
        return
    for pod, placed in given.placed.items():
        if given.expect["placed"][pod] != placed.node:
            continue  # another of several nodes that fit
        ours = [
            [f"{_slot(share.device, share.mark)}:{share.memory}:{share.cores}" for share in container.shares]
            for container in placed.containers
            if container.shares
        ]
        assert ours == [cards for cards in given.expect["devices"][pod] if cards], pod


def _slot(device: str, mark: Any) -> str:
    return f"{device}[{mark.profile}]" if mark is not None else device


def test_every_fault_has_an_answer() -> None:
    assert {name for name in NAMES if scenario(name).expect["kind"] == "fault"} == FAULTS.keys()


def test_the_unhealthy_card_is_left_alone() -> None:
    given = scenario("45-unhealthy-card")
    (share,) = given.placed["p1"].grants()
    entry = given.plan.after.node(given.placed["p1"].node)
    assert entry is not None
    assert entry.state.shape.devices[entry.ids.index(share.device)].healthy


def test_every_member_of_a_late_gang_has_its_own_card() -> None:
    devices = [share.device for placed in scenario("83-gang-after-room").placed.values() for share in placed.grants()]
    assert len(set(devices)) == len(devices) == 4
