"""Enflame GCUs: whole cards and hardware slices."""

import json

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.errors import AdmissionDeniedError, InvalidRequestError
from hami_plugins.model.units import INT32_MAX
from hami_plugins.vendors.enflame import DRS, GCU, cores_of, memory_of
from tests.builders import a_container, a_device, a_node_object, a_pod, a_request
from tests.unit.vendors.placing import NOW_NS, holder, place

SLICES, MEMORY, CORES = DRS.resources.count, DRS.resources.memory, DRS.resources.cores
PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}
CAPACITY = {"devices": [{"index": "0", "minor": "8", "capacity": 6}], "profiles": PROFILES}
NODE = a_node_object("n", annotations={DRS.keys.register: json.dumps(CAPACITY)})
LIST = DRS.keys.allocated


def admitted(limits: dict[str, int | str], requests: dict[str, int | str] | None = None) -> dict[tuple[str, str], str]:
    assert DRS.admit is not None
    container = a_container(limits, requests=requests)
    answer = DRS.admit(DRS, container, a_pod(container))
    assert answer.claimed
    return {(change.kind, change.key): change.value for change in answer.changes}


def slice_for(limits: dict[str, int | str]) -> str:
    written = place(DRS, NODE, a_pod(a_container(limits)))
    return written if isinstance(written, str) else written[LIST]


def test_whole_cards_are_as_many_as_the_node_says() -> None:
    assert list(GCU.inventory(GCU, a_node_object("n", capacity={"enflame.com/gcu": 2})).ids) == ["n-GCU-0", "n-GCU-1"]
    assert GCU.inventory(GCU, a_node_object("n")).ids == ()


def test_a_whole_card_in_use_is_taken() -> None:
    node = a_node_object("n", capacity={"enflame.com/gcu": 1})
    pod = a_pod(a_container({"enflame.com/gcu": 1}))
    written = place(GCU, node, pod)
    assert isinstance(written, dict)
    assert written[GCU.keys.allocated] == "n-GCU-0,GCU,100,100:;"
    running = [holder(GCU, written[GCU.keys.allocated])]
    assert place(GCU, node, pod, running) == "1/1 ExclusiveDeviceAllocateConflict"


def test_cards_that_can_be_cut_come_from_the_nodes_annotation() -> None:
    found = DRS.inventory(DRS, NODE)
    (device,) = found.devices
    assert list(found.ids) == ["n-enflame-drs-0"]
    assert (device.slots, device.memory, device.cores, device.trait("minor")) == (6, 40960, 100, "8")
    assert DRS.inventory(DRS, a_node_object("n")).ids == ()


@pytest.mark.parametrize("resource", [SLICES, MEMORY, CORES])
def test_what_is_a_limit_becomes_a_request_and_the_reverse(resource: str) -> None:
    assert admitted({resource: 3}) == {("request", resource): "3"}
    assert admitted({}, {resource: 3}) == {("limit", resource): "3"}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({SLICES: 0}, "drs-gcu must be greater than 0"),
        ({MEMORY: 0}, "gcu-memory must be greater than 0"),
        ({CORES: 0}, r"gcu-core must be in range \(0,100\]"),
        ({CORES: 101}, r"gcu-core must be in range \(0,100\]"),
    ],
)
def test_nothing_and_more_than_a_card_are_refused(limits: dict[str, int | str], words: str) -> None:
    with pytest.raises(AdmissionDeniedError, match=words):
        admitted(limits)


def test_a_container_without_slices_is_left_alone() -> None:
    assert DRS.admit is not None
    assert not DRS.admit(DRS, a_container({"cpu": 1}), a_pod()).claimed
    assert request_of(DRS, a_container({SLICES: 0}), a_pod()) is None


@pytest.mark.parametrize("limits", [{SLICES: "1500m"}, {SLICES: -1}, {MEMORY: INT32_MAX + 1}, {CORES: -1}])
def test_unusable_amounts_are_refused(limits: dict[str, int | str]) -> None:
    container = a_container(limits)
    with pytest.raises(InvalidRequestError):
        request_of(DRS, container, a_pod(container))


@pytest.mark.parametrize(
    ("limits", "allocated"),
    [
        ({SLICES: 1}, "6144,17"),
        ({SLICES: 3}, "20480,50"),
        ({SLICES: 3, MEMORY: 40}, "20480,50"),
        ({SLICES: 3, MEMORY: "16Gi", CORES: -1}, "20480,50"),
        ({MEMORY: 20}, "20480,50"),
        ({MEMORY: 80}, "1/1 ModeNotFit"),
        ({MEMORY: 81}, "6144,17"),
        ({MEMORY: 20480, CORES: 40}, "20480,50"),
        ({MEMORY: 20481}, "40960,100"),
        ({CORES: 18}, "20480,50"),
        ({SLICES: 2}, "1/1 ModeNotFit"),
    ],
)
def test_the_smallest_profile_that_serves_is_allocated(limits: dict[str, int | str], allocated: str) -> None:
    answer = slice_for(limits)
    assert answer == (allocated if "Mode" in allocated else f"n-enflame-drs-0,Enflame,{allocated}:;")


def test_a_card_without_profiles_gives_nothing() -> None:
    for asked in (a_request(slices=1), a_request(memory=10)):
        assert (memory_of(a_device(), asked), cores_of(a_device(), asked)) == (0, 0)


def test_a_card_that_is_full_is_refused_for_its_own_reason() -> None:
    running = [holder(DRS, "n-enflame-drs-0,Enflame,40960,100:;")]
    assert place(DRS, NODE, a_pod(a_container({SLICES: 1})), running) == "1/1 CardInsufficientMemory"


def test_a_sixth_small_slice_lacks_the_cores_that_rounding_took() -> None:
    running = [holder(DRS, "n-enflame-drs-0,Enflame,6144,17:;", name=f"p{at}") for at in range(5)]
    assert place(DRS, NODE, a_pod(a_container({SLICES: 1})), running) == "1/1 CardInsufficientCore"


def test_node_agents_learn_every_containers_slice_and_the_first_ones_card() -> None:
    pod = a_pod(a_container(name="idle"), a_container({SLICES: 3}, name="main"), a_container({MEMORY: 6}, name="side"))
    written = place(DRS, NODE, pod)
    assert isinstance(written, dict)
    assert {key: written[f"enflame.com/gcu-{key}"] for key in ("assigned", "assigned-index", "assigned-id")} == {
        "assigned": "false",
        "assigned-index": "0",
        "assigned-id": "0",
    }
    assert written["enflame.com/gcu-assigned-minor"] == "8"
    assert written["enflame.com/gcu-request-size"] == "3"
    assert written["enflame.com/gcu-assigned-time"] == str(NOW_NS)
    assert json.loads(written["assigned-containers"]) == {
        "main": {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"},
        "side": {"allocated": False, "request": 1, "profileID": "0", "profileName": "1g.6gb"},
    }
