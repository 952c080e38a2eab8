"""What the agent requires of card discovery."""

from __future__ import annotations

from typing import ClassVar, Protocol

from hami_plugins.errors import HamiPluginsError
from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.model import DeviceMeasurement, NodeInventory


class DiscoveryError(HamiPluginsError):
    """No cards can be looked for here at the moment; the message says why and what to do. Asking again is right."""

    retryable: ClassVar[bool] = True
    http_status: ClassVar[int] = 503


class Discovery(Protocol):
    """Finds cards. One thread asks for the inventory and waits; ``use`` and ``close`` may come from any."""

    def open(self) -> None:
        """Prepares; raises ``DiscoveryError`` if the driver (or the file) is missing."""

    def inventory(self) -> NodeInventory:
        """The current cards. An unreadable card is reported as such and hides no other.

        Raises ``DiscoveryError`` where nothing at all can be said.
        """

    def use(self, uuid: DeviceId) -> DeviceMeasurement:
        """What the driver measures on a card; empty for a card that it does not know."""

    def wait(self, timeout: float) -> bool:
        """Waits at most ``timeout`` seconds; whether something may have changed. Ends at once when it is closed."""

    def close(self) -> None:
        """Lets go of everything; a ``wait`` under way ends."""
