"""Koordinator's record of what a pod was given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.wire import koordinator
from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, AllocatedDevice, VirtualFunction
from hami_plugins.wire.quantity import canonical

amounts = st.integers(0, 2**50).map(lambda amount: Quantity(amount * NANO, canonical(amount * NANO)))
devices = st.builds(
    AllocatedDevice,
    minor=st.integers(0, 62),
    resources=st.dictionaries(st.sampled_from([CORE, MEMORY, RATIO, "acme.com/thing"]), amounts),
    id=st.text(max_size=8),
    functions=st.lists(st.builds(VirtualFunction, st.integers(-1, 5), st.text(max_size=8)), max_size=2).map(tuple),
    template=st.text(max_size=6),
)


@given(st.dictionaries(st.sampled_from(["gpu", "rdma", "xyz"]), st.lists(devices, max_size=3).map(tuple)))
def test_decode_undoes_encode(allocations: dict[str, tuple[AllocatedDevice, ...]]) -> None:
    assert koordinator.decode(koordinator.encode(allocations)) == allocations


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", "device-allocated"),
        ('{"gpu":{}}', "device-allocated.gpu"),
        ('{"gpu":[1]}', "gpu[0]"),
        ('{"gpu":[{"minor":-1}]}', "gpu[0].minor"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-1"}}]}', "gpu-core"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"lots"}}]}', "gpu-core"),
        ('{"gpu":[{"minor":0,"extension":{"vfs":[7]}}]}', "vfs[0]"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, place: str) -> None:
    with pytest.raises(WireError, match="device-allocated") as caught:
        koordinator.decode(text)
    assert place in caught.value.key


def test_old_releases_and_numbers_are_read() -> None:
    (found,) = koordinator.decode('{"gpu":[{"minor":3,"resources":{"kubernetes.io/gpu-memory":1024}}]}')["gpu"]
    assert (found.minor, found.id, found.resources[MEMORY].whole) == (3, "", 1024)


def test_only_six_names_are_deprecated() -> None:
    assert koordinator.current("kubernetes.io/gpu") == "koordinator.sh/gpu"
    assert koordinator.current("kubernetes.io/hostname") == "kubernetes.io/hostname"
