"""Enflame's slices: what profile names say, which profile serves a request, and how slices are counted."""

from typing import Any

from hami_plugins.engine.place import Placer
from hami_plugins.model.devices import Device
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.verdicts import Fit
from hami_plugins.vendors import builtin
from hami_plugins.wire import drs
from tests import builders
from tests.golden import cases

REGISTRY = builtin()

COUNTED = "a container takes one slot of a card however large its slice is; its memory and cores bound the slices"
DEVIATIONS = dict.fromkeys(("drs-033", "drs-034"), COUNTED)
"""What differs on purpose: usage counts containers, as HAMi does for the pods that are there."""


@cases.each("hami-vendors/drs.yaml")
def test_slices_are_as_their_vector_says(case: cases.Case) -> None:
    {"parse": _parse, "core-percent": _cores, "choose": _choose, "usage": _usage}[case.given["op"]](case)


def _parse(case: cases.Case) -> None:
    profiles, memory = drs.profiles_of("test", drs.DrsNode((), {case.given["name"]: "0"}))
    assert [profile.slices for profile in profiles] == [case.expect["slices"]]
    assert memory == profiles[0].memory == case.expect["gb"] * 1024


def _cores(case: cases.Case) -> None:
    largest = f"{case.given['max_slice']}g.40gb"
    profiles, _ = drs.profiles_of("test", drs.DrsNode((), {case.given["name"]: "0", largest: "1"}))
    assert next(each.cores for each in profiles if each.name == case.given["name"]) == case.expect["cores"]


def _choose(case: cases.Case) -> None:
    given, expect = case.given, case.expect
    device = _card({**given["profiles"], **_largest(given)})
    request = builders.a_request(
        vendor="Enflame", memory=given.get("memory", 0), cores=given.get("core", 0), slices=given.get("slices", 0)
    )
    found = Placer(builders.a_demand(request), DEFAULT_POLICY, REGISTRY)(builders.a_state(device))
    if expect["profile"] is None:
        assert not isinstance(found, Fit)
        assert expect["reason"] in found.words
        return
    assert isinstance(found, Fit)
    (share,) = found.containers[0].shares()
    assert (share.memory, share.cores) == (expect["mem"], expect["cores"])
    named = next(each for each in device.profiles if each.name == expect["profile"])
    assert (named.memory, named.cores) == (share.memory, share.cores)


def _largest(given: dict[str, Any]) -> dict[str, str]:
    """A profile of all slices where the vector names none: it says how large a card is, and serves no such request."""
    most = given["max_slice"]
    return {} if any(name.startswith(f"{most}g.") for name in given["profiles"]) else {f"{most}g.40gb": "9"}


def _card(profiles: dict[str, str]) -> Device:
    found, memory = drs.profiles_of("test", drs.DrsNode((), profiles))
    return builders.a_device(vendor="Enflame", model="Enflame", slots=6, memory=memory, profiles=found)


def _usage(case: cases.Case) -> None:
    wanted = 1 if case.id in DEVIATIONS else case.expect["used"]
    slices = min(int(case.given["drsSlice"]), 6)
    profiles = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}
    request = builders.a_request(vendor="Enflame", memory=0, slices=slices)
    verdict = Placer(builders.a_demand(request), DEFAULT_POLICY, REGISTRY)(builders.a_state(_card(profiles)))
    assert isinstance(verdict, Fit)
    assert len(verdict.containers[0].shares()) == wanted


def test_every_deviation_is_a_case() -> None:
    assert set(DEVIATIONS) <= {case.id for case in cases.of("hami-vendors/drs.yaml")}
