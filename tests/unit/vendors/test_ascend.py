"""Ascend NPUs: templates, soft shares, rings and modules."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.mutate import PodAdmission, WebhookSettings, admit
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute, Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Scoring, VendorOptions, VendorSpec
from hami_plugins.vendors import ascend
from hami_plugins.vendors.ascend import CHIPS, NODE_MODE_KEY, POD_MODE_KEY, SOFT, SPECS, TIME_KEY, VISIBLE
from tests.builders import a_container, a_device, a_node_object, a_pod, a_state
from tests.unit.vendors.placing import NOW_NS, Written, holder, place

BY_NAME = {spec.name: spec for spec in SPECS}
B3, C910, P310 = (BY_NAME[VendorName(f"Ascend{chip}")] for chip in ("910B3", "910C", "310P"))
SOFT_POD = {POD_MODE_KEY: SOFT}


def limits(
    spec: VendorSpec, count: int | str, memory: int | str | None = None, cores: int | str | None = None
) -> dict[str, int | str]:
    names = spec.resources
    given = {names.count: count, names.memory: memory, names.cores: cores}
    return {name: amount for name, amount in given.items() if amount is not None}


def node(
    spec: VendorSpec, cards: int = 8, *, rings: bool = True, soft: bool = False, unhealthy: int = -1
) -> NodeObject:
    devices = [
        {
            "id": f"npu{at}",
            "index": at,
            "count": 4,
            "devmem": 65536,
            "devcore": 20,
            "type": spec.name,
            "health": at != unhealthy,
            **({"custominfo": {"NetworkID": at // 4}} if rings else {}),
        }
        for at in range(cards)
    ]
    annotations = {spec.keys.register: json.dumps(devices), NODE_MODE_KEY: str(soft).lower()}
    return a_node_object("n", annotations=annotations)


def admitted(
    spec: VendorSpec,
    given: Mapping[str, int | str],
    *,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, int | str] | None = None,
    runtime_class: str | None = None,
) -> PodAdmission:
    pod = a_pod(a_container(given, requests=requests), annotations=annotations, runtime_class=runtime_class)
    return admit(pod, Registry([spec]), WebhookSettings(scheduler=""))


def changes(admission: PodAdmission) -> dict[tuple[str, str], str]:
    return {(each.change.kind, each.change.key): each.change.value for each in admission.changes}


def placed(
    spec: VendorSpec, there: NodeObject, given: Mapping[str, int | str], text: str = "", *, soft: bool = False
) -> Written:
    running = [holder(spec, text)] if text else []
    pod = a_pod(a_container(given), annotations=SOFT_POD if soft else {})
    written = place(spec, there, pod, running)
    assert not isinstance(written, str), written
    return written


def cards(written: Written, spec: VendorSpec) -> list[str]:
    return [part.split(",")[0] for part in written[spec.keys.allocated].rstrip(":;").split(":")]


def held(spec: VendorSpec, memory: int, *numbers: int) -> str:
    return "".join(f"npu{at},{spec.name},{memory},0:" for at in numbers) + ";"


def test_memory_is_rounded_up_to_a_template_and_written_as_limit_and_request() -> None:
    given = changes(admitted(P310, limits(P310, 1, 2000)))
    memory = P310.resources.memory
    assert given == {("limit", memory): "3072", ("request", memory): "3072"}


def test_a_request_without_memory_is_for_the_usable_card() -> None:
    assert changes(admitted(P310, limits(P310, 1)))["limit", P310.resources.memory] == "21527"


def test_memory_that_is_a_template_already_is_left_alone() -> None:
    given = limits(P310, 1, 3072)
    assert changes(admitted(P310, given, requests=given)) == {}


@pytest.mark.parametrize(
    ("given", "annotations", "words"),
    [
        (limits(P310, 1, 24577), {}, "huawei.com/Ascend310P-memory 24577 is invalid"),
        (limits(P310, 1, 3072, 10), {}, "huawei.com/Ascend310P-core is only supported in hami-core (soft split) mode"),
        (limits(P310, 2, 3072), {}, "vNPU not supported for multiple devices"),
    ],
)
def test_the_webhook_refuses_in_upstreams_words(
    given: Mapping[str, int | str], annotations: Mapping[str, str], words: str
) -> None:
    answer = admitted(P310, given, annotations=annotations)
    assert (answer.allowed, answer.code, answer.message) == (False, 500, words)


def test_several_whole_cards_and_cores_of_zero_are_fine() -> None:
    assert admitted(P310, limits(P310, 2)).allowed
    assert admitted(P310, limits(P310, 1, 3072, 0)).allowed


def test_soft_pods_keep_their_memory_and_may_split_several_cards() -> None:
    answer = admitted(B3, limits(B3, 2, 1000, 10), annotations=SOFT_POD)
    # The API server writes 1000 as 1k, and so does upstream's webhook.
    assert changes(answer) == {("request", B3.resources.memory): "1k"}


def test_negative_memory_is_refused() -> None:
    answer = admitted(B3, limits(B3, 1, -1))
    assert not answer.allowed
    assert "not an amount of MiB" in answer.message


def test_a_910c_is_asked_for_by_modules() -> None:
    count = C910.resources.count
    assert changes(admitted(C910, limits(C910, 1)))["limit", count] == "2"
    assert changes(admitted(C910, limits(C910, 1), requests={count: 1}))["request", count] == "2"
    assert ("limit", count) not in changes(admitted(C910, limits(C910, 4)))
    assert admitted(C910, limits(C910, 3)).message == "Ascend910C device request must be 1 or 2*n, got 3"


def test_without_super_pod_a_910c_die_may_stand_alone() -> None:
    chip = next(chip for chip in CHIPS if chip.has_modules)
    alone = ascend.spec_of(replace(chip, super_pod=False))
    assert admitted(alone, limits(alone, 3)).allowed
    assert ("limit", alone.resources.count) not in changes(admitted(alone, limits(alone, 1, 16384)))


def test_a_slice_on_each_die_passes_as_it_does_upstream() -> None:
    answer = admitted(C910, limits(C910, 1, 16384))
    assert answer.allowed
    assert changes(answer)["limit", C910.resources.count] == "2"


def test_containers_without_npus_are_not_claimed() -> None:
    answer = admitted(B3, {})
    assert answer.claimed == ()
    assert answer.changes == ()


def with_options(options: VendorOptions) -> VendorSpec:
    return ascend.spec_of(replace(next(chip for chip in CHIPS if chip.word == "Ascend910B3"), options=options))


def test_the_runtime_class_is_set_where_the_pod_has_none() -> None:
    spec = with_options(VendorOptions(runtime_class="ascend"))
    key = ("runtimeClassName", "runtimeClassName")
    assert changes(admitted(spec, limits(spec, 1)))[key] == "ascend"
    assert key not in changes(admitted(spec, limits(spec, 1), runtime_class="own"))


def test_npus_are_hidden_only_from_containers_that_ask_for_none() -> None:
    spec = with_options(VendorOptions(overwrite_env=True))
    assert changes(admitted(spec, {}))["env", VISIBLE] == ""
    assert changes(admitted(spec, limits(P310, 1))) == {}
    assert ("env", VISIBLE) not in changes(admitted(spec, limits(spec, 1)))


def test_a_memory_factor_multiplies_the_units_of_memory() -> None:
    spec = with_options(VendorOptions(memory_factor=10))
    given = limits(spec, 1, 1000)
    assert changes(admitted(spec, given))["limit", spec.resources.memory] == "1638"
    found = request_of(spec, a_container(given), a_pod())
    assert found is not None
    assert found.memory == Absolute(MiB(10_000))


@pytest.mark.parametrize(("cores", "read"), [(None, 0), ("1500m", 2), (40, 40)])
def test_a_part_of_a_percent_is_a_percent(cores: int | str | None, read: int) -> None:
    found = request_of(B3, a_container(limits(B3, 1, cores=cores)), a_pod())
    assert found is not None
    assert (found.memory, found.cores) == (Percent(100), read)


def test_negative_cores_are_refused() -> None:
    answer = admitted(B3, limits(B3, 1, cores=-1), annotations=SOFT_POD)
    assert "not a share of a device's cores" in answer.message


def test_a_container_of_another_vendor_asks_for_nothing() -> None:
    assert request_of(B3, a_container({"cpu": 1}), a_pod()) is None


def test_a_node_says_whether_it_shares_softly_else_the_settings_do() -> None:
    assert {device.mode for device in B3.inventory(B3, node(B3, soft=True)).devices} == {SOFT}
    hard = B3.inventory(B3, node(B3)).devices
    assert {(device.mode, device.cores, device.group) for device in hard} == {("", 20, "0"), ("", 20, "1")}
    by_default = with_options(VendorOptions(flags={ascend.SOFT_FLAG: True}))
    silent = node(B3)._replace(annotations={B3.keys.register: node(B3).annotations[B3.keys.register]})
    assert {device.cores for device in by_default.inventory(by_default, silent).devices} == {100}
    assert B3.inventory(B3, a_node_object()).ids == ()


def test_a_soft_pod_needs_a_soft_node_and_says_so_once() -> None:
    pod = a_pod(a_container(limits(B3, 1, 1000, 10)), annotations=SOFT_POD)
    assert place(B3, node(B3), pod) == "1/8 ModeNotFit"
    assert not isinstance(place(B3, node(B3, soft=True), pod), str)


def test_a_hard_pod_may_share_a_soft_node() -> None:
    assert not isinstance(place(B3, node(B3, soft=True), a_pod(a_container(limits(B3, 1, 16384)))), str)


def test_the_plugin_reads_template_memory_and_cores() -> None:
    written = placed(B3, node(B3), limits(B3, 1, 10_000))
    assert json.loads(written["huawei.com/Ascend910B3"]) == [{"UUID": "npu7", "temp": "vir05_1c_16g", "memory": 16384}]
    assert written[TIME_KEY] == str(NOW_NS // 10**9)
    whole = placed(B3, node(B3), limits(B3, 1))
    assert json.loads(whole["huawei.com/Ascend910B3"]) == [{"UUID": "npu7", "memory": 65536}]
    soft = placed(B3, node(B3, soft=True), limits(B3, 1, 1000, 5), soft=True)
    assert json.loads(soft["huawei.com/Ascend910B3"]) == [{"UUID": "npu7", "memory": 1000, "core": 5}]


def test_memory_that_no_template_has_is_written_without_one() -> None:
    pod = a_pod(a_container(requests=limits(P310, 1, 30_000)))
    devices = [{"id": "npu0", "count": 7, "devmem": 40_000, "devcore": 8, "health": True}]
    written = place(P310, a_node_object(annotations={P310.keys.register: json.dumps(devices)}), pod)
    assert not isinstance(written, str)
    assert json.loads(written["huawei.com/Ascend310P"]) == [{"UUID": "npu0", "memory": 30_000}]


def test_several_cards_come_from_the_ring_with_most_of_them_free() -> None:
    # Of the second ring, two cards are left; the first has three.
    text = held(B3, 65536, 3, 6, 7)
    assert cards(placed(B3, node(B3), limits(B3, 2), text), B3) == ["npu2", "npu1"]
    assert cards(placed(B3, node(B3), limits(B3, 4), text), B3) == ["npu2", "npu1", "npu0", "npu5"]


def test_equal_rings_are_taken_by_number() -> None:
    assert cards(placed(B3, node(B3), limits(B3, 2)), B3) == ["npu3", "npu2"]


def test_cards_without_rings_and_chips_without_them_are_taken_as_they_come() -> None:
    assert cards(placed(B3, node(B3, rings=False), limits(B3, 2)), B3) == ["npu7", "npu6"]
    assert cards(placed(P310, node(P310), limits(P310, 2)), P310) == ["npu7", "npu6"]


def test_dies_of_a_910c_are_whole_modules_by_number() -> None:
    text = held(C910, 65536, 0)
    assert cards(placed(C910, node(C910), limits(C910, 4), text), C910) == ["npu3", "npu2", "npu5", "npu4"]


def test_a_910c_without_enough_modules_counts_those_it_has_against_the_dies_asked_for() -> None:
    pod = a_pod(a_container(limits(C910, 4)))
    running = [holder(C910, held(C910, 65536, 0, 2, 4))]
    assert place(C910, node(C910), pod, running) == "2/4 AllocatedCardsInsufficientRequest, 3/4 CardInsufficientMemory"
    running = [holder(C910, held(C910, 65536, 0, 2, 4, 6))]
    assert place(C910, node(C910), pod, running) == "0/4 AllocatedCardsInsufficientRequest, 4/4 CardInsufficientMemory"


def test_other_chips_are_refused_in_the_usual_words() -> None:
    pod = a_pod(a_container(limits(B3, 2)))
    words = place(B3, node(B3, 2, unhealthy=0), pod)
    assert words == "1/2 AllocatedCardsInsufficientRequest, 1/2 CardNotHealth"


@pytest.mark.parametrize(
    ("rings", "containers", "score"),
    [("0001", [(0, 1, 2, 3)], 7.5), ("001", [(0, 1), (), (2,)], 20), ("0-", [(0, 1)], 0)],
)
def test_a_node_scores_by_how_well_containers_keep_to_a_ring(
    rings: str, containers: list[tuple[int, ...]], score: float
) -> None:
    devices = [a_device(vendor=B3.name, group=None if ring == "-" else ring) for ring in rings]
    shares = tuple(tuple(DeviceShare(at, MiB(0), CoreShare(0)) for at in positions) for positions in containers)
    assert B3.scoring.score_node is not None
    assert B3.scoring.score_node(Scoring(a_state(*devices), (), shares, DEFAULT_POLICY)) == score
    assert P310.scoring.score_node is None
