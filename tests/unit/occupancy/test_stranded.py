"""Which free part of a card no request can get, by the rules of every vendor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.devices import DeviceUsage, Instance, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeState
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.occupancy.stranded import NO_PLACE, TOO_LITTLE, StrandedRule
from hami_plugins.vendors import BUILTIN, nvidia
from tests import acme
from tests.builders import a_device, a_state, used

HALF = Profile("3g", MiB(20_000), CoreShare(50), 3, (SlicePlacement(0, 4), SlicePlacement(4, 4)))


def why(state: NodeState, spec: VendorSpec = acme.SPEC) -> str:
    return StrandedRule(Registry([spec])).why(state, 0)


def state(usage: DeviceUsage, **device: object) -> NodeState:
    return a_state(a_device(**device), usage=[usage])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        pytest.param(used(0), "", id="idle"),
        pytest.param(used(1, 1024, 10), "", id="room"),
        pytest.param(used(3, 1024), "all 3 slots are taken", id="slots"),
        pytest.param(used(1, 1024, 100), "all 100 cores are promised", id="cores"),
    ],
)
def test_room_is_stranded_behind_slots_and_cores(usage: DeviceUsage, words: str) -> None:
    assert why(state(usage, slots=3)) == words


def test_a_card_that_is_cut_as_far_as_it_goes_has_no_place() -> None:
    card = a_device(vendor="NVIDIA", mode="mig", memory=40_960, slots=7, profiles=(HALF,))
    marks = tuple(Instance("3g", place) for place in HALF.placements)
    full = a_state(card, usage=[used(2, 40_000, 0, *marks)])
    assert why(full, nvidia.SPEC) == NO_PLACE
    assert why(a_state(card, usage=[used(1, 20_000, 0, marks[0])]), nvidia.SPEC) == ""


def test_room_that_a_vendors_own_rule_refuses_is_stranded() -> None:
    def unshared(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        return Reason.EXCLUSIVE if candidate.used.slots else None

    spec = replace(acme.SPEC, fitting=replace(acme.SPEC.fitting, early_checks=(unshared,)))
    assert why(state(used(1, 1024)), spec) == TOO_LITTLE


def test_a_vendor_without_small_requests_is_judged_by_slots_and_cores_alone() -> None:
    def read(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
        if spec.resources.memory in container.limits:
            raise InvalidRequestError(container="", resource="", value="", why="no slices", remedy="")
        return None

    spec = replace(acme.SPEC, requests=replace(acme.SPEC.requests, read=read))
    assert why(state(used(1, 1024)), spec) == ""
    assert why(state(used(1, 1024, 100)), spec) == "all 100 cores are promised"


def test_what_is_known_is_not_asked_again() -> None:
    rule = StrandedRule(Registry([acme.SPEC]))
    busy = a_state(*(a_device(slots=slots) for slots in (1, 2, 3)), usage=[used(1)] * 3)
    assert [rule.why(busy, at) for at in (0, 1, 2) * 2] == ["its only slot is taken", "", ""] * 2


@pytest.mark.parametrize("spec", BUILTIN, ids=lambda spec: spec.name)
def test_an_idle_card_is_never_stranded_and_one_without_slots_always(spec: VendorSpec) -> None:
    assert why(state(used(0), vendor=spec.name), spec) == ""
    assert why(state(used(10), vendor=spec.name), spec) == "all 10 slots are taken"


@pytest.mark.parametrize("spec", BUILTIN, ids=lambda spec: spec.name)
def test_every_vendor_can_be_asked_about_a_card_in_use(spec: VendorSpec) -> None:
    assert isinstance(why(state(used(1, 1, 1), vendor=spec.name), spec), str)
