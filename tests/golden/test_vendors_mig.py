"""Which partition of a MIG card a memory need gets, where on the card, and how reservations are written."""

from typing import Any

from hami_plugins.engine import mig
from hami_plugins.engine.place import Placer
from hami_plugins.errors import WireError
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors import builtin
from hami_plugins.wire import mig_allocations, node_devices
from tests import builders
from tests.golden import cases

REGISTRY = builtin()
CARD_MEMORY = 40_960
GB = 1024

AGENT = "the node agent reads its settings and the driver; of a card we know what it registers"
DEVIATIONS = {
    **dict.fromkeys(("mig-032", "mig-033", "mig-034", "mig-035"), AGENT),
    **dict.fromkeys(("mig-036", "mig-037", "mig-038", "mig-039"), AGENT),
}
"""What is not ours: a profile counts as registered, whatever its name."""


@cases.each("hami-vendors/mig.yaml")
def test_partitions_are_as_their_vector_says(case: cases.Case) -> None:
    {
        "choose": _choose,
        "sequence": _sequence,
        "fit": _fit,
        "overlap": _overlap,
        "allowlist": _allowlist,
        "nvml-profile": _as_registered,
        "allowlist-valid": _as_registered,
        "decode": _decode,
    }[case.given["op"]](case)


def _choose(case: cases.Case) -> None:
    given, expect = case.given, case.expect
    found = mig.choose(_profiles(given), MiB(given["need"]), _places(given))
    if expect["profile"] is None:
        assert found is None
        return
    assert found is not None
    profile, place = found
    assert (profile.name, place.start) == (expect["profile"], expect["start"])
    assert (profile.memory, profile.cores) == (expect["mem"], expect["core"])


def _sequence(case: cases.Case) -> None:
    profiles, taken = _profiles(case.given), list(_places(case.given))
    for name in case.given["sequence"]:
        found = mig.choose([each for each in profiles if each.name == name], MiB(0), taken)
        assert found is not None
        taken.append(found[1])
    assert [place.start for place in taken[len(case.given["occupied"]) :]] == case.expect["starts"]


def _fit(case: cases.Case) -> None:
    given, expect = case.given, case.expect
    marks = [Instance("2g.10gb", place) for place in _places(given)]
    card = builders.a_device(
        vendor="NVIDIA",
        model="NVIDIA A100",
        slots=7,
        memory=CARD_MEMORY,
        mode=given.get("mode", "mig"),
        profiles=_profiles(given),
    )
    request = builders.a_request(vendor="NVIDIA", count=given["nums"], memory=given["need"])
    usage = builders.used(len(marks), 0, 0, *marks)
    verdict = Placer(builders.a_demand(request), DEFAULT_POLICY, REGISTRY)(builders.a_state(card, usage=[usage]))
    if not isinstance(verdict, Fit):
        assert not expect["fit"]
        assert expect.get("reason_contains", "") in verdict.words
        assert expect.get("reason", verdict.words) == verdict.words
        return
    assert expect["fit"]
    shares = verdict.containers[0].shares()
    assert {share.position for share in shares} == {0}
    assert len({share.mark for share in shares}) == expect["distinct_placements"]


def _overlap(case: cases.Case) -> None:
    one, other = (SlicePlacement(**case.given[name]) for name in "ab")
    assert one.overlaps(other) is other.overlaps(one) is case.expect["overlap"]


def _allowlist(case: cases.Case) -> None:
    """The profiles of a model serve growing needs in their order."""
    names = case.expect["profiles"]
    profiles = [_named(name) for name in names]
    for profile in profiles:
        found = mig.choose(profiles, profile.memory, ())
        assert found is not None
        assert found[0].name == profile.name


def _named(name: str) -> Profile:
    slices, memory = name.removesuffix("gb").split("g.")
    return Profile(name, MiB(int(memory) * GB), CoreShare(0), int(slices), (SlicePlacement(0, int(slices)),))


def _as_registered(case: cases.Case) -> None:
    assert case.id in DEVIATIONS
    name, slices = case.given["name"], case.expect.get("slices", 1)
    written = [node_devices.RegisteredDevice(id=DeviceId("GPU-0"), profiles=(_plain(name, slices),))]
    (device,) = node_devices.decode_json("test", node_devices.encode_json(written))
    assert [(profile.name, profile.slices) for profile in device.profiles] == [(name, slices)]


def _plain(name: str, slices: int) -> Profile:
    return Profile(name, MiB(0), CoreShare(0), slices)


def _decode(case: cases.Case) -> None:
    try:
        mig_allocations.decode("test", case.given["text"])
    except WireError:
        assert not case.expect["valid"]
    else:
        assert case.expect["valid"]


def _profiles(given: dict[str, Any]) -> tuple[Profile, ...]:
    return tuple(
        Profile(
            each["name"],
            MiB(each["memory"]),
            CoreShare(each["core"]),
            each["slices"],
            tuple(SlicePlacement(start, each["size"]) for start in each["starts"]),
        )
        for each in given["profiles"]
    )


def _places(given: dict[str, Any]) -> tuple[SlicePlacement, ...]:
    return tuple(SlicePlacement(**each) for each in given["occupied"])
