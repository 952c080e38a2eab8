"""Events of waiting pods, and their rate."""

from __future__ import annotations

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocator.refusal_notes import NotifiedPods, allocation_note, refusal_note
from hami_plugins.engine.decide import Decider
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, PodUid
from hami_plugins.wire import objects
from tests.unit.allocations.test_quotas import NVIDIA, REGISTRY, a_node, a_pod, asking

UID = PodUid("u")
MEMORY, QUOTA = ("memory",), ("quota",)


def share(device: str, memory: int) -> AllocatedShare:
    return AllocatedShare(
        device=DeviceId(device), vendor=NVIDIA, word="NVIDIA", memory=MiB(memory), cores=CoreShare(0), mark=None
    )


def test_a_note_has_the_counted_reasons_and_one_remedy_and_its_cause_has_no_numbers() -> None:
    cache = AllocationCache(Decider(REGISTRY))
    for raw in (a_node("n1"), a_node("n2"), {"metadata": {"name": "plain"}, "status": {}}):
        cache.see_node(objects.node_object(raw))
    causes = set()
    for memory in (50_000, 60_000):
        intake = asking(a_pod(memory=memory))
        answers = [(entry, cache.answer(entry.name, intake)) for entry in cache.entries()]
        note = refusal_note(intake, answers, REGISTRY)
        assert note is not None
        causes.add(note.cause)
        assert f"2 of 3 nodes: memory: asked {memory:,} MiB on 1 card; largest free 40,960 MiB (n1)" in note.text
        assert "1 of 3 nodes: no vendor has registered devices there" in note.text
        assert note.text.endswith("; ask for less nvidia.com/gpumem, no card here has that much")
    assert len(causes) == 1


def test_a_pod_that_fits_somewhere_or_was_asked_of_no_known_node_gets_no_note() -> None:
    cache = AllocationCache(Decider(REGISTRY))
    cache.see_node(objects.node_object(a_node("n1")))
    intake = asking(a_pod())
    entry = next(cache.entries())
    assert refusal_note(intake, [(entry, cache.answer(NodeName("n1"), intake))], REGISTRY) is None
    assert refusal_note(intake, [], REGISTRY) is None


def test_an_allocation_names_some_devices_and_counts_the_others() -> None:
    assert allocation_note("n1", [share("a", 1_000), share("b", 0)]) == "allocated on node n1: a (1,000 MiB), b"
    assert allocation_note("n1", [share("c", 0)] * 10).endswith("c, c and 2 more")


def test_a_pod_is_told_each_cause_once_until_its_event_is_gone_or_it_waits_no_longer() -> None:
    told = NotifiedPods()
    assert told.first(UID, MEMORY, 0.0)
    assert not told.first(UID, MEMORY, 3_599.0)
    assert told.first(UID, QUOTA, 10.0)
    assert told.first(UID, MEMORY, 3_600.0)
    assert UID in told
    assert told.forget(UID)
    assert not told.forget(UID)
    assert told.first(UID, MEMORY, 3_601.0)


def test_no_more_pods_are_remembered_than_fit() -> None:
    told = NotifiedPods()
    for at in range(10_001):
        told.first(PodUid(str(at)), MEMORY, 0.0)
    assert told.first(PodUid("0"), MEMORY, 1.0)
    assert not told.first(PodUid("10000"), MEMORY, 1.0)
