"""Hygon DCUs."""

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.requests import Absolute, Percent
from hami_plugins.model.units import MiB
from hami_plugins.vendors.hygon import SPEC
from tests.builders import a_container, a_node_object, a_pod
from tests.unit.vendors.placing import place

COUNT, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores
REGISTER = "d0,2,32768,100,DCU-Z100,0,true:d1,2,65536,100,DCU-K100_AI,1,true,1,hami-core:"
NODE = a_node_object("n", annotations={SPEC.keys.register: REGISTER})


def test_cards_come_from_the_text_register() -> None:
    found = SPEC.inventory(SPEC, NODE)
    assert [(device.model, device.memory, device.index) for device in found.devices] == [
        ("DCU-Z100", 32768, 0),
        ("DCU-K100_AI", 65536, 1),
    ]


def test_a_node_that_registered_nothing_has_nothing() -> None:
    assert SPEC.inventory(SPEC, a_node_object()).ids == ()


def test_memory_with_a_fraction_counts_as_not_named() -> None:
    container = a_container({COUNT: 1, MEMORY: "1500m", CORES: 10})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert found.memory == Percent(100)


def test_limits_and_requests_are_looked_at_one_by_one() -> None:
    container = a_container({COUNT: 1}, requests={CORES: 10, MEMORY: 1024})
    found = request_of(SPEC, container, a_pod(container))
    assert found is not None
    assert (found.memory, found.cores) == (Absolute(MiB(1024)), 10)


@pytest.mark.parametrize("amounts", [{MEMORY: "16Gi"}, {CORES: -1}, {MEMORY: -1}, {COUNT: "2200000000"}])
def test_unusable_amounts_are_refused(amounts: dict[str, int | str]) -> None:
    container = a_container({COUNT: 1, **amounts})
    with pytest.raises(InvalidRequestError):
        request_of(SPEC, container, a_pod(container))


def test_the_pod_can_choose_the_model() -> None:
    pod = a_pod(a_container({COUNT: 1, CORES: 10}), annotations={"hygon.com/use-dcutype": "k100"})
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written[SPEC.keys.allocated] == "d1,DCU,65536,10:;"
