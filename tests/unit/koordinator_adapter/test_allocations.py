"""Koordinator's record read back where it leaves something out."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import koordinator
from hami_plugins.wire.pod_devices import AssignedDevice
from koordinator_adapter.core.allocations import NodeDevice, allocations, assigned, synthesised

CARD = NodeDevice(2, DeviceId("GPU-a"), 24 << 30)


def test_an_id_that_is_missing_comes_from_the_node() -> None:
    text = '{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-memory-ratio":50}}]}'
    assert assigned(koordinator.decode(text), [CARD]) == (
        AssignedDevice(DeviceId("GPU-a"), "NVIDIA", MiB(12288), CoreShare(0)),
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"gpu":[{"minor":5,"resources":{"koordinator.sh/gpu-memory":"8Gi"}}]}',
        '{"gpu":[{"minor":5,"id":"GPU-x","resources":{"koordinator.sh/gpu-memory-ratio":50}}]}',
        '{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-core":50}}]}',
    ],
)
def test_a_card_that_nobody_can_tell_is_an_error(text: str) -> None:
    with pytest.raises(WireError):
        assigned(koordinator.decode(text), [CARD])


def test_other_types_hold_no_cards() -> None:
    assert assigned(koordinator.decode('{"rdma":[{"minor":0}]}')) == ()


def test_one_container_has_all_the_cards() -> None:
    device = AssignedDevice(DeviceId("GPU-a"), "NVIDIA", MiB(8192), CoreShare(40))
    containers = [Container(name="log", kind=ContainerKind.INIT), Container(name="main")]
    found = allocations([device], containers, at=1)
    assert [allocation.kind for allocation in found] == [ContainerKind.INIT, ContainerKind.APP]
    assert not found[0].shares
    assert [(share.device, share.memory, share.cores) for share in found[1].shares] == [("GPU-a", 8192, 40)]


def test_cards_that_the_node_lacks_are_not_counted_there() -> None:
    device = AssignedDevice(DeviceId("GPU-z"), "NVIDIA", MiB(8192), CoreShare(40))
    with pytest.raises(WireError, match="no card of this id"):
        synthesised([device], [CARD])


def test_a_card_without_a_total_has_no_percentage() -> None:
    device = AssignedDevice(DeviceId("GPU-a"), "NVIDIA", MiB(8192), CoreShare(40))
    (found,) = synthesised([device], [CARD._replace(memory=0)])["gpu"]
    assert found.resources[koordinator.RATIO].nano == 0
    assert not synthesised([], [CARD])
