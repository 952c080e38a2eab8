"""The profiles that HAMi's chart allows per model: of what a card registers, growing needs get them in this order."""

from hami_plugins.engine import mig
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, MiB
from tests.golden import cases

GB = 1024


@cases.each("hami-core/mig-allowlist.yaml")
def test_growing_needs_get_the_profiles_in_order(case: cases.Case) -> None:
    profiles = [_profile(name) for name in case.expect["profiles"]]
    chosen = [mig.choose(profiles[::-1], profile.memory, ()) for profile in profiles]
    assert [found[0].name for found in chosen if found is not None] == case.expect["profiles"]


def _profile(name: str) -> Profile:
    slices, memory = name.removesuffix("gb").split("g.")
    return Profile(name, MiB(int(memory) * GB), CoreShare(0), int(slices), (SlicePlacement(0, int(slices)),))
