"""The devices of a cluster, computed once: the most of each vendor that a node has, their models, their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.units import DeviceId, VendorName
from hami_plugins.model.vendor import VendorSpec


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """``most`` is the largest number of devices of a vendor on one node, ``models`` what they are called (lower case).

    ``cut`` are the vendors with cards that can be partitioned, ``together`` the sets of vendors that nodes have.
    """

    nodes: int
    most: Mapping[VendorName, int]
    models: Mapping[VendorName, frozenset[str]]
    cut: frozenset[VendorName]
    together: frozenset[frozenset[VendorName]]
    ids: frozenset[DeviceId]

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> Hardware:
        """The devices of all nodes."""
        shapes = {entry.state.shape for entry in snapshot.nodes}
        most: dict[VendorName, int] = {}
        models: dict[VendorName, set[str]] = {}
        for shape in shapes:
            for vendor, positions in shape.positions.items():
                most[vendor] = max(most.get(vendor, 0), len(positions))
                models.setdefault(vendor, set()).update(shape.devices[at].model.lower() for at in positions)
        return cls(
            nodes=len(snapshot.nodes),
            most=most,
            models={vendor: frozenset(words) for vendor, words in models.items()},
            cut=frozenset(device.vendor for shape in shapes for device in shape.devices if device.profiles),
            together=frozenset(frozenset(shape.positions) for shape in shapes),
            ids=frozenset(name for entry in snapshot.nodes for name in entry.ids),
        )

    def has(self, spec: VendorSpec) -> bool:
        """Whether any node has devices of a vendor."""
        return spec.name in self.most

    def has_together(self, specs: Sequence[VendorSpec]) -> bool:
        """Whether some node has devices of all these vendors."""
        wanted = {spec.name for spec in specs}
        return any(wanted <= vendors for vendors in self.together)
