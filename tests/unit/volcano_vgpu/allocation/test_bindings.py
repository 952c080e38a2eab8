"""The webhook on Bindings: whose word an allocation is, what passes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocations.manifests.stale_allocations import KEYS as VOLCANO_KEYS
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.errors import KubeError
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire.admission_review import Allowed, Denied
from tests.unit.allocator.products import MARK
from tests.unit.volcano_vgpu.allocation.cluster import (
    CORES,
    IDS,
    NODE,
    NUMBER,
    Cluster,
    a_node,
    a_pod,
    request,
    written,
)

STALE = dict.fromkeys(VOLCANO_KEYS, "GPU-old-0,NVIDIA,1,0:")


def test_a_reservation_becomes_the_allocation_with_all_six_keys() -> None:
    cluster, pod = Cluster(a_node(cards=2)), a_pod()
    cluster.shows(pod)
    assert cluster.event("allocate", pod) == ""

    allocation = written(cluster.bind(pod))

    assert set(allocation) == set(VOLCANO_KEYS)
    assert (allocation[IDS], allocation[NODE]) == ("GPU-n1-0,NVIDIA,10000,0:", "n1")
    assert cluster.counted("binding", "reserved") == 1


def test_what_an_earlier_try_left_on_the_binding_is_overwritten_whole() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.shows(pod)
    allocation = written(cluster.bind(pod, annotations={**STALE, "mine": "stays"}))
    assert set(allocation) == set(VOLCANO_KEYS)
    assert "GPU-old-0" not in "".join(allocation.values())


def test_what_sidecars_had_in_an_earlier_try_does_not_stay_on_the_binding() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.shows(pod)
    answer = cluster.bind(pod, annotations={SPEC.keys.more: "old"})
    assert {"op": "remove", "path": f"/metadata/annotations/{SPEC.keys.more.replace('/', '~1')}"} in answer.operations


def test_what_somebody_wrote_on_the_pod_for_its_sidecars_is_emptied_by_the_allocation() -> None:
    cluster, pod = Cluster(), a_pod()
    pod["metadata"]["annotations"] = {SPEC.keys.more: "main=GPU-n1-0,NVIDIA,40960,0:"}
    cluster.shows(pod)
    assert written(cluster.bind(pod))[SPEC.keys.more] == ""


def test_an_init_container_that_needs_more_than_the_app_is_allocated_by_name() -> None:
    cluster, pod = Cluster(), a_pod()
    limits = {NUMBER: "1", "volcano.sh/vgpu-memory": "30000"}
    pod["spec"]["initContainers"] = [{"name": "warm", "resources": {"limits": limits}}]
    cluster.shows(pod)
    allocation = written(cluster.bind(pod))
    assert "30000" in allocation[SPEC.keys.more]
    assert "30000" not in allocation[IDS]
    assert cluster.predicate(a_pod("b", memory=15_000))["status"]


def test_without_a_reservation_the_pod_is_placed_on_the_node_that_was_chosen() -> None:
    cluster, pod = Cluster(a_node("n1"), a_node("n2")), a_pod()
    cluster.shows(pod)
    assert written(cluster.bind(pod, "n2"))[IDS] == "GPU-n2-0,NVIDIA,10000,0:"
    assert cluster.counted("binding", "placed") == 1


def test_a_reservation_elsewhere_is_given_up_when_the_binding_names_another_node() -> None:
    cluster, pod, big = Cluster(a_node("n1"), a_node("n2")), a_pod(memory=30_000), a_pod("big", memory=40_000)
    cluster.shows(pod)
    cluster.event("allocate", pod, "n1")
    cluster.bind(pod, "n2")
    assert cluster.predicate(big, "n1")["status"] == ""


def test_the_last_slice_is_given_to_one_of_two() -> None:
    cluster, first, second = Cluster(), a_pod("a", memory=30_000), a_pod("b", memory=30_000)
    cluster.shows(first)
    cluster.shows(second)
    assert isinstance(cluster.bind(first), Allowed)
    answer = cluster.bind(second)
    assert isinstance(answer, Denied)
    assert "node n1: vGPU memory: asked 30,000 MiB on 1 card; largest free 10,960 MiB" in answer.reason
    assert cluster.metrics.metrics.value("refusals_total", reason="cards") == 1


def test_a_binding_that_names_no_uid_is_for_the_pod_that_the_api_server_has_now() -> None:
    cluster, old, new = Cluster(), a_pod(memory=10_000), a_pod(memory=20_000)
    new["metadata"]["uid"] = "uid-again"
    cluster.shows(old)
    cluster.server["x", "p"] = new
    assert written(cluster.bind(old, uid=""))[IDS] == "GPU-n1-0,NVIDIA,20000,0:"
    assert cluster.reads == 1


def test_a_refusal_stands_in_the_log_once_however_often_the_scheduler_tries_again() -> None:
    cluster, pod = Cluster(), a_pod(memory=50_000)
    cluster.shows(pod)
    with capture_logs() as logs:
        refused = [cluster.bind(pod) for _ in range(5)]
    assert [answer.reason for answer in refused] == [refused[0].reason] * 5
    assert cluster.counted("binding", "refused") == 5
    assert [line["event"] for line in logs] == ["binding_refused"]
    with capture_logs() as logs:
        cluster.bind(pod, "n9")
    assert [line["node"] for line in logs] == ["n9"]


def test_a_dry_run_hears_the_same_and_holds_nothing() -> None:
    cluster, first, second = Cluster(), a_pod("a", memory=40_000), a_pod("b", memory=40_000)
    cluster.shows(first)
    cluster.shows(second)
    assert written(cluster.bind(first, dry=True))[IDS] == "GPU-n1-0,NVIDIA,40000,0:"
    assert isinstance(cluster.bind(second), Allowed)
    assert isinstance(cluster.bind(first, dry=True), Denied)


@pytest.mark.parametrize("asked", [{"cpu": "1"}, {NUMBER: "0"}])
def test_pods_without_cards_pass_untouched_and_unread(asked: dict[str, str]) -> None:
    cluster, pod = Cluster(), a_pod(limits=asked)
    cluster.shows(pod)
    assert cluster.bind(pod, annotations={"mine": "stays", IDS: ""}) == Allowed()
    assert cluster.reads == 0


@pytest.mark.parametrize("asked", [{"cpu": "1"}, {NUMBER: "0"}, {CORES: "10"}])
def test_an_allocation_on_the_binding_of_a_pod_that_gets_no_cards_is_emptied(asked: dict[str, str]) -> None:
    cluster, pod = Cluster(), a_pod(limits=asked)
    cluster.shows(pod)
    answer = cluster.bind(pod, annotations={**STALE, SPEC.keys.more: "old", "mine": "stays"})
    assert written(answer) == dict.fromkeys((*VOLCANO_KEYS, SPEC.keys.more), "")
    assert {step["op"] for step in answer.operations} == {"replace"}
    cluster.shows(bound_with(pod, written(answer)))
    assert (cluster.predicate(a_pod("b", memory=40_960))["status"], cluster.cache.problems) == ("", 0)


def bound_with(pod: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    """The pod as its Binding leaves it on the node."""
    metadata = {**pod["metadata"], "annotations": annotations}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": "n1"}}


def test_a_pod_that_the_watch_has_not_shown_yet_is_read_once() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.server["x", "p"] = pod
    assert written(cluster.bind(pod))[NODE] == "n1"
    assert cluster.reads == 1


def test_a_pod_that_was_created_again_is_another_one() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.shows(pod)
    again = {**pod, "metadata": {**pod["metadata"], "uid": "uid-2"}}
    cluster.server["x", "p"] = again
    assert written(cluster.bind(again))[NODE] == "n1"
    # The Binding of the first one is refused by the API server itself.
    cluster.shows(again)
    assert cluster.bind(pod) == Allowed()


def test_without_a_uid_the_pod_is_read_for_another_one_may_have_its_name_by_now() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.shows({**pod, "metadata": {**pod["metadata"], "uid": "before"}})
    cluster.server["x", "p"] = pod
    assert written(cluster.bind(pod, uid=None))[NODE] == "n1"


def test_what_the_api_server_refuses_itself_passes() -> None:
    cluster, gone, bound = Cluster(), a_pod("gone"), a_pod("bound", node="n1", ids="GPU-n1-0,NVIDIA,5,0:")
    assert cluster.bind(gone) == Allowed()
    cluster.server["x", "bound"] = bound
    assert cluster.bind(bound) == Allowed()
    cluster.shows(bound)
    assert cluster.bind(bound) == Allowed()
    assert cluster.bindings(request({"metadata": {"name": "p"}, "target": {}})) == Allowed()
    assert cluster.bindings(request({"metadata": {"name": "p"}, "target": {"kind": "Moon", "name": "n1"}})) == Allowed()


def test_a_pod_that_the_watch_binds_while_it_is_answered_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.shows(pod)
    before = cluster.cache.seen("x", "p")
    cluster.shows(a_pod(node="n1", ids="GPU-n1-0,NVIDIA,10000,0:"))
    monkeypatch.setattr(cluster.cache, "seen", lambda *_: before)
    assert cluster.bind(pod) == Allowed()
    assert cluster.counted("binding", "already-bound") == 1


def test_a_pod_that_is_deleted_between_two_answers_gets_nothing_any_more() -> None:
    cluster, pod = Cluster(), a_pod(memory=40_000)
    cluster.shows(pod)
    cluster.bind(pod)
    cluster.shows(pod, "deleted")
    cluster.server["x", "p"] = pod
    assert cluster.bind(pod) == Allowed()
    assert cluster.predicate(a_pod("other", memory=40_000))["status"] == ""


def test_while_the_api_server_is_away_only_marked_pods_wait() -> None:
    cluster, pod = Cluster(), a_pod()
    cluster.server["x", "p"] = KubeError("no answer")
    assert cluster.bind(pod) == Allowed()
    answer = cluster.bind(pod, annotations={MARK: "extender"})
    assert isinstance(answer, Denied)
    assert answer.code == 503
    assert "cannot be read: no answer; try again" in answer.reason


@pytest.mark.parametrize(
    ("limits", "said"),
    [({NUMBER: "1500m"}, "not a number of devices"), ({NUMBER: "lots"}, "not a quantity")],
)
def test_what_no_node_can_hold_is_refused_with_the_reason(limits: dict[str, str], said: str) -> None:
    cluster, pod = Cluster(), a_pod(limits=limits)
    cluster.shows(pod)
    unseen = a_pod("unseen", limits=limits)
    cluster.server["x", "unseen"] = unseen
    for answer in (cluster.bind(pod), cluster.bind(unseen)):
        assert isinstance(answer, Denied)
        assert said in answer.reason


def test_a_node_without_a_register_holds_nobody() -> None:
    cluster, pod = Cluster(a_node(cards=0)), a_pod()
    cluster.shows(pod)
    said_of = {"n1": "volcano.sh/node-vgpu-register is missing or empty", "n9": "node n9: vGPU: the node is not known"}
    for node, said in said_of.items():
        answer = cluster.bind(pod, node)
        assert isinstance(answer, Denied)
        assert said in answer.reason


@pytest.mark.parametrize("broken", [None, {"metadata": 3}, {"target": {"name": ["n1"]}}])
def test_what_is_no_binding_is_refused_as_unreadable(broken: dict[str, object] | None) -> None:
    answer = Cluster().bindings(request(broken))
    assert isinstance(answer, Denied)
    assert answer.code == 422


def test_cores_alone_pass_for_a_kubelet_hands_out_nothing_for_them() -> None:
    cluster, pod = Cluster(), a_pod(limits={CORES: "10"})
    cluster.shows(pod)
    assert cluster.bind(pod) == Allowed()


def test_mode_webhook_keeps_valid_ids_of_the_pod() -> None:
    cluster = Cluster(a_node(cards=3), mode=AllocatorMode.WEBHOOK)
    pod = a_pod()
    pod["metadata"]["annotations"] = {IDS: "GPU-n1-2,NVIDIA,10000,0:", NODE: "n1"}
    cluster.shows(pod)
    assert written(cluster.bind(pod, annotations=STALE))[IDS] == "GPU-n1-2,NVIDIA,10000,0:"
    assert cluster.counted("binding", "carried") == 1


def test_mode_webhook_keeps_valid_ids_of_the_binding_where_the_pod_has_none() -> None:
    cluster, pod = Cluster(a_node(cards=3), mode=AllocatorMode.WEBHOOK), a_pod()
    cluster.shows(pod)
    fresh = {IDS: "GPU-n1-2,NVIDIA,10000,0:", NODE: "n1"}
    # Correct keys are not written again; the other four are.
    assert {**written(cluster.bind(pod, annotations=fresh)), **fresh}.keys() == set(VOLCANO_KEYS)
    assert cluster.counted("binding", "carried") == 1


@pytest.mark.parametrize(
    ("ids", "node"),
    [
        ("GPU-n2-0,NVIDIA,10000,0:", "n2"),
        ("GPU-n2-0,NVIDIA,10000,0:", "n1"),
        ("GPU-n1-0,NVIDIA,1,0:", "n1"),
        ("GPU-n1-0,NVIDIA", "n1"),
        ("", "n1"),
    ],
)
def test_mode_webhook_places_anew_what_is_stale(ids: str, node: str) -> None:
    cluster, pod = Cluster(mode=AllocatorMode.WEBHOOK), a_pod()
    pod["metadata"]["annotations"] = {IDS: ids, NODE: node}
    cluster.shows(pod)
    assert written(cluster.bind(pod))[IDS] == "GPU-n1-0,NVIDIA,10000,0:"
    assert cluster.counted("binding", "placed") == 1


def test_after_each_answer_about_cards_the_node_is_touched() -> None:
    cluster, pod = Cluster(mode=AllocatorMode.WEBHOOK), a_pod(memory=30_000)
    cluster.shows(pod)
    cluster.shows(a_pod("plain", limits={"cpu": "1"}))
    cluster.bind(pod, dry=True)
    cluster.bind(a_pod("plain", limits={"cpu": "1"}))
    assert cluster.touched == []
    cluster.bind(pod)
    second = a_pod("b", memory=30_000)
    cluster.shows(second)
    cluster.bind(second)
    assert cluster.touched == ["n1", "n1"]
