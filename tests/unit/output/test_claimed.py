"""Claims in the answers of ``plan`` and ``explain``: which devices, and what of them."""

from __future__ import annotations

from typing import Any

from hami_plugins.engine.registry import Registry
from hami_plugins.explain import explain
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.output import documents, explanations, tables
from hami_plugins.plan import Plan, Planner, claimed
from hami_plugins.plan.claimed import held_devices, planned_devices
from hami_plugins.plan.preemption import CLAIMED
from hami_plugins.plan.remarks import VOLCANO_CLAIMS
from hami_plugins.vendors import BUILTIN
from tests.claim_objects import (
    DRIVER,
    a_card,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    given,
    planned,
)
from tests.raw_objects import Raw

REGISTRY = Registry(BUILTIN)
FAR = a_slice(a_device("far"), node=None, pool="net", allNodes=True)
RAWS = (
    a_node(),
    a_class(),
    a_class("net", f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations'),
    a_slice(a_card("gpu-0"), a_card("gpu-1")),
    FAR,
    a_template("share", a_request("r", memory="30Gi"), a_request("s", memory="30Gi")),
    a_template("far", a_request("r", of="net")),
    a_template("monitor", a_request("r", of="net", adminAccess=True)),
)


def cells(plan: Plan) -> list[tuple[str, ...]]:
    """Devices and shares of each row."""
    return [row.cells[3:5] for row in tables.plan(plan, REGISTRY).rows]


def test_a_table_names_devices_and_what_of_them() -> None:
    """Those of other pools than the node's with their pool."""
    pods = [a_pod("a", template="share"), a_pod("b", template="far"), a_pod("c", template="monitor")]
    assert cells(planned([*RAWS, *pods])) == [
        ("gpu-0", "2 x memory 30Gi"),
        ("net/far", "whole device"),
        ("net/far", "whole device (admin access)"),
    ]


def test_replicas_in_one_row_have_equal_shares() -> None:
    """And all their devices are in it."""
    plan = planned([*RAWS, a_pod("a-0", template="share"), a_pod("a-1", template="share")])
    assert cells(plan) == [("gpu-0", "2 x memory 30Gi"), ("gpu-1", "2 x memory 30Gi")]
    units = plan.units
    assert len(units) == 2


def test_a_share_without_amounts_is_a_share() -> None:
    """A shared device need not have any capacity."""
    bare = a_slice(a_device("x", allowMultipleAllocations=True))
    plan = planned([a_node(), a_class(), bare, a_template("t", a_request()), a_pod(template="t")])
    assert cells(plan) == [("x", "a share")]


def test_documents_tell_the_same() -> None:
    """With driver, pool and request."""
    plan = planned([*RAWS, a_pod(template="share")])
    answer = Answers(plan, Planner(REGISTRY)).all[0]
    first = documents.pod(answer)["claims"][0]
    assert first == {
        "claim": "c",
        "request": "r",
        "driver": DRIVER,
        "pool": "n1",
        "device": "gpu-0",
        "shared": True,
        "consumed": {"memory": "30Gi"},
        "adminAccess": False,
    }


def explained(*raws: Raw, name: str = "default/p") -> list[str]:
    """What ``explain`` prints."""
    found = explain(snapshot_of([*RAWS, *raws], REGISTRY), name, Planner(REGISTRY))
    return [line.words for line in explanations.lines(found, REGISTRY)]


def running(name: str = "p", **more: Any) -> Raw:
    """A pod on the node."""
    found = a_pod(name, **more)
    found["spec"]["nodeName"] = "n1"
    return found


def test_a_pending_pod_is_told_what_its_claims_would_get() -> None:
    """By claim."""
    lines = explained(a_pod(template="share"))
    assert lines[:3] == [
        "default/p: pending, but it fits now",
        "  n1",
        "  gets by claim c gpu-0: 2 x memory 30Gi",
    ]
    assert "  it asks for no devices" not in lines


def test_a_pending_pod_is_told_why_it_waits() -> None:
    """With the numbers, and that no evictions are worked out."""
    lines = explained(a_claim("c", a_request(memory="90Gi")), a_pod(claim="c"))
    assert lines[:2] == [
        "default/p: pending, does not fit",
        "  1 of 1 node: claim c, request r: 1 device of gpu asked, 0 of 3 can be had: 2 short of memory (90Gi asked, "
        "80Gi free), 1 without capacity memory",
    ]
    assert f"  would preempt no pod: {CLAIMED}" in lines
    assert "  scheduler event: cannot allocate all claims" in lines


def test_a_pod_of_which_it_is_not_known_says_so() -> None:
    """It never fits."""
    lines = explained(
        a_class("odd", 'device.attributes["x"].?y.orValue("") == ""'),
        a_template("t", a_request(of="odd")),
        a_pod(template="t"),
    )
    assert lines[0] == "default/p: pending, unknown"


def test_a_running_pod_is_told_what_its_claims_hold() -> None:
    """It is not said where it would go again."""
    claim = a_claim("c", a_request(), **given("gpu-0", users=["p"], shareID="x", consumedCapacity={"memory": "1Gi"}))
    assert explained(claim, a_claim("idle", a_request()), running(claim="c")) == [
        "default/p: running on n1",
        "  holds by claim c gpu-0: memory 1Gi",
    ]
    snapshot = snapshot_of([*RAWS, claim, running(claim="c")], REGISTRY)
    document = documents.explanation(explain(snapshot, "default/p", Planner(REGISTRY)), REGISTRY)
    assert document["running"] is not None
    assert [each["device"] for each in document["running"]["claims"]] == ["gpu-0"]


def test_a_claim_that_is_reserved_and_has_nothing_yet_holds_nothing() -> None:
    """Others of the namespace are not the pod's."""
    waiting = a_claim("c", a_request(), reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
    dynamic = snapshot_of([waiting, a_claim("d", a_request())], REGISTRY).dynamic
    held = claimed.held_by(dynamic, "default", "p")
    assert [each.name for each in held] == ["c"]
    assert held_devices(held, "n1") == ()
    assert claimed.held_by(dynamic, "other", "p") == ()


def test_a_pod_without_a_place_gets_nothing() -> None:
    """Nothing is shown for it."""
    plan = planned([a_node(), a_pod(claim="x")])
    assert planned_devices(plan.pods[0]) == ()


def test_a_pod_of_volcano_is_told_what_its_scheduler_needs() -> None:
    """Only with an argument of a plugin does it look at claims."""
    plan = planned([*RAWS, a_pod(template="far", schedulerName="volcano"), a_pod("q", template="far")])
    assert [VOLCANO_CLAIMS in each.notes for each in plan.pods] == [True, False]
