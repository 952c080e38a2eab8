"""What the cache knows of who holds what: how often that changed, what is remembered, and what is forgotten."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from hami_plugins.allocations.answers import AuditFindingKind
from hami_plugins.allocations.cache import UNKNOWN_NODE, AllocationCache
from hami_plugins.allocations.nodes import CacheNode
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.vendors.koordinator import SPEC as KOORDINATOR
from hami_plugins.wire import objects
from neuron_topology.core.vendor import SPEC as NEURON
from tests.machines import MACHINES
from tests.unit.allocations.objects import N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound, register
from tests.unit.neuron_topology.server.cluster import a_node as a_neuron_node

P = PodUid("uid-p")
IDS = "GPU-n1-0,NVIDIA,10000,0:"


@pytest.fixture
def cache() -> AllocationCache:
    """A cache that knows two nodes with one card each."""
    made = AllocationCache(Decider(REGISTRY))
    for name in ("n1", "n2"):
        see_node(made, a_node(name))
    return made


def see_node(cache: AllocationCache, raw: Raw) -> None:
    cache.see_node(objects.node_object(raw))


def see(cache: AllocationCache, raw: Raw, **more: Any) -> None:
    cache.see_pod(objects.pod(raw), 0, **more)


def held(cache: AllocationCache, node: NodeName = N1) -> int:
    """The memory that is held of the node's cards, in MiB."""
    entry = cache.entry(node)
    assert entry is not None
    return sum(used.memory for used in entry.state.usage)


def test_changes_are_counted_one_by_one_from_a_cache_that_was_shown_nothing() -> None:
    cache = AllocationCache(Decider(REGISTRY))
    counted = [cache.changes]
    for change in (
        lambda: see_node(cache, a_node()),
        lambda: cache.reserve(N1, asking(a_pod()), 0),
        lambda: cache.release(P),
        lambda: see(cache, bound(a_pod(), "n1", IDS)),
        lambda: cache.forget_pod(P, 0),
        lambda: cache.forget_node(N1),
    ):
        change()
        counted.append(cache.changes)

    assert counted == [0, 1, 2, 3, 4, 5, 6]


def test_what_is_shown_again_or_answered_again_is_no_change(cache: AllocationCache) -> None:
    cache.reserve(N1, asking(a_pod("reserved")), 0)
    see(cache, bound(a_pod(), "n1", IDS))
    before = cache.changes

    cache.reserve(N1, asking(a_pod("reserved")), 1)
    see(cache, bound(a_pod(), "n1", IDS))
    see_node(cache, a_node("n1"))

    assert cache.changes == before


@pytest.mark.parametrize(
    "later",
    [
        a_node("n1", register("GPU-new")),
        a_node("n1", register("GPU-n1-0", memory=20_000)),
        a_node("n1", "GPU-n1-0,10,409"),
    ],
    ids=["another card", "another size", "unreadable"],
)
def test_a_node_that_says_something_else_of_its_cards_is_a_change(cache: AllocationCache, later: Raw) -> None:
    before = cache.changes

    see_node(cache, later)

    assert cache.changes == before + 1


def test_a_pod_holds_what_is_reserved_and_answered_and_then_only_what_it_was_bound_with(
    cache: AllocationCache,
) -> None:
    assert cache.holdings(P) == ()
    cache.allocate(N2, asking(a_pod()), 0)
    cache.reserve(N1, asking(a_pod()), 0)
    assert {node: allocations[0].shares[0].device for node, allocations in cache.holdings(P)} == {
        "n1": "GPU-n1-0",
        "n2": "GPU-n2-0",
    }

    see(cache, bound(a_pod(), "n1", IDS))

    ((node, allocations),) = cache.holdings(P)
    assert (node, [share.memory for share in allocations[0].shares]) == ("n1", [10_000])


def test_a_pod_that_is_shown_on_another_node_holds_what_it_says_there_and_nothing_where_it_was(
    cache: AllocationCache,
) -> None:
    see(cache, bound(a_pod(), "n1", IDS))
    see(cache, bound(a_pod(), "n2", "GPU-n2-0,NVIDIA,9000,0:"))

    assert (held(cache, N1), held(cache, N2), cache.findings()) == (0, 9_000, ())


def test_a_pod_that_could_not_be_read_holds_what_was_taken_from_it_until_it_can(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,9000,0:"), fault="no limits")
    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,8000,0:"), fault="no limits")
    assert held(cache) == 9_000

    see(cache, bound(a_pod(), "n1", IDS))

    assert (held(cache), cache.findings()) == (10_000, ())


def test_a_pod_that_was_read_holds_the_same_when_it_cannot_be_read_any_more(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1", IDS))
    see(cache, bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,1,0:"), fault="no limits")

    assert held(cache) == 10_000


def test_cards_that_a_pod_was_given_after_it_was_bound_are_what_it_was_given_first(cache: AllocationCache) -> None:
    see(cache, bound(a_pod(), "n1"))
    for _ in range(2):
        see(cache, bound(a_pod(), "n1", IDS))
        assert (held(cache), cache.findings()) == (10_000, ())


def test_a_pod_holds_the_same_whether_or_not_it_has_a_container_without_devices(cache: AllocationCache) -> None:
    for ids in (IDS, "GPU-n1-0,NVIDIA,1,0:"):
        raw = bound(a_pod(), "n1", ids)
        raw["spec"]["containers"].append({"name": "idle"})
        see(cache, raw)
        assert held(cache) == 10_000


def test_whoever_shows_a_pod_is_told_that_its_allocation_was_changed_and_of_no_change_otherwise(
    cache: AllocationCache,
) -> None:
    raw = bound(a_pod(), "n1", IDS)
    assert cache.see_pod(objects.pod(raw), 0) == cache.see_pod(objects.pod(raw), 0) == ()

    (problem,) = cache.see_pod(objects.pod(bound(a_pod(), "n1", "GPU-n1-0,NVIDIA,1,0:")), 0)

    assert (problem.place, problem.what) == (
        "pod team/p",
        "the allocation in its annotations was changed after it was bound; it keeps what it was bound with",
    )


def test_a_pod_on_a_node_that_is_gone_is_answered_as_any_other(cache: AllocationCache) -> None:
    cache.reserve(N1, asking(a_pod()), 0)
    cache.forget_node(N1)

    assert cache.answer(N1, asking(a_pod())) == cache.answer(N1, asking(a_pod("other"))) == UNKNOWN_NODE


def test_a_pod_with_an_idle_container_may_be_shown_before_its_node(cache: AllocationCache) -> None:
    raw = bound(a_pod(), "n3", "GPU-n3-0,NVIDIA,10000,0:")
    raw["spec"]["containers"].append({"name": "idle"})
    see(cache, raw)

    see_node(cache, a_node("n3"))

    assert (held(cache, NodeName("n3")), cache.findings()) == (10_000, ())


def nodes_kept() -> int:
    """Of how many nodes anything is kept in this process."""
    gc.collect()
    return sum(isinstance(each, CacheNode) for each in gc.get_objects())


def test_of_a_node_that_is_gone_nothing_is_kept_once_its_last_pod_is_gone(cache: AllocationCache) -> None:
    before = nodes_kept()
    see_node(cache, a_node("n3"))
    cache.forget_node(NodeName("n3"))
    cache.forget_node(NodeName("n4"))
    assert nodes_kept() == before

    see(cache, bound(a_pod(), "n1", IDS))
    cache.forget_node(N1)
    assert nodes_kept() == before
    cache.forget_pod(P, 0)
    assert nodes_kept() == before - 1


LISTED = {"hami.io/aws-neuron-devices-allocated": "n1-AWSNeuron-0,AWSNeuron,0,3:;"}


def of_cores(ids: str, **annotations: str) -> tuple[AllocationCache, Raw]:
    """A pod on a Trainium node that asks for two cores, and for a card of Volcano's, with core numbers in its words."""
    cache = AllocationCache(Decider(Registry([*REGISTRY, NEURON])))
    see_node(cache, a_neuron_node("n1"))
    return cache, with_cores(ids, **annotations)


def with_cores(ids: str, **annotations: str) -> Raw:
    limits = {"aws.amazon.com/neuroncore": "2", "volcano.sh/vgpu-number": "1"}
    raw = bound(a_pod(annotations={"AWS_NEURON_IDS": ids, "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore"}), "n1")
    raw["spec"]["containers"][0]["resources"] = {"limits": limits}
    raw["metadata"]["annotations"] |= annotations
    return raw


def in_use(cache: AllocationCache) -> set[str]:
    """The numbers of n1's Neuron devices that are at least partly held."""
    entry = cache.entry(N1)
    assert entry is not None
    used = [name for name, usage in zip(entry.ids, entry.state.usage, strict=True) if usage.slots]
    return {name.removeprefix("n1-AWSNeuron-") for name in used}


def test_cores_by_number_are_held_beside_listed_devices_however_often_the_pod_is_shown() -> None:
    cache, raw = of_cores("8,9", **LISTED)
    for _ in range(2):
        see(cache, raw)
        assert in_use(cache) == {"0", "4"}


@pytest.mark.parametrize("listed", [LISTED, {}], ids=["with a list", "alone"])
@pytest.mark.parametrize(
    "later",
    [
        with_cores("10,11", **LISTED),
        with_cores("10,11"),
        with_cores("8,9", **{"hami.io/aws-neuron-devices-allocated": "n1-AWSNeuron-1,AWSNeuron,0,3:;"}),
        with_cores(""),
    ],
    ids=["other cores", "other cores alone", "another list", "none"],
)
def test_whoever_writes_other_cores_on_a_bound_pod_frees_none_of_those_it_was_bound_with(
    listed: dict[str, str], later: Raw
) -> None:
    cache, raw = of_cores("8,9", **listed)
    see(cache, raw)
    first = in_use(cache)

    see(cache, later)

    assert in_use(cache) == first
    assert AuditFindingKind.CHANGED in {found.finding for found in cache.findings()}
    see(cache, raw)
    assert in_use(cache) == first
    assert AuditFindingKind.CHANGED not in {found.finding for found in cache.findings()}


def test_a_card_that_koordinator_names_by_its_number_alone_is_held_whatever_is_written_later() -> None:
    machine = next(each for each in MACHINES if each.vendor == KOORDINATOR.name)
    cache = AllocationCache(Decider(Registry([KOORDINATOR])))
    assert machine.published is not None
    cache.see_node(objects.node_object(machine.node("n1"))._replace(published=machine.published("n1")))
    held_by_number = []
    for number in (0, 1):
        card = {
            "minor": number,
            "resources": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
        }
        raw = bound(a_pod(annotations={KOORDINATOR.keys.allocated: json.dumps({"gpu": [card]})}), "n1")
        raw["spec"]["containers"][0]["resources"] = {"limits": {"koordinator.sh/gpu": "50"}}
        see(cache, raw)
        entry = cache.entry(N1)
        assert entry is not None
        held_by_number.append([usage.slots for usage in entry.state.usage])

    assert held_by_number == [[1, 0, 0], [1, 0, 0]]


def test_cores_that_are_written_beside_a_list_after_the_pod_was_bound_are_not_held() -> None:
    cache, raw = of_cores("", **LISTED)
    see(cache, raw)

    see(cache, with_cores("10,11", **LISTED))

    assert in_use(cache) == {"0"}
    assert AuditFindingKind.CHANGED in {found.finding for found in cache.findings()}


@pytest.mark.parametrize("listed", [LISTED, {}], ids=["with a list", "alone"])
def test_a_pod_that_may_use_every_device_holds_those_that_are_written_down_for_it_later(listed: dict[str, str]) -> None:
    cache, raw = of_cores("8", **listed)
    see(cache, raw)
    assert len(in_use(cache)) == 16
    see(cache, with_cores("8,9", **listed))
    narrowed = in_use(cache)
    assert narrowed == {"4", *(["0"] if listed else [])}
    assert AuditFindingKind.CHANGED not in {found.finding for found in cache.findings()}

    see(cache, with_cores("10,11", **listed))

    assert in_use(cache) == narrowed
    assert AuditFindingKind.CHANGED in {found.finding for found in cache.findings()}


def test_a_remedy_that_one_of_two_reasons_names_is_followed_by_no_other() -> None:
    cache, raw = of_cores("8", **{"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,many,0:"})
    see(cache, raw)

    (found,) = cache.findings()

    assert found.finding is AuditFindingKind.UNREADABLE
    assert found.text.endswith("or recreate it with a scheduler that writes them")
