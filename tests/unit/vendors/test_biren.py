"""Biren cards."""

import json

from hami_plugins.vendors.biren import SPEC
from tests.builders import a_container, a_node_object, a_pod
from tests.unit.vendors.placing import holder, place

COUNT = SPEC.resources.count
CARDS = [{"id": f"{at}-0", "index": at, "count": 2, "devmem": 32768, "type": "Biren", "health": True} for at in (0, 1)]
NODE = a_node_object("n", annotations={SPEC.keys.register: json.dumps(CARDS)})


def test_a_node_that_registered_nothing_has_nothing() -> None:
    assert SPEC.inventory(SPEC, a_node_object()).ids == ()


def test_cores_count_100_whatever_the_register_says() -> None:
    assert [device.cores for device in SPEC.inventory(SPEC, NODE).devices] == [100, 100]


def test_a_card_takes_containers_up_to_its_slots_and_books_nothing_else() -> None:
    pod = a_pod(a_container({COUNT: 2}, name="a"), a_container({COUNT: 2}, name="b"))
    written = place(SPEC, NODE, pod)
    assert isinstance(written, dict)
    assert written[SPEC.keys.allocated] == "1-0,Biren,0,0:0-0,Biren,0,0:;1-0,Biren,0,0:0-0,Biren,0,0:;"
    running = [holder(SPEC, written[SPEC.keys.allocated])]
    assert place(SPEC, NODE, a_pod(a_container({COUNT: 1})), running) == "2/2 CardTimeSlicingExhausted"
