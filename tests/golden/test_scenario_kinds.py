"""Clusters of every kind that ``docs/reference/trials.md`` V18 and V19 describe and no recorded scenario shows, judged
as a folder is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden.scenario_judge import AGREES, EXPLAINED, UNEXPLAINED, Judgement, judged
from tests.golden.scenario_plans import scenario
from tests.unit.queueing.test_cycle import GPU, MEMORY, a_group, a_job, a_node, a_pod, a_queue


def judge(folder: Path, cluster: list[dict[str, Any]], submitted: list[dict[str, Any]], **expect: Any) -> Judgement:
    """The judgement of a cluster with one queue, or with those that are given."""
    queues = [] if any(each["kind"] == "Queue" for each in cluster) else [a_queue()]
    (folder / "before.json").write_text(json.dumps({"kind": "List", "items": [*cluster, *queues]}), encoding="utf-8")
    (folder / "submit.yaml").write_text(yaml.safe_dump_all(submitted), encoding="utf-8")
    plugin = {"queue_plugin": expect.pop("queue_plugin", "proportion")}
    (folder / "expect.yaml").write_text(yaml.safe_dump({"submission": plugin, **expect}), encoding="utf-8")
    return judged(scenario(folder))


def whole(name: str, queue: str = "") -> dict[str, Any]:
    """A pod that asks for a whole card, without naming its memory."""
    pod = a_pod(name, queue=queue)
    pod["spec"]["containers"] = [{"name": "c", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}]
    return pod


def test_a_percentage_that_no_node_has_is_held_at_the_gate(tmp_path: Path) -> None:
    pod = a_pod()
    amounts = {GPU: "1", "volcano.sh/vgpu-memory-percentage": "50"}
    pod["spec"]["containers"] = [{"name": "c", "resources": {"limits": amounts, "requests": amounts}}]
    found = judge(tmp_path, [a_node()], [pod], kind="gate", pending={"p": ""}, pending_stage={"p": "enqueue"})
    assert found.verdict == AGREES
    assert "percentage" in found.scenario.said["p"]


def test_an_init_container_that_no_card_holds_is_bound_by_volcano(tmp_path: Path) -> None:
    huge = {"name": "i", "resources": {"limits": {GPU: "1", MEMORY: "15000"}, "requests": {GPU: "1", MEMORY: "15000"}}}
    pod = a_pod("huge", 1000, initContainers=[huge])
    found = judge(tmp_path, [a_node()], [pod], kind="fault", placed={"huge": "n1"}, devices={"huge": []})
    assert found.verdict == EXPLAINED
    assert "gives them no cards" in found.explained[0]
    strict = judge(tmp_path, [a_node()], [pod], kind="rule", placed={"huge": "n1"}, devices={"huge": []})
    assert strict.verdict == UNEXPLAINED


def test_card_ids_are_not_read_by_volcano(tmp_path: Path) -> None:
    pod = a_pod("p", meta={"annotations": {"volcano.sh/vgpu-use-gpuuuid": "GPU-elsewhere"}})
    cards = {"p": [["GPU-n1-1:6000:0"]]}
    found = judge(tmp_path, [a_node()], [pod], kind="fault", placed={"p": "n1"}, devices=cards)
    assert found.verdict == EXPLAINED
    assert "lists of card ids" in found.explained[0]


@pytest.mark.parametrize("kind", ["rule", "fault"])
def test_a_gang_that_does_not_fit_waits(tmp_path: Path, kind: str) -> None:
    members = [a_pod(f"g-{at}", 9000, group="g") for at in range(3)]
    names = [f"g-{at}" for at in range(3)]
    found = judge(
        tmp_path,
        [a_node(), a_group(least=3)],
        members,
        kind=kind,
        pending=dict.fromkeys(names, ""),
        pending_stage=dict.fromkeys(names, "allocate"),
    )
    assert found.verdict == (AGREES if kind == "rule" else EXPLAINED)


def test_a_cap_on_memory_counts_plain_requests(tmp_path: Path) -> None:
    capped = a_queue("team", capability={MEMORY: "6000"})
    pods = [whole("w0", "team"), whole("w1", "team")]
    found = judge(tmp_path, [a_node(), a_queue(), capped], pods, kind="fault", placed={"w0": "n1", "w1": "n1"})
    assert found.verdict == EXPLAINED
    assert "capability of queue team with plain requests" in found.explained[-1]


@pytest.mark.parametrize("state", ["Closed", ""])
def test_a_bare_pod_for_a_queue_that_takes_nobody_has_no_podgroup(tmp_path: Path, state: str) -> None:
    queues = [a_queue(), *([a_queue("team", state)] if state else [])]
    found = judge(
        tmp_path,
        [a_node(), *queues],
        [a_pod(queue="team"), a_job("j", queue="team")],
        pending={"p": ""},
        pending_stage={"p": "no-podgroup"},
        rejected={"Job/default/j": "queue is not open"},
    )
    assert found.verdict == AGREES
    assert "silent-queue" in found.scenario.said["p"]


def test_a_job_that_the_webhook_refuses_is_refused(tmp_path: Path) -> None:
    job = a_job("j", 6000, {"replicas": 1}, minAvailable=5)
    found = judge(tmp_path, [a_node()], [job, a_pod()], placed={"p": "n1"}, rejected={"Job/j": "minAvailable"})
    assert found.verdict == AGREES


def test_pods_that_can_never_fit_hold_back_others(tmp_path: Path) -> None:
    never = [a_pod(f"never-{at}", 11000) for at in range(1)]
    found = judge(
        tmp_path,
        [a_node()],
        [*never, a_pod("ok", 9500)],
        kind="gate",
        pending={"never-0": "", "ok": ""},
        pending_stage={"never-0": "allocate", "ok": "enqueue"},
        held_although_room=["ok"],
    )
    assert found.verdict == AGREES


def test_a_job_that_is_held_at_the_gate_has_no_pods(tmp_path: Path) -> None:
    job = a_job("j", 6000, {"replicas": 4})
    found = judge(tmp_path, [a_node()], [job], kind="gate", jobs={"j": {"pods_created": 0}})
    assert found.verdict == AGREES


def test_a_pod_that_is_going_counts_twice_at_the_gate(tmp_path: Path) -> None:
    going = a_pod("old", 9000, node="n1", group="g", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    going["metadata"]["annotations"] = {
        "scheduling.k8s.io/group-name": "g",
        "volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,9000,0:",
    }
    group = a_group("g", 1, "Inqueue", minResources={GPU: "1", MEMORY: "9000"})
    found = judge(
        tmp_path,
        [a_node(), going, group],
        [a_pod("p", 8000)],
        kind="gate",
        pending={"p": ""},
        pending_stage={"p": "enqueue"},
    )
    assert found.verdict == AGREES


def test_a_quota_that_lets_in_a_part_of_a_job(tmp_path: Path) -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}},
    }
    found = judge(
        tmp_path,
        [a_node(), quota],
        [a_job("j", 1000, {"replicas": 3})],
        kind="fault",
        stable=False,
        jobs={"j": {"pods_created": 2}},
        pending={"j-default0-1": "", "j-default0-2": ""},
        pending_stage={"j-default0-1": "allocate", "j-default0-2": "allocate"},
    )
    assert found.verdict == EXPLAINED
    assert found.unexplained == []


def test_a_node_without_register_ends_the_scheduler(tmp_path: Path) -> None:
    mute = a_node("n2")
    del mute["metadata"]["annotations"]["volcano.sh/node-vgpu-register"]
    found = judge(
        tmp_path,
        [a_node(), mute],
        [a_pod("p")],
        kind="fault",
        pending={"p": ""},
        pending_stage={"p": "enqueue"},
    )
    assert found.verdict == EXPLAINED
    assert "ends with a nil pointer" in found.explained[0]
    assert found.scenario.placed["p"].node == "n1"


def test_where_two_queues_compete_nothing_is_fixed(tmp_path: Path) -> None:
    pods = [a_pod(f"{queue}-{at}", 9000, queue=queue) for queue in "ab" for at in range(2)]
    found = judge(
        tmp_path,
        [a_node(), a_queue(), a_queue("a"), a_queue("b")],
        pods,
        kind="fault",
        stable=False,
        stable_counts=False,
        placed={"a-0": "n1"},
        pending={"a-1": "", "b-0": "", "b-1": ""},
        pending_stage={"a-1": "allocate", "b-0": "enqueue", "b-1": "enqueue"},
    )
    assert found.verdict == EXPLAINED
    assert found.unexplained == []


def test_under_capacity_a_queue_may_borrow_and_under_proportion_it_may_not(tmp_path: Path) -> None:
    queues = [a_queue(), a_queue("a", deserved={GPU: "1"}), a_queue("b", deserved={GPU: "1"})]
    pods = [a_pod(f"a-{at}", 4000, queue="a") for at in range(4)]
    placed = {f"a-{at}": "n1" for at in range(4)}
    found = judge(tmp_path, [a_node(), *queues], pods, queue_plugin="capacity", placed=placed)
    assert found.verdict == AGREES


def test_equal_pods_of_one_second_are_counted(tmp_path: Path) -> None:
    pods = [a_pod(f"p-{at}", 9000) for at in range(3)]
    found = judge(
        tmp_path,
        [a_node()],
        pods,
        kind="gate",
        stable=False,
        placed={"p-1": "n1", "p-2": "n1"},
        pending={"p-0": ""},
        pending_stage={"p-0": "enqueue"},
    )
    assert found.unexplained == []
