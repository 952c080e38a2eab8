"""Events on waiting pods: the numbers, once for each cause, and no storm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.integration.allocator.hami_pods import a_holder, a_node, a_pod, bind, call, hami
from tests.integration.allocator.sites import Site
from tests.waiting import wait_for


def told(place: Site, name: str = "p") -> list[dict[str, Any]]:
    return [each for each in place.server.objects("events") if each["involvedObject"]["name"] == name]


def test_a_refused_pod_is_told_the_numbers_once_and_what_it_got_in_the_end(tmp_path: Path) -> None:
    nodes = ["n1", "n2"]
    with hami(tmp_path, a_node("n1", cards=1), a_node("n2", cards=1)) as (place, client):
        place.put(*(a_holder(f"h{at}", f"n{at}", f"GPU-n{at}-0", 20_000) for at in (1, 2)))
        pod, other = place.create(a_pod("p", 30_000), a_pod("other", 1_000))

        def refused() -> bool:
            return not call(client, "filter", Pod=pod, NodeNames=nodes)["NodeNames"]

        wait_for(refused)
        (event,) = wait_for(lambda: told(place))
        for _ in range(5):
            assert refused()
        time.sleep(0.5)
        (again,) = told(place)
        place.server.delete("pods", "h1", "default", grace=0)
        wait_for(lambda: bind(client, pod, "n1") == "")
        assert bind(client, other, "n2") == ""
        got = wait_for(lambda: [each for each in told(place) if each["type"] == "Normal"])
    assert (event["reason"], event["type"], again["count"]) == ("FilteringFailed", "Warning", 1)
    assert event["message"] == (
        "no node takes the pod: 2 of 2 nodes: memory: asked 30,000 MiB on 1 card; largest free 20,960 MiB (n1), "
        "total free 41,920 MiB; ask for less nvidia.com/gpumem or wait until pods end"
    )
    assert [(each["reason"], each["message"]) for each in got] == [
        ("BindingSucceed", "allocated on node n1: GPU-n1-0 (30,000 MiB)")
    ]
    assert told(place, "other") == []


def test_many_refused_pods_cause_few_writes_and_calls_about_unknown_pods_none(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1", cards=1)) as (place, client):
        pods = place.create(*(a_pod(f"p{at}", 41_000) for at in range(60)))
        stranger = {**a_pod("stranger", 41_000)}
        stranger["metadata"]["uid"] = "none"
        wait_for(lambda: call(client, "filter", Pod=pods[-1], NodeNames=["n1"])["FailedAndUnresolvableNodes"])
        for each in (*pods, stranger):
            call(client, "filter", Pod=each, NodeNames=["n1"])
        call(client, "filter", Pod=pods[0], Nodes={"items": [a_node("n9", cards=1)]}, NodeNames=None)
        wait_for(lambda: len(place.server.objects("events")) >= 25)
        assert len(place.server.objects("events")) <= 45
        assert told(place, "stranger") == []
