"""An amount in Kubernetes' fixed-point notation, exact, without the text parser (``wire.quantity``)."""

from dataclasses import dataclass
from typing import Final

NANO: Final = 10**9


@dataclass(frozen=True, slots=True)
class Quantity:
    """``nano`` billionths, and the canonical text as the API server stores it (``3k``, ``16Gi``, ``1500m``)."""

    nano: int
    text: str

    @property
    def whole(self) -> int | None:
        """The amount as an integer, or ``None`` when it has a fraction (Kubernetes' ``AsInt64``)."""
        return self.nano // NANO if self.nano % NANO == 0 else None

    @property
    def ceiling(self) -> int:
        """The amount rounded up to an integer (Kubernetes' ``Value``)."""
        return -(-self.nano // NANO)

    def __str__(self) -> str:
        return self.text
