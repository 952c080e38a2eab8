"""Annotations that the scheduler writes for a placement, every vendor.

What node agents hand to containers (``plugin-env`` in the file) is not the scheduler's and has no code here; those
cases are counted so that none is forgotten.
"""

import json
from typing import Any

import pytest

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, Profile, Tenant
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeShape, NodeState
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import drs
from tests.golden import cases, notation

DEVIATIONS = {
    "output-032": "a placement names containers of its pod, so no container goes by its number",
    "output-040": "the QoS of a card is kept with the shares of the pods that set it, not in a memory of the process",
}

NOW_NS = 1_790_000_000_123_456_789
_TIMES = {"<unix s>": str(NOW_NS // 10**9), "<unix ns>": str(NOW_NS)}

FILE = "hami-vendors/outputs.yaml"
_PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}


def _of(op: str) -> list[Any]:
    return [pytest.param(case, id=case.id) for case in cases.of(FILE) if case.given["op"] == op]


def test_every_case_is_the_schedulers_or_a_node_agents() -> None:
    ops = [case.given["op"] for case in cases.of(FILE)]
    assert {op: ops.count(op) for op in set(ops)} == {"annotations": 40, "extra-keys": 19, "plugin-env": 13}


@pytest.mark.parametrize("case", _of("extra-keys"))
def test_vendor_writes_the_keys_that_its_vector_says(case: cases.Case) -> None:
    spec = notation.vendor(case.given["backend"])
    # Moore Threads' list also holds the key that its webhook writes.
    assert set(spec.keys.extra) - {"mthreads.com/request-gpu-num"} == set(case.expect["keys"])


@pytest.mark.parametrize("case", _of("annotations"))
def test_placement_is_written_as_its_vector_says(case: cases.Case) -> None:
    spec = notation.vendor(case.given["backend"])
    if "qos_cache" in case.expect:
        assert _qualities(spec, case) == case.expect["qos_cache"]
        return
    written = _written(spec, case)
    expected = {key: _TIMES.get(text, text) for key, text in case.expect.get("annotations", {}).items()}
    assert {key: written.get(key) for key in expected} == expected
    assert not set(case.expect.get("absent_keys", ())) & set(written)
    if "assigned_containers" in case.expect:
        assert json.loads(written[drs.ASSIGNED_KEY]) == case.expect["assigned_containers"]
    if "container_key" in case.expect:
        assert list(json.loads(written[drs.ASSIGNED_KEY])) == ["c0"]


def _written(spec: VendorSpec, case: cases.Case) -> dict[str, str]:
    given = case.given
    rows = [row for container in given["containers"] for row in container]
    devices = {row["uuid"]: _device(spec, row, given.get("cores_per_device", 100)) for row in rows}
    node = NodeName(given.get("node", "n"))
    entry = NodeEntry(
        name=node,
        state=NodeState.idle(NodeShape(tuple(devices.values()))),
        ids=tuple(map(DeviceId, devices)),
        facts=NodeFacts(),
    )
    pod = _pod(case)
    allocations = tuple(
        ContainerAllocation(container.kind, tuple(_share(spec, row) for row in shares))
        for container, shares in zip(pod.containers, given["containers"], strict=True)
    )
    placed = Placed(node=node, containers=allocations, fit=Fit((), 0.0), candidates=1)
    return annotations_of(pod, placed, entry, notation.registry(), now_ns=NOW_NS)


def _pod(case: cases.Case) -> Pod:
    given = case.given
    names = given.get("container_names") or [f"c{at}" for at in range(len(given["containers"]))]
    kind = ContainerKind.INIT if given.get("init") else ContainerKind.APP
    lists = [
        {"limits": dict(limits), "requests": dict(requests)}
        for limits, requests in zip(
            given.get("limits") or [{}] * len(names), given.get("requests") or [{}] * len(names), strict=True
        )
    ]
    containers = [notation.container(each, name=name, kind=kind) for each, name in zip(lists, names, strict=True)]
    return notation.pod(*containers, annotations=given.get("annotations"))


def _device(spec: VendorSpec, row: dict[str, Any], cores: int) -> Device:
    profiles: tuple[Profile, ...] = ()
    traits: tuple[tuple[str, str], ...] = ()
    if spec.name == "Enflame":
        custom = row.get("custominfo") or {}
        names = _PROFILES if custom else {"1g.1gb": "0"}
        profiles, _ = drs.profiles_of("row", drs.DrsNode((), names))
        traits = (("minor", custom.get("minor", "0")),)
    return Device(
        vendor=spec.name,
        model=row["type"],
        slots=10,
        memory=MiB(1 << 20),
        cores=CoreShare(cores),
        index=row["idx"],
        profiles=profiles,
        traits=traits,
    )


def _share(spec: VendorSpec, row: dict[str, Any]) -> AllocatedShare:
    cores, mark, memory = row["cores"], None, row["mem"]
    if spec.name == "AWSNeuron":
        cores, mark = cores.bit_count(), CoreMask(cores)
    if spec.name == "Enflame" and "custominfo" not in row:
        memory, cores = drs.GB, 100
    return AllocatedShare(
        device=DeviceId(row["uuid"]),
        vendor=spec.name,
        word=row["type"],
        memory=MiB(memory),
        cores=CoreShare(cores),
        mark=mark,
    )


def _qualities(spec: VendorSpec, case: cases.Case) -> dict[str, str]:
    """The QoS that the pod's shares put on each card."""
    assert spec.records.recall is not None
    pod = _pod(case)
    shares = tuple(_share(spec, row) for row in case.given["containers"][0])
    (allocation,) = spec.records.recall(pod.annotations, (ContainerAllocation(ContainerKind.APP, shares),))
    return {share.device: share.mark.qos for share in allocation.shares if isinstance(share.mark, Tenant)}
