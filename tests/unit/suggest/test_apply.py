"""What changes make of a question, taken literally, and written into the pod: for a plain vendor the same."""

from dataclasses import replace

import pytest

from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import NodeConstraints, Pod, Requirement
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind, DeviceSelector
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import Headroom
from hami_plugins.suggest.apply import changed, literally
from hami_plugins.suggest.changes import (
    AddedNode,
    Change,
    ChangeKind,
    Dropped,
    LessOf,
    LessPlain,
    RaisedQuota,
    Removed,
    Tolerated,
)
from hami_plugins.suggest.rewrite import rewritten, settled
from hami_plugins.vendors import ascend, nvidia
from tests import acme
from tests.builders import ACME, CORES, COUNT, MEMORY, a_container, a_pod, a_record, a_request
from tests.unit.suggest.questions import wanting

REGISTRY = Registry((acme.SPEC,))
LEFT = {ACME: Headroom(MiB(10_000), CoreShare(200))}


def less(kind: ChangeKind, resource: str, after: int, *, before: int | None = 99, container: int = 0) -> LessOf:
    return LessOf(kind=kind, resource=resource, before=before, after=after, containers=(container,), vendor=ACME)


def a_choosy_pod() -> Pod:
    return a_pod(
        a_container({COUNT: 2, MEMORY: 99, CORES: 99, "cpu": 4}, requests={COUNT: 2, MEMORY: 99, CORES: 99, "cpu": 4}),
        a_container({"cpu": 1}, requests={"cpu": 1}, name="logs"),
        annotations={
            "acme.example/use-uuid": "card-0,card-1",
            "acme.example/nouse-uuid": "card-9",
            "acme.example/use-type": "Acme",
            "acme.example/nouse-type": "Old",
            "hami.io/gpu-scheduler-policy": "mutex,topology-aware",
            "nvidia.com/numa-bind": "true",
        },
        constraints=NodeConstraints(
            selector=(("gpu", "on"), ("zone", "a")),
            affinity=((Requirement("zone", "In", ("a",)), Requirement("gpu", "Exists")), (Requirement("x", "Exists"),)),
            requests=((CORES, 99 * NANO), (MEMORY, 99 * NANO), (COUNT, 2 * NANO), ("cpu", 5 * NANO)),
        ),
    )


CHANGES: tuple[Change, ...] = (
    less(ChangeKind.MEMORY, MEMORY, 40),
    less(ChangeKind.CORES, CORES, 40),
    less(ChangeKind.COUNT, COUNT, 1, before=2),
    LessPlain(resource="cpu", before=5 * NANO, after=NANO // 2),
    Dropped(kind=ChangeKind.USE_IDS, key="acme.example/use-uuid", value="card-0", vendor=ACME),
    Dropped(kind=ChangeKind.AVOID_IDS, key="acme.example/nouse-uuid", value="card-9", vendor=ACME),
    Dropped(kind=ChangeKind.USE_MODELS, key="acme.example/use-type", value="acme", vendor=ACME),
    Dropped(kind=ChangeKind.AVOID_MODELS, key="acme.example/nouse-type", value="old", vendor=ACME),
    Dropped(kind=ChangeKind.NODE_SELECTOR, key="zone", value="a"),
    Dropped(kind=ChangeKind.NODE_AFFINITY, key="zone"),
    Dropped(kind=ChangeKind.NODE_AFFINITY, key="x"),
    Tolerated(taint=Taint("k", "v", "NoSchedule")),
    RaisedQuota(kind=ChangeKind.QUOTA_MEMORY, resource=MEMORY, left=10_000, needed=20_000, vendor=ACME),
    RaisedQuota(kind=ChangeKind.QUOTA_CORES, resource=CORES, left=200, needed=300, vendor=ACME),
    Removed(pod=a_record(), node=NodeName("a")),
    AddedNode(like=NodeName("a")),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.kind.value}")
def test_a_change_taken_literally_is_what_comes_of_writing_it_into_the_pod(change: Change) -> None:
    pod = a_choosy_pod()
    settle = settled(pod, REGISTRY, Rules(), LEFT)
    asked = settle(())
    assert asked is not None
    assert literally(asked, REGISTRY)((change,)) == settle((change,))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.kind.value}")
def test_a_change_of_the_pod_changes_the_question(change: Change) -> None:
    asked = settled(a_choosy_pod(), REGISTRY, Rules(), LEFT)(())
    assert asked is not None
    of_cluster = isinstance(change, Removed | AddedNode)
    assert (changed(asked, change, REGISTRY) == asked) is of_cluster


@pytest.mark.parametrize(
    ("kind", "value", "flag"),
    [
        (ChangeKind.EXCLUSIVE, "mutex", "exclusive"),
        (ChangeKind.NEAR, "topology-aware", "near"),
        (ChangeKind.ONE_NUMA, "true", "one_numa"),
    ],
)
def test_a_policy_is_dropped_without_the_others(kind: ChangeKind, value: str, flag: str) -> None:
    pod = a_choosy_pod()
    key = "nvidia.com/numa-bind" if kind is ChangeKind.ONE_NUMA else "hami.io/gpu-scheduler-policy"
    dropped = Dropped(kind=kind, key=key, value=value)
    settle = settled(pod, REGISTRY, Rules())
    before, after = settle(()), settle((dropped,))
    assert before is not None
    assert after is not None
    flags = ("exclusive", "near", "one_numa")
    assert all(getattr(before.policy, each) for each in flags)
    assert [each for each in flags if not getattr(after.policy, each)] == [flag]
    literal = changed(before, dropped, REGISTRY).policy
    assert [getattr(literal, each) for each in flags] == [getattr(after.policy, each) for each in flags]


def test_containers_that_change_together_count_each_in_the_sums_and_in_the_pod() -> None:
    """Three containers with one request, of which the init container runs before the others."""
    amounts = {COUNT: 1, MEMORY: 99}
    kinds = (ContainerKind.INIT, ContainerKind.APP, ContainerKind.APP)
    containers = [a_container(amounts, requests=amounts, name=f"c{at}", kind=kind) for at, kind in enumerate(kinds)]
    sums = ((COUNT, 2 * NANO), (MEMORY, 198 * NANO))
    settle = settled(a_pod(*containers, constraints=NodeConstraints(requests=sums)), REGISTRY, Rules())
    asked = settle(())
    assert asked is not None
    change = replace(less(ChangeKind.MEMORY, MEMORY, 40), containers=(0, 1, 2))
    assert literally(asked, REGISTRY)((change,)) == settle((change,))
    assert dict(changed(asked, change, REGISTRY).demand.constraints.requests)[MEMORY] == 80 * NANO


def test_a_policy_with_nothing_left_is_spread_so_that_no_default_takes_its_place() -> None:
    pod = a_pod(annotations={"hami.io/gpu-scheduler-policy": "mutex"})
    dropped = Dropped(kind=ChangeKind.EXCLUSIVE, key="hami.io/gpu-scheduler-policy", value="mutex")
    assert rewritten(pod, dropped).annotations == {"hami.io/gpu-scheduler-policy": "spread"}


def test_every_annotation_that_says_the_same_is_dropped() -> None:
    pod = a_pod(annotations={"a/use": "x", "b/use": "x", "c": "y"})
    dropped = Dropped(kind=ChangeKind.USE_IDS, key="a/use,b/use", value="x")
    assert rewritten(pod, dropped).annotations == {"c": "y"}


def test_the_name_of_a_node_is_dropped_wherever_it_stands() -> None:
    pod = a_pod(node="gone", constraints=NodeConstraints(node=NodeName("gone")))
    free = rewritten(pod, Dropped(kind=ChangeKind.NODE_NAME, key="spec.nodeName", value="gone"))
    assert (free.node, free.constraints.node) == (None, None)


def test_a_selector_is_dropped_for_one_vendor_alone() -> None:
    wanted = DeviceSelector(use_ids=frozenset({DeviceId("x")}))
    question = DecisionRequest(
        wanting(a_request(selector=wanted), a_request(vendor="Other", selector=wanted)), Policy()
    )
    dropped = Dropped(kind=ChangeKind.USE_IDS, key="k", value="x", vendor=ACME)
    found = changed(question, dropped, REGISTRY).demand.devices
    assert [each.selector.use_ids for one in found.containers for each in one.requests] == [None, wanted.use_ids]


def test_a_quota_is_raised_for_one_vendor_alone() -> None:
    other = replace(acme.SPEC, name=nvidia.SPEC.name)
    room = {ACME: Headroom(MiB(1)), other.name: Headroom(MiB(1))}
    question = DecisionRequest(wanting(headroom=room), Policy())
    change = RaisedQuota(kind=ChangeKind.QUOTA_MEMORY, resource=MEMORY, left=1, needed=5, vendor=ACME)
    found = dict(changed(question, change, REGISTRY).demand.headroom)
    assert found == {ACME: Headroom(MiB(5)), other.name: Headroom(MiB(1))}


def test_an_amount_that_was_not_written_becomes_a_limit_and_a_request() -> None:
    pod = a_pod(a_container({COUNT: 1}, requests={COUNT: 1}))
    found = rewritten(pod, less(ChangeKind.MEMORY, MEMORY, 500, before=None))
    container = found.containers[0]
    assert container.limits[MEMORY].whole == container.requests[MEMORY].whole == 500
    assert dict(found.constraints.requests)[MEMORY] == 500 * NANO


def test_an_amount_of_a_pod_that_no_api_server_has_seen_stays_a_limit() -> None:
    found = rewritten(a_pod(a_container({COUNT: 2})), less(ChangeKind.COUNT, COUNT, 1, before=2))
    assert dict(found.containers[0].requests) == {}


def test_an_amount_that_stands_among_the_requests_alone_stays_there() -> None:
    found = rewritten(a_pod(a_container(requests={COUNT: 2})), less(ChangeKind.COUNT, COUNT, 1, before=2))
    assert dict(found.containers[0].limits) == {}
    assert found.containers[0].requests[COUNT].whole == 1


def test_init_containers_change_the_sums_only_at_their_peak() -> None:
    pod = a_pod(
        a_container({COUNT: 4}, requests={COUNT: 4}, name="init", kind=ContainerKind.INIT),
        a_container({COUNT: 3}, requests={COUNT: 3}),
        constraints=NodeConstraints(requests=((COUNT, 4 * NANO),)),
    )
    found = rewritten(pod, less(ChangeKind.COUNT, COUNT, 1, before=4))
    assert found.constraints.requests == ((COUNT, 3 * NANO),)


def test_a_change_that_the_webhook_refuses_settles_nothing() -> None:
    settle = settled(a_choosy_pod(), REGISTRY, Rules(), {ACME: Headroom(MiB(10))})
    assert settle(()) is None


def test_a_vendor_has_its_say_about_an_amount() -> None:
    """An Ascend chip is cut by templates, so a request of 5,000 MiB gets the next template up."""
    spec = next(each for each in ascend.SPECS if each.name == "Ascend910B4")
    names = spec.resources
    pod = a_pod(a_container({names.count: 1, names.memory: 16_384}, requests={names.count: 1, names.memory: 16_384}))
    settle = settled(pod, Registry((spec,)), Rules())
    change = LessOf(
        kind=ChangeKind.MEMORY, resource=names.memory, before=16_384, after=5_000, containers=(0,), vendor=spec.name
    )
    settled_question = settle((change,))
    assert settled_question is not None
    fresh = take_in(rewritten(pod, change), Registry((spec,)), Rules())
    assert settled_question.demand == fresh.demand
    assert fresh.pod.containers[0].limits[names.memory].whole == 8_192
