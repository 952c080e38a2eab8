"""Members of a job: placed together or not at all, and on the same devices of each machine."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.vendors.awsneuron import IDS_KEY
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.names import CORES, DEVICES
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod, said


def group(name: str = "train", least: int = 2, kind: Any = "added") -> ObjectChange:
    metadata = {"name": name, "namespace": "x", "uid": f"uid-{name}"}
    return ObjectChange(kind, {"metadata": metadata, "spec": {"minMember": least}}, f"uid-{name}")


def a_job(cluster: Cluster, pods: int, devices: int, *, least: int | None = None, name: str = "train") -> list[Any]:
    """Pods that wait, of one PodGroup."""
    cluster.cache.group_changed(group(name, pods if least is None else least))
    made = [a_pod(f"{name}-{at}", devices, annotations={GROUP_KEY: name}) for at in range(pods)]
    for pod in made:
        cluster.shows(pod)
    return made


def ids(cluster: Cluster, pod: Any, node: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, said(cluster.bind(pod, node))[IDS_KEY].split(","))))


def test_members_on_different_machines_get_the_same_devices() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cluster.shows(a_pod("busy", 4, node="n2", annotations={IDS_KEY: "0,1,12,13"}))
    alone = a_pod("alone")
    cluster.shows(alone)
    assert ids(cluster, alone, "n1") == (0, 1, 12, 13)  # its devices on an empty cluster
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cluster.shows(a_pod("busy", 4, node="n2", annotations={IDS_KEY: "0,1,12,13"}))
    one, other = a_job(cluster, 2, 4)
    cluster.prioritize(one, "n1", "n2")
    assert not cluster.allocate(one, "n1")
    cluster.prioritize(other, "n1", "n2")
    assert not cluster.allocate(other, "n2")
    assert ids(cluster, one, "n1") == ids(cluster, other, "n2")


def test_two_members_on_each_machine_are_the_same_two_sets_on_each() -> None:
    cluster = Cluster(*(a_node(f"n{at}") for at in range(4)))
    job = a_job(cluster, 8, 4)
    nodes = [f"n{at // 2}" for at in range(8)]
    for pod, node in zip(job, nodes, strict=True):
        cluster.prioritize(pod, "n0", "n1", "n2", "n3")
        assert not cluster.allocate(pod, node)
    sets = {node: set[tuple[int, ...]]() for node in nodes}
    for pod, node in zip(job, nodes, strict=True):
        sets[node].add(ids(cluster, pod, node))
    assert len({frozenset(each) for each in sets.values()}) == 1


def test_a_node_with_the_set_of_the_others_comes_before_an_equal_one() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    cluster.shows(a_pod("here", 2, node="n2", annotations={IDS_KEY: "0,1"}))
    cluster.shows(a_pod("there", 2, node="n3", annotations={IDS_KEY: "10,11"}))
    one, other = a_job(cluster, 2, 4)
    cluster.prioritize(one, "n1")
    assert not cluster.allocate(one, "n1")
    taken = set(ids(cluster, one, "n1"))
    scores = cluster.prioritize(other, "n2", "n3")
    same = "n3" if taken.isdisjoint({10, 11}) else "n2"
    assert scores[same] > scores[{"n2": "n3", "n3": "n2"}[same]]


def test_a_job_that_cannot_be_complete_is_placed_nowhere_and_told_why() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cluster.shows(a_pod("busy", 2, node="n2", annotations={IDS_KEY: "0,10"}))
    job = a_job(cluster, 4, 8)
    reason = cluster.predicate(job[0], "n1")
    assert reason == (
        "Neuron: the job has to start together: 4 of its pods have no devices yet (they ask for 4 x 8), and linked "
        "sets are left for 2; wait until pods end, or ask for fewer pods or devices"
    )
    cluster.shows_node(a_node("n3"))
    assert not cluster.predicate(job[0], "n1")


def test_a_job_of_which_fewer_suffice_goes_as_far_as_it_gets() -> None:
    cluster = Cluster(a_node("n1"))
    job = a_job(cluster, 4, 8, least=2)
    assert not cluster.predicate(job[0])
    for pod in job[:2]:
        assert not cluster.predicate(pod)
        assert not cluster.allocate(pod)
    assert "idle devices: asked 8" in cluster.predicate(job[2])


def test_what_members_hold_already_counts() -> None:
    cluster = Cluster(a_node("n1"))
    job = a_job(cluster, 2, 8)
    assert not cluster.allocate(job[0])
    assert not cluster.predicate(job[1])
    cluster.shows(other := a_pod("other", 8))
    cluster.bound(other)
    assert cluster.predicate(job[1])


def test_after_a_restart_the_others_are_found_by_their_annotations() -> None:
    before = Cluster(a_node("n1"), a_node("n2"))
    one, other = a_job(before, 2, 4)
    shown = before.bound(one, "n1")
    after = Cluster(a_node("n1"), a_node("n2"))
    after.shows(a_pod("busy", 2, node="n2", annotations={IDS_KEY: "14,15"}))
    after.cache.group_changed(group())
    after.shows(shown)
    after.shows(other)
    assert ids(after, other, "n2") == tuple(sorted(map(int, shown["metadata"]["annotations"][IDS_KEY].split(","))))


def test_groups_and_members_that_are_gone_are_forgotten() -> None:
    cluster = Cluster(a_node("n1"))
    job = a_job(cluster, 3, 8)
    assert cluster.predicate(job[0])
    cluster.cache.group_changed(group(kind="deleted"))
    assert not cluster.predicate(job[0])
    cluster.cache.group_changed(group(least=3))
    assert cluster.predicate(job[0])
    cluster.shows(job[2], "deleted")
    assert not cluster.predicate(job[0])  # the third may still be made again


def test_a_group_that_is_half_broken_is_still_a_group() -> None:
    cluster = Cluster(a_node("n1"))
    broken = {"metadata": {"name": "train", "namespace": "x", "uid": "u"}, "spec": {"minMember": 3, "minResources": 1}}
    cluster.cache.group_changed(ObjectChange("added", broken, "u"))
    for at in range(3):
        cluster.shows(a_pod(f"p{at}", 8, annotations={GROUP_KEY: "train"}))
    assert cluster.predicate(a_pod("p0", 8, annotations={GROUP_KEY: "train"}))
    cluster.cache.group_changed(ObjectChange("added", {"metadata": {}}, "v"))
    assert cluster.cache.problems == 2


def of_sizes(cluster: Cluster, *sizes: int, least: int = 0) -> list[Any]:
    cluster.cache.group_changed(group(least=least or len(sizes)))
    pods = [a_pod(f"w{at}", size, annotations={GROUP_KEY: "train"}) for at, size in enumerate(sizes)]
    for pod in pods:
        cluster.shows(pod)
    return pods


def test_members_of_different_sizes_have_to_find_room_beside_each_other() -> None:
    cluster = Cluster(a_node("n1"))
    pods = of_sizes(cluster, 8, 8, 4, 4, 4)
    assert "linked sets are not left for all of them together" in cluster.predicate(pods[0])
    cluster.shows_node(a_node("n2"))
    assert not cluster.predicate(pods[0])
    fits = Cluster(a_node("n1"))
    assert not fits.predicate(of_sizes(fits, 8, 4, 4)[0])
    elastic = Cluster(a_node("n1"))
    assert not elastic.predicate(of_sizes(elastic, 8, 8, 4, 4, 4, least=3)[0])


def test_a_size_that_one_kind_of_machine_cannot_give_at_all_says_nothing_about_the_others() -> None:
    cluster = Cluster(a_node("n1"), a_node("small", "trn1.2xlarge"))
    assert not cluster.predicate(of_sizes(cluster, 8, 4, 4)[0], "n1")


def of_cores(cluster: Cluster, *cores: int, least: int = 0) -> list[Any]:
    cluster.cache.group_changed(group(least=least or len(cores)))
    pods = [a_pod(f"c{at}", cores=each, annotations={GROUP_KEY: "train"}) for at, each in enumerate(cores)]
    for pod in pods:
        cluster.shows(pod)
    return pods


def test_members_that_ask_for_cores_are_planned_together() -> None:
    cluster = Cluster(a_node("n1"))
    job = of_cores(cluster, 32, 32)
    assert cluster.predicate(job[0]) == (
        "Neuron: the job has to start together: 2 of its pods have no devices yet (they ask for 2 x 32 cores), and "
        "room is left for 1; wait until pods end, or ask for fewer pods or devices"
    )
    cluster.shows_node(a_node("n2"))
    assert not cluster.predicate(job[0])
    few = Cluster(a_node("n1", "trn1.2xlarge"))
    assert "room is left for 2" in few.predicate(of_cores(few, 1, 1, 1)[0])


def test_members_that_ask_for_cores_and_others_for_devices_are_planned_together() -> None:
    cluster = Cluster(a_node("n1"))
    cluster.cache.group_changed(group(least=3))
    pods = [a_pod("big", 8), a_pod("small", 4), a_pod("cores", cores=16)]
    for pod in pods:
        pod["metadata"]["annotations"][GROUP_KEY] = "train"
        cluster.shows(pod)
    assert "they ask for 1 x 16 cores and 1 x 4 and 1 x 8" in cluster.predicate(pods[0])
    assert "not left for all of them together" in cluster.predicate(pods[2])
    cluster.shows_node(a_node("n2"))
    assert not any(map(cluster.predicate, pods))


def test_members_with_cores_of_several_devices_get_the_same_cores_on_every_machine() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    cluster.shows(a_pod("busy", 4, node="n2", annotations={IDS_KEY: "0,1,2,3"}))
    one, other = of_cores(cluster, 8, 8)
    for pod, node in ((one, "n1"), (other, "n2")):
        cluster.prioritize(pod, "n1", "n2")
        assert not cluster.allocate(pod, node)
    taken = ids(cluster, one, "n1")
    assert taken == ids(cluster, other, "n2")
    assert taken == tuple(range(taken[0], taken[0] + 8))


def test_a_member_with_cores_comes_to_where_those_of_the_others_are_free() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    cluster.shows(a_pod("here", 2, node="n2", annotations={IDS_KEY: "0,1"}))
    cluster.shows(a_pod("there", 2, node="n3", annotations={IDS_KEY: "14,15"}))
    one, other = of_cores(cluster, 8, 8)
    cluster.prioritize(one, "n1")
    assert not cluster.allocate(one, "n1")
    first = ids(cluster, one, "n1")[0] // 2
    scores = cluster.prioritize(other, "n2", "n3")
    same = "n2" if first > 1 else "n3"
    assert scores[same] > scores[{"n2": "n3", "n3": "n2"}[same]]


def test_members_that_share_devices_are_placed_as_if_alone() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    one, other = of_cores(cluster, 1, 1)
    cluster.prioritize(one, "n1", "n2")
    assert not cluster.allocate(one, "n1")
    before = cluster.prioritize(other, "n1", "n2")
    assert before["n1"] > before["n2"]
    assert not cluster.allocate(other, "n1")
    assert {*ids(cluster, one, "n1"), *ids(cluster, other, "n1")} == {0, 1}


def with_launcher(cluster: Cluster, workers: int, devices: int, **needs: str) -> list[Any]:
    """Workers, and a pod that asks for no devices, which have to start together."""
    metadata = {"name": "train", "namespace": "x", "uid": "uid-train"}
    spec = {"minMember": workers + 1, "minResources": {"cpu": "4", **needs}}
    cluster.cache.group_changed(ObjectChange("added", {"metadata": metadata, "spec": spec}, "uid-train"))
    launcher = a_pod("launcher", annotations={GROUP_KEY: "train"})
    launcher["spec"]["containers"][0]["resources"] = {}
    made = [a_pod(f"w{at}", devices, annotations={GROUP_KEY: "train"}) for at in range(workers)]
    for pod in (launcher, *made):
        cluster.shows(pod)
    return made


def test_a_member_without_devices_does_not_keep_the_others_from_being_planned() -> None:
    cluster = Cluster(a_node("n1"))
    job = with_launcher(cluster, 3, 8, **{DEVICES: "24"})
    assert "3 of its pods have no devices yet (they ask for 3 x 8)" in cluster.predicate(job[0])
    cluster.shows_node(a_node("n2"))
    assert not cluster.predicate(job[0])


@pytest.mark.parametrize("needs", [{}, {DEVICES: "25"}, {DEVICES: "64"}, {CORES: "48"}])
def test_where_nobody_says_how_many_have_to_start_the_scheduler_finds_out(needs: dict[str, str]) -> None:
    cluster = Cluster(a_node("n1"))
    assert not cluster.predicate(with_launcher(cluster, 3, 8, **needs)[0])


def test_members_with_devices_in_several_containers_are_left_to_the_scheduler() -> None:
    cluster = Cluster(a_node("n1"))
    pods = of_sizes(cluster, 8, 8, 8)
    twice = a_pod("w2", 8, annotations={GROUP_KEY: "train"})
    twice["spec"]["containers"].append({**twice["spec"]["containers"][0], "name": "other"})
    cluster.shows(twice)
    assert not cluster.predicate(pods[0])


def test_machines_that_go_before_the_job_ends_have_no_room_for_it() -> None:
    ends = {"hami-plugins.io/capacity-block-end": "1800007200"}
    cluster = Cluster(a_node("n1", annotations=ends), a_node("n2"))
    job = a_job(cluster, 4, 8)
    assert not cluster.predicate(job[0], "n2")
    metadata = {"name": "train", "namespace": "x", "uid": "uid-train"}
    written = {**metadata, "annotations": {"hami-plugins.io/expected-duration": "1h"}}
    cluster.cache.group_changed(ObjectChange("modified", {"metadata": written, "spec": {"minMember": 4}}, "uid-train"))
    assert not cluster.predicate(job[0], "n2")
    cluster.now += 2400
    assert "linked sets are left for 2" in cluster.predicate(job[0], "n2")


def test_a_pod_that_moves_to_another_group_leaves_the_first() -> None:
    cluster = Cluster(a_node("n1"))
    job = a_job(cluster, 3, 8)
    assert cluster.predicate(job[0])
    moved = {**job[2], "metadata": {**job[2]["metadata"], "annotations": {GROUP_KEY: "other"}}}
    cluster.shows(moved)
    assert not cluster.predicate(job[0])


def test_machines_that_are_gone_or_of_another_kind_change_no_set() -> None:
    bare = a_node("bare")
    bare["status"] = {}
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", "trn2.48xlarge"), a_node("n4"), bare]
    cluster = Cluster(*nodes)
    one, other, third = a_job(cluster, 3, 4)
    cluster.prioritize(one, "n1", "n2", "n3", "bare", "unknown")
    assert not cluster.allocate(one, "n4")
    cluster.shows_node(nodes[3], "deleted")
    assert not cluster.allocate(other, "n1")
    cluster.prioritize(third, "n2", "n3", "bare", "unknown")
    assert not cluster.allocate(third, "n2")
    assert ids(cluster, other, "n1") == ids(cluster, third, "n2")
    assert cluster.allocate(one, "bare")
    assert cluster.allocate(one, "n4")


def test_a_node_where_the_set_of_the_others_is_in_use_gains_nothing() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    one, other = a_job(cluster, 2, 16)
    assert not cluster.allocate(one, "n1")
    before = cluster.prioritize(other, "n2", "n3")
    cluster.shows(busy := a_pod("busy", 1))
    cluster.bound(busy, "n3")
    after = cluster.prioritize(other, "n2", "n3")
    assert after == {"n2": before["n2"]}


def test_a_device_that_a_member_holds_and_its_node_has_no_more_counts_no_more() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    one, other = a_job(cluster, 2, 4)
    cluster.bound(one, "n1")
    cluster.shows_node(a_node("n1", "trn1.2xlarge"))
    assert len(ids(cluster, other, "n2")) == 4


def test_pods_of_no_group_and_groups_of_one_are_left_alone() -> None:
    cluster = Cluster(a_node("n1"))
    cluster.cache.group_changed(group("alone", 1))
    cluster.shows(pod := a_pod("alone", 4, annotations={GROUP_KEY: "alone"}))
    assert not cluster.predicate(pod)
    assert not cluster.allocate(pod)
    cluster.shows(pod, "deleted")
    cluster.shows(a_pod("nobody"), "deleted")


def test_machines_without_devices_have_no_room() -> None:
    bare = a_node("bare")
    bare["status"] = {}
    cluster = Cluster(a_node("n1"), bare)
    job = a_job(cluster, 3, 8)
    assert "linked sets are left for 2" in cluster.predicate(job[0], "n1")
