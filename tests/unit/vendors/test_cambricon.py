"""Cambricon MLUs."""

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.errors import WireError
from hami_plugins.model.requests import Absolute, Percent
from hami_plugins.model.units import MiB
from hami_plugins.vendors.cambricon import SPEC
from tests.builders import a_container, a_node_object, a_pod
from tests.unit.vendors.placing import holder, place

COUNT, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores
NODE = a_node_object("n", capacity={COUNT: 2, CORES: 200, MEMORY: 192})


def test_a_node_without_cores_has_no_cards() -> None:
    assert SPEC.inventory(SPEC, a_node_object(capacity={MEMORY: 10})).devices == ()


def test_memory_is_spread_over_the_cards_in_units_of_256_mebibytes() -> None:
    found = SPEC.inventory(SPEC, NODE)
    assert [(name, device.memory, device.cores) for name, device in zip(found.ids, found.devices, strict=True)] == [
        ("n-cambricon-mlu-0", 96 * 256, 100),
        ("n-cambricon-mlu-1", 96 * 256, 100),
    ]


def test_a_card_with_missing_cores_still_counts() -> None:
    assert len(SPEC.inventory(SPEC, a_node_object(capacity={CORES: 101})).devices) == 2


@pytest.mark.parametrize("capacity", [{CORES: "1500m"}, {CORES: -100}, {CORES: 1, MEMORY: 2**31}, {CORES: 10**8}])
def test_a_capacity_that_no_machine_has_is_a_problem(capacity: dict[str, int | str]) -> None:
    with pytest.raises(WireError):
        SPEC.inventory(SPEC, a_node_object(capacity=capacity))


def test_all_cores_are_meant_where_none_are_named() -> None:
    container = a_container({COUNT: 1, MEMORY: 10})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Absolute(MiB(2560)), 100)


def test_the_whole_memory_is_meant_where_none_is_named() -> None:
    container = a_container({COUNT: 1, CORES: 5})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Percent(100), 5)


def test_the_plugin_learns_the_slice_of_the_first_container_with_a_card() -> None:
    pod = a_pod(a_container(name="idle"), a_container({COUNT: 1, MEMORY: 10, CORES: 30}, name="main"))
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written["CAMBRICON_DSMLU_ASSIGNED"] == "false"
    assert written["CAMBRICON_DSMLU_PROFILE"] == "1_30_10"
    assert written[SPEC.keys.allocated] == ";n-cambricon-mlu-1,MLU,2560,30:;"


def test_a_full_card_is_refused_in_hamis_words() -> None:
    running = [holder(SPEC, f"n-cambricon-mlu-{at},MLU,24576,10:;") for at in (0, 1)]
    assert (
        place(SPEC, NODE, a_pod(a_container({COUNT: 1, MEMORY: 1, CORES: 1})), running) == "2/2 CardInsufficientMemory"
    )
