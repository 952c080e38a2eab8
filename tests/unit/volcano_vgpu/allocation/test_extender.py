"""The calls of Volcano's extender, answered from the cache."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocator.volcano_extender import LARGEST_REMEMBERED
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import CORES, MEMORY, NUMBER, Cluster, a_node, a_pod


def test_a_node_with_room_takes_the_pod_and_a_full_one_says_why_with_numbers() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2", memory=81_920))
    pod = a_pod(memory=50_000)
    assert cluster.predicate(pod, "n2") == {"status": "", "code": 0}
    assert cluster.predicate(pod, "n1") == {
        "status": "vGPU memory: asked 50,000 MiB on 1 card; largest free 40,960 MiB, total free 40,960 MiB; "
        "ask for less volcano.sh/vgpu-memory, no card here has that much",
        "code": 2,
    }
    assert (cluster.counted("predicate", "fits"), cluster.counted("predicate", "refused")) == (1, 1)


def test_a_reservation_that_is_refused_each_session_stands_in_the_log_once() -> None:
    cluster, pod = Cluster(), a_pod(memory=50_000)
    with capture_logs() as logs:
        refused = {cluster.event("allocate", pod) for _ in range(5)}
    assert len(refused) == 1
    assert cluster.counted("allocate", "refused") == 5
    assert [line["event"] for line in logs] == ["reservation_refused"]


def test_nodes_in_the_same_state_give_the_same_words_so_that_volcano_counts_them() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    pod = a_pod(memory=50_000)
    assert cluster.predicate(pod, "n1") == cluster.predicate(pod, "n2") == cluster.predicate(pod, "n1")


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            a_node(cards=0),
            "vGPU: no cards registered (volcano.sh/node-vgpu-register is missing or empty); run the node agent there",
        ),
        (a_node(healthy="false"), "vGPU cards: asked 1; 1 of 1 card is unhealthy; see the events of the node"),
    ],
)
def test_a_node_whose_cards_cannot_be_had_says_so(node: dict[str, object], said: str) -> None:
    assert Cluster(node).predicate(a_pod())["status"] == said


@pytest.mark.parametrize(
    ("limits", "annotations", "remedy"),
    [
        ({NUMBER: "1", MEMORY: "20000"}, {}, "ask for less volcano.sh/vgpu-memory or wait until pods end"),
        ({NUMBER: "1", MEMORY: "1000", CORES: "90"}, {}, "ask for less volcano.sh/vgpu-cores or wait until pods end"),
        ({NUMBER: "2"}, {}, "ask for fewer volcano.sh/vgpu-number"),
        ({NUMBER: "1"}, {"volcano.sh/vgpu-use-gpuuuid": "x"}, "change or remove that annotation of the pod"),
    ],
)
def test_a_refusal_says_what_to_do_about_it(limits: dict[str, str], annotations: dict[str, str], remedy: str) -> None:
    cluster, pod = Cluster(), a_pod("q", limits=limits)
    cluster.shows(a_pod(node="n1", ids="GPU-n1-0,NVIDIA,30000,20:"))
    pod["metadata"]["annotations"] = annotations
    assert cluster.predicate(pod)["status"].endswith(f"; {remedy}")
    cluster.shows(pod)
    assert cluster.bind(pod).reason.endswith(f"; {remedy}")


def test_the_remedy_stays_while_the_numbers_change() -> None:
    cluster, pod, clauses = Cluster(), a_pod("q", memory=30_000), set()
    for memory in (20_000, 25_000, 30_000):
        cluster.shows(a_pod(f"p{memory}", node="n1", ids=f"GPU-n1-0,NVIDIA,{memory},0:"))
        clauses.add(cluster.predicate(pod)["status"].rpartition("; ")[2])
        cluster.shows(a_pod(f"p{memory}"), "deleted")
    assert len(clauses) == 1


def test_half_a_register_is_no_register_and_the_reason_quotes_it() -> None:
    node = a_node()
    node["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": "GPU-1,10,40960:"}
    cluster = Cluster(node)
    assert "3 fields" in cluster.predicate(a_pod())["status"]
    assert cluster.cache.problems == 1


def test_a_node_that_nobody_has_seen_is_refused() -> None:
    assert Cluster().predicate(a_pod(), "n9")["status"] == "vGPU: the node is not known"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({CORES: "10"}, "create the pod again with volcano.sh/vgpu-number: 1"),
        ({NUMBER: "1", MEMORY: "0.5"}, "not an amount of MiB"),
    ],
)
def test_a_pod_that_can_never_have_a_card_is_told_so_before_it_is_placed(limits: dict[str, str], said: str) -> None:
    cluster, pod = Cluster(), a_pod(limits=limits)
    assert said in cluster.predicate(pod)["status"]
    assert said in cluster.event("allocate", pod)


def test_id_lists_of_pods_are_obeyed() -> None:
    cluster, pod = Cluster(a_node(cards=2)), a_pod()
    pod["metadata"]["annotations"] = {"volcano.sh/vgpu-use-gpuuuid": "GPU-n9-0"}
    assert "GPU-n9-0" in cluster.predicate(pod)["status"]


def test_what_is_reserved_is_not_there_for_others_until_it_is_released() -> None:
    cluster, first, second = Cluster(), a_pod("a", memory=30_000), a_pod("b", memory=30_000)
    assert cluster.event("allocate", first) == ""
    assert "largest free 10,960 MiB" in cluster.predicate(second)["status"]
    assert "largest free 10,960 MiB" in cluster.event("allocate", second)
    assert cluster.event("deallocate", first) == ""
    assert cluster.event("deallocate", first) == ""
    assert cluster.event("allocate", second) == ""
    assert (cluster.counted("deallocate", "released"), cluster.counted("deallocate", "nothing")) == (1, 1)


def test_a_gang_of_which_one_waits_for_a_pod_that_is_ending_finds_its_own_cards_free_in_the_next_session() -> None:
    """Volcano leaves such a session without ``deallocate``, and its next one begins with the first member again."""
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    gang = [a_pod(f"w{at}", memory=30_000) for at in range(3)]
    ending = a_pod("ending", memory=30_000, node="n3", ids="GPU-n3-0,NVIDIA,30000,0:")
    cluster.shows(ending)
    assert cluster.event("allocate", gang[0], "n1", job="x/train") == ""
    assert cluster.event("allocate", gang[1], "n2", job="x/train") == ""
    assert "largest free 10,960 MiB" in cluster.event("allocate", gang[2], "n3", job="x/train")
    cluster.shows(ending, "deleted")
    assert [cluster.predicate(gang[0], node)["status"] for node in ("n1", "n2", "n3")] == ["", "", ""]
    for pod, node in zip(gang, ("n3", "n1", "n2"), strict=True):
        assert cluster.event("allocate", pod, node, job="x/train") == ""


def test_a_question_ends_no_reservation_of_another_job_and_none_of_whoever_came_before_in_its_own() -> None:
    """Earlier members may have been bound one by one: each further member of a gang with enough members is."""
    cluster = Cluster(*map(a_node, ("n1", "n2", "n3", "n4")))
    pods = {name: a_pod(name, memory=30_000) for name in ("before", "asked", "other", "alone")}
    for at, (name, job) in enumerate([("before", "x/a"), ("asked", "x/a"), ("other", "x/b"), ("alone", "")], start=1):
        cluster.time += 1
        assert cluster.event("allocate", pods[name], f"n{at}", job=job) == ""
    assert cluster.predicate(pods["asked"], "n2")["status"] == ""
    stranger = a_pod("stranger", memory=30_000)
    assert [at for at in range(1, 5) if not cluster.predicate(stranger, f"n{at}")["status"]] == [2]


def test_a_question_ends_nothing_that_a_binding_was_answered_with() -> None:
    cluster, pod = Cluster(), a_pod(memory=30_000)
    assert cluster.event("allocate", pod) == ""
    assert cluster.bind(pod).operations
    cluster.predicate(pod)
    assert "largest free 10,960 MiB" in cluster.predicate(a_pod("other", memory=30_000))["status"]


def test_a_pod_that_would_take_the_place_of_another_gets_its_cards_when_that_one_is_gone_and_not_before() -> None:
    cluster, urgent = Cluster(), a_pod("urgent", memory=30_000)
    victim = a_pod("victim", memory=30_000, node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")
    cluster.shows(victim)
    cluster.shows(urgent)
    # A session: it gives up the victim, puts the other in its place, and takes all of it back.
    assert cluster.predicate(urgent)["code"] == 2
    assert cluster.event("deallocate", victim) == ""
    assert "largest free 10,960 MiB" in cluster.event("allocate", urgent)
    assert cluster.event("deallocate", urgent) == ""
    assert cluster.event("allocate", victim) == ""
    assert cluster.cache.statistics.reservations == 0

    leaving = {**victim, "metadata": {**victim["metadata"], "deletionTimestamp": "2026-08-21T10:00:00Z"}}
    cluster.shows(leaving)
    assert "largest free 10,960 MiB" in cluster.event("allocate", urgent)
    cluster.shows(leaving, "deleted")
    assert cluster.event("allocate", urgent) == ""


def test_what_is_promised_too_long_ago_is_free_again() -> None:
    cluster, first, second = Cluster(), a_pod("a", memory=30_000), a_pod("b", memory=30_000)
    cluster.event("allocate", first)
    cluster.time = 14.0
    assert cluster.cache.expire(cluster.time) == ()
    cluster.time = 15.0
    assert [each.record.full_name for each in cluster.cache.expire(cluster.time)] == ["x/a"]
    assert cluster.predicate(second)["status"] == ""


def test_after_an_answered_binding_a_rollback_frees_nothing_before_the_watch_has_spoken() -> None:
    cluster, first, second = Cluster(), a_pod("a", memory=30_000), a_pod("b", memory=30_000)
    cluster.shows(first)
    cluster.event("allocate", first)
    cluster.bind(first)
    cluster.event("deallocate", first)
    assert cluster.predicate(second)["status"]
    cluster.shows(first, "deleted")
    assert cluster.predicate(second)["status"] == ""


def test_a_pod_that_the_watch_shows_elsewhere_ends_what_was_assumed() -> None:
    cluster, first, second = Cluster(a_node("n1"), a_node("n2")), a_pod("a", memory=30_000), a_pod("b", memory=30_000)
    cluster.shows(first)
    cluster.bind(first, "n1")
    cluster.shows(a_pod("a", node="n2", ids="GPU-n2-0,NVIDIA,30000,0:"))
    assert cluster.predicate(second, "n1")["status"] == ""
    assert cluster.predicate(second, "n2")["status"]


@pytest.mark.parametrize(("policy", "best"), [("binpack", "n1"), ("spread", "n2")])
def test_nodes_are_ranked_by_the_policy_for_cards(policy: str, best: str) -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"), a_node("n3", memory=5_000), policy=policy)
    cluster.shows(a_pod("running", node="n1", ids="GPU-n1-0,NVIDIA,20000,0:"))
    reply = cluster.prioritize(a_pod(), "n1", "n2", "n3", "n9")
    assert reply["errorMessage"] == ""
    scores = reply["nodeScore"]
    assert set(scores) == {"n1", "n2"}
    assert max(scores, key=scores.__getitem__) == best


def test_the_weight_is_what_a_score_counts_beside_those_of_other_plugins() -> None:
    plain, heavy = (Cluster(weight=weight).prioritize(a_pod(), "n1")["nodeScore"]["n1"] for weight in (1.0, 10.0))
    assert plain > 0
    assert heavy == pytest.approx(10 * plain)


def test_without_a_weight_other_plugins_rank_the_nodes() -> None:
    assert Cluster(weight=0.0).prioritize(a_pod(), "n1") == {"nodeScore": {}, "errorMessage": ""}


@pytest.mark.parametrize("sent", [b"", b"[]", b'{"task":{}}', b'{"task":{"UID":"u"},"node":{"Name":"n1"}}'])
def test_what_is_no_call_is_answered_with_what_is_wrong(sent: bytes) -> None:
    cluster = Cluster()
    reply = json.loads(cluster.extender.predicate(sent))
    assert reply["code"] == 1
    assert "extender call" in reply["status"]
    for answer in (cluster.extender.prioritize, cluster.extender.allocate, cluster.extender.deallocate):
        found = json.loads(answer(sent)) if sent != b"[]" else json.loads(answer(b"{}"))
        assert "extender call" in found["errorMessage"]


def test_a_pod_of_a_call_that_cannot_be_read_is_answered_with_the_place() -> None:
    pod = a_pod(limits={NUMBER: "lots"})
    assert "spec.containers[0].resources.limits" in Cluster().predicate(pod)["status"]


def test_cards_are_held_for_nobody_whom_the_api_server_does_not_have() -> None:
    cluster, pod = Cluster(), a_pod("p", memory=40_960)
    assert cluster.sent("allocate", a_pod("made-up")) == (
        "pod x/made-up is not known yet: the API server has none with the UID uid-made-up"
    )
    cluster.shows(pod)
    cluster.server["x", "p"] = pod
    forged = {**pod, "metadata": {**pod["metadata"], "uid": "made-up"}}
    assert "none with the UID made-up" in cluster.sent("allocate", forged)
    assert cluster.cache.statistics.reservations == 0
    assert cluster.counted("allocate", "unknown") == 2


def test_what_is_held_is_what_the_pod_asks_for_and_not_what_the_call_says() -> None:
    cluster = Cluster()
    cluster.shows(a_pod("p", memory=10_000))
    assert cluster.sent("allocate", a_pod("p", memory=40_960)) == ""
    assert cluster.predicate(a_pod("q", memory=30_960))["status"] == ""
    assert "largest free 30,960 MiB" in cluster.predicate(a_pod("q", memory=30_961))["status"]


def test_a_pod_that_the_watch_has_not_shown_yet_is_read_once() -> None:
    cluster, pod = Cluster(), a_pod("p", memory=30_000)
    cluster.server["x", "p"] = pod
    assert cluster.sent("allocate", pod) == ""
    cluster.shows(pod)
    assert cluster.sent("allocate", pod) == ""
    assert cluster.cache.statistics.reservations == 1
    assert cluster.reads == 1


def test_while_the_api_server_is_away_nothing_is_held_for_pods_that_nobody_knows() -> None:
    cluster, pod = Cluster(), a_pod("p")
    cluster.server["x", "p"] = KubeError("out of reach", retryable=True)
    assert cluster.sent("allocate", pod) == "pod x/p is not known yet: out of reach"
    assert cluster.cache.statistics.reservations == 0


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("pod", [a_pod(limits={"cpu": "1"}), a_pod(node="n1", ids="GPU-n1-0,NVIDIA,10000,0:")])
def test_pods_without_cards_and_pods_with_a_node_need_nothing(pod: Json, *, shown: bool) -> None:
    cluster = Cluster()
    if shown:
        cluster.shows(pod)
    assert cluster.event("allocate", pod) == ""
    assert cluster.cache.statistics.reservations == 0


def test_a_pod_that_cannot_be_read_is_not_held_anything_and_the_reply_says_why() -> None:
    cluster, pod = Cluster(), a_pod(limits={NUMBER: "lots"})
    assert "spec.containers[0].resources.limits" in cluster.event("allocate", pod)
    cluster.shows(pod)
    assert "spec.containers[0].resources.limits" in cluster.event("allocate", pod)


def taken_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """The pods that are read from now on."""
    taken: list[Json] = []
    intake = cluster.cache.intake

    def counted(raw: Json) -> PodInfo:
        taken.append(raw)
        return intake(raw)

    monkeypatch.setattr(cluster.cache, "intake", counted)
    return taken


def test_a_task_comes_once_for_every_node_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pod = Cluster(a_node("n1"), a_node("n2")), a_pod()
    taken = taken_in(cluster, monkeypatch)
    for node in ("n1", "n2", "n1"):
        cluster.predicate(pod, node)
    assert len(taken) == 1


def test_nobody_fills_the_memory_with_large_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pod = Cluster(), a_pod()
    pod["metadata"]["annotations"]["note"] = "x" * LARGEST_REMEMBERED
    taken = taken_in(cluster, monkeypatch)
    assert cluster.predicate(pod)["status"] == ""
    assert cluster.prioritize(pod, "n1")["nodeScore"]
    assert len(taken) == 2


def test_a_reason_does_not_grow_with_what_the_pod_lists() -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {"nvidia.com/use-gputype": ",".join(f"model-{number}" for number in range(1_000))}
    reason = Cluster().predicate(pod)["status"]
    assert "asked only model-0, model-1" in reason
    assert len(reason) < 5_000


def test_a_pod_larger_than_pods_are_is_answered_with_the_limit() -> None:
    pod = a_pod()
    pod["spec"]["containers"] = [{"name": f"c{number}"} for number in range(300)]
    found = Cluster().predicate(pod)
    assert (found["code"], "300 containers: limit is 256" in found["status"]) == (1, True)
