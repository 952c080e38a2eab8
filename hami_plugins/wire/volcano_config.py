"""Volcano's device configuration (key ``device-config.yaml`` of its ConfigMap): resource names and MIG geometries.

The text is YAML; this module takes the parsed document, of which it reads the part ``nvidia``
(volcano-vgpu-device-plugin 1.12.0 ``pkg/util/util.go``). Settings that neither Volcano's scheduler nor a plan looks at
are passed over.
"""

from dataclasses import dataclass
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.wire import fields

KEY: Final = "device-config.yaml"
"""The key under which the ConfigMap holds the document."""

NAME: Final = "volcano-vgpu-device-config"
"""The ConfigMap's usual name; Volcano's scheduler looks for it in ``kube-system``."""

MOST_SLICES: Final = 64
"""More slices than this in one cut of a card is a mistake; no card has more than seven."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How cards of some models may be cut: ``profiles`` in the order in which Volcano tries their groups.

    A card is meant when its model contains one of ``models``.
    """

    models: tuple[str, ...]
    profiles: tuple[Profile, ...]

    def fits(self, model: str) -> bool:
        """Whether cards of this model are cut so."""
        return any(word in model for word in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoConfig:
    """The resource names (empty where the document has none) and the geometries, first match first.

    ``ignored`` says which words of the document change nothing, and what Volcano does instead.
    """

    count: str = ""
    memory: str = ""
    memory_percentage: str = ""
    cores: str = ""
    geometries: tuple[Geometry, ...] = ()
    ignored: tuple[str, ...] = ()


def ignored_defaults(*, memory: int, cores: int, count: int) -> tuple[str, ...]:
    """What becomes of HAMi's defaults for requests that name no amount: Volcano reads none of them.

    A zero, and a count of one, are what Volcano does anyway (Volcano 1.14.1 ``pkg/scheduler/api/devices/util.go``,
    volcano-vgpu-device-plugin 1.12.0 ``pkg/util/util.go``).
    """
    unread = "neither Volcano's scheduler nor its device plugin reads it"
    instead = (
        ("defaultMemory", memory, 0, "a request without memory gets the whole card"),
        ("defaultCores", cores, 0, "a request without cores has no limit of cores"),
        ("defaultGPUNum", count, 1, "memory without a number is one card, cores without a number are none"),
    )
    return tuple(f"{word}={found}: {unread}; {does}" for word, found, usual, does in instead if found != usual)


def decode(document: object, *, key: str = KEY) -> VolcanoConfig:
    """The configuration; raises ``WireError`` with the path of what is wrong in it."""
    body = fields.member(fields.whole(document, key), "nvidia", key)
    place = f"{key}.nvidia"
    known = f"{place}.knownMigGeometries"
    count = fields.natural(body, "defaultGPUNum", place)
    return VolcanoConfig(
        ignored=ignored_defaults(
            memory=fields.natural(body, "defaultMemory", place) or fields.natural(body, "defaultMem", place),
            cores=fields.natural(body, "defaultCores", place),
            count=1 if body.get("defaultGPUNum") is None else count,
        ),
        count=fields.text(body, "resourceCountName", place),
        memory=fields.text(body, "resourceMemoryName", place),
        memory_percentage=fields.text(body, "resourceMemoryPercentageName", place),
        cores=fields.text(body, "resourceCoreName", place),
        geometries=tuple(
            _geometry(raw, f"{known}[{at}]") for at, raw in enumerate(fields.items(body, "knownMigGeometries", place))
        ),
    )


def _geometry(raw: object, place: str) -> Geometry:
    body = fields.whole(raw, place)
    models = tuple(fields.texts(body, "models", place))
    if not all(models):
        raise WireError(f"{place}.models", "", "an empty model, which would mean every card")
    profiles: list[Profile] = []
    for at, item in enumerate(fields.items(body, "allowedGeometries", place)):
        profiles.extend(_group(item, f"{place}.allowedGeometries[{at}]"))
    return Geometry(models, tuple(profiles))


def _group(raw: object, place: str) -> list[Profile]:
    """The slices of one cut, numbered in the order in which they are listed."""
    body = fields.whole(raw, place)
    group = fields.text(body, "group", place)
    if not group or not {"-", "[", "]", " "}.isdisjoint(group):
        raise WireError(f"{place}.group", group, "the id of a slot cannot carry this; no blanks, hyphens or brackets")
    found: list[Profile] = []
    start = 0
    for at, item in enumerate(fields.items(body, "geometries", place)):
        inside = f"{place}.geometries[{at}]"
        slices = fields.whole(item, inside)
        count = fields.natural(slices, "count", inside)
        if start + count > MOST_SLICES:
            raise WireError(f"{inside}.count", str(count), f"more than {MOST_SLICES} slices on one card")
        found.append(
            Profile(
                name=fields.text(slices, "name", inside),
                memory=MiB(fields.natural(slices, "memory", inside)),
                cores=CoreShare(0),
                slices=1,
                placements=tuple(SlicePlacement(start + step, 1) for step in range(count)),
                group=group,
            )
        )
        start += count
    return found
