"""Which partition of a card serves a memory need: the smallest profile that has a free place (HAMi 2.10.0
``pkg/device/nvidia/mig_topology.go``).

Under Volcano a card is cut into all slices of a *group* at once (Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/mig.go``): see ``choose_in_group``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hami_plugins.model.devices import Instance, Mark, Profile, SlicePlacement
from hami_plugins.model.units import MiB


def occupied(marks: Iterable[Mark]) -> tuple[SlicePlacement, ...]:
    """The places that shares already hold on a card."""
    return tuple(mark.placement for mark in marks if isinstance(mark, Instance))


def choose(
    profiles: Sequence[Profile], need: MiB, taken: Sequence[SlicePlacement]
) -> tuple[Profile, SlicePlacement] | None:
    """The first profile, by memory and then slices, that holds ``need`` and has a place free of ``taken``.

    Cores play no part. Profiles of one and three slices are placed from the top, the others from the bottom, which
    leaves the large aligned places free longest.
    """
    for profile in sorted(profiles, key=lambda each: (each.memory, each.slices)):
        if profile.memory < need:
            continue
        for place in _places(profile):
            if not any(place.overlaps(other) for other in taken):
                return profile, place
    return None


def choose_in_group(
    profiles: Sequence[Profile], need: MiB, held: Sequence[Instance]
) -> tuple[Profile, SlicePlacement] | None:
    """The smallest slice that holds ``need``, of the first group that has one; once slices are held, of their group.

    Groups are tried in the order of ``profiles``. On a card that holds slices of two groups none is sure to be free.
    """
    in_force = {mark.group for mark in held}
    if len(in_force) > 1:
        return None
    taken = {mark.placement for mark in held}
    for group in in_force or dict.fromkeys(profile.group for profile in profiles):
        of_group = [profile for profile in profiles if profile.group == group and profile.memory >= need]
        for profile in sorted(of_group, key=lambda each: each.memory):
            for place in profile.placements:
                if place not in taken:
                    return profile, place
    return None


def _places(profile: Profile) -> list[SlicePlacement]:
    from_the_top = profile.name.startswith(("1g.", "3g."))
    return sorted(profile.placements, key=lambda place: place.start, reverse=from_the_top)
