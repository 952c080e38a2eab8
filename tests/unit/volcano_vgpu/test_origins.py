"""An allocation that no scheduler can have written is not handed over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.volcano_vgpu.allocated_pods import IDS, container, offer, pod, question
from volcano_vgpu.core.allocations import allocations_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer

MORE, NODE = "hami-plugins.io/vgpu-more-ids", "volcano.sh/vgpu-node"
ONE = "GPU-a,NVIDIA,2000,30:"
BOUND, SOON, LATER = "2026-08-21T10:00:00Z", "2026-08-21T10:00:10Z", "2026-08-21T10:00:11Z"


def answer(raw: Any, first: Any = None, *, served: frozenset[str] = frozenset()) -> Any:
    return allocations_of(raw, question(first=first, served=served), offer())["main"]


def refused(raw: Any, first: Any = None) -> ContainerRefusal:
    found = answer(raw, first)
    assert isinstance(found, ContainerRefusal), found
    return found


@pytest.mark.parametrize(
    "first",
    [
        {IDS: "GPU-b,NVIDIA,2000,30:", NODE: "n1"},
        {IDS: "GPU-a,NVIDIA,1999,30:", NODE: "n1"},
        {IDS: ONE, NODE: "n2"},
        {IDS: ONE, NODE: "n1", MORE: "side=GPU-a,NVIDIA,1,0:"},
        {NODE: "n1"},
        {},
    ],
)
def test_an_allocation_that_changed_since_the_node_first_saw_the_pod_is_refused(first: dict[str, str]) -> None:
    found = refused(pod(ids=ONE), first)
    assert (found.code, found.heals) == (RefusalCode.ALLOCATION_CHANGED, True)
    key = next(key for key in (IDS, MORE, NODE) if first.get(key) != {IDS: ONE, NODE: "n1"}.get(key))
    assert f"{key} was {first.get(key, '')!r} when this node first saw the pod" in found.text
    assert "delete the pod" in found.text


@pytest.mark.parametrize("first", [None, {IDS: ONE, NODE: "n1"}, {IDS: ONE, NODE: "n1", "volcano.sh/bind-phase": "x"}])
def test_an_allocation_that_stayed_as_it_was_is_handed_over(first: dict[str, str] | None) -> None:
    assert isinstance(answer(pod(ids=ONE), first), AllocatedContainer)


def test_a_container_that_was_served_has_what_it_was_served() -> None:
    """Its file says what that is; an agent that restarts may see a changed annotation first."""
    assert isinstance(answer(pod(ids=ONE), {}, served=frozenset({"main"})), AllocatedContainer)


def test_an_init_container_that_would_borrow_a_changed_slice_is_refused() -> None:
    raw = pod(ids=ONE, init=[container("init", count=1)])
    found = allocations_of(raw, question({"init": ["s0"], "main": ["s0"]}, first={}), offer())
    assert all(
        isinstance(each, ContainerRefusal) and each.code is RefusalCode.ALLOCATION_CHANGED for each in found.values()
    )


def owned(*entries: Any, bound: str = BOUND) -> dict[str, Any]:
    raw = pod(ids=ONE)
    raw["metadata"]["managedFields"] = list(entries)
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]
    return raw


def entry(manager: str, time: str, *, node: bool = False, key: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {"f:spec": {"f:nodeName": {}} if node else {"f:containers": {}}}
    if key:
        fields["f:metadata"] = {"f:annotations": {f"f:{key}": {}}}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


def test_an_allocation_on_a_pod_whose_author_chose_the_node_is_refused() -> None:
    found = refused(owned(entry("kubectl-create", BOUND, node=True, key=IDS)))
    assert (found.code, found.heals) == (RefusalCode.NOT_VOLCANO, False)
    assert "kubectl-create set spec.nodeName" in found.text


@pytest.mark.parametrize("key", [IDS, MORE, NODE])
def test_an_allocation_that_was_written_after_the_pod_was_bound_is_refused(key: str) -> None:
    found = refused(owned(entry("kubectl-annotate", LATER, key=key)))
    assert (found.code, found.heals) == (RefusalCode.ALLOCATION_CHANGED, False)
    assert f"kubectl-annotate (at {LATER})" in found.text


@pytest.mark.parametrize(
    "raw",
    [
        owned(entry("vc-scheduler", SOON, key=IDS)),
        owned(entry("kubectl-create", BOUND, key=IDS)),
        owned(entry("agent", LATER, key="volcano.sh/devices-to-allocate")),
        owned(entry("agent", LATER, key="volcano.sh/bind-phase")),
        owned("nonsense", {}),
    ],
)
def test_what_schedulers_agents_and_templates_write_is_no_reason(raw: dict[str, Any]) -> None:
    assert isinstance(answer(raw), AllocatedContainer)
