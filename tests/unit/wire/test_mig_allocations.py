"""HAMi's MIG allocations: there and back, and what makes one unusable."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.devices import SlicePlacement
from hami_plugins.model.units import INT32_MAX, DeviceId
from hami_plugins.wire import mig_allocations
from hami_plugins.wire.mig_allocations import MigAllocation, MigRuntime
from tests.unit.wire import mutations

KEY = "hami.io/vgpu-mig-allocations"
TEXT = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.5gb","placement":{"start":6,"size":1},'
    '"migUUID":"MIG-1","gpuInstanceID":13,"computeInstanceID":0}]'
)

naturals = st.integers(0, INT32_MAX)
words = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), min_size=1, max_size=10)
allocations = st.lists(
    st.builds(
        MigAllocation,
        container=st.integers(0, 9),
        device=st.integers(0, 9),
        gpu=words.map(DeviceId),
        profile=words,
        placement=st.builds(SlicePlacement, naturals, st.integers(1, INT32_MAX)),
        runtime=st.none() | st.builds(MigRuntime, words, naturals, naturals),
    ),
    max_size=4,
    unique_by=lambda allocation: (allocation.container, allocation.device),
).map(tuple)


@given(allocations)
def test_decode_undoes_encode(given_allocations: tuple[MigAllocation, ...]) -> None:
    assert mig_allocations.decode(KEY, mig_allocations.encode(given_allocations)) == given_allocations


def test_members_are_written_in_hamis_order() -> None:
    allocation = MigAllocation(0, 0, DeviceId("GPU-1"), "1g.5gb", SlicePlacement(6, 1), MigRuntime("MIG-1", 13, 0))
    assert mig_allocations.encode([allocation]) == TEXT
    assert mig_allocations.encode([]) == ""


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        ("{}", KEY, "expected a list"),
        ("[1]", f"{KEY}[0]", "expected an object"),
        (TEXT.replace('"start":6', '"start":-1'), f"{KEY}[0].placement.start", "expected an integer from 0"),
        (TEXT.replace('"GPU-1"', '""'), f"{KEY}[0].gpuuuid", "not a device id"),
        (TEXT.replace('"1g.5gb"', '""'), f"{KEY}[0]", "incomplete"),
        (TEXT.replace('"size":1', '"size":0'), f"{KEY}[0]", "incomplete"),
        (TEXT.replace('"MIG-1"', '""'), f"{KEY}[0]", "half a runtime identity"),
        (TEXT.replace(":13", ":null"), f"{KEY}[0]", "half a runtime identity"),
        (TEXT[:-1] + "," + TEXT[1:], f"{KEY}[1]", "container 0 device 0 has a partition already"),
    ],
)
def test_an_unusable_partition_is_named(text: str, key: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        mig_allocations.decode(KEY, text)
    assert caught.value.key == key


@given(st.one_of(st.text(), mutations.garbled(TEXT)))
def test_any_text_gives_partitions_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        mig_allocations.decode(KEY, text)
