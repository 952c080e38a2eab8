"""What waits for devices, and why: who asks for the same is explained together, those that wait longest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.explain import waiting as module
from hami_plugins.explain.waiting import WaitingReport, asking, waiting
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.plan import Planner
from tests import builders
from tests.builders import MEMORY, a_node, a_snapshot
from tests.unit.plan.plans import REGISTRY
from tests.unit.plan.plans import asking as a_request

PLANNER = Planner(REGISTRY)


def made(pod: Pod, at: int | None) -> Pod:
    return replace(pod, made_at=at)


def intakes(*pods: Pod) -> list[PodInfo]:
    return [take_in(each, REGISTRY, Rules()) for each in pods]


def told(found: Iterable[PodInfo], snapshot: ClusterSnapshot | None = None) -> WaitingReport:
    return waiting(found, snapshot or a_snapshot(a_node("a")), PLANNER)


def test_pods_that_ask_for_the_same_are_one_group_with_numbers_and_a_change() -> None:
    report = told(intakes(made(a_request(20_000, name="b"), 20), made(a_request(20_000, name="a"), 10)))
    (group,) = report.groups
    assert (report.pods, report.more) == (2, 0)
    assert [each.name for each in group.pods] == ["a", "b"]
    assert group.since == 10
    assert "asked 20,000 MiB on 1 card; largest free 16,384 MiB (a)" in group.why
    assert [cause.nodes for cause in group.causes] == [1]
    assert group.ways_out[0].changes == (f"with {MEMORY}: 16384 instead of 20000",)
    assert group.fitting == 0


def test_those_that_wait_longest_come_first_and_those_of_unknown_age_last() -> None:
    report = told(
        intakes(a_request(20_001, name="unknown"), made(a_request(20_002, name="new"), 9), made(a_request(20_003), 0))
    )
    assert [(group.pods[0].name, group.since) for group in report.groups] == [("p", 0), ("new", 9), ("unknown", None)]


def test_namespaces_and_refusals_are_told_apart() -> None:
    report = told(intakes(a_request(20_000), a_request(20_000, namespace="other"), a_request(-5)))
    assert sorted(len(group.pods) for group in report.groups) == [1, 1, 1]


def test_a_pod_that_fits_names_the_scheduler_that_has_not_placed_it() -> None:
    pod = replace(a_request(), scheduler="mine")
    (group,) = told(intakes(pod), a_snapshot(a_node("a"), a_node("b"))).groups
    assert group.why == "2 nodes have room for it now, such as a; mine has not placed it yet"
    assert (group.fitting, group.causes, group.ways_out) == (2, (), ())
    (group,) = told(intakes(pod)).groups
    assert group.why == "1 node has room for it now, such as a; mine has not placed it yet"


def test_a_request_that_means_nothing_is_told_as_it_is_refused() -> None:
    (group,) = told(intakes(a_request(-5))).groups
    assert MEMORY in group.why
    assert group.causes == ()


def test_gates_and_blocking_reasons_come_before_devices() -> None:
    (group,) = told(intakes(replace(a_request(20_000), gates=("a",)))).groups
    assert group.why == "has the scheduling gate a; no scheduler looks at it before it is removed"
    found = waiting(intakes(a_request()), a_snapshot(a_node("a")), PLANNER, blocked=lambda _intake: "its gang is away")
    assert found.groups[0].why == "its gang is away"


def test_a_pod_that_is_being_deleted_does_not_wait() -> None:
    assert told(intakes(replace(a_request(), terminating=True))) == WaitingReport()


def test_so_many_requests_are_explained_and_the_others_counted() -> None:
    pods = [a_request(20_000 + at, name=f"p{at:02}") for at in range(module.MOST_EXPLAINED + 3)]
    report = told(intakes(*pods))
    assert (len(report.groups), report.more, report.pods) == (module.MOST_EXPLAINED, 3, len(pods))


def test_without_time_one_request_is_explained() -> None:
    found = intakes(a_request(20_000), a_request(20_001, name="q"))
    report = waiting(found, a_snapshot(a_node("a")), PLANNER, spare=lambda: False)
    assert (len(report.groups), report.more) == (1, 1)


def test_of_a_snapshot_the_pods_wait_that_ask_for_devices() -> None:
    plain = builders.a_pod(builders.a_container({"cpu": 1}), name="plain")
    nothing = builders.a_pod(builders.a_container({builders.COUNT: 0}), name="nothing")
    snapshot = replace(a_snapshot(a_node("a")), pending=(plain, nothing, a_request(name="asks"), a_request(-5)))
    assert [each.submitted.name for each in asking(snapshot, PLANNER)] == ["asks", "p"]
