"""The order of a plan: quotas, enqueue admission, queues, gangs, and all of it together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.quantity import NANO
from hami_plugins.plan import Planner, PodPlan, Stage, submission
from hami_plugins.vendors import builtin, volcano

REGISTRY = Registry([volcano.SPEC, *(spec for spec in builtin() if spec.name == "NVIDIA")])
GPU, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"


def a_node(name: str = "n1", cards: int = 2, **labels: str) -> dict[str, Any]:
    """Cards of 10,000 MiB for ten containers each; 4 CPUs a card."""
    register = "".join(f"GPU-{name}-{at},10,10000,NVIDIA-NVIDIA A100,true,hami-core:" for at in range(cards))
    amounts = {GPU: 10 * cards, MEMORY: 10000 * cards, "volcano.sh/vgpu-cores": 100 * cards, "cpu": 4 * cards}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {"allocatable": {key: str(amount) for key, amount in amounts.items()}},
    }


def a_pod(
    name: str = "p",
    memory: int | None = 6000,
    *,
    node: str = "",
    group: str = "",
    queue: str = "",
    task: str = "",
    scheduler: str = "volcano",
    namespace: str = "default",
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with a slice of one card (none without memory), as ``nodeName`` says running on a node."""
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "scheduling.volcano.sh/queue-name": queue,
        "volcano.sh/task-spec": task,
    }
    if node:
        annotations["volcano.sh/vgpu-ids-new"] = f"GPU-{node}-0,NVIDIA,{memory},0:"
        spec["nodeName"] = node
    limits = {} if memory is None else {GPU: "1", MEMORY: str(memory)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {key: text for key, text in annotations.items() if text},
            **(meta or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            **spec,
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def a_queue(name: str = "default", state: str = "Open", **spec: Any) -> dict[str, Any]:
    meta = {"name": name}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": meta,
        "spec": spec,
        "status": {"state": state},
    }


def a_group(name: str = "g", least: int = 2, phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, **spec},
        "status": {"phase": phase},
    }


def a_job(name: str = "j", memory: int = 6000, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    limits = {GPU: "1", MEMORY: str(memory)}
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"template": template, **task} for task in tasks or ({"replicas": 2},)], **spec},
    }


def in_hamis_words(scheduler: str) -> dict[str, Any]:
    """A pod that asks for a card as HAMi has it."""
    pod = a_pod("h", None, scheduler=scheduler)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return pod


def planned(cluster: list[dict[str, Any]], *submitted: dict[str, Any], **more: Any) -> list[PodPlan]:
    """The plans in the order in which they were decided."""
    before: ClusterSnapshot = replace(snapshot_of(cluster, REGISTRY), **more)
    text = yaml.safe_dump_all(submitted)
    read = workloads.read(manifests.read(text, source="test"), pod_groups=before.pod_groups)
    before = submission.with_objects(before, read)
    return list(Planner(REGISTRY).plan(before, submission.units(read, before)).pods)


def meaningless(name: str, **about: str) -> dict[str, Any]:
    """A pod whose amount of cards is not a whole number."""
    pod = a_pod(name, **about)  # type: ignore[arg-type]
    pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1500m"}}
    return pod


def with_cpu(pod: dict[str, Any], cpu: str) -> dict[str, Any]:
    pod["spec"]["containers"][0]["resources"]["requests"] |= {"cpu": cpu}
    return pod


def stages(plans: list[PodPlan]) -> dict[str, Stage]:
    return {each.pod.name: each.stage for each in plans}


def the(name: str, plans: list[PodPlan]) -> PodPlan:
    return next(each for each in plans if each.pod.name == name)


class TestGangs:
    def test_all_or_nothing(self) -> None:
        fits = planned([a_node()], a_job("j", 6000, {"replicas": 2}))
        assert set(stages(fits).values()) == {Stage.PLACED}
        plans = planned([a_node()], a_job("j", 6000, {"replicas": 3}))
        assert sorted(stages(plans).values()) == [Stage.GANG, Stage.GANG, Stage.NODES]
        assert plans[0].why == "its gang waits: 3 have to start together and 2 would fit"
        assert plans[0].decision is None

    def test_members_beyond_the_least_have_a_place_or_not_each_for_itself(self) -> None:
        plans = planned([a_node()], a_job("j", 6000, {"replicas": 3}, minAvailable=2))
        assert sorted(stages(plans).values()) == [Stage.NODES, Stage.PLACED, Stage.PLACED]

    def test_every_task_has_its_least(self) -> None:
        ps = {"name": "ps", "replicas": 2, "minAvailable": 1}
        worker = {"name": "worker", "replicas": 2, "minAvailable": 1}
        plans = planned([a_node()], a_job("j", 6000, ps, worker, minAvailable=2))
        placed = [name for name, stage in stages(plans).items() if stage is Stage.PLACED]
        assert placed == ["j-ps-0", "j-worker-0"]

    def test_of_those_beyond_the_least_the_first_of_every_task_come_before_the_second(self) -> None:
        tasks = [{"name": name, "replicas": 3} for name in ("a", "b")]
        plans = planned([a_node(cards=3)], a_job("j", 6000, *tasks, minAvailable=2))
        placed = [name for name, stage in stages(plans).items() if stage is Stage.PLACED]
        assert placed == ["j-a-0", "j-b-0", "j-a-1"]

    def test_members_of_higher_priority_come_first_whatever_their_number(self) -> None:
        high = a_job("j", 6000, {"name": "low", "replicas": 2})
        (task,) = high["spec"]["tasks"]
        urgent = {"spec": {**task["template"]["spec"], "priorityClassName": "system-node-critical"}}
        high["spec"] |= {"tasks": [task, {"name": "high", "replicas": 2, "template": urgent}], "minAvailable": 2}
        placed = [name for name, stage in stages(planned([a_node()], high)).items() if stage is Stage.PLACED]
        assert placed == ["j-high-0", "j-high-1"]

    def test_what_a_task_misses_is_said(self) -> None:
        group = a_group(least=2, minTaskMember={"ps": 1, "worker": 1})
        pods = [a_pod(f"w{at}", group="g", task="worker") for at in range(2)]
        plans = planned([a_node()], group, *pods)
        assert the("w0", plans).why == "its gang waits: 1 of task ps have to start together and 0 exist"

    def test_a_member_that_is_refused_when_it_is_created_does_not_exist_for_its_gang(self) -> None:
        plans = planned([a_node()], a_group(least=2), meaningless("a", group="g"), a_pod("b", group="g"))
        assert stages(plans) == {"a": Stage.REQUEST, "b": Stage.GANG}
        assert the("b", plans).why == "its gang waits: 2 have to start together and 1 exist"

    def test_a_member_that_its_scheduler_leaves_alone_does_not_stop_the_others(self) -> None:
        pods = [a_pod("a", scheduler="", group="g"), a_pod("b", group="g")]
        assert stages(planned([a_node()], a_group(least=1), *pods)) == {"a": Stage.ELSEWHERE, "b": Stage.PLACED}

    def test_members_that_run_count(self) -> None:
        cluster = [a_node(), a_group(least=2, phase="Running"), a_pod("old", node="n1", group="g")]
        assert stages(planned(cluster, a_pod("new", group="g"))) == {"new": Stage.PLACED}
        leaving = a_pod("old", node="n1", group="g", meta={"deletionTimestamp": "2026-11-21T10:00:00Z"})
        leaving["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        assert stages(planned([a_node(), cluster[1], leaving], a_pod("new", group="g"))) == {"new": Stage.GANG}

    @pytest.mark.parametrize(
        ("phase", "task", "stage"),
        [("Succeeded", "a", Stage.PLACED), ("Succeeded", "b", Stage.GANG), ("Failed", "a", Stage.GANG)],
    )
    def test_members_that_have_ended_well_count(self, phase: str, task: str, stage: Stage) -> None:
        ended = a_pod("old", node="n1", group="g", task=task)
        ended["status"]["phase"] = phase
        cluster = [a_node(), a_group(least=2, minTaskMember={"a": 1}), ended]
        assert stages(planned(cluster, a_pod("new", group="g", task="b"))) == {"new": stage}

    def test_members_that_wait_are_planned_with_those_that_come(self) -> None:
        cluster = [a_node(), a_group(least=2), a_pod("waits", group="g"), a_pod("alone")]
        plans = planned(cluster, a_pod("comes", group="g"))
        assert stages(plans) == {"waits": Stage.PLACED, "comes": Stage.PLACED}

    def test_a_member_that_is_submitted_again_is_one(self) -> None:
        plans = planned([a_node(), a_group(least=2), a_pod("p", group="g")], a_pod("p", group="g"))
        assert stages(plans) == {"p": Stage.GANG}
        assert len(plans) == 1

    def test_a_group_that_nobody_has_made_keeps_its_pods_waiting(self) -> None:
        (plan,) = planned([a_node()], a_pod(group="nobody"))
        assert plan.stage is Stage.GATE
        assert plan.why.startswith("it names the PodGroup default/nobody, which does not exist; create it, or drop ")

    def test_gangs_of_other_schedulers_are_all_or_nothing_too(self) -> None:
        group = {**a_group(least=2), "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
        label = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
        pods = [a_pod(name, None, scheduler="other", meta=label) for name in ("a", "b", "c")]
        assert set(stages(planned([a_node()], group, *pods)).values()) == {Stage.PLACED}
        assert set(stages(planned([a_node()], group, pods[0])).values()) == {Stage.GANG}


class TestOrder:
    def test_priority_goes_first_and_ties_by_age(self) -> None:
        low, high = {"metadata": {"name": "low"}, "value": 10}, {"metadata": {"name": "high"}, "value": 1000}
        classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **each} for each in (low, high)]
        pods = [a_pod("first", priorityClassName="low"), a_pod("second", priorityClassName="high"), a_pod("third")]
        plans = planned([a_node(cards=2)], *classes, *pods)
        assert stages(plans) == {"second": Stage.PLACED, "first": Stage.PLACED, "third": Stage.NODES}
        assert [each.pod.priority for each in plans] == [1000, 10, 0]

    def test_a_gang_goes_by_its_groups_class_and_a_job_by_its_own(self) -> None:
        named = {"priorities": {"high": 1000}}
        job = a_job("j", 6000, {"replicas": 1}, priorityClassName="high")
        assert [each.pod.name for each in planned([a_node(cards=1)], a_pod("p"), job, **named)] == ["p", "j-default0-0"]
        group = a_group(least=1, priorityClassName="high")
        pods = [a_pod("p", priority=5), a_pod("q", group="g")]
        assert [each.pod.name for each in planned([a_node(cards=1)], group, *pods, **named)] == ["q", "p"]

    def test_classes_are_learnt_from_the_pods_of_a_listing(self) -> None:
        old = a_pod("old", None, node="n1", priorityClassName="high", priority=7)
        old["metadata"]["annotations"] = {}
        (plan,) = planned([a_node(), old], a_pod(priorityClassName="high"))
        assert plan.pod.priority == 7

    def test_incomplete_gangs_come_before_the_surplus_of_others(self) -> None:
        job = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
        of_pod = a_pod()["spec"]
        spec = {"replicas": 2, "template": {"spec": of_pod}}
        plans = planned([a_node(cards=2)], {**job, "spec": spec}, a_pod("p"))
        assert stages(plans) == {"d-0": Stage.PLACED, "p": Stage.PLACED, "d-1": Stage.NODES}

    def test_surplus_is_given_in_turn(self) -> None:
        def deployment(name: str) -> dict[str, Any]:
            spec = {"replicas": 3, "template": {"spec": a_pod()["spec"]}}
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}

        plans = planned([a_node(cards=4), a_queue()], deployment("a"), deployment("b"))
        placed = [name for name, stage in stages(plans).items() if stage is Stage.PLACED]
        assert sorted(placed) == ["a-0", "a-1", "b-0", "b-1"]

    def test_of_two_surpluses_the_one_that_holds_less_of_its_scarcest_resource_goes_first(self) -> None:
        def deployment(name: str, memory: int, cpu: str) -> dict[str, Any]:
            spec = {"replicas": 2, "template": {"spec": with_cpu(a_pod(memory=memory), cpu)["spec"]}}
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}

        # Of 8 CPUs and 20,000 MiB: a pod of "a" holds 3/8 and 1/200, one of "b" 1/80 and 1/5.
        plans = planned([a_node(), a_queue()], deployment("a", 100, "3"), deployment("b", 4000, "100m"))
        assert [each.pod.name for each in plans] == ["a-0", "b-0", "b-1", "a-1"]

    def test_pods_of_other_schedulers_go_one_after_another(self) -> None:
        spec = {"replicas": 3, "template": {"spec": {**a_pod("x", None)["spec"], "schedulerName": ""}}}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
        assert list(stages(planned([a_node()], deployment)).values()) == [Stage.PLACED] * 3


class TestProgress:
    def test_every_pod_counts_once_whether_it_is_decided_or_stopped(self) -> None:
        cluster = snapshot_of([a_node(), a_queue(), a_queue("shut", "Closed")], REGISTRY)
        text = yaml.safe_dump_all([a_pod("a"), a_pod("b", queue="shut"), a_pod("c", scheduler=""), a_pod("d", 99999)])
        read = workloads.read(manifests.read(text, source="test"))
        counted: list[int] = []
        Planner(REGISTRY).plan(cluster, submission.units(read, cluster), progress=counted.append)
        assert counted == [1, 1, 1, 1]


class TestRemarks:
    def test_a_pod_that_runs_already_is_planned_as_one_more_and_said_so(self) -> None:
        cluster = [a_node(), a_pod("a", node="n1")]
        plans = planned(cluster, a_pod("a"), a_pod("b"))
        assert the("a", plans).notes == (
            "a pod of this name runs on n1; this is planned as one more (--without leaves it out)",
        )
        assert the("b", plans).notes == ()

    def test_a_priority_that_nobody_knows_is_said_where_pods_compete(self) -> None:
        plans = planned([a_node()], a_pod("a", priorityClassName="high"), a_pod("b"))
        assert the("a", plans).notes == ("the listing has no PriorityClass high, so its priority counts as 0",)
        assert the("b", plans).notes == ()
        (alone,) = planned([a_node()], a_pod("a", priorityClassName="high"))
        assert alone.notes == ()

    def test_known_priorities_need_no_word(self) -> None:
        pods = [a_pod("a", priorityClassName="high"), a_pod("b", priorityClassName="high", priority=7)]
        plans = planned([a_node()], *pods, priorities={"high": 7})
        assert [plan.notes for plan in plans] == [(), ()]


class TestQueues:
    def test_a_capability_holds_a_gang_at_the_gate(self) -> None:
        cluster = [a_node(), a_queue(), a_queue("team", capability={GPU: "1"})]
        plans = planned(cluster, a_pod("a", 100, queue="team"), a_pod("b", 100, queue="team"))
        assert stages(plans) == {"a": Stage.PLACED, "b": Stage.GATE}
        held = the("b", plans)
        assert held.why == f"not enqueued by Volcano: {GPU}: asks 1, queue team has 0 of 1 left (1 inqueue)"
        assert held.words == f"queue resource quota insufficient: insufficient {GPU}"

    def test_a_name_that_nobody_reads_any_more_is_said_at_the_gate(self) -> None:
        resources = {"limits": {"nvidia.com/vgpu": "1"}, "requests": {"nvidia.com/vgpu": "1"}}
        pod = a_pod(memory=None, containers=[{"name": "c", "resources": resources}])
        (held,) = planned([a_node(), a_queue()], pod)
        assert held.why.endswith(
            "the cluster (with overcommit) has 0 of 0 left (no vendor reads this name; write nvidia.com/gpu)"
        )

    def test_a_job_at_the_gate_is_held_as_a_whole(self) -> None:
        plans = planned([a_node(), a_queue(capability={GPU: "1"})], a_job("j", 100, {"replicas": 2}))
        assert set(stages(plans).values()) == {Stage.GATE}

    def test_a_capability_holds_for_gangs_that_pass_the_gate_without_asking(self) -> None:
        cluster = [a_node(), a_queue(capability={GPU: "1"}), a_group(least=1)]
        plans = planned(cluster, a_pod("a", 100, group="g"), a_pod("b", 100, group="g"))
        assert stages(plans) == {"a": Stage.PLACED, "b": Stage.GATE}
        assert the("b", plans).why.startswith("its queue may hold no more")

    def test_least_resources_of_a_group_are_asked_for_at_the_gate(self) -> None:
        group = a_group(least=1, minResources={GPU: "50"})
        (plan,) = planned([a_node(), a_queue(), group], a_pod(group="g"))
        assert plan.words == f"resource in cluster is overused: overused {GPU}"
        let_in = {**group, "status": {"phase": "Inqueue"}}
        (plan,) = planned([a_node(), a_queue(), let_in], a_pod(group="g"))
        assert plan.stage is Stage.PLACED

    def test_a_closed_or_missing_queue_takes_nobody(self) -> None:
        cluster = [a_node(), a_queue(), a_queue("shut", "Closed"), a_queue("parent"), a_queue("child", parent="parent")]
        pods = planned(cluster, a_pod("a", queue="shut"), a_pod("b", queue="nobody"), a_pod("c", queue="parent"))
        assert stages(pods) == {"a": Stage.GATE, "b": Stage.GATE, "c": Stage.PLACED}
        assert [the(name, pods).why for name in "ab"] == [
            "queue shut is closed; open it, or use another",
            "no queue nobody; known are child, default, parent, shut",
        ]
        hold = the("a", pods).hold
        assert hold is not None
        assert (hold.queue, hold.asked[GPU]) == ("shut", NANO)
        jobs = planned(cluster, a_job(queue="shut"), a_job("k", queue="parent"))
        assert set(stages(jobs).values()) == {Stage.ADMISSION}
        assert the("k-default0-0", jobs).why.endswith("and jobs go into queues without children, as child")

    @pytest.mark.parametrize(
        ("rules", "stage"),
        [
            (Rules(queue_hierarchy=True), Stage.GATE),
            (Rules(queue_hierarchy=True, queue_plugin="proportion"), Stage.PLACED),
            (Rules(), Stage.PLACED),
        ],
    )
    def test_where_parents_are_read_a_queue_above_others_takes_no_pod(self, rules: Rules, stage: Stage) -> None:
        cluster = snapshot_of([a_node(), a_queue(), a_queue("team"), a_queue("night", parent="team")], REGISTRY)
        read = workloads.read(manifests.read(yaml.safe_dump(a_pod(queue="team")), source="test"))
        (plan,) = Planner(REGISTRY, rules).plan(cluster, submission.units(read, cluster)).pods
        assert plan.stage is stage

    def test_queues_that_compete_are_held_to_their_weights(self) -> None:
        cluster = [
            a_node(cards=10),
            a_queue("a"),
            a_queue("b"),
            a_group("ga", 1, queue="a"),
            a_group("gb", 1, queue="b"),
        ]
        pods = [a_pod(f"{name}{at}", 10000, group=f"g{name}") for name in "ab" for at in range(10)]
        plans = planned(cluster, *pods)
        placed = [name for name, stage in stages(plans).items() if stage is Stage.PLACED]
        assert sum(name.startswith("a") for name in placed) == sum(name.startswith("b") for name in placed) == 5
        assert "share by weight" in the("a9", plans).why

    def test_pods_that_wait_in_the_cluster_have_their_part_in_the_shares(self) -> None:
        cluster = [
            a_node(cards=2),
            a_queue("a"),
            a_queue("b"),
            a_group("ga", 1, queue="a"),
            a_group("gb", 1, queue="b"),
        ]
        waiting = [a_pod(f"w{at}", 10000, group="gb") for at in range(2)]
        plans = planned([*cluster, *waiting], *[a_pod(f"a{at}", 10000, group="ga") for at in range(2)])
        assert sorted(stages(plans).values()) == [Stage.GATE, Stage.PLACED]

    def test_a_waiting_pod_that_is_submitted_again_asks_once(self) -> None:
        groups = [a_group("ga", 1, queue="a"), a_group("gb", 1, queue="b")]
        waiting = a_pod("w", 10000, group="ga")
        submitted = [waiting, *(a_pod(f"b{at}", 10000, group="gb") for at in range(3))]
        plans = planned([a_node(cards=4), a_queue("a"), a_queue("b"), *groups, waiting, a_pod("alone")], *submitted)
        assert set(stages(plans).values()) == {Stage.PLACED}

    def test_a_gang_that_is_held_at_the_gate_asks_for_its_share_as_well(self) -> None:
        large = a_group("gb", 1, queue="b", minResources={GPU: "100"})
        cluster = [a_node(), a_queue("a"), a_queue("b"), a_group("ga", 1, queue="a"), large]
        pods = [a_pod(f"{name}{at}", 10000, group=f"g{name}") for name in "ab" for at in range(2)]
        plans = planned(cluster, *pods)
        assert stages(plans) == {"b0": Stage.GATE, "b1": Stage.GATE, "a0": Stage.PLACED, "a1": Stage.GATE}
        assert "share by weight" in the("a1", plans).why

    def test_pods_of_other_schedulers_ask_for_no_share(self) -> None:
        cluster = [a_node(), a_queue("a"), a_queue(), a_group("ga", 1, queue="a")]
        pods = [with_cpu(a_pod(f"a{at}", 100, group="ga"), "3") for at in range(2)]
        plans = planned(cluster, with_cpu(a_pod("other", None, scheduler="other"), "9"), *pods)
        assert stages(plans) == {"other": Stage.NODES, "a0": Stage.PLACED, "a1": Stage.PLACED}

    def test_volcanos_gate_holds_volcanos_pods_alone(self) -> None:
        pods = [with_cpu(a_pod(name, 100, scheduler=name), "2") for name in ("other", "volcano")]
        del pods[0]["spec"]["containers"][0]["resources"]["limits"]
        pods[0]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
        plans = planned([a_node(), a_queue(capability={"cpu": "1"})], *pods)
        assert stages(plans) == {"volcano": Stage.GATE, "other": Stage.PLACED}

    def test_the_queue_with_the_smallest_part_of_its_share_comes_first(self) -> None:
        cluster = [
            a_node(cards=4),
            a_queue("a"),
            a_queue("b"),
            a_group("ga", 1, queue="a"),
            a_group("gb", 1, queue="b"),
        ]
        running = [a_pod("old", 9000, node="n1", group="ga"), a_pod("older", 100, node="n1", group="gb")]
        plans = planned([*cluster, *running], a_pod("x", group="ga"), a_pod("y", group="gb"))
        assert [each.pod.name for each in plans] == ["y", "x"]


class TestQuotas:
    def quota(self, **hard: str) -> dict[str, Any]:
        meta = {"name": "q", "namespace": "default"}
        return {"kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}

    def test_pods_over_the_quota_are_refused_when_they_are_created(self) -> None:
        cluster = [a_node(), self.quota(**{f"requests.{GPU}": "1"})]
        plans = planned(cluster, a_pod("a", 100), a_pod("b", 100))
        assert stages(plans) == {"b": Stage.QUOTA, "a": Stage.PLACED}
        assert the("b", plans).words.startswith('pods "b" is forbidden: exceeded quota')

    def test_a_quota_may_count_volcano_jobs(self) -> None:
        cluster = [a_node(), self.quota(**{"count/jobs.batch.volcano.sh": "2"})]
        cluster[1]["status"] = {"used": {"count/jobs.batch.volcano.sh": "1"}}
        jobs = [a_job(name, 100, {"replicas": 1}) for name in ("one", "two")]
        plans = planned(cluster, *jobs, a_pod("p", 100))
        assert stages(plans) == {
            "two-default0-0": Stage.ADMISSION,
            "p": Stage.PLACED,
            "one-default0-0": Stage.PLACED,
        }
        cluster[1].pop("status")
        unused = planned(cluster, *jobs)
        assert set(stages(unused).values()) == {Stage.PLACED}
        why = "quota: count/jobs.batch.volcano.sh: asks 1, 2 of 2 are taken"
        assert the("two-default0-0", plans).why == why

    def test_a_quota_of_some_pods_holds_nobody_back_and_is_named(self) -> None:
        best_effort = self.quota(pods="0")
        best_effort["spec"]["scopes"] = ["BestEffort"]
        (plan,) = planned([a_node(), self.quota(pods="1"), best_effort], a_pod("a"))
        assert plan.stage is Stage.PLACED
        (note,) = plan.notes
        assert note == "ResourceQuota q limits only the pods of its scopes; whether it limits this one is not checked"
        plans = planned([a_node(), best_effort, self.quota(pods="1")], a_pod("a"), a_pod("b"))
        assert sorted(stages(plans).values()) == [Stage.PLACED, Stage.QUOTA]

    def test_a_pod_that_is_refused_takes_nothing_of_the_quota(self) -> None:
        plans = planned([a_node(), self.quota(pods="1")], meaningless("a"), a_pod("b"))
        assert stages(plans) == {"a": Stage.REQUEST, "b": Stage.PLACED}

    def test_pods_in_hamis_dialect_are_held_to_hamis_quota(self) -> None:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "6000"}
        pod = a_pod("a", None, scheduler="", containers=[{"name": "c", "resources": {"limits": limits}}])
        assert stages(planned([a_node(), self.quota(**{"limits.nvidia.com/gpumem": "5000"})], pod)) == {
            "a": Stage.ADMISSION
        }
        assert stages(planned([a_node()], pod)) == {"a": Stage.NODES}

    def test_pods_that_wait_count(self) -> None:
        cluster = [a_node(), self.quota(pods="1"), a_pod("waits", scheduler="other")]
        assert stages(planned(cluster, a_pod("a"))) == {"a": Stage.QUOTA}

    def test_amounts_that_a_quota_wants_have_to_be_named(self) -> None:
        (plan,) = planned([a_node(), self.quota(**{"limits.cpu": "4"})], a_pod("a"))
        assert plan.words == 'pods "a" is forbidden: failed quota: must specify limits.cpu'

    def test_a_quota_may_let_a_part_of_a_job_in(self) -> None:
        plans = planned([a_node(), self.quota(pods="1")], a_job("j", 100, {"replicas": 2}))
        assert sorted(stages(plans).values()) == [Stage.GANG, Stage.QUOTA]

    def test_what_hamis_webhook_limits_is_not_volcanos(self) -> None:
        cluster = [a_node(), self.quota(**{f"limits.{MEMORY}": "1"})]
        assert stages(planned(cluster, a_pod("a"))) == {"a": Stage.PLACED}

    def test_pods_of_other_schedulers_are_held_to_it_too(self) -> None:
        cluster = [a_node(), self.quota(pods="1")]
        plans = planned(cluster, *[a_pod(name, None, scheduler="other") for name in "ab"])
        assert stages(plans) == {"b": Stage.QUOTA, "a": Stage.PLACED}


class TestStops:
    def test_another_scheduler_leaves_volcanos_devices_alone(self) -> None:
        plans = planned(
            [a_node()], a_pod("a", scheduler=""), a_pod("b", scheduler="mine"), a_pod("c", None, scheduler="")
        )
        assert stages(plans) == {"a": Stage.ELSEWHERE, "b": Stage.ELSEWHERE, "c": Stage.PLACED}
        assert the("a", plans).why.startswith("left alone: default-scheduler")

    def test_volcano_leaves_hamis_devices_alone(self) -> None:
        (plan,) = planned([a_node()], in_hamis_words(scheduler="volcano"))
        assert (plan.stage, plan.why) == (
            Stage.ELSEWHERE,
            "left alone: volcano does not look at nvidia.com/gpu; drop schedulerName, or write hami-scheduler",
        )

    def test_a_scheduler_of_an_unknown_name_is_taken_for_hamis_and_that_is_said(self) -> None:
        (plan,) = planned([a_node()], in_hamis_words(scheduler="mine"))
        assert [note for note in plan.notes if "schedulerName mine" in note]
        assert plan.stage is Stage.NODES
        for known in ("", "default-scheduler", "hami-scheduler"):
            (plan,) = planned([a_node()], in_hamis_words(scheduler=known))
            assert not plan.notes

    def test_a_pod_with_scheduling_gates_waits_and_counts_for_its_gang(self) -> None:
        group = a_group(least=2)
        pods = [a_pod("a", group="g"), a_pod("b", group="g", schedulingGates=[{"name": "x"}])]
        assert stages(planned([a_node()], group, *pods)) == {"b": Stage.GATE, "a": Stage.GANG}

    def test_the_plan_of_a_gated_pod_names_its_gates_and_who_removes_them(self) -> None:
        pod = a_pod("a", schedulingGates=[{"name": "mine"}, {"name": "kueue.x-k8s.io/admission"}])
        (plan,) = planned([a_node()], pod)
        assert "it has the scheduling gates mine, kueue.x-k8s.io/admission; no scheduler" in plan.why
        assert "Kueue removes it when its LocalQueue admits the pod" in plan.why

    def test_gated_pods_do_not_keep_others_from_the_gate(self) -> None:
        gated = a_group(least=2, minResources={GPU: "19"})
        pods = [a_pod("a", 100, group="g", schedulingGates=[{"name": "x"}]), a_pod("b", 100, group="g")]
        plans = planned([a_node(), a_queue(), gated], *pods, a_pod("c", 100), a_pod("d", 100), a_pod("e", 100))
        assert stages(plans)["c"] is Stage.PLACED
        assert stages(plans)["d"] is Stage.PLACED
        assert stages(plans)["e"] is Stage.GATE

    def test_an_amount_that_means_nothing_is_refused(self) -> None:
        pod = a_pod("a")
        pod["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1500m"}}
        assert stages(planned([a_node()], pod)) == {"a": Stage.REQUEST}
        assert stages(planned([a_node(), a_queue()], pod, a_pod("b"))) == {"a": Stage.REQUEST, "b": Stage.PLACED}

    def test_hamis_webhook_has_its_say(self) -> None:
        pod = a_pod("a", None, scheduler="")
        pod["spec"]["containers"][0] |= {
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "securityContext": {"privileged": True},
        }
        assert stages(planned([a_node()], pod)) == {"a": Stage.ADMISSION}

    def test_volcano_says_which_nodes_lack_what(self) -> None:
        cluster = [a_node("n1", 1), a_node("n2", 1, zone="b"), a_node("n3", 1)]
        cluster[2]["status"]["allocatable"]["pods"] = "0"
        (plan,) = planned(cluster, a_pod(memory=10001, nodeSelector={"zone": "b"}))
        assert plan.words == (
            "0/3 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory, "
            "2 node(s) didn't match Pod's node affinity/selector."
        )
        (plan,) = planned(cluster[2:], a_pod())
        assert plan.words == "0/1 nodes are unavailable: 1 Insufficient pods."


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"}
        ]
    }
}


class TestNeighbours:
    def test_pods_that_keep_apart_go_to_different_nodes(self) -> None:
        nodes = [a_node(name, host=name) for name in ("n1", "n2")]
        meta = {"labels": {"app": "web"}}
        plans = planned(nodes, *[a_pod(name, 100, meta=meta, affinity=APART) for name in "abc"])
        placed = {each.decision.node for each in plans if each.stage is Stage.PLACED}  # type: ignore[union-attr]
        assert placed == {"n1", "n2"}
        assert the("c", plans).words.startswith("0/2 nodes are unavailable: 2 node(s) didn't satisfy existing pods")

    def test_planned_pods_keep_others_away_from_then_on(self) -> None:
        nodes = [a_node(name, host=name) for name in ("n1", "n2")]
        meta = {"labels": {"app": "web"}}
        first = a_pod("a", 100, meta=meta, affinity=APART)
        plans = planned(nodes, first, a_pod("b", 100, meta=meta), a_pod("c", 100))
        nodes_of = {each.pod.name: each.decision.node for each in plans}  # type: ignore[union-attr]
        assert nodes_of["a"] != nodes_of["b"]


@pytest.mark.parametrize("queues", [[a_queue(state="Closed")], [a_queue("other")]], ids=["closed", "missing"])
def test_pods_of_another_scheduler_do_not_pass_volcanos_gate(queues: list[dict[str, Any]]) -> None:
    cluster = [a_node(), *queues]
    foreign = a_pod("p", None, scheduler="default-scheduler")
    assert planned(cluster, foreign)[0].stage is planned([a_node()], foreign)[0].stage
    assert planned(cluster, a_pod("p", None))[0].stage is Stage.GATE
