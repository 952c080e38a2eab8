"""The values that every decision is made of: equal by content, cheap to hash, and never changing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.decisions import UNREGISTERED, Placed, Refusal, Refused
from hami_plugins.model.devices import (
    IDLE,
    CoreMask,
    DeviceUsage,
    GroupMember,
    Instance,
    Mark,
    SlicePlacement,
    Tenant,
    Unplaced,
)
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import ANY_DEVICE, Absolute, ContainerDemand, ContainerKind, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import VendorOptions
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import ContainerShares, Fit, NoFit, Reason
from tests import acme
from tests.builders import (
    ACME,
    CORES,
    COUNT,
    MEMORY,
    a_container,
    a_demand,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_request,
    a_share,
    a_snapshot,
    a_state,
    allocated,
    amounts,
    used,
)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (SlicePlacement(0, 2), SlicePlacement(2, 2), False),
        (SlicePlacement(0, 3), SlicePlacement(2, 2), True),
        (SlicePlacement(4, 1), SlicePlacement(0, 8), True),
        (SlicePlacement(2, 2), SlicePlacement(0, 2), False),
    ],
)
def test_placements_are_half_open(one: SlicePlacement, other: SlicePlacement, *, meet: bool) -> None:
    assert one.overlaps(other) is meet


@given(
    st.builds(SlicePlacement, st.integers(0, 8), st.integers(1, 8)),
    st.builds(SlicePlacement, st.integers(0, 8), st.just(1)),
)
def test_overlapping_is_mutual(one: SlicePlacement, other: SlicePlacement) -> None:
    assert one.overlaps(other) is other.overlaps(one)


class TestUsage:
    """What is promised of a device."""

    def test_shares_add_up(self) -> None:
        assert IDLE.plus(MiB(5), CoreShare(2)).plus(MiB(7), CoreShare(1), slots=3) == used(4, 12, 3)

    def test_marks_have_one_order_whoever_came_first(self) -> None:
        marks: list[Mark] = [
            Tenant("online", ""),
            Instance("2g", SlicePlacement(2, 2)),
            CoreMask(3),
            Instance("1g", SlicePlacement(0, 1)),
            GroupMember("ns/g"),
            Unplaced("why"),
        ]
        found = {self.held(order) for order in (marks, marks[::-1], sorted(marks, key=str))}
        assert len(found) == 1

    @staticmethod
    def held(marks: list[Mark]) -> DeviceUsage:
        usage = IDLE
        for mark in marks:
            usage = usage.plus(MiB(0), CoreShare(0), (mark,))
        return usage


def test_facts_of_a_device_are_found_by_name() -> None:
    device = a_device(traits=(("model", "X"), ("zone", "1")))
    assert (device.trait("zone"), device.trait("gone")) == ("1", None)


class TestMemory:
    """What a request for memory means on a card."""

    def test_an_amount_is_the_same_everywhere(self) -> None:
        assert Absolute(MiB(5)).on(a_device(memory=1)) == 5

    def test_a_percentage_is_rounded_down(self) -> None:
        assert Percent(33).on(a_device(memory=10)) == 3
        assert Percent(100).on(a_device(memory=16_384)) == 16_384


class TestSelector:
    """Which devices a pod accepts by id."""

    a, b = DeviceId("a"), DeviceId("b")

    def test_without_lists_every_id_is_accepted(self) -> None:
        assert ANY_DEVICE.accepts_id(self.a)
        assert not ANY_DEVICE.names_ids

    def test_an_allow_list_accepts_its_members_only(self) -> None:
        only = DeviceSelector(use_ids=frozenset({self.a}))
        assert only.names_ids
        assert only.accepts_id(self.a)
        assert not only.accepts_id(self.b)
        assert not DeviceSelector(use_ids=frozenset()).accepts_id(self.a)

    def test_the_deny_list_wins(self) -> None:
        both = DeviceSelector(use_ids=frozenset({self.a}), avoid_ids=frozenset({self.a}))
        assert not both.accepts_id(self.a)
        assert DeviceSelector(avoid_ids=frozenset({self.a})).accepts_id(self.b)


class TestDemand:
    """A pod's demand is a key of caches."""

    def test_equal_demands_are_one_key(self) -> None:
        one, same, other = a_demand(a_request()), a_demand(a_request()), a_demand(a_request(count=2))
        assert one == same
        assert one == one  # noqa: PLR0124 - identity is a way of its own
        assert hash(one) == hash(same)
        assert one != other
        assert one != "demand"

    def test_the_kind_of_a_container_is_part_of_it(self) -> None:
        request = a_request()
        kinds = [a_demand(ContainerDemand(kind, (request,))) for kind in ContainerKind]
        assert len(set(kinds)) == 3

    def test_it_knows_whether_ids_matter(self) -> None:
        assert a_demand(a_request(), a_request(selector=DeviceSelector(use_ids=frozenset()))).names_ids
        assert not a_demand(a_request(selector=DeviceSelector(use_models=("a",)))).names_ids

    def test_vendor_words_are_found_by_name(self) -> None:
        request = a_request(options=(("a", "1"), ("b", "2")))
        assert (request.option("b"), request.option("c")) == ("2", None)


class TestStates:
    """Two nodes with the same cards and the same load are in equal states."""

    def test_equal_states_are_one_key(self) -> None:
        one, same = a_state(usage=[used(1, 5)]), a_state(usage=[used(1, 5)])
        assert one == same
        assert one == one  # noqa: PLR0124 - identity is a way of its own
        assert hash(one) == hash(same)
        assert one != a_state(usage=[used(1, 6)])
        assert one != a_state(a_device(memory=1), usage=[used(1, 5)])
        assert one != "state"

    def test_shapes_differ_in_devices_links_and_traits(self) -> None:
        devices = (a_device(), a_device())
        shapes = [
            NodeShape(devices),
            NodeShape(devices, ((0, 1), (1, 0))),
            NodeShape(devices, (), (("a", "b"),)),
            NodeShape(devices[:1]),
        ]
        assert len(set(shapes)) == 4
        assert shapes[0] == NodeShape(devices)
        assert shapes[0] == shapes[0]
        assert shapes[0] != "shape"

    def test_a_shape_knows_where_each_vendors_devices_are(self) -> None:
        shape = NodeShape((a_device(), a_device(vendor="Beta"), a_device()), (), (("a", "b"),))
        assert shape.positions == {ACME: (0, 2), "Beta": (1,)}
        assert (shape.total_slots, shape.total_memory, shape.total_cores) == (30, 49_152, 300)
        assert (shape.trait("a"), shape.trait("z")) == ("b", None)
        assert repr(shape) == "NodeShape(3 devices: Acme, Beta)"

    def test_a_state_shows_what_is_promised(self) -> None:
        assert repr(a_state(usage=[used(1)])).startswith("NodeState(NodeShape(1 devices: Acme), (DeviceUsage(slots=1")

    @pytest.mark.parametrize("device", [a_device(slots=0), a_device(memory=0), a_device(cores=0)])
    def test_a_node_that_lacks_a_dimension_scores_nothing(self, device: object) -> None:
        assert NodeState(NodeShape((device,)), (used(1, 1, 1),)).base_score == 0.0  # type: ignore[arg-type]

    def test_a_score_is_ten_for_each_dimension_that_is_full(self) -> None:
        assert a_state(usage=[used(10, 16_384, 100)]).base_score == 30.0
        assert a_state().base_score == 0.0


class TestCluster:
    """A snapshot is a value: every change is a new one that shares the rest."""

    def test_nodes_are_in_name_order_whatever_the_order_they_came_in(self) -> None:
        snapshot = a_snapshot(a_node("b"), a_node("c"), a_node("a"))
        assert [entry.name for entry in snapshot.nodes] == ["a", "b", "c"]
        assert snapshot.node(NodeName("c")) is snapshot.nodes[2]
        assert snapshot.node(NodeName("z")) is None

    def test_replacing_a_node_leaves_the_old_snapshot_and_keeps_the_rest(self) -> None:
        before = a_snapshot(a_node("a"), a_node("b"), quotas={"team": {"pods": 3}})
        changed = a_node("b", usage=[used(1)])
        after = before.with_node(changed)
        assert after.nodes == (before.nodes[0], changed)
        assert before.nodes[1] is not changed
        for name in ("pending", "quotas", "queues", "pod_groups", "priorities", "problems", "position"):
            assert getattr(after, name) is getattr(before, name)

    def test_nodes_are_added_and_left_out_by_name(self) -> None:
        grown = a_snapshot(a_node("b")).with_more_nodes([a_node("a"), a_node("c")])
        assert [entry.name for entry in grown.nodes] == ["a", "b", "c"]
        assert grown.position == {"a": 0, "b": 1, "c": 2}
        assert [entry.name for entry in grown.only(lambda entry: entry.name != "b").nodes] == ["a", "c"]

    def test_of_two_quotas_the_smaller_limit_of_each_key_holds(self) -> None:
        one = NamespaceQuota(namespace="n", hard={"a": 1, "b": 5}, used={"a": 1, "b": 2})
        other = NamespaceQuota(namespace="n", hard={"b": 3, "c": 7}, used={"b": 1, "c": 4})
        both = NamespaceQuota(namespace="n", hard={"a": 1, "b": 3, "c": 7}, used={"a": 1, "b": 2, "c": 4})
        assert one.together_with(other) == both == other.together_with(one)

    def test_a_device_is_found_on_its_node(self) -> None:
        node = a_node("a", a_device(), a_device(), ids=["x", "y"])
        assert (node.position(DeviceId("y")), node.position(DeviceId("z"))) == (1, None)


class TestDecisions:
    """Answers can be shown and counted."""

    refusal = NoFit(((Reason.MEMORY, 1),), 1, 0, ACME, "no room on {node}")

    def test_the_nodes_name_is_put_in_only_where_it_belongs(self) -> None:
        assert str(self.refusal.on("n1")) == "no room on n1"
        plain = NoFit((), 0, 0, ACME, "full")
        assert plain.on("n1") is plain

    def test_refusals_are_counted_most_frequent_first_and_then_by_text(self) -> None:
        names = [NodeName(name) for name in "abcd"]
        answers: list[Refusal] = [UNREGISTERED, NoFit((), 0, 0, ACME, "z"), UNREGISTERED, NoFit((), 0, 0, ACME, "a")]
        refused = Refused(by_node=tuple(zip(names, answers, strict=True)))
        assert refused.counted() == (("node unregistered", 2), ("a", 1), ("z", 1))
        assert str(UNREGISTERED) == "node unregistered"

    def test_a_placements_shares_come_container_by_container(self) -> None:
        allocations = (allocated(a_share("a")), allocated(), allocated(a_share("b"), a_share("c")))
        placed = Placed(node=NodeName("n"), containers=allocations, fit=Fit((), 0.0), candidates=1)
        assert [share.device for share in placed.shares()] == ["a", "b", "c"]

    def test_a_container_without_shares_has_none(self) -> None:
        assert ContainerShares().shares() == ()


class TestPods:
    """Pods as written, and as holders."""

    def test_pods_and_records_are_called_by_namespace_and_name(self) -> None:
        assert a_pod(name="p", namespace="n").full_name == "n/p"
        assert a_record(name="p", namespace="n").full_name == "n/p"

    def test_a_limit_wins_over_a_request(self) -> None:
        container = a_container({"a": 1}, requests={"a": 2, "b": 3})
        assert str(container.amount("a")) == "1"
        assert str(container.amount("b")) == "3"
        assert container.amount("b", requests_too=False) is None
        assert container.amount("c") is None


class TestQuantities:
    """Exact amounts."""

    def test_a_whole_amount_is_an_integer(self) -> None:
        assert Quantity(3 * NANO, "3").whole == 3
        assert Quantity(3 * NANO + 1, "x").whole is None

    @pytest.mark.parametrize(("nano", "ceiling"), [(1, 1), (NANO, 1), (NANO + 1, 2), (-1, 0), (0, 0)])
    def test_amounts_are_rounded_up(self, nano: int, ceiling: int) -> None:
        assert Quantity(nano, "").ceiling == ceiling

    def test_an_amount_shows_as_the_server_stores_it(self) -> None:
        assert str(Quantity(1, "1500m")) == "1500m"


class TestVendors:
    """A vendor is data."""

    def test_names_that_are_not_set_are_left_out(self) -> None:
        assert ResourceNames(count="a", cores="b").all() == ("a", "b")

    def test_every_key_is_listed_once(self) -> None:
        keys = AnnotationKeys(allocated="a", to_allocate="b", use_ids=("c", "d"), inputs=("c",), extra=("e", ""))
        assert keys.all() == ("a", "b", "hami.io/mutex.lock", "c", "d", "e")

    def test_a_vendor_is_spelled_in_assignments_as_it_says(self) -> None:
        assert acme.SPEC.wire_word() == "Acme"
        assert replace(acme.SPEC, word="NVIDIA").wire_word() == "NVIDIA"

    def test_a_unit_of_memory_is_the_vendors_unit_times_its_factor(self) -> None:
        assert acme.SPEC.memory_factor() == 1
        options = VendorOptions(memory_factor=3)
        assert (
            replace(
                acme.SPEC, requests=replace(acme.SPEC.requests, memory_unit=MiB(256)), options=options
            ).memory_factor()
            == 768
        )

    def test_a_vendor_is_asked_when_any_of_its_resources_is_named(self) -> None:
        for name in (COUNT, MEMORY, CORES):
            assert acme.SPEC.asked_of(amounts({name: 0}))
        assert not acme.SPEC.asked_of(amounts({"cpu": 1}))
