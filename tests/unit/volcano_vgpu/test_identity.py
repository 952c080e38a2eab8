"""The container of a call, by the kubelet's own record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse
from volcano_vgpu.core.identity import (
    KIND,
    NONCE_KEY,
    Adopted,
    AllocateCall,
    Allocation,
    IdentityDoubt,
    Starting,
    Unclear,
    allocations,
    identify,
    in_use,
    remembered,
)
from volcano_vgpu.core.model import SlotId

RESOURCE = "volcano.sh/vgpu-number"


def ids(*names: str) -> frozenset[SlotId]:
    return frozenset(map(SlotId, names))


def held(pod: str, container: str, *slots: str, nonce: str | None = None) -> Allocation:
    """A container's record; the nonce is made of the names by default."""
    name = f"{pod}-{container}" if nonce is None else nonce
    return Allocation(pod_uid=PodUid(pod), container=container, slots=ids(*slots), nonce=name)


def call(nonce: str, *slots: str, at: float = 0.0) -> AllocateCall:
    return AllocateCall(nonce, ids(*slots), at)


def entry(response: ContainerAllocateResponse, resource: str = RESOURCE) -> CheckpointEntry:
    return CheckpointEntry(
        pod_uid=PodUid("u"), container="c", resource=resource, device_ids=frozenset({"s0"}), response=response
    )


def test_the_name_in_our_own_answer_says_whose_it_is() -> None:
    response = ContainerAllocateResponse(
        cdi_devices=[CDIDevice(name="nvidia.com/gpu=all"), CDIDevice(name=f"{KIND}=s0-12")]
    )
    (found,) = allocations(Checkpoint((entry(response), entry(response, "other.example/gpu"))), RESOURCE)
    assert found == held("u", "c", "s0", nonce="s0-12")


def test_an_answer_without_cdi_carries_its_name_in_an_annotation() -> None:
    response = ContainerAllocateResponse(annotations={NONCE_KEY: "s0-12"}, envs={"A": "b"})
    (found,) = allocations(Checkpoint((entry(response),)), RESOURCE)
    assert (found.nonce, found.answered) == ("s0-12", {"A": "b"})


def test_all_containers_of_the_pod_are_found_with_the_one_that_starts() -> None:
    record = [
        held("a", "init", "s0"),
        held("a", "main", "s0"),
        held("a", "second", "s1", "s2"),
        held("b", "main", "s3"),
    ]
    found = identify(record, ids("s0"))
    assert isinstance(found, Starting)
    assert found.pod_uid == "a"
    assert found.calling == ("init", "main")
    assert set(found.containers) == {"init", "main", "second"}
    assert found.withheld == ()


def test_ids_that_are_not_recorded_yet_are_asked_for_again() -> None:
    found = identify([held("a", "main", "s0", "s1")], ids("s0"))
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.UNRECORDED
    assert "container main of pod a (s0, s1)" in found.text


def test_a_container_of_the_existing_plugin_is_adopted() -> None:
    record = [held("a", "main", "GPU-a-0", nonce="")]
    assert identify(record, ids("GPU-a-0")) == Adopted(PodUid("a"), ("main",))


def test_of_two_owners_the_one_that_was_served_keeps_the_id() -> None:
    first, second = held("a", "main", "s0"), held("b", "main", "s0")
    for record in ([first, second], [second, first]):
        found = identify(record, ids("s0"), served=[first])
        assert isinstance(found, Starting)
        assert (found.pod_uid, found.withheld) == ("a", (second,))


def test_of_two_owners_that_wait_the_earlier_call_keeps_the_id() -> None:
    first, second = held("a", "main", "s0"), held("b", "main", "s0")
    calls = [call("a-main", "s0"), call("b-main", "s0")]
    found = identify([second, first], ids("s0"), calls=calls)
    assert isinstance(found, Starting)
    assert (found.pod_uid, found.withheld) == ("a", (second,))


def test_calls_from_before_a_restart_came_before_those_after_it() -> None:
    first, second = held("a", "main", "s0"), held("b", "main", "s0")
    found = identify([first, second], ids("s0"), calls=[call("b-main", "s0")])
    assert isinstance(found, Starting)
    assert found.pod_uid == "a"


def test_two_owners_of_whom_nobody_knows_the_first_both_wait() -> None:
    found = identify([held("a", "main", "s0"), held("b", "main", "s0")], ids("s0"))
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.DOUBLED
    assert "container main of pod b" in found.text


def test_an_owner_that_is_gone_is_in_nobodys_way() -> None:
    gone, here = held("a", "main", "s0"), held("b", "main", "s0")
    found = identify([gone, here], ids("s0"), served=[gone], gone={PodUid("a")})
    assert isinstance(found, Starting)
    assert found.pod_uid == "b"


def test_an_id_that_is_part_of_what_an_earlier_container_holds_is_doubled_too() -> None:
    first, second = held("a", "main", "s0", "s1"), held("b", "main", "s1")
    found = identify([first, second], ids("s1"), served=[first])
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.DOUBLED


def test_what_a_kubelet_forgot_is_still_held_by_whom_it_was_served_to() -> None:
    forgotten, later = held("a", "main", "s0"), held("b", "main", "s0")
    found = identify([later], ids("s0"), served=[forgotten])
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.DOUBLED


def test_one_container_of_a_pod_can_be_withheld_while_the_others_are_served() -> None:
    other = held("a", "main", "s1")
    found = identify([other, held("b", "one", "s0"), held("b", "two", "s1")], ids("s0"), served=[other])
    assert isinstance(found, Starting)
    assert set(found.containers) == {"one"}
    assert [each.container for each in found.withheld] == ["two"]


def test_a_name_for_two_containers_serves_neither() -> None:
    record = [held("a", "main", "s0", nonce="n"), held("b", "main", "s1", nonce="n")]
    found = identify(record, ids("s0"))
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.CONTRADICTED


def test_a_name_beside_other_ids_than_it_was_given_for_serves_nobody() -> None:
    found = identify([held("a", "main", "s0")], ids("s0"), calls=[call("a-main", "s1")])
    assert isinstance(found, Unclear)
    assert found.doubt is IdentityDoubt.CONTRADICTED


def test_a_contradiction_about_other_pods_hides_nobody() -> None:
    record = [held("a", "m", "s0", nonce="n"), held("b", "m", "s1", nonce="n"), held("c", "m", "s2")]
    assert isinstance(identify(record, ids("s2")), Starting)


def test_a_slot_is_in_use_by_record_by_service_and_while_its_call_is_young() -> None:
    calls = [call("x", "s1", at=0), call("y", "s2", at=90)]
    record = [held("a", "main", "s0"), held("b", "main", "s3")]
    assert in_use(record, calls, now=100) == {"s0", "s2", "s3"}


def test_old_calls_are_remembered_as_long_as_the_kubelet_remembers_them() -> None:
    calls = [call("a-main", "s0", at=0), call("lost", "s1", at=0), call("new", "s2", at=99)]
    assert [each.nonce for each in remembered(calls, [held("a", "main", "s0")], now=100)] == ["a-main", "new"]


def test_a_call_that_is_not_recorded_counts_for_just_under_fifteen_seconds() -> None:
    calls = [call("late", "s0", at=0.0)]
    for now, counted in ((14.9, True), (15.0, False)):
        assert in_use([], calls, now=now) == (ids("s0") if counted else frozenset())
        assert remembered(calls, [], now=now) == (tuple(calls) if counted else ())


def test_of_a_pod_only_containers_with_a_name_of_ours_are_called() -> None:
    found = identify([held("a", "init", "s0", nonce=""), held("a", "main", "s0")], ids("s0"))
    assert isinstance(found, Starting)
    assert (found.calling, set(found.containers)) == (("main",), {"main"})


def test_containers_with_other_ids_are_not_named_as_holders_of_a_part() -> None:
    found = identify([held("a", "main", "s1")], ids("s0"))
    assert isinstance(found, Unclear)
    assert "container main" not in found.text


RECORDS = st.lists(
    st.builds(held, st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.sampled_from(["s0", "s1", "s2"])),
    max_size=6,
    unique_by=lambda each: (each.pod_uid, each.container),
)


@given(RECORDS, st.data())
def test_no_id_is_served_to_two_pods_whatever_the_record(record: list[Allocation], data: st.DataObject) -> None:
    served = data.draw(st.lists(st.sampled_from(record), max_size=1) if record else st.just([]))
    order = data.draw(st.permutations(record))
    remembered_ones = order[: data.draw(st.integers(0, len(order)))]
    calls = [AllocateCall(each.nonce, each.slots, 0.0) for each in remembered_ones]
    given_out = list(served)
    for each in record:
        found = identify(record, each.slots, served=served, calls=calls)
        if isinstance(found, Starting):
            given_out.extend(found.containers.values())
    for one in given_out:
        assert not any(other.slots & one.slots for other in given_out if other.pod_uid != one.pod_uid)


@given(RECORDS)
def test_the_order_of_the_record_changes_nothing(record: list[Allocation]) -> None:
    for each in record:
        ahead, behind = identify(record, each.slots), identify(record[::-1], each.slots)
        assert type(ahead) is type(behind)
        if isinstance(ahead, Starting) and isinstance(behind, Starting):
            assert (ahead.pod_uid, ahead.containers) == (behind.pod_uid, behind.containers)
