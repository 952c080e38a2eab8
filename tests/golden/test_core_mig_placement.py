"""Which partition a request gets on a MIG card that is partly in use."""

from typing import Any

import yaml

from hami_plugins.engine import mig
from hami_plugins.engine.fit import Fitter, RequestRefusal
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Percent
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate
from hami_plugins.vendors import nvidia
from tests import builders
from tests.golden import cases

FILE = "hami-core/mig-placement.yaml"
CARD_MEMORY = 40_960


def _profiles() -> tuple[Profile, ...]:
    document = yaml.safe_load((cases.VECTORS / FILE).read_text(encoding="utf-8"))
    return tuple(
        Profile(
            each["name"],
            MiB(each["memoryMB"]),
            CoreShare(each["core"]),
            each["sliceCount"],
            tuple(SlicePlacement(**place) for place in each["placements"]),
        )
        for each in document["mig_profiles"]
    )


PROFILES = _profiles()


@cases.each(FILE)
def test_partition_is_that_of_its_vector(case: cases.Case) -> None:
    given, expect = case.given, case.expect
    held = [Instance(each["profile"], SlicePlacement(each["start"], each["size"])) for each in given["in_use"]]
    found = _named(given["request"]["profile"], held) if "profile" in given["request"] else _fitted(given, held)
    assert (found is not None) is expect["feasible"]
    if found is not None:
        mark, memory, cores = found
        ours = {
            "profile": mark.profile,
            "start": mark.placement.start,
            "size": mark.placement.size,
            "booked_mem": memory,
            "booked_cores": cores,
            "uuid_stays_physical": True,
            "feasible": True,
        }
        assert {name: ours[name] for name in expect} == expect


def _named(name: str, held: list[Instance]) -> tuple[Instance, int, int] | None:
    found = mig.choose([each for each in PROFILES if each.name == name], MiB(0), mig.occupied(held))
    return None if found is None else (Instance(found[0].name, found[1]), found[0].memory, found[0].cores)


def _fitted(given: dict[str, Any], held: list[Instance]) -> tuple[Instance, int, int] | None:
    """The last partition that a request gets on the card, after those that its call has chosen there."""
    asked = given["request"]
    here = [each for each in given["chosen_in_call"] if each["gpu"] == "this"]
    memory = asked.get("memory") or Percent(asked["pct"])
    request = builders.a_request(vendor="NVIDIA", count=1 + len(here), memory=memory)
    card = builders.a_device(
        vendor="NVIDIA", slots=7, memory=asked.get("totalmem", CARD_MEMORY), mode="mig", profiles=PROFILES
    )
    usage = builders.used(len(held), asked.get("usedmem", 0), 0, *held)
    fitter = Fitter.of(nvidia.SPEC, request, DEFAULT_POLICY)
    found = fitter.fit([Candidate(0, card, usage)], builders.an_ask(fitter.request, DEFAULT_POLICY, card))
    if isinstance(found, RequestRefusal):
        return None
    share = found[-1]
    assert isinstance(share.mark, Instance)
    return share.mark, share.memory, share.cores
