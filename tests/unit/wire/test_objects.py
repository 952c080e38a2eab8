"""Nodes, quotas, queues and gangs of the API server."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.cluster import DisruptionBudget, NamespaceQuota, PodGroup, Queue
from hami_plugins.model.inventory import NodeCondition
from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import objects
from tests.unit.wire import mutations

NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"gpu": "on"}, "annotations": {"hami.io/node-handshake": "Reported"}},
    "spec": {"unschedulable": True, "taints": [{"key": "gpu", "value": "on", "effect": "NoSchedule"}, {"key": "x"}]},
    "status": {
        "capacity": {"cpu": "64", "nvidia.com/gpu": "20"},
        "allocatable": {"cpu": "63500m", "nvidia.com/gpu": 20},
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
    },
}
QUOTA: dict[str, Any] = {
    "metadata": {"name": "gpus", "namespace": "team"},
    "spec": {"hard": {"limits.nvidia.com/gpumem": "3k", "requests.nvidia.com/gpu": "2"}},
}
QUEUE: dict[str, Any] = {
    "metadata": {"name": "gold"},
    "spec": {
        "weight": 4,
        "capability": {"volcano.sh/vgpu-number": 8},
        "guarantee": {"resource": {"cpu": "500m"}},
        "deserved": {"cpu": "2"},
        "parent": "root",
    },
    "status": {"state": "Closing"},
}
GROUP: dict[str, Any] = {
    "metadata": {"name": "job-1", "namespace": "team"},
    "spec": {
        "minMember": 3,
        "minTaskMember": {"worker": 2, "master": 1},
        "queue": "gold",
        "minResources": {"cpu": "3"},
    },
    "status": {"phase": "Inqueue"},
}
READERS: list[tuple[Callable[[Any], object], dict[str, Any]]] = [
    (objects.node_object, NODE),
    (objects.node_facts, NODE),
    (objects.resource_quota, QUOTA),
    (objects.queue, QUEUE),
    (objects.pod_group, GROUP),
]


def test_a_node_gives_what_inventories_are_made_from() -> None:
    node = objects.node_object(NODE)
    assert node.name == "n1"
    assert node.annotations == {"hami.io/node-handshake": "Reported"}
    assert node.labels == {"gpu": "on"}
    assert node.capacity["nvidia.com/gpu"].whole == 20
    assert node.allocatable["cpu"].text == "63500m"


@pytest.mark.parametrize(
    ("conditions", "read"),
    [
        (None, ()),
        ("broken", ()),
        ([{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}], ()),
        (
            [{"type": "A", "status": "True", "reason": "Why"}, {"type": "B"}],
            (NodeCondition("A", "True", "Why"), NodeCondition("B", "")),
        ),
        (["odd", {"status": "True"}, {"type": 1}, {"type": "A", "status": 1, "reason": []}], (NodeCondition("A", ""),)),
    ],
)
def test_a_node_gives_what_others_than_its_kubelet_report_of_it(
    conditions: object, read: tuple[NodeCondition, ...]
) -> None:
    assert objects.node_object(NODE | {"status": {"conditions": conditions}}).conditions == read


def test_a_group_gives_its_annotations_where_they_can_be_read() -> None:
    written = {**GROUP, "metadata": {**GROUP["metadata"], "annotations": {"a": "b"}}}
    assert objects.pod_group(written).annotations == {"a": "b"}
    odd = {**GROUP, "metadata": {**GROUP["metadata"], "annotations": {"a": 1}}}
    found, (error,) = objects.readable_pod_group(odd)
    assert (found.annotations, found.min_member) == ({}, 3)
    assert "podgroup team/job-1: metadata.annotations[a]" in str(error)


def test_a_node_gives_what_the_scheduler_looks_at() -> None:
    facts = objects.node_facts(NODE)
    assert facts.taints == (Taint("gpu", "on", "NoSchedule"), Taint("x", "", ""))
    assert facts.unschedulable
    assert facts.ready
    assert facts.allocatable["nvidia.com/gpu"].whole == 20


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([{"type": "DiskPressure", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
    ],
)
def test_a_node_is_ready_unless_it_says_otherwise(conditions: object, ready: bool) -> None:
    assert objects.node_facts({"metadata": {"name": "n"}, "status": {"conditions": conditions}}).ready is ready


def test_a_quota_gives_its_hard_limits_in_nano_units() -> None:
    hard = {"limits.nvidia.com/gpumem": 3000 * NANO, "requests.nvidia.com/gpu": 2 * NANO}
    assert objects.resource_quota(QUOTA) == NamespaceQuota(namespace="team", hard=hard)


@pytest.mark.parametrize(
    "scoped",
    [
        {"scopes": ["NotTerminating"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
    ],
)
def test_of_a_quota_with_scopes_only_the_limits_that_hami_reads_are_everybodys(scoped: dict[str, Any]) -> None:
    hard = {"limits.nvidia.com/gpumem": "3k", "requests.nvidia.com/gpu": "2", "limits.cpu": "1", "pods": "1"}
    metadata = {"name": "some", "namespace": "team"}
    quota = {"metadata": metadata, "spec": {"hard": hard, **scoped}, "status": {"used": {"limits.cpu": "1"}}}
    assert objects.resource_quota(quota) == NamespaceQuota(
        namespace="team", hard={"limits.nvidia.com/gpumem": 3000 * NANO}, scoped=("some",)
    )


def test_a_budget_gives_the_pods_that_it_covers_and_how_many_may_go() -> None:
    raw = {
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 2},
    }
    covers = (Requirement("app", "In", ("web",)),)
    expected = DisruptionBudget(namespace="team", name="web", requirements=covers, allowed=2)
    assert objects.disruption_budget(raw) == expected
    assert objects.disruption_budget({**raw, "status": {"disruptionsAllowed": -1}}) == replace(expected, allowed=0)
    assert objects.disruption_budget({**raw, "status": {}}) == replace(expected, allowed=0)
    everything = objects.disruption_budget({**raw, "spec": {"selector": {}}})
    assert everything == replace(expected, requirements=())
    assert objects.disruption_budget({**raw, "spec": {}}) is None


def test_a_queue_that_is_not_reclaimable_says_so() -> None:
    assert objects.queue({"metadata": {"name": "q"}, "spec": {}}).reclaimable
    assert not objects.queue({"metadata": {"name": "q"}, "spec": {"reclaimable": False}}).reclaimable


def test_a_queue_gives_its_shares() -> None:
    assert objects.queue(QUEUE) == Queue(
        name="gold",
        weight=4,
        capability={"volcano.sh/vgpu-number": 8 * NANO},
        guarantee={"cpu": NANO // 2},
        deserved={"cpu": 2 * NANO},
        parent="root",
        open=False,
    )


def test_a_bare_queue_weighs_one_and_is_open() -> None:
    assert objects.queue({"metadata": {"name": "q"}, "spec": {"guarantee": {}}}) == Queue(name="q")


def test_a_gang_gives_its_least_sizes() -> None:
    assert objects.pod_group(GROUP) == PodGroup(
        namespace="team",
        name="job-1",
        min_member=3,
        min_by_task={"worker": 2, "master": 1},
        queue="gold",
        min_resources={"cpu": 3 * NANO},
        phase="Inqueue",
    )


def test_a_gang_without_least_size_is_no_gang() -> None:
    assert objects.pod_group({"metadata": {"name": "g"}}) == PodGroup(namespace="default", name="g", min_member=0)


@pytest.mark.parametrize("read", [read for read, _ in READERS])
def test_an_object_without_a_name_is_refused(read: Callable[[Any], object]) -> None:
    with pytest.raises(WireError, match=r"\?: metadata.name: expected a name"):
        read({"metadata": {}, "spec": {}})


@pytest.mark.parametrize(
    ("read", "raw", "key"),
    [
        (objects.node_object, "n1", "node"),
        (objects.node_object, {"metadata": {"name": 1}}, "node ?: metadata.name"),
        (objects.node_object, NODE | {"status": {"capacity": {"cpu": "x"}}}, "node n1: status.capacity[cpu]"),
        (objects.node_facts, NODE | {"spec": {"taints": ["x"]}}, "node n1: spec.taints[0]"),
        (objects.node_facts, NODE | {"spec": {"unschedulable": 1}}, "node n1: spec.unschedulable"),
        (objects.resource_quota, QUOTA | {"spec": {"hard": []}}, "resourcequota team/gpus: spec.hard"),
        (objects.queue, QUEUE | {"spec": {"weight": "1"}}, "queue gold: spec.weight"),
        (objects.queue, QUEUE | {"spec": {"guarantee": {"resource": 1}}}, "queue gold: spec.guarantee.resource"),
        (
            objects.pod_group,
            GROUP | {"spec": {"minTaskMember": {"worker": "2"}}},
            "podgroup team/job-1: spec.minTaskMember[worker]",
        ),
    ],
)
def test_a_wrong_type_is_named_by_its_path(read: Callable[[Any], object], raw: object, key: str) -> None:
    with pytest.raises(WireError) as caught:
        read(raw)
    assert caught.value.key == key


@given(st.data())
def test_damaged_objects_give_a_value_or_a_wire_error(data: st.DataObject) -> None:
    read, raw = data.draw(st.sampled_from(READERS))
    with suppress(WireError):
        read(data.draw(mutations.damaged(raw)))


@given(mutations.junk)
def test_any_json_gives_a_value_or_a_wire_error(raw: Any) -> None:
    for read, _ in READERS:
        with suppress(WireError):
            read(raw)
        with suppress(WireError):
            read({"metadata": {"name": "x", "labels": raw}, "spec": raw, "status": raw})
