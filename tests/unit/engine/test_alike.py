"""Members of a gang with devices of the same numbers on every node."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.engine import alike
from hami_plugins.engine.alike import Sets
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Fit
from tests import acme, acme_variants
from tests.builders import a_demand, a_device, a_node, a_request, a_share, allocated

SPEC = acme_variants.fitting(alike=True)
TWO = a_request(count=2)
NODE = a_node("n", *(a_device(index=at + 4) for at in range(4)))


def given(*cards: str, sets: Sets | None = None, request: DeviceRequest = TWO, spec: VendorSpec = SPEC) -> Sets:
    placed = Placed(node=NodeName("n"), containers=(allocated(*map(a_share, cards)),), fit=Fit((), 0.0), candidates=1)
    return alike.with_given(sets or {}, a_demand(request), placed, NODE, Registry([spec]))


def test_what_members_were_given_is_kept_by_the_numbers_of_the_devices() -> None:
    first = given("card-2", "card-0")
    assert first == {TWO: ((4, 6),)}
    assert given("card-0", "card-2", sets=first) == first
    assert given("card-1", "card-3", sets=first) == {TWO: ((4, 6), (5, 7))}


def test_a_wish_is_no_part_of_the_request_that_others_have_in_common() -> None:
    wishing = replace(TWO, alike=((4, 6),))
    assert given("card-1", "card-3", request=wishing, sets={TWO: ((4, 6),)}) == {TWO: ((4, 6), (5, 7))}


def test_single_devices_and_vendors_that_do_not_look_at_it_have_no_sets() -> None:
    assert given("card-0", request=a_request(count=1)) == {}
    assert given("card-0", "card-1", spec=acme.SPEC) == {}


def test_a_single_device_beside_others_is_no_set() -> None:
    demand = a_demand(a_request(count=1), TWO)
    containers = (allocated(a_share("card-1")), allocated(a_share("card-2"), a_share("card-3")))
    placed = Placed(node=NodeName("n"), containers=containers, fit=Fit((), 0.0), candidates=1)
    assert alike.with_given({}, demand, placed, NODE, Registry([SPEC])) == {TWO: ((6, 7),)}


def test_only_equal_requests_wish_for_the_same() -> None:
    other = a_request(count=2, memory=7)
    demand = a_demand(TWO, other)
    (one, two) = alike.wishing(demand, {TWO: ((4, 6),)}).containers
    assert one.requests == (replace(TWO, alike=((4, 6),)),)
    assert two.requests == (other,)
    assert alike.wishing(demand, {a_request(count=3): ((0, 1, 2),)}) is demand


def test_the_last_set_is_tried_first_the_second_time() -> None:
    sets = {TWO: ((0, 1), (2, 3))}
    assert alike.turned(sets) == {TWO: ((2, 3), (0, 1))}
    assert alike.spread_of(sets) == 2
