"""Enflame's hardware slices (DRS): what a node can be cut into, and which slice each container of a pod gets.

The node's annotation names the cards and the profiles with the numbers that the driver knows them by::

    {"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1","6g.40gb":"2"}}

A profile name is all there is to know about it: slices, then memory in GB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB
from hami_plugins.wire import documents, fields, scalars

CAPACITY_KEY: Final = "enflame.com/gcu-drs-capacity"
ASSIGNED_KEY: Final = "assigned-containers"

GB: Final = 1024
"""MiB in what profile names call a GB."""


class DrsCard(NamedTuple):
    """One card: its number on the node, the driver's number, and how many slices it has."""

    number: int
    minor: str
    slices: int


@dataclass(frozen=True, slots=True)
class DrsNode:
    """The cards of a node, and the driver's number of each profile by the profile's name as written."""

    cards: tuple[DrsCard, ...]
    profile_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrsSlice:
    """What one container got; the node agent fills in the instance and says that it is ``allocated``."""

    slices: int
    profile: str = ""
    profile_id: str = ""
    allocated: bool = False
    instance: str = ""
    instance_uuid: str = ""


def decode_node(key: str, text: str) -> DrsNode:
    """The cards and profiles of a node; a card without a usable capacity fails the whole node, as in HAMi."""
    body = documents.folded(documents.load(key, text), key)
    cards = []
    for at, raw in enumerate(fields.items(body, "devices", key)):
        place = f"{key}.devices[{at}]"
        card = documents.folded(raw, place)
        index = _index(fields.text(card, "index", place), at)
        minor = fields.text(card, "minor", place).strip() or str(index)
        cards.append(DrsCard(index, minor, _capacity(card.get("capacity"), f"{place}.capacity")))
    return DrsNode(tuple(cards), fields.text_map(body, "profiles", key))


def encode_node(node: DrsNode) -> str:
    """The node's annotation."""
    return documents.dump(
        {
            "devices": [
                {"index": str(card.number), "minor": card.minor, "capacity": card.slices} for card in node.cards
            ],
            "profiles": dict(node.profile_ids),
        }
    )


def profiles_of(key: str, node: DrsNode) -> tuple[tuple[Profile, ...], MiB]:
    """The profiles that a card of the node can be cut into, smallest first, and the memory of a whole card.

    A profile takes the percentage of the cores that its slices are of the largest one's, rounded up. Names that give
    no slices or memory, or more than a card can have, are passed over.
    """
    sizes = {name: _size(name) for name in node.profile_ids}
    most_slices = max((slices for slices, _ in sizes.values()), default=0)
    if not 0 < most_slices <= INT32_MAX:
        raise WireError(key, ", ".join(node.profile_ids), "no profile says into how many slices a card can be cut")
    memory = max(0, *(gigabytes for _, gigabytes in sizes.values())) or most_slices
    found = [
        Profile(
            name=name,
            memory=MiB(gigabytes * GB),
            cores=CoreShare(-(-slices * 100 // most_slices)),
            slices=slices,
            profile_id=node.profile_ids[name],
        )
        for name, (slices, gigabytes) in sizes.items()
        if slices > 0 and 0 < gigabytes <= INT32_MAX // GB
    ]
    ordered = tuple(sorted(found, key=lambda profile: (profile.slices, profile.memory, profile.name)))
    return ordered, MiB(min(memory, INT32_MAX // GB) * GB)


def decode_assigned(key: str, text: str) -> dict[str, DrsSlice]:
    """The slices by name of container."""
    found = {}
    for name, raw in fields.whole(documents.load(key, text), key).items():
        place = f"{key}[{name}]"
        body = documents.folded(raw, place)
        found[name] = DrsSlice(
            slices=fields.natural(body, "request", place),
            profile=fields.text(body, "profilename", place),
            profile_id=fields.text(body, "profileid", place),
            allocated=fields.flag(body, "allocated", place),
            instance=fields.text(body, "instanceid", place),
            instance_uuid=fields.text(body, "instanceuuid", place),
        )
    return found


def encode_assigned(slices: Mapping[str, DrsSlice]) -> str:
    """The pod's annotation, containers in order of their names as Go writes maps."""
    return documents.dump(
        {
            name: {
                "allocated": each.allocated,
                "request": each.slices,
                **documents.filled(
                    {
                        "profileID": each.profile_id,
                        "profileName": each.profile,
                        "instanceID": each.instance,
                        "instanceUUID": each.instance_uuid,
                    }
                ),
            }
            for name, each in sorted(slices.items())
        }
    )


def _index(text: str, position: int) -> int:
    """The card's number; without a valid number, its place in the list."""
    try:
        return scalars.natural(text)
    except ValueError:
        return position


def _capacity(value: object, place: str) -> int:
    """How many slices a card has: a number, or a number in quotes (which may be too large and then means the most)."""
    if isinstance(value, str):
        try:
            slices = min(scalars.integer(value.strip(), high=scalars.INT64_MAX), INT32_MAX)
        except ValueError as error:
            raise WireError(place, value, str(error)) from None
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= INT32_MAX:
        slices = int(value)
    else:
        raise fields.wrong(place, value, "a number of slices")
    if slices <= 0:
        raise fields.wrong(place, value, "at least one slice")
    return slices


def _size(name: str) -> tuple[int, int]:
    """Slices and GB in a profile name such as ``3g.20gb``; 0 for what it does not say."""
    parts = name.strip().lower().split(".")
    if len(parts) < 2:
        return 0, 0
    try:
        slices = scalars.integer(parts[0].strip().removesuffix("g"), high=scalars.INT64_MAX)
    except ValueError:
        return 0, 0
    try:
        return slices, scalars.integer(parts[1].strip().removesuffix("gb"), high=scalars.INT64_MAX)
    except ValueError:
        return slices, 0
