"""Waiting pods are written when devices become free for them, and no other pods are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from tests.integration.allocator.hami_pods import a_holder, a_node, a_pod, bind, call, hami, notes_of
from tests.integration.allocator.sites import Site
from tests.waiting import wait_for

REQUEUED = "hami-plugins.io/requeued-at"


def requeued(place: Site) -> list[str]:
    return [each["metadata"]["name"] for each in place.server.objects("pods") if REQUEUED in notes_of(each)]


def test_pods_that_fit_again_are_written_once_and_those_that_do_not_never(tmp_path: Path) -> None:
    holder = a_holder("holder", "n1", "GPU-n1-0", 40_000)
    with hami(tmp_path, a_node("n1", cards=1)) as (place, client):
        place.put(holder)
        pods = place.create(a_pod("large", 50_000), a_pod("first", 30_000, priority=7), a_pod("second", 30_000))

        def refuse(*waiting: dict[str, Any]) -> bool:
            replies = [call(client, "filter", Pod=each, NodeNames=["n1"]) for each in waiting]
            return not any(each["NodeNames"] for each in replies)

        wait_for(lambda: refuse(*pods))
        time.sleep(0.5)
        assert requeued(place) == []
        began = time.monotonic()
        place.server.delete("pods", "holder", "default", grace=0)
        wait_for(lambda: requeued(place))
        took = time.monotonic() - began
        assert requeued(place) == ["first"]
        wait_for(lambda: place.value(client, "requeues_total", outcome="written") == 1)
        wait_for(lambda: bind(client, pods[1], "n1") == "")
        assert refuse(pods[2])
        time.sleep(0.5)
        assert requeued(place) == ["first"]
    assert took < 2


def test_a_pod_that_its_scheduler_asks_about_by_itself_is_not_written(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1", cards=1)) as (place, client):
        place.put(a_holder("holder", "n1", "GPU-n1-0", 40_000))
        (pod,) = place.create(a_pod("p", 30_000))
        wait_for(lambda: not call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        place.server.delete("pods", "holder", "default", grace=0)
        wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        time.sleep(0.6)
        assert requeued(place) == []


def test_a_raised_quota_has_pods_tried_again(tmp_path: Path) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    hard = "limits.nvidia.com/gpumem"
    with hami(tmp_path, a_node("n1")) as (place, client):
        (pod,) = place.create(a_pod("p", 30_000))
        place.put({**quota, "spec": {"hard": {hard: "1000"}}})
        wait_for(lambda: not call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        place.put({**quota, "spec": {"hard": {hard: "30000"}}})
        wait_for(lambda: requeued(place) == ["p"])


def test_another_pod_of_the_same_name_is_not_written(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1")) as (place, _):
        (pod,) = place.create(a_pod("p"))
        api = connect_to(place.server.url, component="user")
        body = {"metadata": {"uid": "another", "annotations": {REQUEUED: "now"}}}
        with pytest.raises(KubeError):
            api.merge_patch(paths.pod("default", "p"), body)
        api.close()
        assert requeued(place) == [], pod
