"""Cards that are cut by fixed templates: which slice serves a memory need, and how many slices a card gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hami_plugins.model.units import MiB


class SliceTemplate(NamedTuple):
    """One way to cut a card: the slice's memory in MiB and its compute units (``ai_cpus`` 0 when unknown)."""

    name: str
    memory: MiB
    ai_cores: int
    ai_cpus: int = 0


class Cut(NamedTuple):
    """What a memory need gets: the memory that is booked, and the template (empty for a whole card)."""

    memory: MiB
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CutCard:
    """A card with its templates, smallest first. ``usable`` is what a whole card offers of its ``capacity`` (MiB)."""

    usable: MiB
    capacity: MiB
    templates: tuple[SliceTemplate, ...] = ()

    @classmethod
    def of(cls, usable: int, capacity: int, templates: Sequence[SliceTemplate]) -> CutCard:
        """A card from templates in any order."""
        ordered = tuple(sorted(templates, key=lambda template: template.memory))
        return cls(usable=MiB(usable), capacity=MiB(capacity), templates=ordered)

    def cut(self, memory: int) -> Cut | None:
        """The smallest slice that holds ``memory`` MiB, else the card, else ``None`` (HAMi 2.10.0
        ``pkg/device/ascend/device.go``)."""
        for template in self.templates:
            if memory <= template.memory:
                return Cut(template.memory, template.name)
        return Cut(self.usable, "") if memory <= self.capacity else None

    @property
    def slots(self) -> int:
        """How many containers may share the card: as many as smallest slices fit, one without templates."""
        return self.usable // self.templates[0].memory if self.templates else 1
