"""Kunlun XPUs and their slices."""

import json

import pytest

from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import IDLE, DeviceShare
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Scoring
from hami_plugins.vendors.kunlun import CARD_MEMORY, INDEX_KEY, SLICED, SPEC, choose, score_node, together
from tests.builders import a_container, a_device, a_node_object, a_pod, a_request, a_state, used
from tests.unit.vendors.placing import holder, place

COUNT, LIST = SPEC.resources.count, SPEC.keys.allocated
SLICES, SLICE_MEMORY, SLICE_LIST = SLICED.resources.count, SLICED.resources.memory, SLICED.keys.allocated
BINPACK = {"hami.io/gpu-scheduler-policy": "binpack"}
MUTEX = {"hami.io/gpu-scheduler-policy": "mutex"}


def node(cards: int = 8) -> NodeObject:
    return a_node_object("n", capacity={COUNT: cards})


def sliced_node(cards: int = 8, *, slots: int = 4) -> NodeObject:
    devices = [
        {"id": f"x{at}", "index": at, "count": slots, "devmem": CARD_MEMORY, "devcore": 100, "health": True}
        for at in range(cards)
    ]
    return a_node_object("n", annotations={SLICED.keys.register: json.dumps(devices)})


def busy(*cards: int) -> str:
    return "".join(f"n-kunlun-{card},kunlun,{CARD_MEMORY},100:" for card in cards) + ";"


def slices(*held: tuple[int, int]) -> str:
    return "".join(f"x{card},XPU,{memory},{memory * 100 // CARD_MEMORY}:" for card, memory in held) + ";"


def test_cards_of_the_second_half_are_on_the_other_numa_node() -> None:
    assert [device.numa for device in SPEC.inventory(SPEC, node()).devices] == [0] * 4 + [1] * 4
    assert SPEC.inventory(SPEC, a_node_object()).ids == ()


def test_a_whole_card_is_booked_whole_and_told_by_index() -> None:
    written = place(SPEC, node(), a_pod(a_container({COUNT: 2})))
    assert isinstance(written, dict)
    assert written[LIST] == f"n-kunlun-0,kunlun,{CARD_MEMORY},100:n-kunlun-1,kunlun,{CARD_MEMORY},100:;"
    assert written[INDEX_KEY] == "0,1"


def test_the_plugin_is_told_the_last_container_that_got_cards() -> None:
    pod = a_pod(a_container({COUNT: 1}, name="a"), a_container({COUNT: 2}, name="b"), a_container({}, name="c"))
    written = place(SPEC, node(), pod)
    assert isinstance(written, dict)
    assert written[INDEX_KEY] == "1,2"


def test_wings_are_those_of_the_cards_however_the_list_is_sorted() -> None:
    # Busy cards stand first in HAMi's list under spread: it would take cards 1 to 4 for a wing.
    written = place(SPEC, node(), a_pod(a_container({COUNT: 4})), [holder(SPEC, busy(0))])
    assert isinstance(written, dict)
    assert written[INDEX_KEY] == "4,5,6,7"


def test_a_card_in_use_is_not_given_again() -> None:
    pod = a_pod(a_container({COUNT: 1}))
    assert place(SPEC, node(1), pod, [holder(SPEC, busy(0))]) == "1/1 NumaNotFit"


def test_cards_that_id_lists_refuse_are_counted_first() -> None:
    pod = a_pod(a_container({COUNT: 1}), annotations={"hami.io/use-xpu-uuid": "n-kunlun-9"})
    assert place(SPEC, node(), pod, [holder(SPEC, busy(0))]) == "8/8 CardUuidMismatch"


def test_a_card_must_pass_both_pairs_of_id_lists() -> None:
    pod = a_pod(
        a_container({COUNT: 1}),
        annotations={"hami.io/use-xpu-uuid": "n-kunlun-5,n-kunlun-6", "baidu.com/nouse-gpuuuid": "n-kunlun-5"},
    )
    written = place(SPEC, node(), pod)
    assert isinstance(written, dict)
    assert written[INDEX_KEY] == "6"


def test_eight_cards_are_all_of_them() -> None:
    written = place(SPEC, node(), a_pod(a_container({COUNT: 8})))
    assert isinstance(written, dict)
    assert written[INDEX_KEY] == "0,1,2,3,4,5,6,7"
    assert choose(range(1, 9), 8) == ()


@pytest.mark.parametrize("count", [3, 5, 6, 7])
def test_odd_sets_are_no_sets(count: int) -> None:
    assert place(SPEC, node(), a_pod(a_container({COUNT: count}))) == "1/8 NumaNotFit"


@pytest.mark.parametrize(("count", "nearest"), [(3, (2, 4)), (5, (4, 8)), (7, (4, 8)), (1, None), (8, None), (9, None)])
def test_numbers_that_never_go_together_are_told_with_their_neighbours(
    count: int, nearest: tuple[int, ...] | None
) -> None:
    found = together(a_request(vendor="kunlun", count=count), NodeShape((a_device(vendor="kunlun"),)))
    assert (found.nearest if found else None) == nearest


def test_a_node_without_such_cards_has_no_sets_of_them() -> None:
    assert together(a_request(vendor="kunlun", count=3), NodeShape((a_device(),))) is None


def test_more_cards_than_there_are_never_fit() -> None:
    assert place(SPEC, node(4), a_pod(a_container({COUNT: 8}))) == "NodeInsufficientDevice"


def test_beyond_two_wings_cards_go_together_only_inside_the_first() -> None:
    assert choose(range(12), 2) == [0, 1]
    assert choose(range(4, 12), 2) == ()


@pytest.mark.parametrize(
    ("free", "quad"),
    [
        ([0, 1, 4, 5, 2, 6], [0, 1, 4, 5]),
        ([0, 1, 2, 5, 6, 7], [1, 2, 5, 6]),
        ([0, 1, 2, 4, 5, 7], [0, 1, 4, 5]),
        ([0, 1, 2, 5, 6], [1, 2, 5, 6]),
        ([0, 1, 2, 4], ()),
        ([0, 3, 5], ()),
    ],
)
def test_four_across_the_wings_leave_a_linked_pair_if_they_can(free: list[int], quad: list[int]) -> None:
    assert choose(free, 4) == quad


@pytest.mark.parametrize(
    ("asked", "slice_", "cores"), [(None, 98_304, 100), (0, 24_576, 25), (24_577, 49_152, 50), (200_000, 98_304, 100)]
)
def test_memory_is_rounded_up_to_a_slice(asked: int | None, slice_: int, cores: int) -> None:
    limits = {SLICES: 1, **({} if asked is None else {SLICE_MEMORY: asked})}
    pod = a_pod(a_container(limits))
    intake = take_in(pod, Registry([SLICED]), Rules())
    (request,) = intake.demand.devices.containers[0].requests
    assert (request.memory, request.cores) == (Absolute(MiB(slice_)), cores)
    written = {change.change.key: change.change.value for change in intake.admission.changes}
    assert written.get(SLICE_MEMORY) == (None if asked is None else str(slice_))


def test_memory_that_is_a_slice_already_is_left_alone() -> None:
    limits = {SLICES: 1, SLICE_MEMORY: 49_152}
    intake = take_in(a_pod(a_container(limits, requests=limits)), Registry([SLICED]), Rules())
    assert [change.change.kind for change in intake.admission.changes] == ["schedulerName"]


def test_a_request_without_a_limit_is_read_and_not_claimed() -> None:
    container = a_container(requests={SLICES: 1, SLICE_MEMORY: 30_000})
    intake = take_in(a_pod(container), Registry([SLICED]), Rules())
    assert intake.admission.claimed == ()
    assert intake.demand.devices.containers[0].requests[0].memory == Absolute(MiB(49_152))


def test_memory_without_cards_asks_for_nothing_that_exists() -> None:
    assert "add kunlunxin.com/vxpu" in str(place(SLICED, sliced_node(), a_pod(a_container({SLICE_MEMORY: 1000}))))


@pytest.mark.parametrize("amount", ["-1", "4294967297"])
def test_memory_that_is_no_amount_is_refused(amount: str) -> None:
    pod = a_pod(a_container({SLICES: 1}, requests={SLICE_MEMORY: amount}))
    assert "not an amount of MiB" in str(place(SLICED, sliced_node(), pod))
    pod = a_pod(a_container({SLICES: 1, SLICE_MEMORY: "-1"}))
    assert "not an amount of MiB" in str(place(SLICED, sliced_node(), pod))


def test_a_container_of_another_vendor_gets_no_slices() -> None:
    for limits in ({"cpu": 1}, {SLICE_MEMORY: 0}):
        intake = take_in(a_pod(a_container(limits)), Registry([SLICED]), Rules())
        assert not intake.demand.devices.wants_devices


def test_only_equal_slices_share_a_card() -> None:
    pod = a_pod(a_container({SLICES: 1, SLICE_MEMORY: 24_576}), annotations=BINPACK)
    written = place(SLICED, sliced_node(2), pod, [holder(SLICED, slices((0, 49_152)))])
    assert isinstance(written, dict)
    assert written[SLICE_LIST] == "x1,XPU,24576,25:;"
    assert place(SLICED, sliced_node(1), pod, [holder(SLICED, slices((0, 49_152)))]) == "1/1 NumaNotFit"
    shared = place(SLICED, sliced_node(1), pod, [holder(SLICED, slices((0, 24_576)))])
    assert isinstance(shared, dict)


def test_a_card_never_holds_more_slices_than_it_registered() -> None:
    pod = a_pod(a_container({SLICES: 1, SLICE_MEMORY: 24_576}))
    held = [holder(SLICED, slices((0, 24_576)))]
    assert place(SLICED, sliced_node(1, slots=1), pod, held) == "1/1 NumaNotFit"


def test_an_exclusive_pod_is_told_of_the_cards_that_only_others_keep_it_from() -> None:
    pod = a_pod(a_container({SLICES: 1, SLICE_MEMORY: 24_576}), annotations=MUTEX)
    held = [holder(SLICED, slices((0, 24_576), (1, 49_152)))]
    assert place(SLICED, sliced_node(2), pod, held) == "1/2 ExclusiveDeviceAllocateConflict"
    assert place(SLICED, sliced_node(1), pod, [holder(SLICED, slices((0, 49_152)))]) == "1/1 NumaNotFit"


def test_a_node_with_other_accelerators_is_not_scored_by_wings() -> None:
    cards = [a_device(vendor="kunlun", index=at) for at in range(2)]
    shares = tuple(DeviceShare(at, CARD_MEMORY, CoreShare(100)) for at in range(2))
    assert score_node(Scoring(a_state(*cards), (), (shares,), DEFAULT_POLICY)) == 1000
    assert score_node(Scoring(a_state(*cards, a_device(vendor="NVIDIA")), (), (shares,), DEFAULT_POLICY)) == 0


@pytest.mark.parametrize(
    ("before", "now", "score"), [((), (0, 1), 1000), ((0, 1, 2, 3), (4, 5, 6, 7), 2000), ((4,), (0, 1), 3000)]
)
def test_nodes_whose_wings_stay_whole_score_best(before: tuple[int, ...], now: tuple[int, ...], score: int) -> None:
    devices = [a_device(vendor="kunlun", index=at) for at in range(8)]
    state = a_state(*devices, usage=[used() if at in before else IDLE for at in range(8)])
    shares = tuple(DeviceShare(at, CARD_MEMORY, CoreShare(100)) for at in now)
    assert score_node(Scoring(state, (), (shares,), DEFAULT_POLICY)) == score
