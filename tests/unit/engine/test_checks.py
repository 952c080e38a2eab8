"""Each rule about one device, alone."""

from dataclasses import replace

import pytest

from hami_plugins.engine import checks
from hami_plugins.model.requests import DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.verdicts import Reason
from tests import acme, acme_variants
from tests.builders import a_candidate, a_device, a_request, an_ask, used


def test_an_unhealthy_device_takes_nothing() -> None:
    assert checks.healthy(a_candidate(a_device(healthy=False)), an_ask()) is Reason.HEALTH
    assert checks.healthy(a_candidate(), an_ask()) is None


def test_a_cordoned_device_takes_nothing() -> None:
    assert checks.not_cordoned(a_candidate(a_device(cordoned=True)), an_ask()) is Reason.CORDON
    assert checks.not_cordoned(a_candidate(), an_ask()) is None


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        (DeviceSelector(), None),
        (DeviceSelector(use_models=("a100", "h100")), None),
        (DeviceSelector(use_models=("h100",)), Reason.MODEL),
        (DeviceSelector(use_models=()), Reason.MODEL),
        (DeviceSelector(avoid_models=("h100",)), None),
        (DeviceSelector(avoid_models=("a100",)), Reason.MODEL),
        (DeviceSelector(use_models=("a100",), avoid_models=("40gb",)), Reason.MODEL),
        (DeviceSelector(avoid_models=()), None),
        (DeviceSelector(modes="hami-core"), None),
        (DeviceSelector(modes="hami-core,mig"), None),
        (DeviceSelector(modes="mig"), Reason.MODEL),
    ],
)
def test_a_model_is_wanted_when_the_lists_say_so(selector: DeviceSelector, why: Reason | None) -> None:
    card = a_candidate(a_device(model="NVIDIA A100-40GB", mode="hami-core"))
    assert checks.wanted_model(card, an_ask(a_request(selector=selector))) is why


def test_a_vendor_may_want_the_mode_to_be_the_very_one_that_the_pod_names() -> None:
    ask = an_ask(a_request(selector=DeviceSelector(modes="hami-core,mig")))
    assert checks.same_mode(a_candidate(a_device(mode="mig")), ask) is Reason.MODE
    assert (
        checks.same_mode(a_candidate(a_device(mode="mig")), an_ask(a_request(selector=DeviceSelector(modes="mig"))))
        is None
    )


def test_a_device_that_the_id_lists_refuse_is_refused() -> None:
    assert checks.wanted_id(a_candidate(wanted=False), an_ask()) is Reason.ID
    assert checks.wanted_id(a_candidate(), an_ask()) is None


@pytest.mark.parametrize(("slots", "why"), [(9, None), (10, Reason.SLOTS), (11, Reason.SLOTS)])
def test_a_device_takes_as_many_containers_as_it_has_slots(slots: int, why: Reason | None) -> None:
    assert checks.slot_left(a_candidate(a_device(slots=10), used(slots)), an_ask()) is why


def test_exclusive_pods_take_idle_devices_only() -> None:
    assert checks.unshared(a_candidate(usage=used(1)), an_ask()) is Reason.EXCLUSIVE
    assert checks.unshared(a_candidate(), an_ask()) is None


@pytest.mark.parametrize(("memory", "why"), [(6_384, None), (6_385, Reason.MEMORY), (17_000, Reason.MEMORY)])
def test_memory_is_left_up_to_the_last_mebibyte(memory: int, why: Reason | None) -> None:
    card = a_candidate(a_device(memory=16_384), used(1, memory=10_000))
    assert checks.memory_left(card, an_ask(a_request(memory=memory))) is why


def test_an_overbooked_device_refuses_even_a_request_for_nothing() -> None:
    card = a_candidate(a_device(memory=1_000), used(1, memory=1_001))
    assert checks.memory_left(card, an_ask(a_request(memory=0))) is Reason.MEMORY


@pytest.mark.parametrize(("cores", "why"), [(60, None), (61, Reason.CORES)])
def test_cores_are_left_up_to_the_last_one(cores: int, why: Reason | None) -> None:
    assert checks.cores_left(a_candidate(usage=used(1, cores=40)), an_ask(a_request(cores=cores))) is why


@pytest.mark.parametrize(
    ("total", "cores", "slots", "why"),
    [
        (100, 100, 1, Reason.EXCLUSIVE),
        (16, 16, 1, None),
        (200, 100, 1, None),
        (100, 99, 1, None),
        (100, 100, 0, None),
        (0, 0, 1, None),
    ],
)
def test_all_hundred_percent_of_a_device_are_the_device(total: int, cores: int, slots: int, why: Reason | None) -> None:
    card = a_candidate(a_device(cores=total), used(slots))
    assert checks.whole_device_is_idle(card, an_ask(a_request(cores=cores))) is why


@pytest.mark.parametrize(
    ("total", "promised", "asked", "why"),
    [(100, 100, 0, Reason.COMPUTE), (100, 99, 0, None), (100, 100, 1, None), (0, 0, 0, None)],
)
def test_a_request_without_cores_needs_a_device_with_cores_left(
    total: int, promised: int, asked: int, why: Reason | None
) -> None:
    card = a_candidate(a_device(cores=total), used(1, cores=promised))
    assert checks.compute_left(card, an_ask(a_request(cores=asked))) is why


def test_what_a_request_takes_of_a_device_is_what_it_says() -> None:
    card = a_candidate(a_device(memory=16_001))
    ask = an_ask(a_request(memory=Percent(50), cores=30))
    assert (checks.memory_on(card, ask), checks.cores_on(card, ask)) == (8_000, 30)


def test_what_a_request_takes_of_a_device_can_be_a_vendors_word() -> None:
    ask = replace(an_ask(), memory_of=lambda *_: MiB(7), cores_of=lambda *_: CoreShare(9))
    assert (checks.memory_on(a_candidate(), ask), checks.cores_on(a_candidate(), ask)) == (7, 9)


def test_card_checks_look_at_models_only_where_a_pod_selects() -> None:
    assert checks.card_checks(acme.SPEC, a_request()) == (checks.healthy, checks.not_cordoned)
    for selector in (DeviceSelector(use_models=()), DeviceSelector(avoid_models=()), DeviceSelector(modes="")):
        found = checks.card_checks(acme.SPEC, a_request(selector=selector))
        assert found == (checks.healthy, checks.not_cordoned, checks.wanted_model)


def test_card_checks_compare_modes_first_where_a_vendor_wants_the_very_one() -> None:
    exact = acme_variants.fitting(exact_mode=True)
    found = checks.card_checks(exact, a_request(selector=DeviceSelector(modes="mig")))
    assert found == (checks.healthy, checks.not_cordoned, checks.same_mode, checks.wanted_model)
    assert checks.same_mode not in checks.card_checks(exact, a_request(selector=DeviceSelector(use_models=("x",))))


def test_card_checks_look_at_all_signs_of_health_first() -> None:
    fragile = acme_variants.fitting(health_checks=(checks.slot_left,))
    found = checks.card_checks(fragile, a_request(selector=DeviceSelector(use_models=("x",))))
    assert found == (checks.healthy, checks.slot_left, checks.not_cordoned, checks.wanted_model)


def test_room_checks_are_in_the_order_of_the_explanation() -> None:
    spec = acme_variants.fitting(early_checks=(checks.healthy,), late_checks=(checks.not_cordoned,))
    request = a_request(selector=DeviceSelector(avoid_ids=frozenset()))
    assert checks.room_checks(spec, request, exclusive=True) == (
        checks.healthy,
        checks.wanted_id,
        checks.slot_left,
        checks.unshared,
        checks.memory_left,
        checks.cores_left,
        checks.whole_device_is_idle,
        checks.compute_left,
        checks.not_cordoned,
    )


def test_room_checks_leave_out_what_cannot_object() -> None:
    plain = checks.room_checks(acme.SPEC, a_request(), exclusive=False)
    assert checks.wanted_id not in plain
    assert checks.unshared not in plain
    coreless = acme_variants.fitting(takes_no_cores=lambda request: request.cores == 0)
    assert checks.room_checks(coreless, a_request(), exclusive=False) == (checks.slot_left, checks.memory_left)
    assert checks.cores_left in checks.room_checks(coreless, a_request(cores=1), exclusive=False)


def test_cores_above_a_hundred_percent_are_a_hundred_where_cores_are_percentages() -> None:
    assert checks.clamped(acme.SPEC, a_request(cores=250)) == 100
    assert checks.clamped(acme.SPEC, a_request(cores=99)) == 99
    assert checks.clamped(acme_variants.fitting(clamps_cores=False), a_request(cores=250)) == 250
