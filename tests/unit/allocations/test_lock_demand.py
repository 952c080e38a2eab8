"""Which locks a pod needs, and what is read of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.lock_demand import (
    LockDemand,
    LockKey,
    LockPod,
    PodProgress,
    ReleaseReason,
    demand_of,
    lock_keys,
    plugin_vendors,
    progress_of,
)
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN
from tests import raw_objects
from tests.unit.allocations.locks import MLU, N1, N2, SHARED, a_pod, progress

VENDORS: dict[str, VendorSpec] = {spec.name: spec for spec in BUILTIN}
MARKER = ("example.com/allocator", "hami")
TO_ALLOCATE = {name: spec.keys.to_allocate for name, spec in VENDORS.items()}


def vendors(*names: str) -> list[VendorSpec]:
    return [spec for name, spec in VENDORS.items() if name in names]


def test_locks_have_the_rules_of_their_vendors() -> None:
    assert lock_keys(BUILTIN) == (LockKey(MLU, named=False, expiry=120.0), LockKey(SHARED, named=True, expiry=300.0))


def test_b15_the_operator_says_when_a_lock_expires() -> None:
    """HAMi reads HAMI_NODELOCK_EXPIRE and goes on with 5 minutes where it is garbage; here it is a checked setting."""
    assert lock_keys(vendors("NVIDIA", "MLU"), expiry=600) == (
        LockKey(MLU, named=False, expiry=120.0),
        LockKey(SHARED, named=True, expiry=600.0),
    )


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ((), ()),
        (("NVIDIA",), (SHARED,)),
        (("MLU",), (MLU,)),
        (("NVIDIA", "MLU"), (MLU, SHARED)),
        (("NVIDIA", "DCU"), (SHARED,)),
        (("Mthreads", "Enflame", "GCU", "kunlun", "AWSNeuron", "Metax-GPU"), ()),
    ],
)
def test_a_pod_needs_the_locks_of_its_vendors(names: tuple[str, ...], keys: tuple[str, ...]) -> None:
    assert demand_of(vendors(*names)).keys == keys


def test_agents_of_other_dialects_look_for_no_lock() -> None:
    others = [spec for spec in BUILTIN if spec.dialect != "hami"]
    assert {spec.keys.lock for spec in others} == {"hamivgpu", ""}
    assert demand_of(others) == LockDemand()
    assert lock_keys(others) == ()


def test_a_node_whose_own_agent_serves_a_vendor_needs_no_lock_for_it() -> None:
    notes = (("own-agent", "NVIDIA"),)
    left = plugin_vendors(vendors("NVIDIA", "MLU"), notes)
    assert demand_of(left).keys == (MLU,)
    assert plugin_vendors(vendors("NVIDIA"), (("own-agent", "DCU"),)) == tuple(vendors("NVIDIA"))


def test_several_vendors_behind_one_lock_empty_their_annotations_one_after_the_other() -> None:
    assert demand_of(vendors("NVIDIA", "MLU")).pending == set()
    assert demand_of(vendors("NVIDIA", "DCU")).pending == {TO_ALLOCATE["NVIDIA"], TO_ALLOCATE["DCU"]}
    assert demand_of(vendors("NVIDIA", "DCU", "MLU")).pending == {TO_ALLOCATE["NVIDIA"], TO_ALLOCATE["DCU"]}


@pytest.mark.parametrize(
    ("seen", "over"),
    [
        (progress(a_pod(), None), None),
        (progress(a_pod(), N1), None),
        (progress(a_pod(), N1, "success"), None),
        (progress(a_pod(), N1, phase=""), None),
        (progress(a_pod(), N1, phase="Running"), ReleaseReason.RUNNING),
        (progress(a_pod(), N2, phase="Running"), ReleaseReason.ELSEWHERE),
        (progress(a_pod(), N2), ReleaseReason.ELSEWHERE),
        (progress(a_pod(), N2, phase="Failed"), ReleaseReason.FINISHED),
        (progress(a_pod(), None, phase="Succeeded"), ReleaseReason.FINISHED),
    ],
)
def test_when_no_plugin_of_a_node_looks_for_a_pod_any_more(seen: PodProgress, over: ReleaseReason | None) -> None:
    assert seen.over(N1) is over


@pytest.mark.parametrize(
    ("phase", "unserved", "answered"),
    [
        ("", (), False),
        ("allocating", (), False),
        ("success", (), True),
        ("success", ("a",), False),
        ("success", ("b",), True),
        ("failed", ("a",), True),
    ],
)
def test_when_the_plugins_have_answered(phase: str, unserved: tuple[str, ...], *, answered: bool) -> None:
    assert progress(a_pod(), N1, phase, unserved=frozenset(unserved)).answered(frozenset("a")) is answered


def read(raw: Any) -> PodProgress:
    return progress_of(raw, marker=MARKER, pending=("to-allocate", "other"))


def test_a_pod_is_read_with_what_the_locks_depend_on() -> None:
    annotations = {
        MARKER[0]: MARKER[1],
        "hami.io/bind-phase": "allocating",
        "to-allocate": ";GPU-b,NVIDIA,500,3:;;",
        "other": ";;;;",
    }
    metadata = {"namespace": "team", "uid": "uid-p", "annotations": annotations}
    assert read(raw_objects.pod("p", metadata=metadata, node="n1", phase="Pending")) == PodProgress(
        pod=LockPod(PodUid("uid-p"), "team", "p"),
        ours=True,
        node=NodeName("n1"),
        phase="Pending",
        bind_phase="allocating",
        unserved=frozenset({"to-allocate"}),
    )


ODD: Any = {MARKER[0]: "else", "hami.io/bind-phase": 1, "to-allocate": [","]}


@pytest.mark.parametrize("raw", [{}, None, {"metadata": {"annotations": ODD}, "spec": 1, "status": []}])
def test_what_cannot_be_read_of_a_pod_is_as_if_it_were_not_there(raw: Any) -> None:
    assert read(raw) == PodProgress(pod=LockPod(PodUid(""), "", ""), phase="")


def test_a_pod_has_the_name_that_locks_and_people_use() -> None:
    pod = a_pod()
    assert (pod.owner, pod.full_name) == (("team", "p"), "team/p")
