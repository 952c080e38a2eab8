"""Pods as the watch shows them: those that wait for devices are known apart from all others."""

from __future__ import annotations

from typing import Any

from hami_plugins.allocations.answers import Declined
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_pod


def waiting(cluster: Cluster) -> list[str]:
    return [each.pod.uid for each in cluster.cache.unplaced()]


def without_devices(raw: dict[str, Any]) -> dict[str, Any]:
    raw["spec"]["containers"][0]["resources"] = {}
    return raw


def test_a_pod_waits_until_it_is_bound() -> None:
    cluster = Cluster()
    cluster.shows(a_pod("p"))
    assert waiting(cluster) == ["uid-p"]
    cluster.shows(a_pod("p", node="n1", ids="GPU-n1-0,NVIDIA,4000,0:;"))
    assert not waiting(cluster)
    assert len(cluster.cache) == 1


def test_a_pod_waits_until_it_is_deleted() -> None:
    cluster = Cluster()
    for name in ("p", "q"):
        cluster.shows(a_pod(name))
    cluster.shows(a_pod("p"), "deleted")
    assert waiting(cluster) == ["uid-q"]


def test_a_pod_that_was_created_again_waits_once_and_outlives_the_end_of_the_first() -> None:
    cluster = Cluster()
    first, second = a_pod("p"), a_pod("p")
    second["metadata"]["uid"] = "uid-second"
    for raw in (first, second):
        cluster.shows(raw)
    assert waiting(cluster) == ["uid-second"]
    cluster.shows(first, "deleted")
    assert waiting(cluster) == ["uid-second"]


def test_pods_without_devices_and_pods_that_cannot_be_read_do_not_wait() -> None:
    cluster = Cluster()
    odd = a_pod("odd")
    odd["spec"]["containers"] = "none"
    for raw in (without_devices(a_pod("plain")), odd):
        cluster.shows(raw)
    assert not waiting(cluster)


def test_pods_wait_no_more_once_the_cluster_is_forgotten() -> None:
    cluster = Cluster()
    cluster.shows(a_pod("p"))
    cluster.cache.forget()
    cluster.cache.pod_changed(ObjectChange("deleted", None, "uid-p"))
    assert not waiting(cluster)


def test_a_binding_empties_what_only_a_resize_of_a_running_pod_writes() -> None:
    cluster = Cluster()
    pod = a_pod()
    pod["metadata"]["annotations"] = {"hami-plugins.io/booked-memory": "main=1", "hami-plugins.io/resize-memory": "m=1"}
    cluster.shows(pod)
    written = cluster.cache.allocate(NodeName("n1"), cluster.cache.intake(pod), carried=None, dry=False, now_ns=1)
    assert not isinstance(written, Declined)
    assert written[1]["hami-plugins.io/booked-memory"] == ""
    assert "hami-plugins.io/resize-memory" not in written[1]
