"""MIG instances that are made for the pods that need them, and removed afterwards: what is to be done next. Pure.

A scheduler promises an instance by writing profile and place on the pod (``hami.io/vgpu-mig-allocations``). The agent
creates it, outside of every call of the kubelet; the container does not start until it exists. Instances that the agent
created are in its journal, and no others are ever removed.

Rules of a removal: the instance is in the journal, no live pod has it promised, no container was handed it, and no
process runs on it. Rules of a creation: the place is promised to one pod alone, and free.

Source of the behaviour: HAMi 2.10.0 ``pkg/device-plugin/nvidiadevice`` (flexible MIG). Deviations, on purpose: HAMi
makes instances inside of ``Allocate`` and takes every instance that no pod names for its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import DeviceId
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import documents, fields
from hami_plugins.wire import pods as wire_pods
from hami_plugins.wire.fields import Json
from volcano_vgpu.core.dialects import keys_of
from volcano_vgpu.core.model import PhysicalDevice

VERSION: Final = 1
_KEY: Final = "journal"


class MigPlace(NamedTuple):
    """An instance by what makes it one: its card, its profile and where it lies (in memory slices)."""

    card: DeviceId
    profile: str
    start: int
    size: int

    @property
    def placement(self) -> SlicePlacement:
        """Where it lies."""
        return SlicePlacement(self.start, self.size)

    def overlaps(self, other: MigPlace) -> bool:
        """Whether both cannot exist at a time."""
        return self.card == other.card and self.placement.overlaps(other.placement)

    def __str__(self) -> str:
        return f"{self.profile} at {self.start} of {self.card}"


class GpuInstance(NamedTuple):
    """A GPU instance as the driver has it. ``uuid`` is empty where no compute instance is in it, so that no container
    can use it; ``processes`` is how many run on it."""

    place: MigPlace
    uuid: DeviceId = DeviceId("")
    processes: int = 0


class JournalState(StrEnum):
    """How far the agent has come with an instance. Each is written down before the driver is asked."""

    CREATING = "creating"
    MADE = "made"
    REMOVING = "removing"


class JournalEntry(NamedTuple):
    """An instance of ours; its UUID once it is known."""

    place: MigPlace
    state: JournalState
    uuid: DeviceId = DeviceId("")


Journal = Mapping[MigPlace, JournalEntry]
"""The instances of ours, by place."""


class MigStepKind(StrEnum):
    """What is done to an instance."""

    CREATE = "create"
    REMOVE = "remove"


class MigStep(NamedTuple):
    """The next thing to do, for the pods that it is for (``namespace/name``)."""

    kind: MigStepKind
    place: MigPlace
    pods: tuple[str, ...] = ()


class BlockedPromise(NamedTuple):
    """A promised instance that cannot be made now, and why."""

    place: MigPlace
    pods: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigView:
    """All that a step depends on: what the driver has and could have, what is promised, what containers were handed.

    ``possible`` has the profiles of each card in mode MIG with all of their places.
    """

    existing: tuple[GpuInstance, ...]
    possible: Mapping[DeviceId, tuple[Profile, ...]]
    promised: Mapping[MigPlace, tuple[str, ...]]
    handed: Collection[tuple[DeviceId, str, int]] = frozenset()

    def at(self, place: MigPlace) -> GpuInstance | None:
        """The instance at exactly that place."""
        return next((each for each in self.existing if each.place == place), None)


def promised(pods: Iterable[Json], node: str, spec: VendorSpec) -> Mapping[MigPlace, tuple[str, ...]]:
    """The instances that live pods of a node have promised, with their names; a pod that cannot be read has none.

    An allocation for another node is left over from an earlier try of the scheduler, and promises nothing here.
    """
    reader = RecordReader(Registry([spec]))
    found: dict[MigPlace, list[str]] = {}
    for raw in pods:
        try:
            pod = wire_pods.pod(raw)
        except WireError:
            continue
        if pod.node != node or pod.phase in FINISHED or pod.annotations.get(keys_of(spec).node) != node:
            continue
        for allocation in reader.record(pod)[0].allocations:
            for share in allocation.shares:
                if isinstance(share.mark, Instance):
                    place = MigPlace(share.device, share.mark.profile, *share.mark.placement)
                    names = found.setdefault(place, [])
                    if pod.full_name not in names:
                        names.append(pod.full_name)
    return {place: tuple(names) for place, names in found.items()}


def settled(journal: Journal, existing: Iterable[GpuInstance]) -> Journal:
    """The journal as the driver has it, whatever interrupted the agent between two entries.

    An instance that is gone (a crash before the driver was asked, a reboot) has no entry. An instance with another UUID
    than recorded belongs to another component, at the same place.
    """
    there = {each.place: each for each in existing}
    found: dict[MigPlace, JournalEntry] = {}
    for place, entry in journal.items():
        instance = there.get(place)
        if instance is None:
            continue
        if entry.state is JournalState.CREATING:
            # It was free when this was written, so what is there now was made by the call that followed.
            found[place] = JournalEntry(place, JournalState.MADE, instance.uuid)
        elif instance.uuid in {entry.uuid, DeviceId("")}:
            found[place] = entry
    return found


def next_step(journal: Journal, view: MigView) -> MigStep | None:
    """The one next thing to do; ``None`` where everything is as it should be, or cannot be now.

    Removals come first, for they make room.
    """
    for place in sorted(journal):
        instance = view.at(place)
        if instance is not None and _is_removable(journal[place], instance, view):
            return MigStep(MigStepKind.REMOVE, place)
    for place in sorted(view.promised):
        if view.at(place) is None and not _obstacle(place, journal, view):
            return MigStep(MigStepKind.CREATE, place, view.promised[place])
    return None


def blocked(journal: Journal, view: MigView) -> tuple[BlockedPromise, ...]:
    """The promised instances that cannot be made now, with the reasons."""
    return tuple(
        BlockedPromise(place, view.promised[place], why)
        for place in sorted(view.promised)
        if view.at(place) is None and (why := _obstacle(place, journal, view))
    )


def offered(
    card: PhysicalDevice, possible: tuple[Profile, ...], journal: Journal, existing: Iterable[GpuInstance]
) -> tuple[Profile, ...]:
    """A card's offer to the scheduler: every place that no foreign instance overlaps, and those instances.

    A place where one of ours is stays on offer: the scheduler knows from the pods what is taken.
    """
    foreign = [each.place for each in existing if each.place.card == card.uuid and each.place not in journal]
    profiles: list[Profile] = []
    for profile in possible:
        places = tuple(
            place
            for place in profile.placements
            if all(
                not place.overlaps(other.placement) or (other.profile, other.placement) == (profile.name, place)
                for other in foreign
            )
        )
        if places:
            profiles.append(Profile(profile.name, profile.memory, profile.cores, profile.slices, places))
    return tuple(profiles)


def decode(text: str) -> Journal:
    """The journal in a file; raises ``WireError`` with the place of what is wrong."""
    body = fields.whole(documents.load(_KEY, text), _KEY)
    version = fields.natural(body, "version", _KEY)
    if version != VERSION:
        raise WireError(f"{_KEY}.version", str(version), f"not {VERSION}, which this agent writes")
    entries = (_entry(raw, f"{_KEY}.instances[{at}]") for at, raw in enumerate(fields.items(body, "instances", _KEY)))
    return {entry.place: entry for entry in entries}


def encode(journal: Journal) -> str:
    """The text of a journal, entries in the order of their places."""
    instances: list[dict[str, Any]] = [
        {**place._asdict(), "state": entry.state.value, "uuid": entry.uuid} for place, entry in sorted(journal.items())
    ]
    return documents.dump({"version": VERSION, "instances": instances})


def _entry(raw: object, place: str) -> JournalEntry:
    body = fields.whole(raw, place)
    state = fields.text(body, "state", place)
    if state not in set(JournalState):
        raise fields.wrong(f"{place}.state", state, f"one of {', '.join(JournalState)}")
    card, profile = fields.text(body, "card", place), fields.text(body, "profile", place)
    if not (card and profile):
        raise fields.wrong(place, raw, "an instance with card and profile")
    where = MigPlace(DeviceId(card), profile, fields.natural(body, "start", place), fields.natural(body, "size", place))
    return JournalEntry(where, JournalState(state), DeviceId(fields.text(body, "uuid", place)))


def _is_removable(entry: JournalEntry, instance: GpuInstance, view: MigView) -> bool:
    place = entry.place
    if instance.processes or (place.card, place.profile, place.start) in view.handed:
        return False
    return place not in view.promised or not instance.uuid


def _obstacle(place: MigPlace, journal: Journal, view: MigView) -> str:
    """Why a promised instance cannot be made now; empty where it can."""
    if place.card not in view.possible:
        return "the card is not in mode MIG, or not on this node"
    if not any(_has(profile, place) for profile in view.possible[place.card]):
        known = ", ".join(sorted(profile.name for profile in view.possible[place.card]))
        return f"the card has no such place (profiles: {known or 'none'})"
    if len(view.promised[place]) > 1:
        return f"it is promised to {' and '.join(view.promised[place])}"
    rival = next((each for each in sorted(view.promised) if each != place and each.overlaps(place)), None)
    if rival is not None and (rival in journal or view.at(rival) is not None or rival < place):
        return f"{rival.profile} at {rival.start} is promised to {', '.join(view.promised[rival])}"
    return next(_in_the_way(place, journal, view), "")


def _in_the_way(place: MigPlace, journal: Journal, view: MigView) -> Iterator[str]:
    for each in view.existing:
        if each.place.overlaps(place):
            whose = "was made by this agent and is still in use" if each.place in journal else "is not the agent's"
            yield f"{each.place.profile} at {each.place.start} is in the way, and {whose}"


def _has(profile: Profile, place: MigPlace) -> bool:
    return profile.name == place.profile and place.placement in profile.placements
