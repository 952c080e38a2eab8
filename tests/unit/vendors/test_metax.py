"""MetaX GPUs, whole and shared."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.mutate import PodAdmission, WebhookSettings, admit
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.devices import IDLE, DeviceShare, DeviceUsage, Tenant
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.pods import Pod
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand, Percent
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Scoring, VendorOptions
from hami_plugins.vendors.metax import (
    APP_CLASS_KEY,
    CARDS_KEY,
    LOSSES_KEY,
    OFFLINE,
    ONLINE,
    PARTS_KEY,
    QOS_KEY,
    SCORES_KEY,
    SHARED,
    SPEC,
    TIME_KEY,
    TOPOLOGY_FLAG,
    TOPOLOGY_KEY,
    score_shared,
)
from tests.builders import a_container, a_device, a_node_object, a_pod, a_request, a_state, used
from tests.unit.vendors.placing import NOW_NS, Written, holder, place

COUNT, LIST = SPEC.resources.count, SPEC.keys.allocated
SGPU, MEMORY, CORES = SHARED.resources.count, SHARED.resources.memory, SHARED.resources.cores
SHARES = SHARED.keys.allocated
BEST, FIXED = {QOS_KEY: "best-effort"}, {QOS_KEY: "fixed-share"}
AT_ONCE, LATER = {APP_CLASS_KEY: ONLINE}, {APP_CLASS_KEY: OFFLINE, **BEST}

Words = Mapping[str, str]


def whole_node(cards: int = 2, **annotations: str) -> NodeObject:
    return a_node_object("n", capacity={COUNT: cards}, annotations=annotations)


def node(cards: int = 1, *, zones: str = "", unhealthy: int = -1, qos: str = "") -> NodeObject:
    found: list[dict[str, Any]] = [
        {
            "uuid": f"g{at}",
            "model": "MXC500",
            "totalDevCount": 4,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": at != unhealthy,
            "qosPolicy": qos,
            **({"linkZone": int(zones[at])} if zones else {}),
        }
        for at in range(len(zones) or cards)
    ]
    return a_node_object("n", annotations={CARDS_KEY: json.dumps(found)})


def part(cores: int | None = 10, memory: str | None = "1") -> dict[str, int | str]:
    given = {SGPU: 1, CORES: cores, MEMORY: memory}
    return {name: amount for name, amount in given.items() if amount is not None}


def running(*cards: int, cores: int = 10, words: Words, name: str = "running") -> Pod:
    text = "".join(f"g{card},Metax-SGPU,1024,{cores}:" for card in cards) + ";"
    held = holder(SHARED, text, name=name)
    return replace(held, annotations={**held.annotations, **words})


def placed(there: NodeObject, given: Mapping[str, int | str], words: Words, *pods: Pod) -> Written:
    written = place(SHARED, there, a_pod(a_container(given), annotations=words), pods)
    assert not isinstance(written, str), written
    return written


def refused(there: NodeObject, given: Mapping[str, int | str], words: Words, *pods: Pod) -> str:
    answer = place(SHARED, there, a_pod(a_container(given), annotations=words), pods)
    assert isinstance(answer, str), answer
    return answer


def cards(written: Written) -> list[str]:
    return [entry.split(",")[0] for entry in written[SHARES].rstrip(":;").split(":")]


def test_whole_cards_are_for_one_container_each() -> None:
    two = a_pod(a_container({COUNT: 1}, name="a"), a_container({COUNT: 1}, name="b"))
    written = place(SPEC, whole_node(), two)
    assert isinstance(written, dict)
    assert written[LIST] == "n-metax-1,Metax-GPU,65536,100:;n-metax-0,Metax-GPU,65536,100:;"
    held = [holder(SPEC, "n-metax-0,Metax-GPU,65536,100:;")]
    assert place(SPEC, whole_node(1), a_pod(a_container({COUNT: 1})), held) == "1/1 CardTimeSlicingExhausted"


def test_a_node_without_cards_keeps_no_tables() -> None:
    found = SPEC.inventory(SPEC, a_node_object(annotations={LOSSES_KEY: '{"1":0}'}))
    assert (found.ids, found.traits) == ((), ())


@pytest.mark.parametrize(
    ("table", "policy", "score"),
    [
        ({LOSSES_KEY: '{"1":100,"2":300}'}, "binpack", 1900),
        ({SCORES_KEY: '{"1":100}'}, "spread", 1900),
        ({LOSSES_KEY: '{"2":300}'}, "binpack", 2000),
        ({LOSSES_KEY: "no table"}, "binpack", 2000),
        ({LOSSES_KEY: '{"1":100}'}, "spread", 0),
        ({LOSSES_KEY: '{"1":100}'}, "mutex", 0),
        ({}, "binpack", 0),
    ],
)
def test_a_node_scores_by_the_table_of_its_policy(table: Words, policy: str, score: float) -> None:
    found = SPEC.inventory(SPEC, whole_node(2, **table))
    assert SPEC.scoring.score_node is not None
    state = a_state(*found.devices)
    shape = type(state.shape)(state.shape.devices, (), found.traits)
    share = DeviceShare(0, MiB(65536), CoreShare(100))
    words = replace(DEFAULT_POLICY, node_words=policy)
    assert SPEC.scoring.score_node(Scoring(type(state).idle(shape), (), ((share,),), words)) == score


def test_shared_cards_are_those_of_metaxs_annotation() -> None:
    found = SHARED.inventory(SHARED, node(zones="012"))
    assert [(device.index, device.group, device.slots) for device in found.devices] == [
        (0, None, 4),
        (1, "1", 4),
        (2, "2", 4),
    ]
    assert found.devices[0].trait("model") == "MXC500"
    nameless = json.dumps([{"uuid": "g0", "healthy": True}])
    (device,) = SHARED.inventory(SHARED, a_node_object(annotations={CARDS_KEY: nameless})).devices
    assert device.traits == ()
    assert SHARED.inventory(SHARED, a_node_object()).ids == ()


def asked(memory: str | None, words: Words | None = None) -> DeviceRequest:
    found = request_of(SHARED, a_container(part(None, memory)), a_pod(annotations=words))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("memory", "read"),
    [
        (None, Percent(100)),
        ("0", Percent(100)),
        ("16", Absolute(MiB(16_384))),
        ("2048Mi", Absolute(MiB(2048))),
        ("16Gi", Absolute(MiB(16_384))),
        ("16G", Absolute(MiB(15_258))),
        ("1000", Absolute(MiB(1_024_000))),
        ("1k", Absolute(MiB(1_024_000))),
        ("1e3", Absolute(MiB(1_024_000))),
    ],
)
def test_a_bare_amount_of_memory_counts_gib(memory: str | None, read: MemoryDemand) -> None:
    assert asked(memory).memory == read


@pytest.mark.parametrize("memory", ["-1", "1500m", "512Ki", "2100001", "4294967297"])
def test_memory_that_no_card_can_have_is_refused(memory: str) -> None:
    with pytest.raises(InvalidRequestError, match="not an amount"):
        asked(memory)


def test_only_limits_count_and_cores_default_to_all() -> None:
    assert asked(None).cores == 100
    assert request_of(SHARED, a_container(requests=part()), a_pod()) is None


@pytest.mark.parametrize(
    ("words", "flag", "near"),
    [
        ({}, False, False),
        ({}, True, True),
        ({TOPOLOGY_KEY: "1"}, False, True),
        ({TOPOLOGY_KEY: "f"}, True, False),
        ({TOPOLOGY_KEY: "maybe"}, True, True),
    ],
)
def test_the_pod_overrides_the_setting_when_it_says_something(words: Words, flag: bool, near: bool) -> None:
    spec = replace(SHARED, options=VendorOptions(flags={TOPOLOGY_FLAG: flag}))
    found = request_of(spec, a_container(part()), a_pod(annotations=words))
    assert found is not None
    assert (found.option(TOPOLOGY_KEY) is not None) is near


def admitted(given: Mapping[str, int | str], words: Words) -> PodAdmission:
    return admit(a_pod(a_container(given), annotations=words), Registry([SHARED]), WebhookSettings(scheduler=""))


def test_ordinary_pods_get_a_quality_where_they_name_none() -> None:
    assert [change.change.value for change in admitted(part(), {}).changes] == ["best-effort"]
    assert admitted(part(), FIXED).changes == ()
    assert admitted(part(), AT_ONCE).changes == ()
    assert admitted({}, {}).claimed == ()


@pytest.mark.parametrize(
    ("given", "words", "message"),
    [
        (part(), {APP_CLASS_KEY: "oNLine"}, f"{APP_CLASS_KEY} must be set one of [online, offline]"),
        ({SGPU: 2}, AT_ONCE, "app-class pod must request single device"),
        (part(), {QOS_KEY: "best"}, f"{QOS_KEY} must be set one of [best-effort, fixed-share, burst-share]"),
        (
            part(),
            {APP_CLASS_KEY: OFFLINE, QOS_KEY: "x"},
            f"{QOS_KEY} must be set one of [best-effort, fixed-share, burst-share]",
        ),
    ],
)
def test_words_that_mean_nothing_are_refused(given: Mapping[str, int | str], words: Words, message: str) -> None:
    answer = admitted(given, words)
    assert (answer.allowed, answer.code, answer.message) == (False, 500, message)


def test_shares_are_written_in_metaxs_form_too() -> None:
    pod = a_pod(a_container(part(60, "4"), name="a"), a_container({}, name="b"), annotations=BEST)
    written = place(SHARED, node(), pod)
    assert isinstance(written, dict)
    assert json.loads(written[PARTS_KEY]) == [[{"uuid": "g0", "compute": 60, "vRam": 4096}], []]
    assert written[TIME_KEY] == str(NOW_NS)


def test_a_card_runs_under_the_quality_of_its_pods_whatever_the_node_last_said() -> None:
    fixed = running(0, words=FIXED)
    assert refused(node(qos="best-effort"), part(), BEST, fixed) == "1/1 CardQosPolicyMismatch"
    assert placed(node(qos="best-effort"), part(), FIXED, fixed)
    assert placed(node(qos="fixed-share"), part(), BEST)


def test_all_cores_of_a_card_need_no_quality_but_nobody_else() -> None:
    words = refused(node(), part(100), BEST, running(0, words=FIXED))
    assert words == "1/1 CardInsufficientCore"
    whole = running(0, cores=100, words=FIXED)
    assert refused(node(), part(10), BEST, whole) == "1/1 CardInsufficientCore"


def test_online_pods_take_no_cores_and_offline_ones_make_room() -> None:
    written = placed(node(), part(50), AT_ONCE, running(0, cores=100, words=LATER))
    assert written[SHARES] == "g0,Metax-SGPU,1024,0:;"


@pytest.mark.parametrize(
    ("words", "there"),
    [(AT_ONCE, BEST), (LATER, BEST), (BEST, AT_ONCE), (BEST, LATER), (LATER, AT_ONCE)],
)
def test_classes_keep_apart_and_offline_pods_do_not_queue_behind_online_ones(words: Words, there: Words) -> None:
    assert refused(node(), part(), words, running(0, words=there)) == "1/1 CardAppClassMismatch"


@pytest.mark.parametrize(("words", "there"), [(AT_ONCE, LATER), (AT_ONCE, AT_ONCE), (LATER, LATER)])
def test_pods_of_a_class_share_a_card(words: Words, there: Words) -> None:
    assert placed(node(), part(), words, running(0, words=there))


def test_containers_of_one_online_pod_share_a_card() -> None:
    pod = a_pod(a_container(part(), name="a"), a_container(part(), name="b"), annotations=AT_ONCE)
    assert not isinstance(place(SHARED, node(), pod), str)


def test_an_unhealthy_shared_card_has_a_word_of_its_own() -> None:
    assert refused(node(unhealthy=0), part(), BEST) == "1/1 CardUnhealthy"


def test_cores_beyond_a_card_are_not_cut_down_to_it() -> None:
    assert refused(node(), part(120), BEST) == "1/1 CardInsufficientCore"


def test_online_pods_go_where_they_disturb_least() -> None:
    pods = [
        running(0, words=LATER, name="a"),
        running(1, words=AT_ONCE, name="b"),
        running(2, words=AT_ONCE, name="c"),
        running(2, words=AT_ONCE, name="d"),
    ]
    assert cards(placed(node(3), part(), AT_ONCE, *pods)) == ["g1"]
    assert cards(placed(node(4), part(), AT_ONCE, *pods)) == ["g3"]


@pytest.mark.parametrize(
    ("zones", "count", "chosen"),
    [
        ("1122", 1, ["g1"]),
        ("11222", 2, ["g1", "g0"]),
        ("11222", 3, ["g4", "g3", "g2"]),
        ("11222", 4, ["g1", "g0", "g4", "g3"]),
        ("1100", 3, ["g1", "g0", "g3"]),
        ("00", 2, ["g1", "g0"]),
    ],
)
def test_whole_cards_come_from_the_smallest_zone_that_has_them(zones: str, count: int, chosen: list[str]) -> None:
    assert cards(placed(node(zones=zones), {SGPU: count}, BEST)) == chosen


def test_parts_of_cards_are_taken_as_they_come() -> None:
    assert cards(placed(node(zones="1222"), part(), BEST)) == ["g3"]
    assert cards(placed(node(zones="1222"), part(100), LATER)) == ["g3"]


def score(
    zones: str, taken: tuple[int, ...], usage: list[DeviceUsage], words: tuple[tuple[str, str], ...], cores: int
) -> float:
    devices = [a_device(vendor=SHARED.name, group=None if zone == "0" else zone) for zone in zones]
    shares = tuple(DeviceShare(at, MiB(0), CoreShare(cores)) for at in taken)
    request = a_request(vendor=SHARED.name, options=words)
    return score_shared(Scoring(a_state(*devices, usage=usage), (request,), (shares,), DEFAULT_POLICY))


def test_a_node_scores_by_the_zones_that_stay_whole() -> None:
    near = ((TOPOLOGY_KEY, "true"),)
    assert score("1111", (0, 1), [IDLE] * 4, near, 100) == 60
    assert score("0011", (0, 1), [IDLE] * 4, near, 100) == 0
    assert score("1111", (0, 1), [IDLE] * 4, near, 50) == 0
    assert score("1111", (0, 1), [IDLE] * 4, (), 100) == 0


def test_a_node_scores_worse_the_more_neighbours_an_online_pod_meets() -> None:
    online, offline = Tenant(ONLINE, ""), Tenant(OFFLINE, "best-effort")
    words = ((APP_CLASS_KEY, ONLINE),)
    usage = [used(2, 0, 0, online, offline), used(1, 0, 0, offline), IDLE]
    assert [score("000", (at,), usage, words, 0) for at in range(3)] == [-22, -100, 0]
