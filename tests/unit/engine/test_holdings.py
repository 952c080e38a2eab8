"""What a running pod holds: does it add up, and what would it ask for again."""

from dataclasses import replace

import pytest

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.holdings import Inconsistency, InconsistencyKind, demand_again, flaws_of
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import CoreMask, Device, Instance, SlicePlacement, Unplaced
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute, ContainerKind
from hami_plugins.model.units import DeviceId, MiB
from tests import acme
from tests.builders import a_device, a_node, a_record, a_share, a_snapshot, allocated
from tests.unit.suggest.questions import a_pod_on

CARD = DeviceId("card-0")


def on(device: Device, *records: PodRecord) -> NodeEntry:
    return with_pods(a_node("a", device), records)


def flaw(kind: InconsistencyKind, promised: int = 0, capacity: int = 0, *others: str, why: str = "") -> Inconsistency:
    return Inconsistency(kind=kind, device=CARD, promised=promised, capacity=capacity, others=others, why=why)


def test_a_pod_on_a_healthy_card_with_room_has_no_flaws() -> None:
    record = a_pod_on(CARD, 10_000, 60)
    full = on(a_device(slots=2), record, a_pod_on(CARD, 6_384, 40, name="other"))
    assert flaws_of(record, full) == ()


def test_a_device_that_the_node_does_not_have_is_a_stranger() -> None:
    record = a_pod_on("gone", 1_000)
    assert flaws_of(record, on(a_device(), record)) == (
        Inconsistency(kind=InconsistencyKind.STRANGER, device=DeviceId("gone")),
    )


@pytest.mark.parametrize(
    ("device", "kind"),
    [(a_device(healthy=False), InconsistencyKind.UNHEALTHY), (a_device(cordoned=True), InconsistencyKind.CORDONED)],
)
def test_a_bad_card_is_told(device: Device, kind: InconsistencyKind) -> None:
    record = a_pod_on(CARD, 1_000)
    assert flaws_of(record, on(device, record)) == (flaw(kind),)


def test_a_card_that_is_promised_more_than_it_has_is_told_with_those_who_share_it() -> None:
    record = a_pod_on(CARD, 9_000, 60)
    others = [a_pod_on(CARD, 9_000, 60, name=name) for name in ("z", "b")]
    node = on(a_device(slots=2), record, *others)
    names = ("default/b", "default/z")
    assert flaws_of(record, node) == (
        flaw(InconsistencyKind.SLOTS, 3, 2, *names),
        flaw(InconsistencyKind.MEMORY, 27_000, 16_384, *names),
        flaw(InconsistencyKind.CORES, 180, 100, *names),
    )


def test_a_partition_whose_place_nobody_wrote_down_is_told() -> None:
    record = a_record(allocated(a_share(CARD, 1_000, mark=Unplaced("no reservation"))))
    assert flaws_of(record, on(a_device(), record)) == (flaw(InconsistencyKind.UNPLACED, why="no reservation"),)


def test_partitions_that_overlap_are_told_with_whom() -> None:
    def partition(start: int, name: str) -> PodRecord:
        return a_record(allocated(a_share(CARD, 1_000, mark=Instance("2g", SlicePlacement(start, 2)))), name=name)

    one, two, three = partition(0, "one"), partition(1, "two"), partition(2, "three")
    node = on(a_device(), one, two, three, a_pod_on(CARD, 1))
    assert flaws_of(one, node) == (flaw(InconsistencyKind.OVERLAP, 0, 0, "default/two"),)
    assert flaws_of(two, node) == (flaw(InconsistencyKind.OVERLAP, 0, 0, "default/one", "default/three"),)
    assert flaws_of(replace(one), on(a_device(), three)) == ()


def test_the_demand_of_a_pod_that_comes_again_is_what_it_holds() -> None:
    record = a_record(
        allocated(a_share("card-0", 1_000, 10), a_share("card-1", 2_000, 5), kind=ContainerKind.SIDECAR),
        allocated(),
        allocated(a_share("card-0", 500), a_share("npu", 7, vendor="Other")),
    )
    found = demand_again(record).containers
    assert [each.kind for each in found] == [ContainerKind.SIDECAR, ContainerKind.APP, ContainerKind.APP]
    assert [[(one.vendor, one.count, one.memory, one.cores) for one in each.requests] for each in found] == [
        [("Acme", 2, Absolute(MiB(2_000)), 10)],
        [],
        [("Acme", 1, Absolute(MiB(500)), 0), ("Other", 1, Absolute(MiB(7)), 0)],
    ]


def test_a_pod_that_comes_again_fits_where_it_was() -> None:
    record = a_record(allocated(a_share(CARD, 9_000, 30)))
    placed = Decider(Registry((acme.SPEC,))).decide(
        a_snapshot(a_node("a")), PodDemand(demand_again(record)), DEFAULT_POLICY
    )
    assert isinstance(placed, Placed)
    assert placed.containers == record.allocations


@pytest.mark.parametrize(("bits", "others"), [(0b0110, ("default/other",)), (0b1100, ())])
def test_cores_that_another_pod_holds_too_are_told(bits: int, others: tuple[str, ...]) -> None:
    record = a_record(allocated(a_share(CARD, 0, 2, CoreMask(0b0011))), name="p")
    other = a_record(allocated(a_share(CARD, 0, 2, CoreMask(bits))), name="other")
    plain = a_record(allocated(a_share(CARD, 0, 2)), name="plain")
    expected = (flaw(InconsistencyKind.OVERLAP, 0, 0, *others),) if others else ()
    assert flaws_of(record, on(a_device(cores=16), record, other, plain)) == expected


def test_cores_that_are_too_many_already_are_told_once() -> None:
    record = a_record(allocated(a_share(CARD, 0, 2, CoreMask(0b11))), name="p")
    other = a_record(allocated(a_share(CARD, 0, 2, CoreMask(0b11))), name="other")
    (only,) = flaws_of(record, on(a_device(cores=2), record, other))
    assert only.kind is InconsistencyKind.CORES
