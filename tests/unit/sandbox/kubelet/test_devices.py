"""The kubelet's memory of devices: which container gets which, and its message when none fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from hami_plugins.sandbox.kubelet.devices import (
    ContainerResource,
    Counts,
    DeviceRecords,
    DevicesRefused,
    PreferenceRequest,
    TakenDevices,
)

R = "example.com/slot"
ANSWER = ContainerAllocateResponse()


def a_book(healthy: int = 4, unhealthy: int = 0, *, forgets: bool = True) -> DeviceRecords:
    book = DeviceRecords(forgets=forgets)
    book.offer(R, [f"s{n}" for n in range(healthy)], [f"u{n}" for n in range(unhealthy)])
    return book


def give(
    book: DeviceRecords, uid: str, container: str, amount: int, *, reusable: frozenset[str] = frozenset()
) -> TakenDevices:
    claim = ContainerResource(uid, container, R)
    choice = book.choose(claim, amount, reusable)
    if isinstance(choice, PreferenceRequest):
        choice = book.take(R, choice, ())
    assert isinstance(choice, TakenDevices), choice
    book.insert(claim, choice.ids, ANSWER)
    return choice


def refusal(book: DeviceRecords, amount: int, *, uid: str = "p", container: str = "c") -> str:
    found = book.choose(ContainerResource(uid, container, R), amount, frozenset())
    assert isinstance(found, DevicesRefused), found
    return found.why


def test_the_plugin_is_asked_about_everything_that_is_free() -> None:
    book = a_book()
    give(book, "p", "c", 1)
    assert book.choose(ContainerResource("q", "c", R), 2, frozenset()) == PreferenceRequest(("s1", "s2", "s3"), (), 2)


def test_preferred_devices_come_first_and_others_fill_up() -> None:
    book = a_book()
    question = book.choose(ContainerResource("p", "c", R), 3, frozenset())
    assert isinstance(question, PreferenceRequest)
    assert book.take(R, question, ["s3", "nobody"]) == TakenDevices(("s0", "s1", "s3"))


def test_devices_of_ended_init_containers_are_taken_without_asking() -> None:
    book = a_book()
    give(book, "p", "i", 2)
    assert book.choose(ContainerResource("p", "c", R), 2, frozenset({"s0", "s1"})) == TakenDevices(("s0", "s1"))


def test_a_part_from_init_containers_has_to_be_included_in_the_plugins_choice() -> None:
    book = a_book()
    give(book, "p", "i", 1)
    found = book.choose(ContainerResource("p", "c", R), 2, frozenset({"s0"}))
    assert found == PreferenceRequest(("s0", "s1", "s2", "s3"), ("s0",), 2)


def test_a_container_that_holds_what_it_asks_for_gets_nothing_more() -> None:
    book = a_book()
    give(book, "p", "c", 2)
    assert book.choose(ContainerResource("p", "c", R), 2, frozenset()) == TakenDevices()


def test_refusals_are_in_the_kubelets_words() -> None:
    book = a_book()
    give(book, "p", "c", 2)
    assert refusal(book, 1) == f'pod "p" container "c" changed request for resource "{R}" from 2 to 1'
    assert refusal(book, 3, uid="q") == (f"requested number of devices unavailable for {R}. Requested: 3, Available: 2")
    book.offer(R, ["s1", "s2"], ["s0"])
    assert (
        refusal(book, 2) == f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {R}"
    )
    book.disconnect(R, 0)
    assert refusal(book, 1, uid="q") == f"no healthy devices present; cannot allocate unhealthy devices {R}"
    assert refusal(DeviceRecords(), 1) == f"cannot allocate unregistered device {R}"


def test_ill_devices_count_for_capacity_alone() -> None:
    assert a_book(3, 2).counts(0, grace=10) == {R: Counts(5, 3)}


def test_a_plugin_that_is_gone_leaves_capacity_for_a_while_and_then_zero_once() -> None:
    book = a_book(3)
    book.disconnect(R, 100)
    assert book.counts(110, grace=10) == {R: Counts(3, 0)}
    assert book.counts(111, grace=10) == {R: Counts(0, 0)}
    assert book.counts(112, grace=10) == {}


def test_a_plugin_that_comes_back_in_time_keeps_its_capacity() -> None:
    book = a_book(3)
    book.disconnect(R, 100)
    book.connect(R)
    book.offer(R, ["s0"], [])
    assert book.counts(1000, grace=10) == {R: Counts(1, 1)}


def test_devices_set_aside_are_forgotten_when_another_pod_goes() -> None:
    book = a_book()
    give(book, "a", "c", 1)
    question = book.choose(ContainerResource("b", "c", R), 1, frozenset())
    assert isinstance(question, PreferenceRequest)
    taken = book.take(R, question, ())
    book.release_except({"b"})
    book.insert(ContainerResource("b", "c", R), taken.ids, ANSWER)
    assert book.choose(ContainerResource("c", "c", R), 1, frozenset()) == PreferenceRequest(
        ("s0", "s1", "s2", "s3"), (), 1
    )


def test_a_kubelet_without_that_fault_keeps_them() -> None:
    book = a_book(forgets=False)
    give(book, "a", "c", 1)
    question = book.choose(ContainerResource("b", "c", R), 1, frozenset())
    assert isinstance(question, PreferenceRequest)
    book.take(R, question, ())
    book.release_except({"b"})
    assert book.choose(ContainerResource("c", "c", R), 1, frozenset()) == PreferenceRequest(("s0", "s2", "s3"), (), 1)


def test_a_pod_that_was_lost_track_of_keeps_its_entries_and_its_devices_are_offered() -> None:
    book = a_book(2)
    give(book, "a", "c", 2)
    book.lose("a")
    assert give(book, "b", "c", 2).ids == ("s0", "s1")
    assert set(book.held("a", "c")[R].device_ids) == {"s0", "s1"}


def test_a_failed_allocate_gives_everything_back() -> None:
    book = a_book(2)
    question = book.choose(ContainerResource("a", "c", R), 1, frozenset())
    assert isinstance(question, PreferenceRequest)
    book.take(R, question, ())
    book.undo()
    assert give(book, "b", "c", 2).ids == ("s0", "s1")


def test_what_was_saved_comes_back_and_its_plugin_has_yet_to() -> None:
    book = a_book()
    give(book, "p", "c", 2)
    another = DeviceRecords()
    another.restore(book.checkpoint(), 5)
    assert another.counts(5, grace=10) == {R: Counts(0, 0)}
    assert another.held("p", "c")[R].device_ids == {"s0", "s1"}
    assert another.manages(R)
    another.offer(R, ["s0", "s1", "s2"], [])
    assert give(another, "q", "c", 1).ids == ("s2",)


def test_a_resource_that_is_held_stays_the_kubelets_business_without_a_plugin() -> None:
    book = a_book()
    give(book, "p", "c", 1)
    book.disconnect(R, 0)
    book.counts(100, grace=10)
    assert (book.manages(R), book.knows(R)) == (True, False)


@pytest.mark.parametrize("zero_with_devices", [True, False])
def test_zero_devices_are_given_only_where_there_are_healthy_ones(zero_with_devices: bool) -> None:
    book = a_book(1 if zero_with_devices else 0, 1)
    found = book.choose(ContainerResource("p", "c", R), 0, frozenset())
    assert isinstance(found, TakenDevices if zero_with_devices else DevicesRefused)


@given(st.lists(st.tuples(st.sampled_from(["give", "end"]), st.integers(0, 5), st.integers(1, 3)), max_size=40))
def test_without_the_fault_no_device_is_ever_held_twice(history: list[tuple[str, int, int]]) -> None:
    book = a_book(6, forgets=False)
    alive: dict[int, str] = {}
    for at, (verb, number, amount) in enumerate(history):
        if verb == "end":
            alive.pop(number, None)
        elif number not in alive:
            uid = alive[number] = f"pod-{at}"
            book.release_except(set(alive.values()))
            choice = book.choose(ContainerResource(uid, "c", R), amount, frozenset())
            if isinstance(choice, PreferenceRequest):
                book.insert(ContainerResource(uid, "c", R), book.take(R, choice, ()).ids, ANSWER)
            else:
                assert isinstance(choice, DevicesRefused)
                del alive[number]
        owners = alive.values()
        held = [one for uid in owners for entry in book.held(uid, "c").values() for one in entry.device_ids]
        assert len(held) == len(set(held))
