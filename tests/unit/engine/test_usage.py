"""What a pod uses: the peak over its containers' lives."""

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.usage import HeldDevice, held_by, usage_of
from hami_plugins.model.devices import IDLE, CoreMask, DeviceUsage, Instance, Mark, SlicePlacement
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from tests.builders import a_record, a_share, allocated

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def held(*allocations: ContainerAllocation, init_finished: bool = False) -> dict[str, HeldDevice]:
    return dict(held_by(allocations, init_finished=init_finished).items())


def test_containers_that_run_together_add_up() -> None:
    found = held(allocated(a_share("a", 100, 10)), allocated(a_share("a", 50, 5), a_share("b", 7, 1)))
    assert found == {"a": HeldDevice(2, 150, 15), "b": HeldDevice(1, 7, 1)}


def test_sidecars_run_with_the_applications() -> None:
    assert held(allocated(a_share("a", 100), kind=SIDECAR), allocated(a_share("a", 50))) == {"a": HeldDevice(2, 150, 0)}


def test_init_containers_run_one_after_another_and_before_the_others() -> None:
    found = held(
        allocated(a_share("a", 800, 10), kind=INIT),
        allocated(a_share("a", 500, 40), kind=INIT),
        allocated(a_share("a", 600, 20)),
    )
    assert found == {"a": HeldDevice(1, 800, 40)}


def test_an_init_container_runs_beside_the_sidecars_that_started_before_it() -> None:
    early, late = allocated(a_share("a", 100), kind=SIDECAR), allocated(a_share("a", 100), kind=INIT)
    assert held(early, late) == {"a": HeldDevice(2, 200, 0)}
    assert held(late, early) == {"a": HeldDevice(1, 100, 0)}


def test_an_init_container_that_holds_a_card_twice_takes_one_slot_and_all_it_names() -> None:
    twice = allocated(a_share("a", 100, 5), a_share("a", 200, 6), kind=INIT)
    assert held(twice) == {"a": HeldDevice(1, 300, 11)}
    assert held(allocated(a_share("a", 100, 5), a_share("a", 200, 6))) == {"a": HeldDevice(2, 300, 11)}


def test_finished_init_containers_hold_nothing() -> None:
    allocations = allocated(a_share("a", 800), kind=INIT), allocated(a_share("b", 100))
    assert held(*allocations, init_finished=True) == {"b": HeldDevice(1, 100, 0)}


def test_marks_of_init_and_application_that_are_the_same_place_count_once() -> None:
    place: Mark = Instance("1g", SlicePlacement(0, 1))
    other: Mark = Instance("1g", SlicePlacement(1, 1))
    one, two = a_share("a", 5, mark=place), a_share("a", 5, mark=other)
    assert held(allocated(one, kind=INIT), allocated(one)) == {"a": HeldDevice(1, 5, 0, (place,))}
    assert held(allocated(one, kind=INIT), allocated(two)) == {"a": HeldDevice(1, 5, 0, (other, place))}


def test_usage_is_the_sum_over_pods_in_canonical_order_of_marks() -> None:
    low, high = CoreMask(1), CoreMask(2)
    first = a_record(allocated(a_share("a", 10, 1, high)), name="first")
    second = a_record(allocated(a_share("a", 20, 2, low)), name="second")
    expected = DeviceUsage(2, MiB(30), CoreShare(3), (low, high))
    ids = (DeviceId("a"), DeviceId("b"))
    assert usage_of([first, second], ids) == (expected, IDLE)
    assert usage_of([second, first], ids) == (expected, IDLE)


def test_shares_of_unknown_devices_count_nowhere() -> None:
    assert usage_of([a_record(allocated(a_share("gone", 10)))], (DeviceId("a"),)) == (IDLE,)


allocations = st.lists(
    st.builds(
        lambda kind, shares: allocated(*shares, kind=kind),
        st.sampled_from(ContainerKind),
        st.lists(st.builds(a_share, st.sampled_from("ab"), st.integers(0, 99), st.integers(0, 9)), max_size=3),
    ),
    max_size=5,
)


@given(allocations)
def test_a_pod_holds_at_least_its_applications_and_at_most_everything_it_names(
    given_: list[ContainerAllocation],
) -> None:
    found = held(*given_)
    for device in "ab":
        running = [s for g in given_ if g.kind is not INIT for s in g.shares if s.device == device]
        every = [s for g in given_ for s in g.shares if s.device == device]
        got = found.get(device, HeldDevice(0, 0, 0))
        assert sum(s.memory for s in running) <= got.memory <= sum(s.memory for s in every)
        assert sum(s.cores for s in running) <= got.cores <= sum(s.cores for s in every)
        assert len(running) <= got.slots <= len(every)


@given(allocations)
def test_finishing_init_containers_frees_and_never_takes(given_: list[ContainerAllocation]) -> None:
    before, after = held(*given_), held(*given_, init_finished=True)
    assert set(after) <= set(before)
    for device, got in after.items():
        assert got.memory <= before[device].memory
        assert got.cores <= before[device].cores
        assert got.slots <= before[device].slots
