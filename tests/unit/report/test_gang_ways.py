"""What is offered to a member of a gang lets the whole gang start."""

from __future__ import annotations

import yaml

from hami_plugins.report import manifests, workloads
from hami_plugins.report.explain.answers import Answers
from hami_plugins.report.listing import snapshot_of
from hami_plugins.report.plan import Planner, Stage, submission
from tests.unit.report.test_turns import MEMORY, REGISTRY, a_job, a_node


def offered(members: int, memory: int) -> list[str]:
    """What is offered to the members of a gang that one node with a card of 10,000 MiB does not take."""
    job = a_job("j", memory, {"replicas": members})
    read = workloads.read(manifests.read(yaml.safe_dump(job), source="test"), pod_groups={})
    before = submission.with_objects(snapshot_of([a_node(cards=1)], REGISTRY), read)
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
