"""All about one pod: why it waits and what would help, or what it holds and whether that is as it should be."""

from dataclasses import replace

import pytest

from hami_plugins.engine.holdings import InconsistencyKind
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError
from hami_plugins.explain import Explanation, PendingExplanation, RunningExplanation, explain
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota, PodGroup
from hami_plugins.model.decisions import Placed, Refused
from hami_plugins.model.nodes import NodeEntry, Problem
from hami_plugins.model.pods import NodeConstraints, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.output import documents, explanations
from hami_plugins.plan import Planner, Stage
from hami_plugins.suggest.changes import ChangeKind
from hami_plugins.vendors import volcano
from tests import acme
from tests.builders import (
    COUNT,
    MEMORY,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_share,
    a_snapshot,
    allocated,
)
from tests.unit.suggest.questions import a_busy_node, a_pod_on, facts

REGISTRY = Registry((acme.SPEC,))


def planner(rules: Rules | None = None, registry: Registry = REGISTRY) -> Planner:
    return Planner(registry, rules)


def waiting(*pods: Pod, on: tuple[NodeEntry, ...] = ()) -> ClusterSnapshot:
    return replace(a_snapshot(*on), pending=pods)


def asking(memory: int, **facts: object) -> Pod:
    return a_pod(a_container({COUNT: 1, MEMORY: memory}), **facts)  # type: ignore[arg-type]


def pending(cluster: ClusterSnapshot, name: str = "default/p", *, limit: int = 3) -> PendingExplanation:
    found = explain(cluster, name, planner(), limit=limit)
    assert isinstance(found.about, PendingExplanation)
    return found.about


def running(
    cluster: ClusterSnapshot, name: str = "default/running", *, by: Planner | None = None
) -> RunningExplanation:
    found = explain(cluster, name, by or planner())
    assert isinstance(found.about, RunningExplanation)
    return found.about


class TestPending:
    def test_a_pod_that_no_node_takes_has_reasons_and_ways_out(self) -> None:
        about = pending(waiting(asking(20_000), on=(a_busy_node("a", (9_000, 0)),)))
        assert about.plan.stage is Stage.NODES
        assert isinstance(about.plan.decision, Refused)
        assert about.why is not None
        assert [each.nodes for each in about.why.reasons] == [1]
        assert about.offers[0].kinds == (ChangeKind.MEMORY,)
        assert about.choice is None

    def test_as_many_ways_out_as_wanted(self) -> None:
        cluster = waiting(asking(16_000), on=(a_busy_node("a", (9_000, 0)),))
        assert len(pending(cluster, limit=1).offers) == 1
        assert len(pending(cluster).offers) == 3

    def test_a_spare_shape_is_a_way_out(self) -> None:
        cluster = waiting(asking(20_000))
        found = explain(cluster, "p", planner(), spare_shapes=(a_node("huge", a_device(memory=40_000)),))
        assert isinstance(found.about, PendingExplanation)
        assert (ChangeKind.NODE,) in [each.kinds for each in found.about.offers]

    def test_a_pod_that_fits_by_now_has_a_choice(self) -> None:
        about = pending(waiting(asking(1_000)))
        assert about.plan.stage is Stage.PLACED
        assert (about.why, about.offers) == (None, ())
        assert about.choice is not None
        assert about.choice.node == "node-0"

    def test_a_pod_that_is_not_admitted_has_its_plan_s_words(self) -> None:
        about = pending(waiting(a_pod(a_container({COUNT: 1}, privileged=True))))
        assert about.plan.stage is Stage.ADMISSION
        assert "privileged" in about.plan.why
        assert (about.why, about.choice, about.offers) == (None, None, ())

    def test_a_pod_that_its_quota_keeps_out_has_ways_out(self) -> None:
        cluster = replace(waiting(asking(900)), quotas=a_snapshot(quotas={"default": {f"limits.{MEMORY}": 500}}).quotas)
        assert {each.kinds for each in pending(cluster).offers} == {(ChangeKind.MEMORY,), (ChangeKind.QUOTA_MEMORY,)}

    def test_a_quota_that_has_let_the_pod_in_does_not_count_it_twice(self) -> None:
        cpu = {"requests.cpu": 4 * NANO}
        quota = NamespaceQuota(namespace="default", hard=cpu, used=cpu)
        amounts = {COUNT: 1, MEMORY: 1_000, "cpu": 4}
        pod = a_pod(a_container(amounts, requests=amounts), constraints=NodeConstraints(requests=(("cpu", 4 * NANO),)))
        about = pending(replace(waiting(pod), quotas={"default": quota}))
        assert about.plan.stage is Stage.PLACED

    def test_a_quota_that_was_set_later_holds_no_pod_that_is_there(self) -> None:
        hard = {"requests.cpu": NANO, "limits.cpu": NANO, "pods": 0}
        quota = NamespaceQuota(namespace="default", hard=hard)
        amounts = {COUNT: 1, MEMORY: 1_000}
        pod = a_pod(a_container(amounts, requests=amounts), constraints=NodeConstraints(requests=(("cpu", 4 * NANO),)))
        assert pending(replace(waiting(pod), quotas={"default": quota})).plan.stage is Stage.PLACED

    def test_a_member_of_a_gang_is_planned_with_those_that_wait_beside_it(self) -> None:
        spec = volcano.SPEC
        names = spec.resources
        limits = {names.count: 1, names.memory: 9_000}
        card = a_device(vendor=spec.name, model="NVIDIA-T4")
        node = a_node("a", card, facts=facts(allocatable={names.count: 10, names.memory: 16_384}))
        members = [
            a_pod(
                a_container(limits, requests=limits),
                name=name,
                scheduler="volcano",
                annotations={"scheduling.k8s.io/group-name": "g"},
            )
            for name in ("m-0", "m-1")
        ]
        group = PodGroup(namespace="default", name="g", min_member=2, phase="Inqueue")
        cluster = replace(waiting(*members, on=(node,)), pod_groups={"default/g": group})
        found = explain(cluster, "m-0", planner(registry=Registry((spec,))))
        assert isinstance(found.about, PendingExplanation)
        assert found.about.plan.pod.name == "m-0"
        assert found.about.plan.stage is Stage.NODES  # the other one has taken the only place
        assert found.about.plan.notes[-1].startswith("its gang waits: 2 have to start together and 1 would fit")
        assert (ChangeKind.MEMORY,) in [each.kinds for each in found.about.offers]
        assert all(each.victim is None for each in found.about.offers)

    def test_a_pod_that_asks_for_no_devices_is_said_to_ask_for_none(self) -> None:
        plain = a_pod(a_container({"cpu": 1}), name="plain")
        assert explain(waiting(plain), "plain", planner()).asks_nothing
        assert not explain(waiting(asking(1)), "p", planner()).asks_nothing
        denied = a_pod(a_container({COUNT: 1}, privileged=True))
        assert not explain(waiting(denied), "p", planner()).asks_nothing


class TestRunning:
    def test_a_pod_that_would_come_back_stays(self) -> None:
        node = with_pods(a_node("a"), [a_pod_on("card-0", 9_000)])
        about = running(a_snapshot(node))
        assert (about.node.name, about.record.name, about.flaws, about.stays) == ("a", "running", (), True)
        assert about.choice is not None
        assert about.why is None

    def test_a_pod_that_would_go_elsewhere_does_not_stay(self) -> None:
        """Binpack prefers the fuller node, now that there is one."""
        node = with_pods(a_node("a"), [a_pod_on("card-0", 1_000)])
        about = running(a_snapshot(node, a_busy_node("b", (9_000, 0))))
        assert not about.stays
        assert isinstance(about.again, Placed)
        assert about.again.node == "b"

    def test_the_defaults_of_the_cluster_decide_where_it_would_go(self) -> None:
        node = with_pods(a_node("a"), [a_pod_on("card-0", 1_000)])
        rules = Rules(policies=PolicyDefaults(node="spread"))
        assert running(a_snapshot(node, a_busy_node("b", (9_000, 0))), by=planner(rules)).stays

    def test_volcanos_own_policy_decides_for_its_devices(self) -> None:
        spec = volcano.SPEC
        record = a_record(allocated(a_share("gpu-0", 1_000, vendor=spec.name)))
        card = a_device(vendor=spec.name, model="NVIDIA-T4")
        node = with_pods(a_node("a", card, ids=["gpu-0"]), [record])
        assert running(a_snapshot(node), by=planner(registry=Registry((spec,)))).stays

    def test_a_pod_that_would_find_no_place_any_more_has_reasons(self) -> None:
        node = with_pods(a_node("a", a_device(healthy=False)), [a_pod_on("card-0", 1_000)])
        about = running(a_snapshot(node))
        assert [each.kind for each in about.flaws] == [InconsistencyKind.UNHEALTHY]
        assert isinstance(about.again, Refused)
        assert not about.stays
        assert about.choice is None
        assert about.why is not None

    def test_what_is_wrong_with_its_allocation_is_told(self) -> None:
        node = with_pods(a_node("a"), [a_pod_on("gone", 1_000)])
        assert [each.kind for each in running(a_snapshot(node)).flaws] == [InconsistencyKind.STRANGER]

    def test_a_pod_that_holds_no_devices_is_said_to_ask_for_none(self) -> None:
        node = with_pods(a_node("a"), [a_record(allocated(), name="plain"), a_pod_on("card-0", 1)])
        found = explain(a_snapshot(node), "default/plain", planner())
        assert found.asks_nothing
        assert not explain(a_snapshot(node), "default/running", planner()).asks_nothing


def test_what_could_not_be_read_of_the_pod_is_part_of_its_explanation() -> None:
    mine, other = Problem("pod default/p", "half a list"), Problem("pod default/q", "nonsense")
    cluster = replace(waiting(asking(1)), problems=(mine, other))
    assert explain(cluster, "p", planner()).problems == (mine,)


def test_a_pod_can_be_named_with_its_namespace_or_is_in_the_default_one() -> None:
    cluster = waiting(asking(1), a_pod(name="p", namespace="team"))
    assert explain(cluster, "p", planner()).pod == "default/p"
    assert explain(cluster, "team/p", planner()).pod == "team/p"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("default/trian", "; is it default/train?"),
        ("team/train", "; is it default/train?"),
        ("x/zzzzzz", "in this cluster"),
    ],
)
def test_a_pod_that_does_not_exist_is_an_error_that_names_what_could_be_meant(name: str, near: str) -> None:
    node = with_pods(a_node("a"), [a_pod_on("card-0", 1, name="train")])
    with pytest.raises(ManifestError, match=f"no pod {name}") as error:
        explain(replace(a_snapshot(node), pending=(asking(1),)), name, planner())
    assert near in str(error.value)


def test_the_built_in_vendors_explain_without_a_planner() -> None:
    assert explain(a_snapshot(with_pods(a_node("a"), [a_record(allocated())])), "default/running").asks_nothing


class TestPreemption:
    """What a pod that waits would preempt, or why it may not."""

    def waiting(self, priority: int) -> PendingExplanation:
        holder = a_record(allocated(a_share("card-0", 10_000)), name="low")
        node = with_pods(a_node("n", a_device()), [holder])
        return pending(waiting(asking(10_000, priority=priority), on=(node,)))

    def test_it_says_who_would_be_evicted_and_keeps_the_other_suggestions(self) -> None:
        found = self.waiting(100)
        assert found.evictions is not None
        assert [victim.pod.name for victim in found.evictions.victims] == ["low"]
        assert found.plan.by_eviction is None
        assert found.offers
        told = [line.words for line in explanations.lines(explanation_of(found), REGISTRY)]
        assert "  would preempt default/low (priority 0 < 100) on n" in told
        assert any("kube-scheduler alone evicts by sums" in line for line in told)

    def test_it_says_why_no_pod_may_be_evicted(self) -> None:
        found = self.waiting(0)
        assert found.in_vain is not None
        told = [line.words for line in explanations.lines(explanation_of(found), REGISTRY)]
        assert "  would preempt no pod: no pod on 1 node may be evicted for it" in told
        assert "  may not evict default/low: its priority 0 is not below 0" in told

    def test_the_document_has_it(self) -> None:
        document = documents.explanation(explanation_of(self.waiting(100)), REGISTRY)["pending"]
        assert document is not None
        assert document["preemption"] is not None
        assert (document["preemption"]["node"], document["preemption"]["victims"]) == ("n", ["default/low"])
        assert [each["memoryMiB"] for each in document["preemption"]["slices"]] == [10_000]

    def test_a_pod_that_fits_preempts_nobody(self) -> None:
        found = pending(waiting(asking(10_000, priority=100), on=(a_node("n", a_device()),)))
        assert (found.evictions, found.in_vain) == (None, None)


def explanation_of(about: PendingExplanation) -> Explanation:
    return Explanation(pod="default/p", about=about, asks_nothing=False)
