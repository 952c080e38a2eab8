"""MIG instances made and removed in a file of cards (``file``): for machines without any, and for tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire.lenient import mappings
from volcano_vgpu.core.flexible_mig import GpuInstance, MigPlace
from volcano_vgpu.discovery.partitions import PartitionError

_SLICES = 7
_WHOLE = 100


class FilePartitioner:
    """Cuts the cards of a file that have ``migProfiles``, as the driver would: no two instances overlap."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def possible(self) -> Mapping[DeviceId, tuple[Profile, ...]]:
        """See ``Partitioner``."""
        return {
            DeviceId(card["uuid"]): tuple(_profile(raw) for raw in card["migProfiles"])
            for card in self._cards(self._read())
        }

    def existing(self) -> tuple[GpuInstance, ...]:
        """See ``Partitioner``."""
        return tuple(
            GpuInstance(_place(card, raw), DeviceId(raw["uuid"]), int(raw.get("processes", 0)))
            for card in self._cards(self._read())
            for raw in mappings(card.get("mig"))
        )

    def create(self, place: MigPlace) -> None:
        """See ``Partitioner``."""
        document = self._read()
        card = self._card(document, place)
        profile = next((_profile(raw) for raw in card["migProfiles"] if raw["name"] == place.profile), None)
        if profile is None or place.placement not in profile.placements:
            raise PartitionError(f"cannot make MIG instance {place}: Invalid Argument")
        if any(each.place.overlaps(place) for each in self.existing()):
            raise PartitionError(f"cannot make MIG instance {place}: Insufficient Resources")
        made = {"uuid": f"MIG-{uuid.uuid4()}", "profile": place.profile, "memory": int(profile.memory)}
        card["mig"] = [*mappings(card.get("mig")), {**made, "start": place.start, "size": place.size}]
        self._write(document)

    def destroy(self, place: MigPlace) -> None:
        """See ``Partitioner``."""
        document = self._read()
        card = self._card(document, place)
        found = next((raw for raw in mappings(card.get("mig")) if _place(card, raw) == place), None)
        if found is None:
            raise PartitionError(f"cannot remove MIG instance {place}: Not Found")
        if found.get("processes"):
            raise PartitionError(f"cannot remove MIG instance {place}: In use by another client")
        card["mig"] = [raw for raw in card["mig"] if raw is not found]
        self._write(document)

    def _card(self, document: Any, place: MigPlace) -> dict[str, Any]:
        for card in self._cards(document):
            if card["uuid"] == place.card:
                return card
        raise PartitionError(f"cannot find the card of MIG instance {place}")

    @staticmethod
    def _cards(document: Any) -> Iterator[dict[str, Any]]:
        for card in mappings(document.get("cards")):
            if card.get("migProfiles") and isinstance(card, dict):
                yield card

    def _read(self) -> Any:
        try:
            return yaml.safe_load(self._path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise PartitionError(f"cards file {self._path}: {error}") from error

    def _write(self, document: Any) -> None:
        draft = self._path.with_name(f".{self._path.name}.mig")
        draft.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        draft.replace(self._path)


def _place(card: Mapping[str, Any], raw: Mapping[str, Any]) -> MigPlace:
    return MigPlace(DeviceId(card["uuid"]), raw["profile"], int(raw["start"]), int(raw["size"]))


def _profile(raw: Mapping[str, Any]) -> Profile:
    slices = int(raw["slices"])
    return Profile(
        name=raw["name"],
        memory=MiB(int(raw["memory"])),
        cores=CoreShare(-(-_WHOLE * slices // _SLICES)),
        slices=slices,
        placements=tuple(SlicePlacement(int(start), int(raw["size"])) for start in raw["starts"]),
    )
