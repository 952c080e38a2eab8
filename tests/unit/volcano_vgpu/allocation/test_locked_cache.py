"""The cache behind its lock: what the watches put into it."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.vendors.volcano import SPEC
from tests.unit.volcano_vgpu.allocation.cluster import CORES, IDS, NUMBER, Cluster, a_node, a_pod


def holders(cluster: Cluster) -> int:
    return cluster.cache.statistics.holders


def test_bound_pods_hold_what_they_say_until_they_end() -> None:
    cluster = Cluster()
    bound = a_pod(node="n1", ids="GPU-n1-0,NVIDIA,40000,0:")
    cluster.shows(bound, "added")
    assert (holders(cluster), len(cluster.cache)) == (1, 1)
    cluster.shows({**bound, "status": {"phase": "Succeeded"}})
    assert (holders(cluster), len(cluster.cache)) == (0, 1)
    cluster.shows(bound, "deleted")
    assert len(cluster.cache) == 0


def test_cards_on_a_pod_that_requests_none_are_told_and_taken_from_nobody() -> None:
    cluster = Cluster()
    by_hand = a_pod(node="n1", ids="GPU-n1-0,NVIDIA,40000,0:")
    by_hand["spec"]["containers"] = [{"name": "main"}]
    cluster.shows(by_hand)
    assert cluster.predicate(a_pod("b", memory=40_960))["status"] == ""
    assert [each.finding.value for each in cluster.cache.findings()] == ["larger-than-request"]


def test_a_deletion_that_was_found_out_by_listing_comes_without_an_object() -> None:
    cluster = Cluster()
    cluster.shows(a_pod(node="n1", ids="GPU-n1-0,NVIDIA,40000,0:"))
    cluster.cache.pod_changed(ObjectChange("deleted", None, "uid-p"))
    cluster.cache.pod_changed(ObjectChange("deleted", None, "never seen"))
    assert (holders(cluster), len(cluster.cache)) == (0, 0)


def test_the_end_of_an_older_node_of_that_name_is_not_the_end_of_the_newer() -> None:
    cluster, again = Cluster(), a_node()
    again["metadata"]["uid"] = "uid-again"
    cluster.cache.node_changed(ObjectChange("added", again, "uid-again"))
    cluster.cache.node_changed(ObjectChange("deleted", None, "uid-n1"))
    assert cluster.predicate(a_pod())["status"] == ""
    cluster.cache.node_changed(ObjectChange("deleted", None, "uid-again"))
    assert "the node is not known" in cluster.predicate(a_pod())["status"]


def test_the_end_of_an_older_pod_of_that_name_is_not_the_end_of_the_newer() -> None:
    cluster, pod = Cluster(), a_pod()
    newer = {**pod, "metadata": {**pod["metadata"], "uid": "uid-2"}}
    cluster.shows(pod)
    cluster.shows(newer)
    cluster.shows(pod, "deleted")
    seen = cluster.cache.seen("x", "p")
    assert seen is not None
    assert seen.uid == "uid-2"


def test_nodes_that_go_take_their_cards_along() -> None:
    cluster = Cluster()
    cluster.cache.node_changed(ObjectChange("deleted", None, "uid-n1"))
    cluster.cache.node_changed(ObjectChange("deleted", None, "uid-n1"))
    assert cluster.predicate(a_pod())["status"] == "vGPU: the node is not known"


def test_a_register_that_changes_counts_from_then_on() -> None:
    cluster = Cluster(a_node(memory=5_000))
    assert cluster.predicate(a_pod())["status"]
    cluster.cache.node_changed(ObjectChange("modified", a_node(memory=50_000), "uid-n1"))
    assert cluster.predicate(a_pod())["status"] == ""


@pytest.mark.parametrize("broken", [{"metadata": {"name": 3, "uid": "uid-b"}}, {"metadata": {"uid": "uid-b"}}])
def test_a_malformed_object_hides_no_other(broken: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.cache.node_changed(ObjectChange("added", broken, "uid-b"))
    unreadable = a_pod("b", limits={NUMBER: "lots"})
    cluster.shows(unreadable)
    cluster.shows(a_pod("c", node="n1", ids="GPU-n1-0,NVIDIA,five,0:"))
    assert cluster.cache.problems == 3
    assert cluster.predicate(a_pod())["status"] == ""


def test_whoever_annotates_his_own_pod_frees_no_card_and_the_log_says_so() -> None:
    cluster = Cluster()
    cluster.shows(a_pod(memory=30_000, node="n1", ids="GPU-n1-0,NVIDIA,30000,0:"))
    with capture_logs() as logs:
        cluster.shows(a_pod(memory=30_000, node="n1", ids="GPU-n1-0,NVIDIA,1,0:"))
    assert "pod x/p: the allocation in its annotations was changed after it was bound" in logs[0]["reason"]
    assert cluster.predicate(a_pod("b", memory=30_000))["status"]


def broken(pod: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The pod with an unreadable part, and these annotations in addition to its own."""
    annotations = {**pod["metadata"]["annotations"], **metadata}
    spec = {**pod["spec"], "priority": "high"}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


def test_a_bound_pod_that_cannot_be_read_holds_the_cards_that_its_annotations_name() -> None:
    cluster = Cluster()
    bound = broken(a_pod(node="n1", ids="GPU-n1-0,NVIDIA,20000,0:;GPU-n1-0,NVIDIA,10000,0:"))
    cluster.shows(broken(bound, **{SPEC.keys.more: "side=GPU-n1-0,NVIDIA,5000,0:", "odd": 3}))
    assert "largest free 5,960 MiB" in cluster.predicate(a_pod("b", memory=30_000))["status"]
    (found,) = cluster.cache.findings()
    assert (found.finding.value, found.pods) == ("unreadable", ("x/p",))
    assert "pod x/p: metadata.annotations[odd]" in found.text


def test_a_pod_that_cannot_be_read_any_more_keeps_what_it_holds() -> None:
    cluster, pod = Cluster(), a_pod(memory=30_000, node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")
    cluster.shows(pod)
    cluster.shows(broken(pod, **{IDS: "GPU-n1-0,NVIDIA,1,0:"}))
    assert cluster.predicate(a_pod("b", memory=30_000))["status"]
    cluster.shows(pod)
    assert cluster.cache.findings() == ()


def test_a_pod_that_can_be_read_again_holds_what_it_says_then() -> None:
    cluster, pod = Cluster(), a_pod(memory=30_000, node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")
    cluster.shows(broken(pod))
    cluster.shows(broken(pod, **{IDS: "GPU-n1-0,NVIDIA,1,0:"}))
    assert cluster.predicate(a_pod("b", memory=30_000))["status"]
    cluster.shows(pod)
    assert cluster.cache.findings() == ()
    cluster.shows({**broken(pod), "status": {"phase": "Failed"}})
    assert (holders(cluster), cluster.predicate(a_pod("b", memory=30_000))["status"]) == (0, "")


@pytest.mark.parametrize("text", ["GPU-n1-0,NVIDIA,many,0:", ""])
def test_a_bound_pod_of_which_nothing_can_be_read_is_found(text: str) -> None:
    cluster = Cluster()
    cluster.shows(broken(a_pod(node="n1"), **{IDS: text, SPEC.keys.more: "?"}))
    assert [each.finding.value for each in cluster.cache.findings()] == ["unreadable"]


def test_a_pod_that_waits_and_cannot_be_read_holds_nothing() -> None:
    cluster = Cluster()
    cluster.shows(broken(a_pod(), **{IDS: "GPU-n1-0,NVIDIA,40000,0:"}))
    assert (holders(cluster), cluster.cache.findings()) == (0, ())


def test_what_cannot_be_read_is_counted_each_time_and_named_once() -> None:
    cluster = Cluster()
    with capture_logs() as logs:
        for _ in range(3):
            cluster.cache.node_changed(ObjectChange("modified", {"metadata": {"name": 3, "uid": "uid-b"}}, "uid-b"))
    assert (cluster.cache.problems, len(logs)) == (3, 1)


def test_what_is_wrong_is_named_however_much_was_wrong_before_and_again_where_it_comes_back() -> None:
    cluster = Cluster()

    def shows(number: int, kind: Any = "modified") -> None:
        name = f"uid-{number}"
        cluster.cache.node_changed(ObjectChange(kind, {"metadata": {"name": 3, "uid": name}}, name))

    with capture_logs() as logs:
        for number in range(1_500):
            shows(number)
    assert len(logs) == 1_500
    with capture_logs() as logs:
        shows(1_499)
        shows(0, "deleted")
        shows(0)
    assert len(logs) == 1


def test_a_pod_that_meets_a_bug_holds_the_cards_that_its_annotations_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, bound = Cluster(), a_pod(node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")
    waiting = a_pod("w")
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr("hami_plugins.allocator.locked_cache.objects.pod", _buggy)
        cluster.shows(bound)
        cluster.shows(waiting)
    assert [(line["event"], line["subject"]) for line in logs] == [
        ("pod_not_taken_in", "pod x/p"),
        ("pod_not_taken_in", "pod x/w"),
    ]
    assert "largest free 10,960 MiB" in cluster.predicate(a_pod("b", memory=30_000))["status"]
    assert [each.finding.value for each in cluster.cache.findings()] == ["unreadable"]
    assert "a bug" in cluster.event("allocate", waiting)
    cluster.shows(bound)
    assert (cluster.cache.problems, cluster.cache.findings()) == (2, ())


def test_a_node_that_meets_a_bug_is_not_known_until_its_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr("hami_plugins.engine.inventory.NodeBuilder.entry", _buggy)
        cluster.cache.node_changed(ObjectChange("modified", a_node("n1"), "uid-n1"))
    assert [(line["event"], line["subject"]) for line in logs] == [("node_not_taken_in", "node n1")]
    assert cluster.predicate(a_pod(), "n1")["status"] == "vGPU: the node is not known"
    assert cluster.predicate(a_pod(), "n2")["status"] == ""
    cluster.cache.node_changed(ObjectChange("modified", a_node("n1"), "uid-n1"))
    assert cluster.predicate(a_pod(), "n1")["status"] == ""


def _buggy(*_: object) -> object:
    raise ZeroDivisionError("a bug")


def test_the_word_that_a_list_is_through_changes_nothing() -> None:
    cluster = Cluster()
    cluster.cache.node_changed(ObjectChange("synced", None, ""))
    cluster.cache.pod_changed(ObjectChange("synced", None, ""))
    assert cluster.cache.statistics.nodes == 1


def test_pods_bound_by_somebody_else_are_adopted_and_wrong_ones_are_found() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cluster.shows(a_pod("right", node="n1", ids="GPU-n1-0,NVIDIA,10000,0:"))
    assert cluster.cache.findings() == ()
    cluster.shows(a_pod("foreign", node="n1", ids="GPU-n2-0,NVIDIA,10000,0:"))
    cluster.shows(a_pod("none", node="n2"))
    found = {(each.finding.value, each.pods) for each in cluster.cache.findings()}
    assert found == {("card-of-another-node", ("x/foreign",)), ("no-cards", ("x/none",))}


def test_init_containers_and_requests_say_that_a_pod_asks_for_cards() -> None:
    cluster, pod = Cluster(), a_pod(limits={"cpu": "1"})
    pod["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {CORES: "10"}}}]
    cluster.shows(pod)
    seen = cluster.cache.seen("x", "p")
    assert seen is not None
    assert seen.intake is not None
