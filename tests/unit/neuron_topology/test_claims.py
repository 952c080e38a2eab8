"""Devices that claims of AWS's DRA driver hold are in use for pods of the device plugin."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.engine.apply import removed
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from neuron_topology.core.vendor import SPEC
from tests.claim_objects import a_claim, a_device, a_request, a_slice, given
from tests.unit.neuron_topology.server import cluster

DRIVER = "neuron.aws.com"
REGISTRY = Registry([SPEC])


def published(*numbers: int, attribute: str = "deviceId", node: str | None = "n1") -> dict[str, Any]:
    devices = [a_device(f"neuron-{number}", attributes={attribute: number}) for number in numbers]
    return (
        a_slice(*devices, driver=DRIVER, node=node)
        if node
        else a_slice(*devices, driver=DRIVER, node=None, allNodes=True)
    )


def of_claim(*numbers: int, users: tuple[str, ...] = ("train",), **more: Any) -> dict[str, Any]:
    names = [f"neuron-{number}" for number in numbers]
    return a_claim("c", a_request(of=DRIVER), **given(*names, users=users, **{"driver": DRIVER, **more}))


def read(*raws: dict[str, Any]) -> ClusterSnapshot:
    return snapshot_of([cluster.a_node("n1"), *raws], REGISTRY)


def in_use(snapshot: ClusterSnapshot) -> list[int]:
    (entry,) = snapshot.nodes
    devices, usage = entry.state.shape.devices, entry.state.usage
    return [device.index for device, used in zip(devices, usage, strict=True) if used.slots]


@pytest.mark.parametrize("attribute", ["deviceId", "neuron.aws.com/deviceId"])
def test_devices_of_a_claim_are_held_by_its_pod(attribute: str) -> None:
    snapshot = read(published(0, 1, 5, attribute=attribute), of_claim(1, 5))
    assert in_use(snapshot) == [1, 5]
    (record,) = snapshot.nodes[0].pods
    assert (record.full_name, record.requests) == ("default/train", ())
    shares = record.allocations[0].shares
    assert [(share.cores, share.mark) for share in shares] == [(2, shares[0].mark)] * 2
    assert shares[0].mark is not None
    assert getattr(shares[0].mark, "bits", 0) == 0b11
    assert in_use(removed(snapshot, lambda each: each.name == "train")) == []


def test_a_claim_that_no_pod_uses_yet_holds_them_itself() -> None:
    (record,) = read(published(3), of_claim(3, users=())).nodes[0].pods
    assert record.full_name == "default/claim c"


@pytest.mark.parametrize(
    "raws",
    [
        (published(1), of_claim(2)),
        (published(99), of_claim(99)),
        (published(1, attribute="index"), of_claim(1)),
        (published(1, node="elsewhere"), of_claim(1, pool="elsewhere")),
        (published(1, node=None), of_claim(1, pool="shared")),
        (published(1), of_claim(1, adminAccess=True)),
        (published(1), a_claim("c", a_request(of=DRIVER))),
        (a_slice(a_device("neuron-1", attributes={"deviceId": 1})), of_claim(1, driver="gpu.example.com")),
    ],
    ids=["unpublished", "not there", "no number", "other node", "every node", "admin", "not allocated", "other driver"],
)
def test_what_is_no_device_of_the_node_holds_nothing(raws: tuple[dict[str, Any], ...]) -> None:
    snapshot = read(*raws)
    assert in_use(snapshot) == []
    assert not snapshot.nodes[0].pods
