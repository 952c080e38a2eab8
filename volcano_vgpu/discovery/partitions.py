"""The agent's requirements for the component that creates and removes MIG instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from hami_plugins.errors import HamiPluginsError
from hami_plugins.model.devices import Profile
from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.flexible_mig import GpuInstance, MigPlace


class PartitionError(HamiPluginsError):
    """An instance cannot be made, removed or looked at now; the message says why. Trying again later is right."""

    retryable: ClassVar[bool] = True
    http_status: ClassVar[int] = 503


class Partitioner(Protocol):
    """Cuts cards that are in mode MIG. One thread makes and removes; others may look. All raise ``PartitionError``."""

    def possible(self) -> Mapping[DeviceId, tuple[Profile, ...]]:
        """The profiles of each card in mode MIG with all of their places, whatever is on the card now."""

    def existing(self) -> tuple[GpuInstance, ...]:
        """Every GPU instance of every card, also one without a compute instance."""

    def create(self, place: MigPlace) -> None:
        """Make a GPU instance at exactly that place, and one compute instance that has all of it.

        Where the second cannot be made, the first is removed again.
        """

    def destroy(self, place: MigPlace) -> None:
        """Remove the compute instances in the GPU instance at that place, and then that."""
