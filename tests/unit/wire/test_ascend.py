"""What Ascend's device plugin reads of a pod."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import ascend
from hami_plugins.wire.ascend import AllocatedNpu
from tests.unit.wire import mutations

KEY = "huawei.com/Ascend910A"
TEXT = '[{"UUID":"device-0","temp":"vir08","memory":8738,"core":1},{"UUID":"device-1","memory":2184}]'

naturals = st.integers(0, INT32_MAX)
ids = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), min_size=1, max_size=10).map(DeviceId)
allocated = st.builds(AllocatedNpu, ids, st.text("vir0_1c", max_size=8), naturals.map(MiB), naturals.map(CoreShare))


@given(st.lists(allocated, max_size=4).map(tuple))
def test_decode_undoes_encode(npus: tuple[AllocatedNpu, ...]) -> None:
    assert ascend.decode(KEY, ascend.encode(npus)) == npus


def test_empty_members_are_left_out() -> None:
    npus = (
        AllocatedNpu(DeviceId("device-0"), "vir08", MiB(8738), CoreShare(1)),
        AllocatedNpu(DeviceId("device-1"), memory=MiB(2184)),
    )
    assert ascend.encode(npus) == TEXT


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x", ""),
        ("{}", ""),
        ("[1]", "[0]"),
        ('[{"memory":1}]', "[0].uuid"),
        ('[{"UUID":"a","memory":-1}]', "[0].memory"),
    ],
)
def test_a_bad_entry_is_named_by_its_path(text: str, where: str) -> None:
    with pytest.raises(WireError) as caught:
        ascend.decode(KEY, text)
    assert caught.value.key == KEY + where


@given(st.one_of(st.text(), mutations.garbled(TEXT)))
def test_any_text_gives_entries_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        ascend.decode(KEY, text)
