"""AMD GPUs."""

import json

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.errors import AdmissionDeniedError, InvalidRequestError
from hami_plugins.model.requests import Absolute, Percent
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.vendors.amd import SPEC, percent_of, units_of
from tests.builders import a_container, a_device, a_node_object, a_pod, a_request
from tests.unit.vendors.placing import holder, place

COUNT, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores


def registered(model: str = "AMD_Instinct_MI300X_VF", units: int = 304) -> dict[str, str]:
    card = {"id": "g0", "count": 4, "devmem": 196608, "devcore": units, "type": model, "health": True}
    return {SPEC.keys.register: json.dumps([card])}


NODE = a_node_object("n", annotations=registered(), capacity={COUNT: 4})


def test_a_node_that_can_run_no_gpu_has_none() -> None:
    assert SPEC.inventory(SPEC, a_node_object(annotations=registered())).devices == ()
    assert len(SPEC.inventory(SPEC, NODE).devices) == 1


@pytest.mark.parametrize(("percent", "units"), [(1, 3), (25, 76), (33, 100), (67, 203), (100, 304)])
def test_a_percentage_is_whole_compute_units(percent: int, units: int) -> None:
    assert units_of(a_device(cores=304), a_request(cores=percent)) == units


def test_the_smallest_percentage_is_one_unit_at_least() -> None:
    assert units_of(a_device(cores=64), a_request(cores=1)) == 1
    assert units_of(a_device(cores=0), a_request(cores=1)) == 1


@pytest.mark.parametrize(
    ("limits", "claimed"), [({COUNT: 1}, True), ({MEMORY: 1}, True), ({CORES: 1}, True), ({"cpu": 1}, False)]
)
def test_any_of_the_resources_claims_the_container(limits: dict[str, int | str], claimed: bool) -> None:
    assert SPEC.admit is not None
    assert SPEC.admit(SPEC, a_container(limits), a_pod()).claimed is claimed


@pytest.mark.parametrize("cores", [0, 101, "1500m"])
def test_cores_that_are_no_percentage_are_refused(cores: int | str) -> None:
    assert SPEC.admit is not None
    container = a_container({COUNT: 1, CORES: cores})
    with pytest.raises(AdmissionDeniedError, match="integer percentage between 1 and 100"):
        SPEC.admit(SPEC, container, a_pod(container))
    with pytest.raises(InvalidRequestError):
        request_of(SPEC, container, a_pod(container))


def test_only_limits_count() -> None:
    container = a_container({COUNT: 2, MEMORY: 4096, CORES: 33}, requests={CORES: 99})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.count, found.memory, found.cores) == (2, Absolute(MiB(4096)), 33)
    assert request_of(SPEC, a_container(requests={COUNT: 1}), a_pod()) is None


def test_the_whole_card_is_meant_where_nothing_is_named() -> None:
    container = a_container({COUNT: 1})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Percent(100), 100)


def test_the_assignment_carries_the_model_and_compute_units() -> None:
    written = place(SPEC, NODE, a_pod(a_container({COUNT: 1, MEMORY: 4096, CORES: 25})))
    assert isinstance(written, dict)
    assert written[SPEC.keys.allocated] == "g0,AMD_Instinct_MI300X_VF,4096,76:;"


def test_a_model_that_an_assignment_cannot_carry_gives_way_to_the_vendors_word() -> None:
    node = a_node_object("n", annotations=registered("AMD: MI300X"), capacity={COUNT: 4})
    written = place(SPEC, node, a_pod(a_container({COUNT: 1, MEMORY: 4096, CORES: 25})))
    assert isinstance(written, dict)
    assert written[SPEC.keys.allocated] == "g0,AMD,4096,76:;"


@pytest.mark.parametrize(("units", "percent"), [(3, 1), (76, 25), (100, 33), (203, 67), (304, 100)])
def test_a_quota_counts_percentages(units: int, percent: int) -> None:
    assert percent_of(a_device(cores=304), CoreShare(units)) == percent
    assert percent_of(a_device(cores=0), CoreShare(0)) == 0


def test_a_quota_of_one_card_holds_four_quarters() -> None:
    quarter = a_pod(a_container({COUNT: 1, MEMORY: 1, CORES: 25}))
    limit = {"limits.amd.com/gpucores": 100}
    running = [holder(SPEC, "g0,AMD_Instinct_MI300X_VF,1,76:;", name=f"p{at}") for at in range(4)]
    assert isinstance(place(SPEC, NODE, quarter, running[:3], quota=limit), dict)
    assert place(SPEC, NODE, quarter, running, quota=limit) == (
        "admission denied: exceeding resource quota (limits.amd.com/gpucores: asks 25, 0 left)"
    )


def test_a_quota_of_one_card_holds_a_whole_one() -> None:
    whole = a_pod(a_container({COUNT: 1}))
    assert isinstance(place(SPEC, NODE, whole, quota={"limits.amd.com/gpucores": 100}), dict)


def test_units_that_are_promised_are_gone() -> None:
    running = [holder(SPEC, "g0,AMD_Instinct_MI300X_VF,1024,300:;")]
    pod = a_pod(a_container({COUNT: 1, MEMORY: 4096, CORES: 2}))
    assert place(SPEC, NODE, pod, running) == "1/1 CardInsufficientCore"


def test_a_card_without_compute_units_takes_nothing() -> None:
    node = a_node_object("n", annotations=registered(units=0), capacity={COUNT: 4})
    assert place(SPEC, node, a_pod(a_container({COUNT: 1, CORES: 1}))) == "1/1 CardInsufficientCore"
