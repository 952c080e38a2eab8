"""The changes that help a pod as its author wrote it: admission, the webhook's amounts and the quota are in them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hami_plugins import library
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.counterfactuals import counterfactuals
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Neighbours, Pod, PodTerm, Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.plan import Planner, PlanUnit, Stage
from hami_plugins.suggest.changes import ChangeKind, Counterfactual, LessOf
from hami_plugins.suggest.rewrite import rewritten
from hami_plugins.vendors import BUILTIN
from tests import acme
from tests.builders import COUNT, MEMORY, a_container, a_node, a_pod, a_snapshot
from tests.unit.suggest.questions import a_pod_on, facts

MIXED = library.load_fleet("mixed")


def asking(limits: Mapping[str, int | str], annotations: Mapping[str, str] | None = None, *, copies: int = 1) -> Pod:
    volcano = any(name.startswith("volcano.sh/") for name in limits)
    containers = [a_container(limits, requests=limits, name=f"c{at}") for at in range(copies)]
    pod = a_pod(*containers, annotations=annotations, scheduler="volcano" if volcano else "")
    sums = {name: amount.nano * copies for name, amount in pod.containers[0].requests.items()}
    return replace(pod, constraints=replace(pod.constraints, requests=tuple(sorted(sums.items()))))


def offers(planner: Planner, cluster: ClusterSnapshot, pod: Pod) -> tuple[Counterfactual, ...]:
    """What is offered; each offer is written into the pod, which is then planned as anybody's is."""
    found = counterfactuals(planner, cluster, pod)
    for each in found:
        other = pod
        for change in each.changes:
            other = rewritten(other, change)
        roomy = replace(
            each.applied_to(cluster), quotas={} if ChangeKind.QUOTA_MEMORY in each.kinds else cluster.quotas
        )
        plan = planner.plan(roomy, [PlanUnit(name="pod", pods=(other,))])
        assert [(it.stage, it.why) for it in plan.pods] == [(Stage.PLACED, "")], each.changes
        assert isinstance(plan.pods[0].decision, Placed)
    return found


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 90_000}, {}),
        ({"nvidia.com/gpu": 9}, {}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/use-gputype": "B200"}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 81_000}, {"nvidia.com/vgpu-mode": "mig"}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 60}, {"nvidia.com/use-gpuuuid": "GPU-none"}),
        ({"huawei.com/Ascend910B3": 9}, {}),
        ({"huawei.com/Ascend310P": 5}, {}),
        ({"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 300}, {}),
        ({"hygon.com/dcunum": 1, "hygon.com/dcumem": 30_000}, {}),
        ({"aws.amazon.com/neuron": 17}, {}),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 90_000}, {}),
        ({"nvidia.com/gpu": 1, "cpu": 500}, {}),
        ({"cpu": 1_000, "memory": "9Ti"}, {}),
    ],
    ids=lambda value: ",".join(f"{key}={amount}" for key, amount in value.items()) or "-",
)
def test_an_impossible_pod_of_any_vendor_is_offered_a_change_that_really_works(
    limits: Mapping[str, int | str], annotations: Mapping[str, str], copies: int
) -> None:
    assert offers(Planner(Registry(BUILTIN)), MIXED, asking(limits, annotations, copies=copies))


def test_a_whole_card_that_becomes_a_part_is_no_longer_exclusive() -> None:
    """The webhook gives all cores to a request for a whole card, so an amount of memory changes the cores as well."""
    planner = Planner(Registry(BUILTIN))
    fleet = library.load_fleet("t4x1")
    fleet = fleet.only(lambda entry: entry is fleet.nodes[0])
    pod = asking({"nvidia.com/gpu": 1})
    first = planner.plan(
        fleet, [PlanUnit(name="pod", pods=(asking({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 5_000}),))]
    )
    change = offers(planner, first.after, pod)[0].changes[0]
    assert isinstance(change, LessOf)
    assert (change.before, change.after) == (None, 15_360 - 5_000)


def test_a_pod_that_only_its_quota_keeps_out_may_become_smaller_or_the_quota_larger() -> None:
    planner = Planner(Registry((acme.SPEC,)))
    cluster = a_snapshot(a_node(), quotas={"default": {f"limits.{MEMORY}": 500}})
    found = offers(planner, cluster, a_pod(a_container({COUNT: 1, MEMORY: 800})))
    assert {each.kinds for each in found} == {(ChangeKind.MEMORY,), (ChangeKind.QUOTA_MEMORY,)}
    assert found[0].changes[0].after == 500  # type: ignore[union-attr]


def test_nothing_is_offered_to_a_pod_that_could_never_be_admitted() -> None:
    planner = Planner(Registry((acme.SPEC,)))
    privileged = a_pod(a_container({COUNT: 1}, privileged=True))
    assert counterfactuals(planner, a_snapshot(), privileged) == ()
    cluster = a_snapshot(a_node(), quotas={"default": {f"limits.{MEMORY}": 500}})
    assert counterfactuals(planner, cluster, privileged) == ()


def test_nothing_is_offered_to_a_pod_that_fits() -> None:
    assert counterfactuals(Planner(Registry((acme.SPEC,))), a_snapshot(), a_pod()) == ()


class TestOtherPodsHaveASay:
    """A pod that keeps away from others is not sent to them, and one that wants to be near is not sent away."""

    WEB = (Requirement("app", "In", ("web",)),)
    TERM = PodTerm("kubernetes.io/hostname", WEB, frozenset({"default"}))

    def cluster(self) -> ClusterSnapshot:
        near, far = (
            a_node(name, ids=[f"{name}-0"], facts=facts(labels={"kubernetes.io/hostname": name}))
            for name in ("near", "far")
        )
        web = replace(a_pod_on("near-0", 1_000, name="web"), labels={"app": "web"})
        return a_snapshot(with_pods(near, [web]), with_pods(far, [a_pod_on("far-0", 9_000, name="other")]))

    def nodes(self, defaults: Neighbours) -> dict[tuple[ChangeKind, ...], str]:
        pod = replace(a_pod(a_container({COUNT: 1, MEMORY: 16_000})), neighbours=defaults)
        found = counterfactuals(Planner(Registry((acme.SPEC,))), self.cluster(), pod, limit=9)
        return {each.kinds: each.placed.node for each in found}

    def test_without_wishes_any_node_will_do(self) -> None:
        found = self.nodes(Neighbours())
        assert found[ChangeKind.MEMORY,] == found[ChangeKind.VICTIM,] == "near"
        assert found[ChangeKind.NODE,] == "new-node"

    def test_anti_affinity_keeps_it_away(self) -> None:
        found = self.nodes(Neighbours(apart=(self.TERM,)))
        assert found[ChangeKind.MEMORY,] == found[ChangeKind.VICTIM,] == "far"
        assert found[ChangeKind.NODE,] == "new-node"

    def test_affinity_keeps_it_near(self) -> None:
        found = self.nodes(Neighbours(near=(self.TERM,)))
        assert found == {(ChangeKind.MEMORY,): "near"}


def test_a_member_of_a_gang_is_not_told_to_remove_another() -> None:
    mates = {"scheduling.k8s.io/group-name": "g"}
    mate = replace(a_pod_on("card-0", 9_000, name="mate"), group="g")
    pod = a_pod(a_container({COUNT: 1, MEMORY: 9_000}), annotations=mates)
    planner = Planner(Registry((acme.SPEC,)))
    assert all(each.victim is None for each in counterfactuals(planner, a_snapshot(with_pods(a_node(), [mate])), pod))


def test_a_nodes_plain_resources_are_counted_as_the_scheduler_counts_them() -> None:
    """An amount that the scheduler sums up goes down in its sums as well, once for every container."""
    planner = Planner(Registry((replace(acme.SPEC, counted_by_scheduler=acme.RESOURCES.all()),)))
    node = a_node("a", facts=facts(allocatable={COUNT: 10, MEMORY: 9_000}))
    found = offers(planner, a_snapshot(node), asking({COUNT: 1, MEMORY: 6_000}, copies=2))
    change = found[0].changes[0]
    assert isinstance(change, LessOf)
    assert (change.after, change.containers) == (4_500, (0, 1))
    assert dict(found[0].demand.constraints.requests)[MEMORY] == 9_000 * NANO
