"""What a pod asks of devices, and what is refused because it cannot mean anything."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine import demand
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.requests import ANY_DEVICE, Absolute, ContainerKind, DeviceRequest, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import OnBadMemory
from hami_plugins.model.vendor_names import AnnotationKeys
from tests import acme, acme_variants
from tests.builders import CORES, COUNT, MEMORY, a_container, a_pod, a_request

REGISTRY = Registry([acme.SPEC])
KEYS = acme.SPEC.keys


def asked(limits: dict[str, int | str], *, spec: object = acme.SPEC, **requests: int | str) -> DeviceRequest | None:
    container = a_container(limits, requests=requests)
    return demand.request_of(spec, container, a_pod(container))  # type: ignore[arg-type]


def test_a_demand_has_one_entry_per_container_in_the_pods_order() -> None:
    pod = a_pod(
        a_container({COUNT: 2}, name="load", kind=ContainerKind.INIT),
        a_container({}, name="idle", kind=ContainerKind.SIDECAR),
        a_container({COUNT: 1, MEMORY: 512}),
    )
    found = demand.demand_of(pod, REGISTRY)
    assert [each.kind for each in found.containers] == [ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP]
    assert [len(each.requests) for each in found.containers] == [1, 0, 1]
    assert found.wants_devices


def test_a_pod_without_devices_asks_for_none() -> None:
    found = demand.demand_of(a_pod(a_container({"cpu": 1})), REGISTRY)
    assert not found.wants_devices
    assert not found.names_ids


def test_a_count_alone_means_whole_memory_and_the_vendors_default_of_cores() -> None:
    assert asked({COUNT: 3}) == a_request(count=3, memory=Percent(100))
    eager = acme_variants.requests(cores_default=CoreShare(100))
    assert asked({COUNT: 1}, spec=eager) == a_request(memory=Percent(100), cores=100)


def test_memory_and_cores_are_per_card() -> None:
    assert asked({COUNT: 2, MEMORY: 3_000, CORES: 40}) == a_request(count=2, memory=3_000, cores=40)


def test_memory_counts_in_the_vendors_units() -> None:
    in_quarters = acme_variants.requests(memory_unit=MiB(256))
    assert asked({COUNT: 1, MEMORY: 4}, spec=in_quarters) == a_request(memory=1_024)
    factored = replace(acme.SPEC, options=replace(acme.SPEC.options, memory_factor=3))
    assert asked({COUNT: 1, MEMORY: 4}, spec=factored) == a_request(memory=12)


def test_a_request_stands_in_for_a_missing_limit_unless_the_vendor_says_otherwise() -> None:
    assert asked({}, **{COUNT: 2}) == a_request(count=2, memory=Percent(100))
    limits_only = acme_variants.requests(requests_too=False)
    assert asked({}, spec=limits_only, **{COUNT: 2}) is None


@pytest.mark.parametrize("limits", [{}, {"cpu": 4}, {COUNT: 0}, {COUNT: 0, MEMORY: 0}, {MEMORY: 0}])
def test_nothing_asked_is_no_request(limits: dict[str, int | str]) -> None:
    assert asked(limits) is None


@pytest.mark.parametrize(
    ("limits", "resource", "why"),
    [
        ({MEMORY: 1_000}, MEMORY, "acme.example/card is missing"),
        ({CORES: 10}, CORES, "acme.example/card is missing"),
        ({COUNT: -1}, COUNT, "not a number of devices"),
        ({COUNT: "1500m"}, COUNT, "not a number of devices"),
        ({COUNT: 2**31}, COUNT, "not a number of devices"),
        ({COUNT: 0, MEMORY: 1_000}, COUNT, "zero devices but acme.example/memory is asked"),
        ({COUNT: 1, MEMORY: -1}, MEMORY, "not an amount of MiB"),
        ({COUNT: 1, MEMORY: "500m"}, MEMORY, "not an amount of MiB"),
        ({COUNT: 1, MEMORY: "16Gi"}, MEMORY, "not an amount of MiB"),
        ({COUNT: 1, CORES: -1}, CORES, "not a share of a device's cores"),
        ({COUNT: 1, CORES: 2**31}, CORES, "not a share of a device's cores"),
    ],
)
def test_an_amount_that_cannot_mean_anything_is_refused_by_name(
    limits: dict[str, int | str], resource: str, why: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        asked(limits)
    assert (caught.value.container, caught.value.resource, caught.value.why) == ("main", resource, why)
    assert caught.value.remedy


def test_memory_in_bytes_is_refused_with_the_amount_that_was_meant() -> None:
    with pytest.raises(InvalidRequestError, match="write 16384 if 16Gi was meant in bytes"):
        asked({COUNT: 1, MEMORY: "16Gi"})
    in_quarters = acme_variants.requests(memory_unit=MiB(256))
    with pytest.raises(InvalidRequestError, match=r"units of 256 MiB; write 64 if 16Gi"):
        asked({COUNT: 1, MEMORY: "16Gi"}, spec=in_quarters)
    with pytest.raises(InvalidRequestError, match="use a whole number from 0"):
        asked({COUNT: 1, MEMORY: "1500m"})


def test_a_vendor_may_ignore_memory_with_a_fraction_but_never_a_negative_amount() -> None:
    lenient = acme_variants.requests(bad_memory=OnBadMemory.IGNORE)
    assert asked({COUNT: 1, MEMORY: "1500m"}, spec=lenient) == a_request(memory=Percent(100))
    for amount in ("-500m", "-1", "16Gi"):
        with pytest.raises(InvalidRequestError):
            asked({COUNT: 1, MEMORY: amount}, spec=lenient)


def test_cores_with_a_fraction_say_nothing() -> None:
    assert asked({COUNT: 1, CORES: "1500m"}) == a_request(memory=Percent(100))


def test_a_vendor_without_memory_or_cores_reads_neither() -> None:
    bare = replace(acme.SPEC, resources=replace(acme.RESOURCES, memory="", cores=""))
    assert asked({COUNT: 1, MEMORY: -1, CORES: -1}, spec=bare) == a_request(memory=Percent(100))


def test_vendor_words_of_the_pod_travel_with_the_request() -> None:
    spec = acme_variants.requests(options_of=lambda _, annotations: tuple(sorted(annotations.items())))
    container = a_container({COUNT: 1})
    found = demand.request_of(spec, container, a_pod(container, annotations={"tier": "gold"}))
    assert found is not None
    assert found.option("tier") == "gold"


@pytest.mark.parametrize(
    ("annotations", "selector"),
    [
        ({}, ANY_DEVICE),
        ({"other": "x"}, ANY_DEVICE),
        ({KEYS.use_ids[0]: " "}, ANY_DEVICE),
        ({KEYS.use_models: " "}, ANY_DEVICE),
        ({KEYS.use_ids[0]: "a, b"}, DeviceSelector(use_ids=frozenset({DeviceId("a"), DeviceId("b")}))),
        ({KEYS.avoid_ids[0]: "a"}, DeviceSelector(avoid_ids=frozenset({DeviceId("a")}))),
        ({KEYS.use_models: "A100, ,H100"}, DeviceSelector(use_models=("a100", "h100"))),
        ({KEYS.use_models: ","}, DeviceSelector(use_models=())),
        ({KEYS.avoid_models: "T4"}, DeviceSelector(avoid_models=("t4",))),
    ],
)
def test_annotations_select_devices(annotations: dict[str, str], selector: DeviceSelector) -> None:
    assert demand.selector_of(KEYS, annotations) == selector


def test_with_two_id_keys_a_device_must_pass_both() -> None:
    keys = AnnotationKeys(allocated="x", use_ids=("u1", "u2"), avoid_ids=("n1", "n2"), mode="m")
    both = demand.selector_of(keys, {"u1": "a,b", "u2": "b,c", "n1": "d", "n2": "e", "m": "mig"})
    assert both == DeviceSelector(
        use_ids=frozenset({DeviceId("b")}), avoid_ids=frozenset({DeviceId("d"), DeviceId("e")}), modes="mig"
    )
    assert demand.selector_of(keys, {"u2": "b", "n2": "e"}).use_ids == frozenset({DeviceId("b")})


def test_a_vendor_without_selection_keys_selects_nothing() -> None:
    assert demand.selector_of(AnnotationKeys(allocated="x"), {"": "a", KEYS.use_models: "a"}) == ANY_DEVICE


@pytest.mark.parametrize(
    ("memory", "percent", "default", "expected"),
    [
        (500, 20, 100, Absolute(MiB(500))),
        (0, 20, 100, Percent(20)),
        (0, 400, 100, Percent(100)),
        (0, 0, 100, Absolute(MiB(100))),
        (0, None, 100, Absolute(MiB(100))),
        (0, None, 0, Percent(100)),
    ],
)
def test_memory_wins_over_a_percentage_and_that_over_the_default(
    memory: int, percent: int | None, default: int, expected: object
) -> None:
    assert demand.percentage(MiB(memory), percent, MiB(default)) == expected


@given(st.dictionaries(st.sampled_from([COUNT, MEMORY, CORES]), st.integers(-(2**40), 2**40)))
def test_any_amounts_are_read_or_refused_and_never_taken_for_nothing(limits: dict[str, int | str]) -> None:
    try:
        found = asked(limits)
    except InvalidRequestError:
        return
    if found is None:
        assert not any(limits.values())
    else:
        assert found.count == limits[COUNT]


def test_no_card_with_all_cores_is_what_hamis_webhook_makes_of_no_card() -> None:
    assert asked({COUNT: 0, CORES: 100}) is None
    for others in ({CORES: 50}, {CORES: 100, MEMORY: 512}):
        with pytest.raises(InvalidRequestError, match="zero devices"):
            asked({COUNT: 0, **others})
