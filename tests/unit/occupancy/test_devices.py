"""Parts of cards: which pod holds which, what is free, and which free part is unusable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.model.devices import Device, Instance, SlicePlacement
from hami_plugins.occupancy.devices import DeviceOccupancy, NodeUse, Occupancy, SegmentKind, SegmentUnit
from hami_plugins.occupancy.totals import fleet_use, shape_of
from hami_plugins.plan import Plan
from tests.builders import a_device, a_node, a_record, a_share, allocated
from tests.unit.plan.plans import REGISTRY, a_plan, asking, cordoned, holding


def only_node(plan: Plan) -> NodeUse:
    (node,) = Occupancy(plan, REGISTRY).nodes
    return node


def only_card(plan: Plan) -> DeviceOccupancy:
    (card,) = only_node(plan).cards
    return card


def parts(card: DeviceOccupancy) -> list[tuple[SegmentKind, int]]:
    return [(segment.part, segment.amount) for segment in card.segments]


def test_parts_of_a_card_add_up_to_its_memory() -> None:
    running = a_record(allocated(a_share(memory=4096)))
    card = only_card(a_plan(asking(1024), on=[holding(a_node(), running)]))
    assert parts(card) == [(SegmentKind.HELD, 4096), (SegmentKind.PLANNED, 1024), (SegmentKind.FREE, 11_264)]
    assert card.total == sum(segment.amount for segment in card.segments)


def test_planned_pods_are_told_from_those_that_run_already() -> None:
    node = only_node(a_plan(asking(name="new"), on=[holding(a_node(), a_record(name="old"))]))
    assert node.planned == ("default/new",)
    assert node.running == 1
    assert [(segment.pod, segment.part) for segment in node.cards[0].segments[:2]] == [
        ("default/old", SegmentKind.HELD),
        ("default/new", SegmentKind.PLANNED),
    ]


@pytest.mark.parametrize(
    ("device", "note"),
    [
        pytest.param(a_device(healthy=False), "unhealthy", id="unhealthy"),
        pytest.param(a_device(cordoned=True), "card cordoned", id="cordoned"),
    ],
)
def test_what_is_left_of_a_broken_or_cordoned_card_is_unavailable(device: Device, note: str) -> None:
    card = only_card(a_plan(on=[a_node("n", device)]))
    assert parts(card) == [(SegmentKind.UNAVAILABLE, 16_384)]
    assert card.note == note


def test_what_is_left_on_a_cordoned_node_is_unavailable() -> None:
    node = only_node(a_plan(on=[cordoned(holding(a_node(), a_record()))]))
    assert node.cordoned
    assert parts(node.cards[0]) == [(SegmentKind.HELD, 1024), (SegmentKind.UNAVAILABLE, 15_360)]
    assert node.cards[0].note == "node cordoned"


def test_what_is_left_on_a_node_that_is_not_ready_is_unavailable() -> None:
    entry = a_node()
    card = only_card(a_plan(on=[replace(entry, facts=replace(entry.facts, ready=False))]))
    assert parts(card) == [(SegmentKind.UNAVAILABLE, 16_384)]
    assert card.note == "node not ready"


def test_memory_behind_the_last_slot_is_stranded() -> None:
    card = only_card(a_plan(on=[holding(a_node("n", a_device(slots=1)), a_record())]))
    assert parts(card)[-1] == (SegmentKind.STRANDED, 15_360)
    assert card.note == "its only slot is taken"


def test_memory_without_a_core_left_is_stranded() -> None:
    card = only_card(a_plan(on=[holding(a_node(), a_record(allocated(a_share(memory=1024, cores=100))))]))
    assert parts(card)[-1] == (SegmentKind.STRANDED, 15_360)
    assert card.note == "all 100 cores are promised"


def test_a_remainder_too_small_for_every_planned_request_is_stranded() -> None:
    busy = holding(a_node(), a_record(allocated(a_share(memory=15_000))))
    card = only_card(a_plan(asking(8192), on=[busy]))
    assert parts(card)[-1] == (SegmentKind.STRANDED, 1384)
    assert card.note == "too little for any planned pod"


def test_a_remainder_that_one_of_the_planned_requests_can_use_is_free() -> None:
    busy = holding(a_node(), a_record(allocated(a_share(memory=15_000))))
    card = only_card(a_plan(asking(8192), asking(16_000, name="q"), asking(100, name="r"), on=[busy]))
    assert parts(card)[-1] == (SegmentKind.FREE, 1284)


def test_an_idle_card_is_free_even_if_no_planned_request_fits_on_it() -> None:
    card = only_card(a_plan(asking(100_000), on=[a_node()]))
    assert parts(card) == [(SegmentKind.FREE, 16_384)]
    assert not card.note


def test_without_planned_requests_every_remainder_with_room_is_free() -> None:
    card = only_card(a_plan(on=[holding(a_node(), a_record())]))
    assert parts(card)[-1] == (SegmentKind.FREE, 15_360)


def test_a_card_that_holds_more_than_it_has_is_overbooked_and_has_no_rest() -> None:
    card = only_card(a_plan(on=[holding(a_node(), a_record(allocated(a_share(memory=20_000))))]))
    assert card.overbooked
    assert parts(card) == [(SegmentKind.HELD, 20_000)]


@pytest.mark.parametrize(
    ("device", "unit", "total"),
    [
        pytest.param(a_device(memory=100), SegmentUnit.MEMORY, 100, id="memory"),
        pytest.param(a_device(memory=0, cores=2), SegmentUnit.CORES, 2, id="cores"),
        pytest.param(a_device(memory=0, cores=0, slots=1), SegmentUnit.SLOTS, 1, id="slots"),
    ],
)
def test_a_card_is_measured_in_the_first_thing_that_it_has(device: Device, unit: SegmentUnit, total: int) -> None:
    card = only_card(a_plan(on=[a_node("n", device)]))
    assert (card.unit, card.total) == (unit, total)


def test_partitions_stand_in_the_order_of_their_places() -> None:
    records = [
        a_record(allocated(a_share(mark=Instance("1g", SlicePlacement(start, 1)))), name=name)
        for start, name in ((4, "late"), (0, "early"))
    ]
    card = only_card(a_plan(on=[holding(a_node(), *records)]))
    assert [segment.pod for segment in card.segments[:2]] == ["default/early", "default/late"]
    assert [segment.partition for segment in card.segments[:2]] == ["1g@0", "1g@4"]


def test_a_pod_with_two_containers_on_a_card_is_one_part() -> None:
    pod = a_record(allocated(a_share(memory=1000)), allocated(a_share(memory=2000)))
    card = only_card(a_plan(on=[holding(a_node(), pod)]))
    assert parts(card)[0] == (SegmentKind.HELD, 3000)
    assert card.segments[0].held.slots == 2


def test_models_are_summed_over_all_nodes() -> None:
    nodes = [a_node("a"), holding(a_node("b"), a_record()), a_node("c", a_device(model="NVIDIA-T4", memory=8))]
    acme, other = fleet_use(Occupancy(a_plan(on=nodes), REGISTRY).nodes)
    assert (acme.model, acme.cards, acme.total) == ("Acme", 2, 32_768)
    assert acme.amounts[SegmentKind.HELD] == 1024
    assert (other.model, other.cards) == ("T4", 1)


def test_a_nodes_shape_names_models_and_unusual_modes() -> None:
    devices = (a_device(), a_device(index=1), a_device(index=2, mode="mig"), a_device(index=3, mode="hami-core"))
    assert shape_of(a_node("n", *devices)) == ((3, "Acme"), (1, "Acme (mig)"))
