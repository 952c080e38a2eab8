"""What Volcano alone does, by release, where a plan evicts pods: said of the pods that need it, and of no others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.plan import Planner, submission
from hami_plugins.queueing import releases
from tests.unit.plan.test_preemption import high, low
from tests.unit.queueing.test_cycle import REGISTRY, a_group, a_node, a_queue

EVICTING = {"evicts-in-vain", "waits-fragmented", "victims-still-running", "foreign-gang-cards", "stripped-victims"}
CLUSTER = (a_node(cards=1), a_queue(), low("low"))


def rules(release: str, *submitted: dict[str, Any], assigner: str = "", preemption: bool = True) -> dict[str, set[str]]:
    """The rules about evictions that a plan names, by pod."""
    before = snapshot_of(list(CLUSTER), REGISTRY)
    read = workloads.read(manifests.read(yaml.safe_dump_all(submitted), source="test"), pod_groups=before.pod_groups)
    before = submission.with_objects(before, read)
    planner = Planner(
        REGISTRY,
        release=releases.release_of(f"volcano-{release}") if release else None,
        assigner=releases.assigner_of(assigner) if assigner else None,
    )
    found = planner.plan(before, submission.units(read, before), preemption=preemption)
    return {each.pod.name: {one.rule for one in each.differences} & EVICTING for each in found.pods}


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("1.14.1", {"evicts-in-vain"}),
        ("1.14.4", {"evicts-in-vain", "stripped-victims"}),
        ("1.15.0", {"waits-fragmented", "victims-still-running"}),
        ("1.15.1", {"waits-fragmented", "victims-still-running", "stripped-victims"}),
        ("1.16", {"waits-fragmented", "victims-still-running"}),
        ("", set()),
    ],
)
def test_each_release_evicts_in_its_own_way(release: str, said: set[str]) -> None:
    assert rules(release, high()) == {"high": said}


@pytest.mark.parametrize(("release", "said"), [("1.14.4", False), ("1.15.1", True), ("1.16", False)])
def test_gangs_get_cards_of_other_nodes_in_one_series(release: str, said: bool) -> None:
    gang = a_group("g", 2), high("x", 4_000, group="g"), high("y", 4_000, group="g")
    found = rules(release, *gang)
    assert {name: "foreign-gang-cards" in each for name, each in found.items()} == {"x": said, "y": said}


def test_a_pod_that_fits_evicts_nobody() -> None:
    assert rules("1.15.1", high(memory=1_000)) == {"high": set()}
    assert rules("1.15.1", high(), preemption=False) == {"high": set()}


@pytest.mark.parametrize(
    ("assigner", "said"),
    [("policy", {"waits-fragmented", "victims-still-running", "stripped-victims"}), ("extender", set())],
)
def test_the_allocator_puts_it_right(assigner: str, said: set[str]) -> None:
    assert rules("1.15.1", high(), assigner=assigner) == {"high": said}
