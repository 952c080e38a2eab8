"""Where the releases of Kubernetes decide about claims differently.

Source: package ``structured`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4 and 0.36.1. The gates of alpha features
count as on: a cluster without them has no objects with such members.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ClaimRules(NamedTuple):
    """One release.

    ``same_share_twice``: two units of one request may be two shares of one device.
    ``checks_by_position``: the room of a device is compared once more, by mistake that of the device of its slice whose
    position is the number of the unit.
    ``distinct_devices``: ``distinctAttribute`` compares where values are stored: a device differs from all others.
    ``any_taint``: taints keep pods away whatever their effect.
    ``counters_by_slice``: a slice has its own counters, for the devices in it.
    ``takes_incomplete``: devices of a pool with missing slices are given out.
    ``invalid_stops``: an invalid pool ends the search.
    ``zero_is_a_plugin``: a node that lists 0 of a plain resource has a device plugin for it.
    ``keeps_counters``: what a device would take of counters counts for the rest of the search, although taints or
    constraints speak against the device.
    ``forgets_values``: ``distinctAttribute`` remembers one value for each request, and none after a device was taken
    back.
    """

    release: str
    same_share_twice: bool = False
    checks_by_position: bool = False
    distinct_devices: bool = False
    any_taint: bool = False
    counters_by_slice: bool = False
    takes_incomplete: bool = False
    invalid_stops: bool = False
    zero_is_a_plugin: bool = False
    keeps_counters: bool = True
    forgets_values: bool = True


KUBERNETES_1_34: Final = ClaimRules(
    "1.34",
    same_share_twice=True,
    checks_by_position=True,
    distinct_devices=True,
    any_taint=True,
    counters_by_slice=True,
    takes_incomplete=True,
    invalid_stops=True,
    zero_is_a_plugin=True,
)
KUBERNETES_1_36: Final = ClaimRules("1.36")

MOST_DEVICES: Final = 32
"""Devices that one claim can be given (``AllocationResultsMaxSize``)."""


def rules_of(kubelets: set[str]) -> ClaimRules:
    """The rules for a cluster with kubelets of these versions: none is newer than the scheduler.

    1.34 only where every kubelet is that old; a newer release has the rules of 1.36.
    """
    minors = {_minor(each) for each in kubelets}
    known = {each for each in minors if each}
    return KUBERNETES_1_34 if known and max(known) <= 34 else KUBERNETES_1_36


def _minor(version: str) -> int:
    parts = version.removeprefix("v").split(".")
    return int(parts[1]) if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() else 0
