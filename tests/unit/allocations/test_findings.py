"""Findings about pods that another scheduler bound: the defect, the card, and the remedy."""

import re

import pytest

from hami_plugins.allocations.answers import AuditFinding, AuditFindingKind
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.wire import objects
from tests.machines import VOLCANO
from tests.unit.allocations.objects import N1, REGISTRY, Raw, a_node, a_pod, asking, bound, register


def found(*pods: Raw, nodes: tuple[Raw, ...] = (), registry: Registry = REGISTRY) -> list[AuditFinding]:
    """What is wrong with these pods on two nodes with one card of 40,960 MiB each."""
    return list(a_cache(*pods, nodes=nodes, registry=registry).findings())


def a_cache(*pods: Raw, nodes: tuple[Raw, ...] = (), registry: Registry = REGISTRY) -> AllocationCache:
    cache = AllocationCache(Decider(registry))
    for raw in nodes or (a_node("n1"), a_node("n2")):
        cache.see_node(objects.node_object(raw))
    for raw in pods:
        cache.see_pod(objects.pod(raw), 0)
    return cache


def holds(name: str, ids: str | None, memory: int = 0) -> Raw:
    """A pod on node n1 that requests what it holds, or 10,000 MiB where that cannot be told."""
    amounts = re.findall(r",NVIDIA,(\d+),(\d+):", ids or "")
    asked = memory or max((int(amount) for amount, _ in amounts), default=10_000)
    raw = a_pod(name, memory=asked, count=max(len(amounts), 1))
    if cores := max((int(share) for _, share in amounts), default=0):
        raw["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-cores"] = str(cores)
    return bound(raw, "n1", ids)


def test_pods_that_hold_what_there_is_are_fine() -> None:
    assert found(holds("a", "GPU-n1-0,NVIDIA,30000,0:"), holds("b", "GPU-n1-0,NVIDIA,10960,0:")) == []


def test_a_card_that_is_promised_twice_is_told_once_with_both_pods() -> None:
    (one,) = found(holds("a", "GPU-n1-0,NVIDIA,30000,0:"), holds("b", "GPU-n1-0,NVIDIA,30000,0:"))

    assert (one.finding, one.node, one.device) == (AuditFindingKind.MEMORY, "n1", "GPU-n1-0")
    assert one.pods == ("team/a", "team/b")
    assert one.text == (
        "GPU-n1-0 on node n1: 60000 of 40960 MiB are promised, to team/a, team/b; delete some, so that they are "
        "placed anew"
    )


def test_a_pod_that_has_more_than_there_is_for_itself_alone_is_told() -> None:
    (one,) = found(holds("a", "GPU-n1-0,NVIDIA,50000,0:"))

    assert "delete it, so that it is placed anew" in one.text


@pytest.mark.parametrize(
    ("ids", "finding"),
    [("GPU-n1-0,NVIDIA,1,60:", AuditFindingKind.CORES), ("GPU-n1-0,NVIDIA,1,0:", AuditFindingKind.SLOTS)],
)
def test_slots_and_cores_are_counted_too(ids: str, finding: AuditFindingKind) -> None:
    pods = [holds(f"p{at}", ids) for at in range(11)]

    assert finding in {each.finding for each in found(*pods)}


def test_many_pods_on_one_card_are_not_all_named() -> None:
    pods = [holds(f"p{at:02}", "GPU-n1-0,NVIDIA,1,0:") for at in range(12)]

    (one,) = found(*pods)

    assert "team/p00, team/p01, team/p02, team/p03, team/p04 and 7 more" in one.text


def test_a_card_of_another_node_is_told_with_that_node() -> None:
    (one,) = found(holds("a", "GPU-n2-0,NVIDIA,10000,0:"))

    assert (one.finding, one.node, one.pods) == (AuditFindingKind.OTHER_NODE, "n1", ("team/a",))
    assert "pod team/a on node n1 holds GPU-n2-0, which belongs to node n2" in one.text


def test_a_card_that_nobody_has_is_told() -> None:
    (one,) = found(holds("a", "GPU-lost,NVIDIA,10000,0:"))

    assert (one.finding, one.device) == (AuditFindingKind.UNKNOWN_CARD, "GPU-lost")


def test_a_pod_that_was_bound_without_a_card_is_told() -> None:
    (one,) = found(holds("a", None))

    assert one.finding is AuditFindingKind.UNALLOCATED
    assert "runs without the devices that it asks for (container main)" in one.text


def test_cores_alone_were_bound_without_a_card() -> None:
    pod = holds("a", None)
    pod["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-cores": "10"}

    assert [each.finding for each in found(pod)] == [AuditFindingKind.UNALLOCATED]


def test_a_sidecar_that_asks_for_a_card_has_none() -> None:
    pod = holds("a", "GPU-n1-0,NVIDIA,10000,0:")
    limits = {"volcano.sh/vgpu-number": "1"}
    pod["spec"]["initContainers"] = [
        {"name": "first", "resources": {"limits": limits}},
        {"name": "side", "restartPolicy": "Always", "resources": {"limits": limits}},
    ]

    (one,) = found(pod)

    assert "(container side)" in one.text


@pytest.mark.parametrize("limits", [{"volcano.sh/vgpu-number": "0"}, {"volcano.sh/vgpu-cores": "0"}, {"cpu": "1"}])
def test_who_asks_for_nothing_lacks_nothing(limits: dict[str, str]) -> None:
    pod = holds("a", None)
    pod["spec"]["containers"][0]["resources"]["limits"] = limits

    assert found(pod) == []


def test_an_allocation_that_cannot_be_read_is_told_with_what_is_wrong_in_it() -> None:
    (one,) = found(holds("a", "GPU-n1-0,NVIDIA,many,0:"))

    assert one.finding is AuditFindingKind.UNREADABLE
    assert "volcano.sh/vgpu-ids-new" in one.text
    assert "many" in one.text


@pytest.mark.parametrize("later", ["GPU-n1-0,NVIDIA,1,0:", "rubbish", None])
def test_an_allocation_that_somebody_changed_on_a_bound_pod_is_told_until_it_is_put_back(later: str | None) -> None:
    first = holds("a", "GPU-n1-0,NVIDIA,30000,0:", memory=30_000)
    cache = a_cache(first, holds("a", later, memory=30_000))

    (one,) = cache.findings()

    assert (one.finding, one.pods) == (AuditFindingKind.CHANGED, ("team/a",))
    assert "was bound with GPU-n1-0, and the allocation in its annotations was changed afterwards" in one.text
    cache.see_pod(objects.pod(first), 0)
    assert cache.findings() == ()


def test_what_is_only_assumed_is_not_told() -> None:
    cache = a_cache()
    cache.allocate(N1, asking(a_pod()), 0)
    cache.see_node(objects.node_object(a_node("n1", register("GPU-new"))))

    assert cache.findings() == ()


def test_a_slot_that_two_pods_hold_is_told() -> None:
    mig = "GPU-m,4,24576,NVIDIA-A30,true,mig:"
    pods = [holds(name, "GPU-m[group1-0],NVIDIA,3000,0:") for name in "ab"]

    told = found(*pods, nodes=(a_node("n1", mig),), registry=Registry([VOLCANO]))

    assert [each.finding for each in told] == [AuditFindingKind.PARTITION, AuditFindingKind.PARTITION]
    assert "holds the same partition of GPU-m as team/b" in told[0].text


def test_a_slot_that_two_containers_of_a_pod_hold_is_told() -> None:
    mig = "GPU-m,4,24576,NVIDIA-A30,true,mig:"
    pod = holds("a", "GPU-m[group1-0],NVIDIA,3000,0:GPU-m[group1-0],NVIDIA,3000,0:")

    (one,) = found(pod, nodes=(a_node("n1", mig),), registry=Registry([VOLCANO]))

    assert one.finding is AuditFindingKind.PARTITION
    assert "GPU-m[group1-0] is named twice" in one.text


def test_a_sick_card_is_no_fault_of_its_pods() -> None:
    sick = a_node("n1", register("GPU-n1-0", healthy=False))
    pods = [holds("a", "GPU-n1-0,NVIDIA,30000,0:"), holds("b", "GPU-n1-0,NVIDIA,30000,0:")]

    assert [each.finding for each in found(*pods, nodes=(sick,))] == [AuditFindingKind.MEMORY]


def test_what_is_wrong_is_told_node_by_node() -> None:
    pods = [bound(a_pod(name), name, "GPU-lost,NVIDIA,1,0:") for name in ("n2", "n1")]

    assert [each.node for each in found(*pods)] == ["n1", "n2"]


def test_a_pod_that_is_not_bound_yet_hides_no_finding_of_the_pods_after_it() -> None:
    cache = a_cache()
    cache.reserve(N1, asking(a_pod("assumed")), 0)
    cache.see_pod(objects.pod(holds("a", None)), 0)
    cache.see_pod(objects.pod(holds("b", "GPU-lost,NVIDIA,1,0:")), 0)

    assert [each.finding for each in cache.findings()] == [AuditFindingKind.UNALLOCATED, AuditFindingKind.UNKNOWN_CARD]


def test_what_else_is_wrong_with_a_card_is_told_after_what_is_told_once() -> None:
    lost = "GPU-lost,NVIDIA,30000,0:"
    told = found(holds("a", f"GPU-n1-0,NVIDIA,30000,0:{lost}"), holds("b", f"GPU-n1-0,NVIDIA,30000,0:{lost}"))

    assert [(each.finding, each.pods) for each in told] == [
        (AuditFindingKind.MEMORY, ("team/a", "team/b")),
        (AuditFindingKind.UNKNOWN_CARD, ("team/a",)),
        (AuditFindingKind.UNKNOWN_CARD, ("team/b",)),
    ]


def test_a_stranger_on_a_card_is_found_beside_pods_that_are_fine() -> None:
    (one,) = found(holds("a", "GPU-n1-0,NVIDIA,1,0:"), holds("b", "GPU-lost,NVIDIA,1,0:"))

    assert (one.finding, one.pods) == (AuditFindingKind.UNKNOWN_CARD, ("team/b",))


def test_one_overdrawn_card_is_found_beside_cards_that_are_fine() -> None:
    node = a_node("n1", register("GPU-fine", "GPU-full"))

    (one,) = found(holds("a", "GPU-full,NVIDIA,50000,0:"), nodes=(node,))

    assert (one.finding, one.device) == (AuditFindingKind.MEMORY, "GPU-full")


@pytest.mark.parametrize(("pods", "end"), [(11, "team/p03, team/p04 and 6 more;"), (12, "team/p04 and 7 more;")])
def test_five_pods_of_a_card_are_named_and_the_rest_is_counted(pods: int, end: str) -> None:
    (one,) = found(*(holds(f"p{at:02}", "GPU-n1-0,NVIDIA,1,0:") for at in range(pods)))

    assert end in one.text


@pytest.mark.parametrize(("pods", "end"), [(5, "to team/p0, team/p1, team/p2, team/p3, team/p4;"), (6, "and 1 more;")])
def test_a_rest_of_none_is_not_counted(pods: int, end: str) -> None:
    (one,) = found(*(holds(f"p{at}", "GPU-n1-0,NVIDIA,9000,0:", memory=9_000) for at in range(pods)))

    assert end in one.text


def test_a_remedy_that_the_reason_names_is_not_repeated() -> None:
    (one,) = found(holds("a", "GPU-n1-0,NVIDIA,many,0:"))

    assert one.text.count("Delete it, so that it is placed anew") == 1
