"""From listings to snapshots: any order, any wrapping, and no broken object hiding healthy ones."""

import random
from typing import Any

import pytest

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import ListingReader, snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.quantity import NANO
from hami_plugins.vendors import koordinator
from tests import acme, raw_objects
from tests.machines import MACHINES, plain

REGISTRY = Registry([acme.SPEC])
MACHINE = plain(acme.SPEC)
KEY = acme.SPEC.keys.allocated
Raw = dict[str, Any]


def a_node(name: str = "n0") -> Raw:
    return MACHINE.node(name)


def a_pod(
    name: str = "p0", *, node: str | None = "n0", allocation: str = "n0-acme-0,Acme,100,5:;", **metadata: Any
) -> Raw:
    about = {"namespace": "team", "uid": f"u-{name}", "annotations": {KEY: allocation}, **metadata}
    phase = "Running" if node else "Pending"
    return raw_objects.pod(name, raw_objects.container(), metadata=about, node=node or "", phase=phase)


def a_quota(name: str, **hard: int) -> Raw:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"hard": {key: str(amount) for key, amount in hard.items()}},
    }


def read(*items: object) -> ClusterSnapshot:
    return snapshot_of(items, REGISTRY)


def said(snapshot: ClusterSnapshot) -> list[str]:
    return [f"{problem.place}: {problem.what}" for problem in snapshot.problems]


def test_pods_are_found_on_their_nodes_whatever_came_first() -> None:
    items = [a_node(), a_node("n1"), a_pod(), a_pod("p1", node=None), a_pod("p2", allocation="n0-acme-1,Acme,7,1:;")]
    states = set()
    for seed in range(5):
        random.Random(seed).shuffle(items)
        snapshot = read(*items)
        assert snapshot.problems == ()
        assert [pod.name for pod in snapshot.pending] == ["p1"]
        assert sorted(record.name for record in snapshot.nodes[0].pods) == ["p0", "p2"]
        states.add(snapshot.nodes[0].state)
    assert len(states) == 1


@pytest.mark.parametrize("kind", ["List", "NodeList", "ClusterSnapshot"])
def test_lists_are_taken_apart_however_they_are_called(kind: str) -> None:
    bare = a_node()
    if kind == "NodeList":
        del bare["kind"]
    nested = {"kind": "List", "items": [{"kind": kind, "items": [bare]}, {"kind": "PodList", "items": [a_pod()]}]}
    snapshot = read(nested)
    assert snapshot.problems == ()
    assert snapshot.nodes[0].state.usage[0].memory == 100


def test_quotas_queues_gangs_and_priorities_are_kept() -> None:
    snapshot = read(
        a_quota("a", pods=5),
        a_quota("b", pods=3, services=9),
        {"kind": "Queue", "metadata": {"name": "gold"}, "spec": {"weight": 3}},
        {"kind": "PodDisruptionBudget", "metadata": {"name": "two", "namespace": "team"}, "spec": {"selector": {}}},
        {"kind": "PodDisruptionBudget", "metadata": {"name": "of-no-pod", "namespace": "team"}, "spec": {}},
        {"kind": "PodGroup", "metadata": {"name": "ring", "namespace": "team"}, "spec": {"minMember": 4}},
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
        {"kind": "PriorityClass", "metadata": {"name": "calm"}, "value": 500, "preemptionPolicy": "Never"},
        {"kind": "Service", "metadata": {"name": "ignored"}},
    )
    assert snapshot.problems == ()
    assert dict(snapshot.quotas["team"].hard) == {"pods": 3 * NANO, "services": 9 * NANO}
    assert snapshot.queues["gold"].weight == 3
    assert snapshot.pod_groups["team/ring"].min_member == 4
    assert (snapshot.priorities["high"], snapshot.priorities["calm"]) == (1000, 500)
    assert snapshot.never_preempting == {"calm"}
    assert [budget.name for budget in snapshot.budgets] == ["two"]


def test_the_last_event_about_an_eviction_counts() -> None:
    about = {"kind": "Pod", "namespace": "team", "name": "low"}
    snapshot = read(
        {"kind": "Event", "involvedObject": about, "reason": "Scheduled", "message": "assigned"},
        {"kind": "Event", "involvedObject": about, "reason": "Preempted", "message": "Preempted by pod uid on node n"},
        {"kind": "Event", "involvedObject": {**about, "kind": "Node"}, "reason": "Evict", "message": "a node"},
        {
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "name": "b"},
            "reason": "Evict",
            "message": "evicted",
        },
    )
    assert snapshot.evicted == {"team/low": "Preempted by pod uid on node n", "default/b": "evicted"}


@pytest.mark.parametrize("member", ["lastTimestamp", "eventTime"])
def test_the_newest_event_about_an_eviction_counts_whatever_the_order(member: str) -> None:
    about = {"kind": "Pod", "namespace": "team", "name": "low"}
    told = [
        {"kind": "Event", "involvedObject": about, "reason": reason, "message": at, member: f"2026-01-01T00:0{at}:00Z"}
        for reason, at in (("Preempted", "1"), ("Evict", "3"), ("Evicted", "2"))
    ]
    assert read(*told).evicted == {"team/low": "3"}
    assert read(*reversed(told)).evicted == {"team/low": "3"}


def test_priorities_of_classes_that_the_listing_lacks_are_those_of_its_pods() -> None:
    pod = a_pod()
    pod["spec"] |= {"priorityClassName": "batch", "priority": 7}
    assert read(pod).priorities["batch"] == 7


def test_finished_pods_hold_nothing() -> None:
    done = a_pod()
    done["status"]["phase"] = "Succeeded"
    (node,) = read(a_node(), done).nodes
    assert node.pods == ()


def test_what_is_listed_twice_counts_once() -> None:
    twice = read(a_node(), a_pod(), a_node(), a_pod())
    assert twice.nodes[0].state == read(a_node(), a_pod()).nodes[0].state
    assert ["listed twice; the first counts" in words for words in said(twice)] == [True, True]


def test_pods_whose_names_are_still_to_be_made_up_are_all_different() -> None:
    unnamed = a_pod(node=None)
    unnamed["metadata"] = {"generateName": "train-", "namespace": "team"}
    assert len(read(unnamed, unnamed).pending) == 2


def test_a_pod_on_a_device_that_vanished_is_kept_and_told() -> None:
    snapshot = read(a_node(), a_pod(allocation="gone,Acme,100,5:n0-acme-1,Acme,7,1:;"))
    (record,) = snapshot.nodes[0].pods
    assert [share.device for share in record.strangers] == ["gone"]
    assert [usage.memory for usage in snapshot.nodes[0].state.usage[:2]] == [0, 7]
    assert said(snapshot) == [
        "pod team/p0: holds gone, which node n0 does not report; kept, and not counted as free anywhere"
    ]


def test_pods_on_a_node_that_is_not_listed_are_told() -> None:
    assert said(read(a_node("n1"), a_pod(), a_pod("p1"))) == [
        "node n0: 2 pods run on it, but the listing does not have it"
    ]
    assert said(read(a_node("n1"), a_pod())) == ["node n0: 1 pod runs on it, but the listing does not have it"]


@pytest.mark.parametrize(
    "broken",
    [
        7,
        None,
        "a text",
        [],
        {"kind": "Node"},
        {"kind": "Node", "metadata": {"name": 5}},
        {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [7]}},
        {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"resources": {"limits": {"a": "ten"}}}]}},
        {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "many"}}},
        {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": "heavy"}},
    ],
)
def test_a_broken_object_is_a_problem_and_the_others_stay(broken: object) -> None:
    reader = ListingReader(REGISTRY)
    for item in (a_node(), broken, a_pod()):
        reader.feed(item, "dump.json")
    snapshot = reader.finish()
    assert snapshot.nodes[0].state.usage[0].memory == 100
    assert [problem.place for problem in snapshot.problems] == ["dump.json"]


def test_half_a_register_is_a_problem_of_its_node_and_its_pods_are_kept() -> None:
    node = a_node()
    node["metadata"]["annotations"][acme.SPEC.keys.register] = '[{"id":"GPU'
    snapshot = read(node, a_pod())
    assert snapshot.nodes[0].ids == ()
    assert [record.name for record in snapshot.nodes[0].pods] == ["p0"]
    assert len(snapshot.problems) == 2


def test_an_unreadable_assignment_is_a_problem_of_its_pod() -> None:
    snapshot = read(a_node(), a_pod(allocation="n0-acme-0,Acme,lots,5:;"), a_pod("p1"))
    device = snapshot.nodes[0].state.shape.devices[0]
    assert snapshot.nodes[0].state.usage[0].memory == device.memory + 100, "its whole device is in use"
    assert [problem.place for problem in snapshot.problems] == ["pod team/p0"]


def test_a_queue_with_a_mistake_is_a_queue_all_the_same() -> None:
    bad = {"kind": "Queue", "metadata": {"name": "team"}, "spec": {"capability": {"cpu": "-1", "memory": "1Gi"}}}
    found = snapshot_of([bad], REGISTRY)
    assert found.queues["team"].capability == {"memory": 2**30 * 10**9}
    (problem,) = found.problems
    assert "queue team: spec.capability[cpu]: an amount below 0 (in '-1'); counts as not set" in problem.what


def test_a_group_with_a_mistake_is_a_group_all_the_same() -> None:
    bad = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "ns"}, "spec": {"minResources": {"cpu": "x"}}}
    found = snapshot_of([bad], REGISTRY)
    assert found.pod_groups["ns/g"].min_resources is None
    assert len(found.problems) == 1


def test_a_workload_is_a_gang_where_it_is_of_kubernetes_and_nothing_where_it_is_of_kueue() -> None:
    def workload(group: str) -> Raw:
        policy = {"name": "all", "policy": {"gang": {"minCount": 3}}}
        metadata = {"name": "w", "namespace": "ns"}
        return {"apiVersion": group, "kind": "Workload", "metadata": metadata, "spec": {"podGroups": [policy]}}

    of_kubernetes, of_kueue = read(workload("scheduling.k8s.io/v1alpha1")), read(workload("kueue.x-k8s.io/v1beta1"))
    assert [group.min_member for group in of_kubernetes.pod_groups.values()] == [3]
    assert (of_kueue.pod_groups, of_kueue.problems) == ({}, ())


def test_the_snapshot_is_as_old_as_the_latest_time_in_it() -> None:
    stamped = [
        {"kind": "Queue", "metadata": {"name": name, "creationTimestamp": f"1970-01-01T00:0{at}:00Z"}}
        for at, name in enumerate(("a", "c", "b"))
    ]
    assert snapshot_of(stamped, REGISTRY).taken_at == 120
    assert snapshot_of([], REGISTRY).taken_at is None


PUBLISHED = Registry([koordinator.SPEC])


def a_device_object(name: str = "n0", **about: Any) -> Raw:
    machine = next(each for each in MACHINES if each.name == "koordinator")
    assert machine.published is not None
    raw: Any = machine.published(name)
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", **raw, **about}


@pytest.mark.parametrize("turn", [1, -1])
def test_cards_are_those_of_koordinators_device_object_whatever_came_first(turn: int) -> None:
    found = snapshot_of([a_node(), a_device_object()][::turn], PUBLISHED)
    assert found.nodes[0].ids == ("n0-a10-0", "n0-a10-1", "n0-a10-2")
    assert said(found) == []


def test_device_objects_of_others_are_passed_over() -> None:
    found = snapshot_of([a_node(), a_device_object(apiVersion="example.com/v1")], PUBLISHED)
    assert found.nodes[0].ids == ()
    assert said(found) == []


def test_device_objects_that_fit_no_node_are_told() -> None:
    nameless = a_device_object(metadata={})
    found = snapshot_of([a_node(), a_device_object(), a_device_object(), a_device_object("n9"), nameless], PUBLISHED)
    assert len(found.nodes[0].ids) == 3
    twice, unnamed, unknown = said(found)
    assert "listed twice" in twice
    assert "the name of a node" in unnamed
    assert unknown == "device n9: is published for a node that the listing does not have"


def test_a_device_object_that_cannot_be_read_is_a_problem_of_its_node() -> None:
    found = snapshot_of([a_node(), a_device_object(spec={"devices": {}})], PUBLISHED)
    (problem,) = said(found)
    assert problem.startswith("node n0: device n0: spec.devices")
