"""The tiers of the network that Neuron machines stand in, nearest first.

A name stands for one number in every cluster and for every family of machines, so that a job may name the tier: Volcano
accepts gaps between numbers, but not a name with two numbers. The names are such that a job can carry them: label keys,
which Volcano's own discovery takes, are refused there for their ``/``.

Source: Volcano 1.14.1 ``pkg/controllers/hypernode/discovery/label/label.go`` and cloud-provider-aws' node labels; the
pattern of ``highestTierName`` in the definition of Volcano's Job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_plugins.errors import ConfigError
from neuron_topology.core import names


class Tier(NamedTuple):
    """One level: its number (1 is nearest), its name, and the node label whose value says which part a node is in.

    Levels that are not ``apart`` hold machines of all families together. What is ``across`` the network's layers may
    have machines in several of them.
    """

    number: int
    name: str
    label: str
    apart: bool = True
    across: bool = False


TIERS: Final = (
    Tier(1, "ultraserver-2", names.ULTRASERVER_2_LABEL, across=True),
    Tier(2, "ultraserver-4", names.ULTRASERVER_4_LABEL, across=True),
    Tier(3, "network-layer-3", names.LAYER_LABELS[2]),
    Tier(4, "network-layer-2", names.LAYER_LABELS[1]),
    Tier(5, "network-layer-1", names.LAYER_LABELS[0]),
    Tier(6, "zone", names.ZONE_LABEL, apart=False),
)
ZONE: Final = TIERS[-1]
ROOT: Final = Tier(7, "cluster", "", apart=False)
"""Above all others, where there is more than one of them."""

BY_NAME: Final[Mapping[str, Tier]] = {tier.name: tier for tier in (*TIERS, ROOT)}
BY_NUMBER: Final[Mapping[int, Tier]] = {tier.number: tier for tier in BY_NAME.values()}


def named(name: str) -> Tier:
    """The tier of that name. Raises ``ConfigError`` that lists them."""
    found = BY_NAME.get(name)
    if found is None:
        raise ConfigError(f"no tier is called {name}; there are {', '.join(BY_NAME)}")
    return found
