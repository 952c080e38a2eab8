"""What is offered to a member of a gang lets the whole gang start."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins.explain import gang_suggestions
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.plan import Planner, PlanUnit, Stage, submission
from tests import builders
from tests.unit.plan import plans
from tests.unit.plan.plans import asking
from tests.unit.queueing.test_cycle import MEMORY, REGISTRY, a_job, a_node, a_pod


def offered(members: int, memory: int, *there: dict[str, Any]) -> list[str]:
    """What is offered to the members of a gang that one node with a card of 10,000 MiB does not take."""
    job = a_job("j", memory, {"replicas": members})
    read = workloads.read(manifests.read(yaml.safe_dump(job), source="test"), pod_groups={})
    before = submission.with_objects(snapshot_of([a_node(cards=1), *there], REGISTRY), read)
    planner = Planner(REGISTRY)
    answers = Answers(planner.plan(before, submission.units(read, before)), planner)
    return [each.sentence for told in answers.all if told.plan.stage is Stage.NODES for each in told.ways_out]


def test_one_more_node_is_offered_only_where_it_is_enough() -> None:
    assert "fits with one more node like n1" in offered(2, 9000)
    assert {words for words in offered(4, 9000) if "more node" in words} == {"fits with 3 more nodes like n1"}


def test_more_new_nodes_than_anybody_would_add_are_not_offered() -> None:
    assert not [words for words in offered(12, 9000) if "more node" in words]


def test_less_of_a_resource_is_offered_only_where_all_members_fit_with_it() -> None:
    assert f"fits with {MEMORY}: 2000 instead of 4000 (on n1)" in offered(3, 4000)
    assert not [words for words in offered(6, 4000) if MEMORY in words]


def test_a_pod_is_to_go_only_where_all_members_fit_without_it() -> None:
    without = "fits without pod default/old, which holds 6,000 MiB on 1 card (on n1)"
    assert without in offered(2, 5000, a_pod("old", 6000, node="n1"))
    assert without not in offered(3, 5000, a_pod("old", 6000, node="n1"))


def test_what_there_is_no_time_to_try_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_suggestions, "MOST_LOOKS", 0)
    assert offered(2, 9000) == []


def test_a_quota_is_to_be_raised_only_where_all_members_fit_with_it() -> None:
    def raised(*memory: int) -> set[str]:
        pods = tuple(asking(each, name=f"m{at}") for at, each in enumerate(memory))
        unit = PlanUnit(name="job/default/j", pods=pods, gang=True, group="default/j", min_member=len(pods))
        planner = Planner(plans.REGISTRY)
        limits = {"default": {f"limits.{builders.MEMORY}": 3000}}
        answers = Answers(planner.plan(builders.a_snapshot(builders.a_node(), quotas=limits), [unit]), planner)
        ways_out = (way for told in answers.all for way in told.ways_out)
        return {change for way in ways_out for change in way.changes if "of the namespace" in change}

    words = "limits.acme.example/memory of the namespace raised by 1,000 (1,000 left, 2,000 needed)"
    assert raised(2000, 2000) == {f"with {words}"}
    assert raised(2000, 2000, 2000) == set()
