"""AWS Neuron devices and cores."""

import pytest

from hami_plugins.engine.demand import demand_of, request_of
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import CoreMask
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.vendors.awsneuron import (
    IDS_KEY,
    INSTANCE_LABEL,
    KIND_KEY,
    NODE_KEY,
    SPEC,
    STATE_KEY,
    TIME_KEY,
    recall,
)
from tests.builders import a_container, a_node_object, a_pod, a_share, allocated
from tests.unit.vendors.placing import NOW_NS, Written, holder, place

COUNT, CORES, LIST = SPEC.resources.count, SPEC.resources.cores, SPEC.keys.allocated
MUTEX = {"hami.io/gpu-scheduler-policy": "mutex"}


def node(devices: int = 4, cores: int = 2, *, kind: str = "trn1.32xlarge") -> NodeObject:
    capacity = {COUNT: devices, CORES: devices * cores}
    return a_node_object("n", capacity=capacity, labels={INSTANCE_LABEL: kind})


def placed(there: NodeObject, pod: Pod, *running: Pod) -> Written:
    written = place(SPEC, there, pod, running)
    assert not isinstance(written, str), written
    return written


def masks(*held: tuple[int, int]) -> str:
    return "".join(f"n-AWSNeuron-{device},AWSNeuron,0,{mask}:" for device, mask in held) + ";"


@pytest.mark.parametrize(("devices", "cores"), [(16, 2), (16, 8), (4, 4), (1, 1)])
def test_a_device_has_the_cores_that_its_node_says(devices: int, cores: int) -> None:
    found = SPEC.inventory(SPEC, node(devices, cores)).devices
    assert {(device.slots, device.cores, device.memory) for device in found} == {(cores, cores, 0)}


def test_a_node_without_devices_has_none_and_one_without_cores_has_devices_without() -> None:
    assert SPEC.inventory(SPEC, a_node_object(capacity={CORES: 2})).ids == ()
    (device,) = SPEC.inventory(SPEC, a_node_object(capacity={COUNT: 1})).devices
    assert device.cores == 0


def test_a_device_count_that_is_none_is_a_problem_of_the_node() -> None:
    with pytest.raises(WireError, match="not a"):
        SPEC.inventory(SPEC, a_node_object(capacity={COUNT: "1500m"}))


def test_a_whole_device_is_told_by_number() -> None:
    written = placed(node(), a_pod(a_container({COUNT: 1})))
    assert written[LIST] == masks((3, 3))
    assert written[IDS_KEY] == "3"
    assert KIND_KEY not in written
    assert (written[TIME_KEY], written[STATE_KEY], written[NODE_KEY]) == (str(NOW_NS), "false", "n")


def test_cores_are_told_by_number_over_all_devices() -> None:
    pod = a_pod(a_container({CORES: 1}, name="a"), a_container({}, name="b"), a_container({CORES: 1}, name="c"))
    written = placed(node(), pod)
    assert written[LIST] == "n-AWSNeuron-3,AWSNeuron,0,1:;;n-AWSNeuron-3,AWSNeuron,0,2:;"
    assert written[IDS_KEY] == "6,7"
    assert written[KIND_KEY] == CORES


def test_every_core_of_a_large_device_can_be_had() -> None:
    pod = a_pod(*(a_container({CORES: 2}, name=f"c{at}") for at in range(4)))
    written = placed(node(1, 8, kind="trn2.48xlarge"), pod)
    assert [part.split(",")[-1] for part in written[LIST].split(":;")[:-1]] == ["3", "12", "48", "192"]
    assert written[IDS_KEY] == "0,1,2,3,4,5,6,7"
    more = a_pod(*(a_container({CORES: 2}, name=f"c{at}") for at in range(5)))
    assert place(SPEC, node(1, 8), more) == "1/1 CardInsufficientCore"


def test_a_whole_device_is_booked_whole() -> None:
    assert placed(node(1, 8), a_pod(a_container({COUNT: 1})))[LIST] == masks((0, 255))


def test_more_than_two_cores_are_devices_side_by_side() -> None:
    written = placed(node(4, 2, kind="inf2.24xlarge"), a_pod(a_container({CORES: 4})))
    assert written[LIST] == masks((0, 3), (1, 3))
    assert written[IDS_KEY] == "0,1,2,3"


def test_a_container_is_told_no_more_cores_than_it_asked_for() -> None:
    written = placed(node(4, 4, kind="inf1.6xlarge"), a_pod(a_container({CORES: 4})))
    assert written[LIST] == masks((0, 15), (1, 15))
    assert written[IDS_KEY] == "0,1,4,5"


@pytest.mark.parametrize(
    ("kind", "count", "busy", "ids"),
    [
        ("inf2.48xlarge", 3, 1, "2,3,4"),
        ("Inf2.48xlarge", 2, 0, "1,2"),
        ("trn1.32xlarge", 4, 1, "4,5,6,7"),
        ("inf2.48xlarge", 5, 3, None),
        ("trn1.32xlarge", 8, 7, None),
        ("trn1.32xlarge", 2, 7, None),
        ("", 4, 7, "0,1,2,3"),
    ],
)
def test_several_devices_are_a_run_or_an_aligned_block(kind: str, count: int, busy: int, ids: str | None) -> None:
    pod = a_pod(a_container({COUNT: count}), annotations=MUTEX)
    written = place(SPEC, node(8, kind=kind), pod, [holder(SPEC, masks((busy, 3)))])
    if ids is None:
        assert written == "1/8 NumaNotFit"
    else:
        assert not isinstance(written, str)
        assert written[IDS_KEY] == ids


def test_several_devices_obey_the_id_lists_and_need_enough_of_them() -> None:
    annotations = {"aws.amazon.com/nouse-neuron-uuid": "n-AWSNeuron-1"}
    pod = a_pod(a_container({COUNT: 2}), annotations=annotations)
    assert placed(node(4, kind="inf2"), pod)[IDS_KEY] == "2,3"
    assert place(SPEC, node(2, kind="inf2"), pod) == "1/2 NumaNotFit"


def test_one_device_is_refused_with_each_devices_reason() -> None:
    pod = a_pod(a_container({CORES: 2}), annotations={"aws.amazon.com/use-neuron-uuid": "n-AWSNeuron-0"})
    running = [holder(SPEC, masks((0, 1)))]
    assert place(SPEC, node(2), pod, running) == "1/2 CardInsufficientCore, 1/2 CardUuidMismatch"


def test_cores_that_two_pods_both_hold_count_once() -> None:
    running = [holder(SPEC, masks((0, 1)), name="a"), holder(SPEC, masks((0, 1)), name="b")]
    written = placed(node(1, 8), a_pod(a_container({CORES: 2})), *running)
    assert written[LIST] == masks((0, 6))


def test_a_whole_device_is_not_shared_with_a_pod_whose_cores_nobody_wrote_down() -> None:
    running = [holder(SPEC, masks((0, 0)))]
    pod = a_pod(a_container({COUNT: 1}))
    assert place(SPEC, node(1, 8), pod, running) == "1/1 ExclusiveDeviceAllocateConflict"


def test_a_device_that_was_given_whole_stays_whole() -> None:
    held = (ContainerAllocation(ContainerKind.APP, (a_share("n-AWSNeuron-0", 0, 3, vendor="AWSNeuron"),)),)
    ((share,),) = (allocation.shares for allocation in recall({IDS_KEY: "0"}, held))
    assert isinstance(share.mark, CoreMask)
    assert share.mark.bits & 255 == 255
    ((share,),) = (allocation.shares for allocation in recall({IDS_KEY: "0,1", KIND_KEY: CORES}, held))
    assert (share.cores, share.mark) == (2, CoreMask(3))
    assert recall({}, (allocated(),)) == (allocated(),)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({COUNT: "1500m"}, "must be an integer"),
        ({COUNT: 0}, "must be greater than 0"),
        ({COUNT: 2**31}, "must not exceed 2147483647"),
        ({CORES: -2}, "must be greater than 0"),
        ({CORES: 2**32}, "must not exceed 4294967294"),
        ({CORES: 3}, "must be 1 or a multiple of 2, got 3"),
    ],
)
def test_the_webhook_refuses_what_means_nothing_in_upstreams_words(limits: dict[str, int | str], words: str) -> None:
    (name,) = limits
    assert place(SPEC, node(), a_pod(a_container(limits))) == f"admission denied: {name} {words}"


def test_a_pod_that_the_webhook_did_not_see_is_refused_all_the_same() -> None:
    pod = a_pod(a_container({CORES: 3}))
    with pytest.raises(InvalidRequestError, match="must be 1 or a multiple of 2"):
        demand_of(pod, Registry([SPEC]))


def test_devices_win_over_cores_and_requests_count_where_limits_are_missing() -> None:
    both = a_container({COUNT: 1, CORES: 1})
    assert placed(node(), a_pod(both))[LIST] == masks((3, 3))
    requested = placed(node(), a_pod(a_container(requests={COUNT: 1})))
    assert requested[IDS_KEY] == "6,7"
    assert requested[KIND_KEY] == CORES


def test_a_container_of_another_vendor_gets_nothing() -> None:
    intake = take_in(a_pod(a_container({"cpu": 1})), Registry([SPEC]), Rules())
    assert not intake.demand.devices.wants_devices
    assert intake.admission.claimed == ()
    assert request_of(SPEC, a_container({"cpu": 1}), a_pod()) is None
