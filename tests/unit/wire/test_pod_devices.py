"""HAMi's pod assignment text: the round trip, what is tolerated, what is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import pod_devices
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.unit.wire import mutations

KEY = "hami.io/vgpu-devices-allocated"

words = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), max_size=12)
amounts = st.integers(0, INT32_MAX)
devices = st.builds(
    AssignedDevice,
    device=words.filter(bool).map(DeviceId),
    word=words,
    memory=amounts.map(MiB),
    cores=amounts.map(CoreShare),
)
assignments = st.lists(st.lists(devices, max_size=3).map(tuple), max_size=4).map(tuple)


def on(device: str, memory: int = 3000, cores: int = 30, word: str = "NVIDIA") -> AssignedDevice:
    return AssignedDevice(DeviceId(device), word, MiB(memory), CoreShare(cores))


@given(assignments)
def test_decode_undoes_encode(containers: tuple[tuple[AssignedDevice, ...], ...]) -> None:
    assert pod_devices.decode(KEY, pod_devices.encode(containers)) == containers


@pytest.mark.parametrize("tail", ["", ";", ";;", ";;;"])
def test_separators_at_the_end_only_add_empty_containers(tail: str) -> None:
    first, *rest = pod_devices.decode(KEY, f"GPU-a,NVIDIA,3000,30:{tail}")
    assert first == (on("GPU-a"),)
    assert not any(rest)


def test_a_served_assignment_holds_nothing() -> None:
    assert pod_devices.decode(KEY, ";;;;") == ((), (), (), ())
    assert pod_devices.decode(KEY, "") == ()


def test_what_hami_passes_over_is_passed_over() -> None:
    assert pod_devices.decode(KEY, "junk:GPU-a,NVIDIA,3000,30,extra:;") == ((on("GPU-a"),),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("GPU-a,NVIDIA,100:;", "has 3 fields"),
        ("GPU-a,NVIDIA:;", "has 2 fields"),
        (",NVIDIA,1,2:;", "names no device"),
        ("GPU-a,NVIDIA,x,1:;", "memory of GPU-a: 'x' is not an integer"),
        ("GPU-a,NVIDIA,1,2147483648:;", "cores of GPU-a: 2147483648 is outside"),
        ("GPU-a,NVIDIA,4096,-1:;", "cores of GPU-a: -1 is negative"),
        ("GPU-a,NVIDIA,-5,1:;", "memory of GPU-a: -5 is negative"),
    ],
)
def test_a_record_that_says_too_little_is_refused_with_its_key(text: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        pod_devices.decode(KEY, text)
    assert (caught.value.key, caught.value.text) == (KEY, text)


@pytest.mark.parametrize("device", [on(""), on("GPU,a"), on("0000:3b"), on("a;b"), on("a", word="x,y")])
def test_ids_that_would_break_the_text_are_not_written(device: AssignedDevice) -> None:
    with pytest.raises(WireError, match="cannot carry"):
        pod_devices.encode([[device]])


@given(st.one_of(st.text(), mutations.garbled("GPU-a,NVIDIA,500,3:GPU-b,NVIDIA,500,3:;;GPU-c,NVIDIA,3000,30:;")))
def test_any_text_gives_an_assignment_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        pod_devices.decode(KEY, text)
