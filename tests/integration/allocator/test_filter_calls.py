"""kube-scheduler's filter and prioritize: names, whole nodes, unknown ones, and refusals that eviction does not end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hami_plugins.sandbox.fleet import bare_node
from tests.integration.allocator.hami_pods import a_holder, a_node, a_pod, call, hami
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

REGISTER = "hami.io/node-nvidia-register"


def known(client: Client, pod: dict[str, Any], *nodes: str) -> None:
    """Waits until the server knows these nodes and that they take the pod."""
    wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=nodes)["NodeNames"] == list(nodes))


def with_cards(node: dict[str, Any], **changes: Any) -> dict[str, Any]:
    notes = node["metadata"]["annotations"]
    notes[REGISTER] = json.dumps([{**each, **changes} for each in json.loads(notes[REGISTER])])
    return node


def test_refusals_that_eviction_can_end_are_told_from_those_that_stay(tmp_path: Path) -> None:
    small, broken = with_cards(a_node("small"), devmem=8192), with_cards(a_node("broken"), health=False)
    with hami(tmp_path, a_node("free"), a_node("full"), small, broken, bare_node("plain")) as (place, client):
        (pod,) = place.create(a_pod("p", 30_000, notes={"nvidia.com/use-gputype": "A100"}))
        (other,) = place.create(a_pod("other", 1, notes={"nvidia.com/use-gputype": "H100"}))
        known(client, pod, "free", "full")
        place.put(*(a_holder(f"h{at}", "full", f"GPU-full-{at}", 20_000) for at in range(2)))
        asked = ["free", "full", "small", "broken", "plain", "unknown"]
        reply = wait_for(lambda: _with_failed(call(client, "filter", Pod=pod, NodeNames=asked)))
        wrong = call(client, "filter", Pod=other, NodeNames=asked)
        place.server.delete("pods", "h0", "default", grace=0)
        known(client, pod, "free", "full")
    assert (reply["NodeNames"], reply["Nodes"]) == (["free"], None)
    assert list(reply["FailedNodes"]) == ["full"]
    assert "asked 30,000 MiB on 1 card; largest free 20,960 MiB" in reply["FailedNodes"]["full"]
    assert "wait until pods end" in reply["FailedNodes"]["full"]
    lasting = reply["FailedAndUnresolvableNodes"]
    assert sorted(lasting) == ["broken", "plain", "small", "unknown"]
    assert "no card here has that much" in lasting["small"]
    assert "2 of 2 cards are unhealthy" in lasting["broken"]
    assert "no cards registered" in lasting["plain"]
    assert "the node is not known" in lasting["unknown"]
    assert (wrong["FailedNodes"], len(wrong["FailedAndUnresolvableNodes"])) == (None, 6)


def _with_failed(reply: Any) -> Any:
    return reply if reply["FailedNodes"] else None


def test_whole_nodes_are_answered_as_whole_nodes_with_those_that_do_not_exist(tmp_path: Path) -> None:
    """An autoscaler's template is in no watch; a node that exists is asked with its pods, whatever was sent of it."""
    with hami(tmp_path, a_node("n1"), a_node("n2")) as (place, client):
        (pod,) = place.create(a_pod("p", 30_000))
        known(client, pod, "n1", "n2")
        place.put(*(a_holder(f"h{at}", "n1", f"GPU-n1-{at}", 20_000) for at in range(2)))
        wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["FailedNodes"])
        template, garbled = a_node("template"), {**a_node("garbled"), "status": {"capacity": []}}
        nodes = [a_node("n1"), a_node("n2"), template, bare_node("empty"), garbled]
        asked = {"items": nodes, "metadata": {}}
        reply = call(client, "filter", Pod=pod, Nodes=asked, NodeNames=None)
        ranked = call(client, "prioritize", Pod=pod, Nodes=asked, NodeNames=None)
        many = [{**template, "metadata": {**template["metadata"], "name": f"t{at}"}} for at in range(1_500)]
        large = call(client, "filter", Pod=pod, Nodes={"items": many}, NodeNames=None)
        unknown = call(client, "filter", Pod=pod, NodeNames=[f"u{at}" for at in range(10_000)])
    assert [each["metadata"]["name"] for each in reply["Nodes"]["items"]] == ["n2", "template"]
    assert reply["Nodes"]["items"][1] == template
    assert (reply["NodeNames"], list(reply["FailedNodes"])) == (None, ["n1"])
    assert sorted(reply["FailedAndUnresolvableNodes"]) == ["empty", "garbled"]
    assert "capacity" in reply["FailedAndUnresolvableNodes"]["garbled"]
    assert {each["Host"] for each in ranked} == {"n1", "n2", "template", "empty", "garbled"}
    assert len(large["Nodes"]["items"]) + len(large["FailedAndUnresolvableNodes"] or {}) == 1_500
    assert (unknown["NodeNames"], len(unknown["FailedAndUnresolvableNodes"])) == ([], 10_000)


def test_where_it_is_set_the_best_node_alone_is_named(tmp_path: Path) -> None:
    """The fullest node that has room is the best; calls with whole nodes may be simulations, and get all."""
    nodes = [a_node(name) for name in ("n1", "n2", "n3", "n4")]
    with hami(tmp_path, *nodes, bare_node("plain"), scheduler={"nodes": "best"}) as (place, client):
        place.put(
            a_holder("half", "n2", "GPU-n2-0", 20_000),
            *(a_holder(f"full-{at}", "n3", f"GPU-n3-{at}", 40_000) for at in range(2)),
        )
        (pod, large) = place.create(a_pod("p", 10_000), a_pod("large", 50_000))
        asked = ["n1", "n2", "n3", "n4", "plain"]
        reply = wait_for(lambda: _with_failed(call(client, "filter", Pod=pod, NodeNames=asked)))
        rest = call(client, "filter", Pod=pod, NodeNames=["n4", "n1"])
        whole = call(client, "filter", Pod=pod, Nodes={"items": nodes, "metadata": {}}, NodeNames=None)
        nowhere = call(client, "filter", Pod=large, NodeNames=asked)
    assert (reply["NodeNames"], list(reply["FailedNodes"])) == (["n2"], ["n3"])
    assert list(reply["FailedAndUnresolvableNodes"]) == ["plain"]
    assert rest["NodeNames"] == ["n4"], "of equal ones the first that the scheduler names"
    assert [each["metadata"]["name"] for each in whole["Nodes"]["items"]] == ["n1", "n2", "n4"]
    assert nowhere["NodeNames"] == []
