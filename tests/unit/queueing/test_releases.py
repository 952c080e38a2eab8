"""Deviations of Volcano: noted on the affected pods, and on no others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Planner, PodPlan, Stage, submission
from hami_plugins.queueing import releases
from hami_plugins.vendors import volcano
from hami_plugins.wire import volcano_config
from tests.unit.plan.plans import a_plan
from tests.unit.plan.plans import asking as asking_hami
from tests.unit.queueing.test_cycle import GPU, MEMORY, a_group, a_job, a_node, a_pod, a_queue

GEOMETRIES = {
    "nvidia": {
        "knownMigGeometries": [
            {
                "models": ["A100"],
                "allowedGeometries": [
                    {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]}
                ],
            }
        ]
    }
}
REGISTRY = Registry([volcano.configured(volcano_config.decode(GEOMETRIES))])


HEALTH = "Volcano does not look at health: it may give the pod an unhealthy card"
IDS = "Volcano before 1.16.0 does not look at lists of card ids: it may choose other cards"
FOREIGN_IDS = "Volcano does not look at lists of card ids under nvidia.com: it may choose other cards"
SIDE = "Volcano counts init containers and sidecars for the node's sums alone and gives them no cards"
GATE = (
    "Volcano before 1.15.0 does not read scheduling.volcano.sh/queue-allocation-gate: while its queue is full the pod "
    "counts as unschedulable, and an autoscaler may add nodes for it"
)
SOFT = "Volcano before 1.16.0 does not read huawei.com/vnpu-mode: the pod gets a slice of a template"
GANG = "Volcano before 1.15.0 does not keep the pods of a gang on different cards"
SIDE_TOO_LARGE = (
    f"{SIDE}: where the rest of the pod fits it binds the pod all the same, and container init, for which this plan "
    "finds no card, has no slice of its own"
)
PLUGIN = (
    "with volcano-vgpu-device-plugin up to 1.12 on the node kubelet fails the pod (UnexpectedAdmissionError): it "
    "matches "
    "no pod of which several containers ask for cards; volcano-vgpu's agent does"
)
UNKNOWN_CARDS = (
    "Volcano before 1.14.1 and from 1.14.2 on may bind the pod to n1 without a card: the node offers slots and has "
    "registered no cards that it can read, so that the sums of the node are all it looks at"
)
SLOTS = "Volcano may give containers of the pod the same MIG slot"


def plans_of(
    cluster: list[dict[str, Any]], *submitted: dict[str, Any], release: str = "", assigner: str = ""
) -> dict[str, PodPlan]:
    snapshot = snapshot_of(cluster, REGISTRY)
    text = yaml.safe_dump_all(submitted)
    read = workloads.read(manifests.read(text, source="test"), pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, read)
    version = releases.release_of(release) if release else None
    planner = Planner(REGISTRY, release=version, assigner=releases.assigner_of(assigner) if assigner else None)
    found = planner.plan(snapshot, submission.units(read, snapshot))
    return {plan.pod.name: plan for plan in found.pods}


def planned(node: dict[str, Any], pod: dict[str, Any]) -> PodPlan:
    (found,) = plans_of([node, a_group(least=1)], pod).values()
    return found


def rules(plan: PodPlan) -> set[str]:
    """The rules that a plan names, without those that are about nearly every pod."""
    return {each.rule for each in plan.differences} - {"fresh-scheduler", "counted-twice"}


def annotated(key: str, text: str, *, group: str = "") -> dict[str, Any]:
    pod = a_pod(group=group)
    pod["metadata"]["annotations"][key] = text
    return pod


def registered(text: str) -> dict[str, Any]:
    node = a_node()
    node["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = text
    return node


def a_card(name: str, *, healthy: str = "true", mode: str = "hami-core") -> str:
    return f"{name},10,40960,NVIDIA-NVIDIA A100,{healthy},{mode}:"


def containers(*memory: int) -> list[dict[str, Any]]:
    return [
        {"name": f"c{at}", "resources": {"limits": {GPU: "1", MEMORY: str(amount)}}} for at, amount in enumerate(memory)
    ]


def test_a_plain_pod_has_none() -> None:
    assert planned(a_node(), a_pod()).notes == ()


@pytest.mark.parametrize(
    ("pod", "note"),
    [
        pytest.param(annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1"), IDS, id="wanted ids"),
        pytest.param(annotated("nvidia.com/nouse-gpuuuid", "GPU-n1-0"), FOREIGN_IDS, id="unwanted ids"),
        pytest.param(a_pod(initContainers=containers(6000)), SIDE, id="init container"),
        pytest.param(annotated("scheduling.volcano.sh/queue-allocation-gate", "true"), GATE, id="queue gate"),
        pytest.param(annotated("huawei.com/vnpu-mode", "hami-core"), SOFT, id="soft slices"),
        pytest.param(annotated("volcano.sh/vgpu-podgroup-policy", "spread", group="g"), GANG, id="gang that spreads"),
    ],
)
def test_what_a_pod_asks_for(pod: dict[str, Any], note: str) -> None:
    found = planned(a_node(), pod)
    assert (found.stage, found.notes) == (Stage.PLACED, (note,))


def test_an_init_container_larger_than_any_card_is_refused_here_and_bound_by_volcano() -> None:
    pod = a_pod(initContainers=[{**containers(50000)[0], "name": "init"}])
    node = a_node()
    node["status"]["allocatable"][MEMORY] = "80000"
    found = planned(node, pod)
    assert (found.stage, found.notes) == (Stage.NODES, (SIDE_TOO_LARGE,))
    assert found.words == ""  # Volcano itself has nothing against the pod


@pytest.mark.parametrize("mode", ["policy", "webhook", "extender"])
def test_our_agent_takes_cards_in_several_containers(mode: str) -> None:
    pod = a_pod()
    pod["spec"]["containers"] = containers(4000, 4000)
    assert rules(plans_of([a_node()], pod, assigner="volcano")["p"]) == {"containers-of-plugin"}
    assert "containers-of-plugin" not in rules(plans_of([a_node()], pod, assigner=mode)["p"])


@pytest.mark.parametrize(
    ("sick", "stage"),
    [
        pytest.param(a_card("a", healthy="false") + a_card("b"), Stage.PLACED, id="placed next to it"),
        pytest.param(a_card("a", healthy="false"), Stage.NODES, id="refused because of it"),
    ],
)
def test_an_unhealthy_card(sick: str, stage: Stage) -> None:
    found = planned(registered(sick), a_pod())
    assert (found.stage, found.notes) == (stage, (HEALTH,))


def test_a_register_without_the_last_colon_leaves_the_node_without_cards_and_volcano_binds_there_all_the_same() -> None:
    node = registered("GPU-0,10,10000,NVIDIA-NVIDIA A100,true,hami-core")
    found = planned(node, a_pod())
    assert (found.stage, found.notes) == (Stage.NODES, (UNKNOWN_CARDS,))
    assert rules(plans_of([node], a_pod(), release="volcano-1.15.0")["p"]) >= {"unknown-cards"}
    assert "unknown-cards" not in rules(plans_of([node], a_pod(), release="volcano-1.14.1")["p"])
    assert "unknown-cards" not in rules(plans_of([node], a_pod(), assigner="extender")["p"])


@pytest.mark.parametrize(
    ("key", "text", "rule", "releases"),
    [
        ("scheduling.volcano.sh/queue-allocation-gate", "true", "queue-gate", ["1.14.4"]),
        ("scheduling.volcano.sh/queue-allocation-gate", "false", "queue-gate", []),
        ("huawei.com/vnpu-mode", "hami-core", "soft-slices", ["1.14.4", "1.15.1"]),
        ("huawei.com/vnpu-mode", "other", "soft-slices", []),
        ("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1", "card-ids", ["1.14.4", "1.15.1"]),
    ],
)
def test_words_that_later_releases_read(key: str, text: str, rule: str, releases: list[str]) -> None:
    plans = {
        release: plans_of([a_node()], annotated(key, text), release=f"volcano-{release}")["p"]
        for release in ("1.14.4", "1.15.1", "1.16")
    }
    assert [release for release, plan in plans.items() if rule in rules(plan)] == releases


def test_a_refusal_with_healthy_cards_has_none() -> None:
    found = planned(registered(a_card("a")), a_pod(memory=50000))
    assert (found.stage, found.notes) == (Stage.NODES, ())


@pytest.mark.parametrize(
    ("memory", "notes"),
    [
        pytest.param((4000, 4000), (PLUGIN, SLOTS), id="two slots of one card"),
        pytest.param((4000,), (), id="one slot"),
    ],
)
def test_slots_of_one_card(memory: tuple[int, ...], notes: tuple[str, ...]) -> None:
    pod = a_pod()
    pod["spec"]["containers"] = containers(*memory)
    node = registered(a_card("a", mode="mig"))
    node["status"]["allocatable"][MEMORY] = "50000"
    found = planned(node, pod)
    assert (found.stage, found.notes) == (Stage.PLACED, notes)


def test_other_schedulers_do_as_they_say() -> None:
    assert a_plan(asking_hami(memory=10**9)).pods[0].notes == ()


class TestReleases:
    @pytest.mark.parametrize(
        ("text", "release"),
        [
            ("volcano-1.14", "1.14.1"),
            ("volcano-1.14.3", "1.14.3"),
            ("volcano-v1.15", "1.15.1"),
            ("volcano-1.15.0", "1.15.0"),
            ("volcano-1.16", "1.16.0"),
            ("volcano-1.16.0-alpha.1", "1.16.0"),
        ],
    )
    def test_a_release_has_a_name(self, text: str, release: str) -> None:
        assert str(releases.release_of(text)) == release

    @pytest.mark.parametrize(
        "text",
        [
            "1.14",
            "volcano",
            "volcano-latest",
            "koordinator-1.7",
            "",
            "volcano-1.13.2",
            "volcano-1.16.0",
            "volcano-1.17",
        ],
    )
    def test_any_other_is_refused_with_the_known_ones(self, text: str) -> None:
        with pytest.raises(ManifestError) as refused:
            releases.release_of(text)
        assert str(refused.value) == (
            f"--scheduler {text}: not a known release; write volcano-RELEASE with one of 1.14.0, 1.14.1, 1.14.2, "
            "1.14.3, 1.14.4, 1.15.0, 1.15.1, 1.16.0-alpha.1, or a series such as volcano-1.14"
        )

    def test_the_sentence_names_it_and_other_releases_do_otherwise(self) -> None:
        pod = annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1")
        (old,) = plans_of([a_node()], pod, release="volcano-1.14").values()
        (new,) = plans_of([a_node()], pod, release="volcano-1.16").values()
        assert "Volcano 1.14.1 does not look at lists of card ids: it may choose other cards" in old.notes
        assert (rules(old), rules(new)) == ({"card-ids"}, set())

    def test_a_release_before_its_final_one_is_named_as_it_was_published(self) -> None:
        pod = annotated("nvidia.com/nouse-gpuuuid", "GPU-n1-0")
        (found,) = plans_of([a_node()], pod, release="volcano-1.16").values()
        assert any(note.startswith("Volcano 1.16.0-alpha.1 does not look at lists") for note in found.notes)


@pytest.mark.parametrize(
    ("release", "assigner", "card"),
    [
        ("", "", "GPU-n1-1"),
        ("volcano-1.14", "", "GPU-n1-1"),
        ("volcano-1.15", "", "GPU-n1-0"),
        ("volcano-1.16", "", "GPU-n1-0"),
        ("volcano-1.14", "policy", "GPU-n1-1"),
        ("volcano-1.14", "webhook", "GPU-n1-0"),
        ("", "extender", "GPU-n1-0"),
    ],
)
def test_the_first_card_of_a_node_depends_on_the_release(release: str, assigner: str, card: str) -> None:
    (plan,) = plans_of([a_node(cards=2)], a_pod(), release=release, assigner=assigner).values()
    assert isinstance(plan.decision, Placed)
    assert [share.device for share in plan.decision.shares()] == [card]


def test_rules_that_order_cards_still_do_so_without_a_release() -> None:
    ordering = Rules(policies=PolicyDefaults(volcano_orders_cards=True))
    assert releases.ranked(ordering, None, None) == ordering


class TestAllocations:
    @pytest.mark.parametrize(
        ("assigner", "said"),
        [
            ("", {"card-ids", "fresh-scheduler"}),
            ("volcano", {"card-ids", "fresh-scheduler"}),
            ("policy", {"card-ids", "fresh-scheduler"}),
            ("webhook", set()),
            ("extender", set()),
        ],
    )
    def test_what_allocations_put_right_is_not_said(self, assigner: str, said: set[str]) -> None:
        pod = annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1")
        (found,) = plans_of([a_node()], pod, release="volcano-1.14", assigner=assigner).values()
        assert {each.rule for each in found.differences} == said

    def test_what_the_pod_itself_asks_for_is_put_right_where_no_release_is_named_too(self) -> None:
        pod = annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1")
        assert [rules(each) for each in plans_of([a_node()], pod, assigner="extender").values()] == [set()]

    @pytest.mark.parametrize(("mark", "said"), [("extender", set()), ("policy", {"card-ids"}), ("?", {"card-ids"})])
    def test_the_mark_on_a_pod_says_who_assigns_its_cards_unless_somebody_says_otherwise(
        self, mark: str, said: set[str]
    ) -> None:
        pod = annotated("volcano.sh/vgpu-use-gpuuuid", "GPU-n1-1")
        pod["metadata"]["annotations"]["hami-plugins.io/allocator"] = mark
        (found,) = plans_of([a_node()], pod).values()
        (alone,) = plans_of([a_node()], pod, assigner="volcano").values()
        assert (rules(found), rules(alone)) == (said, {"card-ids"})

    def test_anything_else_is_none(self) -> None:
        with pytest.raises(ManifestError, match="--assigner ours: not one of volcano, policy, webhook, extender"):
            releases.assigner_of("ours")


def asking(limits: dict[str, str], name: str = "p") -> dict[str, Any]:
    pod = a_pod(name)
    pod["spec"]["containers"] = [{"name": "c", "resources": {"limits": limits}}]
    return pod


def with_cards(node: dict[str, Any], *cards: str, memory: str | None = None) -> dict[str, Any]:
    node["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = "".join(cards)
    if memory is not None:
        node["status"]["allocatable"][MEMORY] = memory
    return node


class TestRules:
    """What Volcano 1.14.1 does otherwise (``trials.md`` V19)."""

    def rules_of(self, cluster: list[dict[str, Any]], *submitted: dict[str, Any]) -> dict[str, set[str]]:
        return {name: rules(plan) for name, plan in plans_of(cluster, *submitted, release="volcano-1.14").items()}

    def test_a_pod_without_trouble(self) -> None:
        (plan,) = plans_of([a_node()], a_pod(), release="volcano-1.14").values()
        assert [each.rule for each in plan.differences] == ["fresh-scheduler"]

    def test_cores_alone(self) -> None:
        found = self.rules_of([a_node()], asking({"volcano.sh/vgpu-cores": "10"}, "a"), asking({"cpu": "1"}, "b"))
        assert found == {"a": {"cores-alone"}, "b": set()}

    def test_a_percentage_that_no_node_has(self) -> None:
        name = "volcano.sh/vgpu-memory-percentage"
        pod = asking({GPU: "1", name: "50"})
        assert "percentage" in self.rules_of([a_node()], pod)["p"]
        has_it = a_node()
        has_it["status"]["allocatable"][name] = "200"
        assert "percentage" not in self.rules_of([has_it], pod)["p"]

    def test_a_node_that_is_not_ready(self) -> None:
        troubled = a_node()
        troubled["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        assert self.rules_of([troubled], a_pod()) == {"p": {"not-ready"}}

    def test_slots_and_no_register(self) -> None:
        mute = with_cards(a_node("n2"))
        del mute["metadata"]["annotations"]["volcano.sh/node-vgpu-register"]
        (plan,) = plans_of([a_node(), mute], a_pod(), release="volcano-1.14").values()
        assert plan.stage is Stage.PLACED
        assert any("first pod that it tries on n2" in each.words for each in plan.differences)
        assert self.rules_of([a_node(), mute], asking({"cpu": "1"})) == {"p": set()}

    def test_a_capability_that_plain_requests_keep_and_cards_do_not(self) -> None:
        capped = a_queue("team", capability={MEMORY: "12000"})
        whole = a_pod("whole", queue="team")
        whole["spec"]["containers"] = [{"name": "c", "resources": {"limits": {GPU: "1"}}}]
        found = self.rules_of([a_node(), a_queue(), capped], whole, a_pod("slice", queue="team"))
        assert found == {"whole": {"plain-caps"}, "slice": set()}

    @pytest.mark.parametrize("state", ["Closed", None])
    def test_a_queue_that_takes_nobody(self, state: str | None) -> None:
        closed = [] if state is None else [{**a_queue("team"), "status": {"state": state}}]
        assert self.rules_of([a_node(), a_queue(), *closed], a_pod(queue="team")) == {"p": {"silent-queue"}}

    def test_two_queues_that_compete(self) -> None:
        two = [a_node(cards=1), a_queue(), a_queue("a"), a_queue("b")]
        found = self.rules_of(two, *(a_pod(f"{queue}{at}", queue=queue) for queue in "ab" for at in range(2)))
        assert all("stuck-queues" in each for each in found.values())

    def test_a_queue_at_its_own_limit_competes_with_nobody(self) -> None:
        two = [a_node(), a_queue(), a_queue("a", capability={GPU: "1"}), a_queue("b")]
        found = self.rules_of(two, a_pod("a1", queue="a"), a_pod("a2", queue="a"), a_pod("b1", queue="b"))
        assert not any("stuck-queues" in each for each in found.values())

    def test_a_gang_that_does_not_fit_and_who_comes_behind_it(self) -> None:
        big = [a_pod(f"big{at}", 9000, group="g") for at in range(3)]
        found = self.rules_of([a_node(), a_group(least=3)], *big, a_pod("small", 500))
        assert found["big0"] == found["big2"] == {"stale-gang", "blocked-gang"}
        assert found["small"] == {"blocked-gang"}

    def test_a_gang_that_lacks_members_is_not_even_tried(self) -> None:
        found = self.rules_of([a_node(), a_group(least=3)], *(a_pod(f"p{at}", group="g") for at in range(2)))
        assert found == {"p0": set(), "p1": set()}

    def test_a_gang_that_waits_in_the_cluster(self) -> None:
        waiting = [a_pod(f"w{at}", 9000, group="g") for at in range(3)]
        group = {**a_group(least=3), "status": {"phase": "Inqueue"}}
        assert self.rules_of([a_node(), group, *waiting], a_pod())["p"] == {"blocked-gang"}

    def test_a_gang_that_was_not_let_in_is_in_nobodys_way(self) -> None:
        waiting = [a_pod(f"w{at}", 9000, group="g") for at in range(3)]
        assert self.rules_of([a_node(), a_group(least=3), *waiting], a_pod())["p"] == set()

    def test_a_gang_with_ids_of_an_earlier_try(self) -> None:
        members = [a_pod(f"p{at}", group="g") for at in range(2)]
        for member in members:
            member["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-n1-0,NVIDIA,6000,0:"
        found = self.rules_of([a_node(), a_group(least=2), *members], *members)
        assert found == {"p0": {"stale-gang"}, "p1": {"stale-gang"}}

    def test_a_job_of_which_a_quota_lets_in_a_part(self) -> None:
        quota = {
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"pods": "1"}},
        }
        template = {"spec": {"containers": a_pod()["spec"]["containers"], "schedulerName": "volcano"}}
        job = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"tasks": [{"name": "t", "replicas": 2, "template": template}]},
        }
        found = self.rules_of([a_node(), quota], job)
        assert all("partial-gang" in each for each in found.values())

    @pytest.mark.parametrize(("replicas", "starves"), [(3, True), (1, False)])
    def test_a_gang_of_which_a_task_that_needs_more_comes_by_number(self, replicas: int, starves: bool) -> None:
        tasks = ({"name": "a", "replicas": replicas, "minAvailable": 1}, {"name": "b", "replicas": 2})
        found = self.rules_of([a_node(cards=3)], a_job("j", 6000, *tasks, minAvailable=3))
        assert {"task-minima" in rules for rules in found.values()} == {starves}

    def test_a_gang_of_which_all_find_a_place_starts_in_any_order(self) -> None:
        tasks = ({"name": "a", "replicas": 3, "minAvailable": 1}, {"name": "b", "replicas": 2})
        found = self.rules_of([a_node(cards=5)], a_job("j", 6000, *tasks, minAvailable=3))
        assert not any("task-minima" in rules for rules in found.values())

    def test_cards_of_a_pod_that_is_going(self) -> None:
        going = a_pod("old", 9000, node="n1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        found = self.rules_of([a_node(cards=1), going], a_pod())
        assert "leaving-freed" in found["p"]

    def test_a_place_behind_a_pod_that_waits_for_one_that_is_going(self) -> None:
        going = a_pod("old", 6000, node="n1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        found = self.rules_of([a_node(cards=1), going], a_pod("first", 9000), a_pod("second", 1000))
        assert "kept-for-waiting" in found["second"]
        assert "kept-for-waiting" not in found["first"]
        turned = self.rules_of([a_node(cards=1), going], a_pod("first", 1000), a_pod("second", 9000))
        elsewhere = self.rules_of(
            [a_node(cards=1), a_node("n2", cards=1)], a_pod("first", 11000), a_pod("second", 1000)
        )
        assert not any("kept-for-waiting" in each for each in (*turned.values(), *elsewhere.values()))

    def test_two_containers_on_one_card(self) -> None:
        pod = a_pod()
        pod["spec"]["containers"] = containers(3000, 3000)
        assert self.rules_of([a_node(cards=1)], pod) == {"p": {"containers-of-plugin"}}
        (later,) = plans_of([a_node(cards=1)], pod, release="volcano-1.15.0").values()
        assert rules(later) == {"containers-of-plugin", "first-container"}

    def test_who_comes_second_to_a_node(self) -> None:
        found = plans_of([a_node()], a_pod("a"), a_pod("b"), release="volcano-1.14")
        names = {name: {each.rule for each in plan.differences} for name, plan in found.items()}
        assert "counted-twice" not in names["a"]
        assert "counted-twice" in names["b"]

    def test_who_waits_goes_on_counting_at_the_gate(self) -> None:
        assert self.rules_of([a_node(), a_queue()], a_pod(memory=15000)) == {"p": {"stays-inqueue"}}
