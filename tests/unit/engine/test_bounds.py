"""What nodes have left for a request: the bounds hold for every node that really takes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.bounds import DeviceShortage, RequestBounds
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Device, DeviceUsage, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import Absolute, DeviceRequest, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Fit
from tests import acme, acme_variants
from tests.builders import a_device, a_node, a_request, used
from tests.unit.suggest.questions import wanting

FOUR = a_node(
    "node",
    *(a_device(index=at) for at in range(4)),
    usage=(used(0), used(1, 4_000, 10), used(2, 10_000, 60), used(10, 100, 10)),
)


def gauge(request: DeviceRequest, policy: Policy = DEFAULT_POLICY, spec: VendorSpec = acme.SPEC) -> RequestBounds:
    return RequestBounds(spec, request, policy)


@pytest.mark.parametrize(
    ("request_", "capable"),
    [
        (a_request(memory=1_000), 3),
        (a_request(memory=7_000), 2),
        (a_request(cores=50), 2),
        (a_request(cores=100), 1),
        (a_request(cores=130), 1),
        (a_request(memory=Percent(100)), 1),
        (a_request(selector=DeviceSelector(use_ids=frozenset({DeviceId("card-1")}))), 1),
        (a_request(selector=DeviceSelector(use_models=("none",))), 0),
        (a_request(vendor="Other"), 0),
    ],
)
def test_capable_cards_have_a_slot_memory_and_cores(request_: DeviceRequest, capable: int) -> None:
    assert gauge(request_).capable(FOUR) == capable


def test_under_the_mutex_policy_only_idle_cards_are_capable() -> None:
    assert gauge(a_request(), Policy(exclusive=True)).capable(FOUR) == 1


def test_cards_that_are_unhealthy_or_cordoned_are_not_capable() -> None:
    node = a_node("node", a_device(healthy=False), a_device(cordoned=True), a_device())
    assert gauge(a_request()).capable(node) == 1


def test_a_card_whose_cores_are_all_promised_takes_nobody_without_cores() -> None:
    full = a_node("node", usage=(used(1, 0, 100),))
    assert gauge(a_request(cores=0)).capable(full) == 0
    taking_none = acme_variants.fitting(takes_no_cores=lambda request: True)
    assert gauge(a_request(cores=0), spec=taking_none).capable(full) == 1


def test_a_card_without_cores_does_not_ask_for_any() -> None:
    assert gauge(a_request(cores=0)).capable(a_node("node", a_device(cores=0))) == 1


def test_a_partitioned_card_stands_for_as_many_as_may_share_it() -> None:
    spec = acme_variants.fitting(partitions=True)
    profile = Profile("1g", MiB(1_000), CoreShare(10), 1, (SlicePlacement(0, 1),))
    assert gauge(a_request(), spec=spec).capable(a_node("node", a_device(slots=7, profiles=(profile,)))) == 7


def test_what_lacks_is_told_for_each_card_that_is_not_capable() -> None:
    found = dict(gauge(a_request(memory=14_000, cores=50)).lacking(FOUR))
    assert found == {1: DeviceShortage(0, 1_616, 0), 2: DeviceShortage(0, 7_616, 10), 3: DeviceShortage(1, 0, 0)}


@pytest.mark.parametrize(
    ("request_", "device"),
    [
        (a_request(memory=16_385), a_device()),
        (a_request(cores=50), a_device(cores=40)),
        (a_request(), a_device(slots=0)),
    ],
)
def test_nothing_lacks_on_a_card_that_could_not_hold_the_request_if_it_were_idle(
    request_: DeviceRequest, device: Device
) -> None:
    node = a_node("node", device, usage=(used(1, 100, 10),))
    assert list(gauge(request_).lacking(node)) == []


@pytest.mark.parametrize(("count", "memory"), [(1, 16_384), (2, 12_384), (3, 6_384), (4, -1)])
def test_the_most_memory_is_that_of_the_worst_of_as_many_cards_as_are_asked_for(count: int, memory: int) -> None:
    assert gauge(a_request(count=count)).most_memory(FOUR) == memory


@pytest.mark.parametrize(("count", "percent"), [(1, 100), (2, 75), (3, 38), (4, -1)])
def test_the_most_memory_as_a_percentage(count: int, percent: int) -> None:
    assert gauge(a_request(count=count, memory=Percent(1))).most_percent(FOUR) == percent


def test_a_card_without_memory_gives_any_percentage_of_it() -> None:
    assert gauge(a_request(memory=Percent(1))).most_percent(a_node("node", a_device(memory=0))) >= 99


@pytest.mark.parametrize(("count", "cores"), [(1, 100), (2, 90), (3, 40), (4, -1)])
def test_the_most_cores_leave_one_to_others_on_the_card(count: int, cores: int) -> None:
    assert gauge(a_request(count=count, cores=1)).most_cores(FOUR) == cores


def test_a_card_that_others_use_without_cores_gives_all_but_one() -> None:
    node = a_node("node", usage=(used(2, 0, 0),))
    assert gauge(a_request(cores=1)).most_cores(node) == 99


usages = st.builds(
    lambda slots, memory, cores: DeviceUsage(slots, MiB(memory if slots else 0), CoreShare(cores if slots else 0)),
    st.integers(0, 4),
    st.integers(0, 16_384),
    st.integers(0, 100),
)


@st.composite
def nodes(draw: st.DrawFn) -> NodeEntry:
    cards = draw(st.integers(1, 4))
    devices = [a_device(slots=4, healthy=draw(st.integers(0, 5)) > 0, index=at) for at in range(cards)]
    return a_node("node", *devices, usage=draw(st.tuples(*[usages] * cards)))


@given(
    nodes(),
    st.integers(1, 3),
    st.one_of(st.integers(0, 16_400).map(lambda mib: Absolute(MiB(mib))), st.integers(0, 100).map(Percent)),
    st.integers(0, 110),
    st.booleans(),
)
def test_a_node_that_takes_a_request_is_never_held_for_one_that_cannot(
    node: NodeEntry, count: int, memory: Absolute | Percent, cores: int, exclusive: bool
) -> None:
    request = a_request(count=count, memory=memory, cores=cores)
    policy = Policy(exclusive=exclusive)
    measured = gauge(request, policy)
    takes = isinstance(Decider(Registry((acme.SPEC,))).place(node.state, wanting(request), policy), Fit)
    assert takes == (measured.capable(node) >= count)
    if takes:
        if isinstance(memory, Absolute):
            assert measured.most_memory(node) >= memory.mib
        else:
            assert measured.most_percent(node) >= memory.of_device
        if cores:
            assert measured.most_cores(node) >= min(cores, 100)
