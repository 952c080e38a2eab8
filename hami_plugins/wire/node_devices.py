"""What a node says about its devices: HAMi's register annotations in both forms, pair scores and the cordon list.

The older form is text (Hygon, Iluvatar), the newer one JSON (NVIDIA, AMD, Ascend, Vastai, Biren, Kunlun)::

    GPU-a,10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:
    [{"id":"GPU-a","count":10,"devmem":7680,"devcore":100,"type":"NVIDIA-Tesla P4","mode":"hami-core","health":true}]
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import documents, fields, scalars
from hami_plugins.wire.documents import Scalar
from hami_plugins.wire.fields import Json

_Value = TypeVar("_Value")

AGENTS_KEY: Final = "hami-plugins.io/volcano-vgpu-agents"
"""Our own: the DaemonSet (``namespace/name``) whose agent registers a node's cards, in either dialect, so that it is
found when no agent is there."""

DEFAULT_MODE: Final = "hami-core"
"""The mode of a device whose record has none (the seven fields of old)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredDevice:
    """One device as registered: ``slots`` sharers at most, memory in MiB, cores in the vendor's unit.

    ``model`` is its type, ``custom`` are further facts of the vendor. ``agent`` is ours alone, and passed over by every
    other reader: the node agent that registered the device and needs no node lock. The text form has no profiles,
    vendor, custom facts and agent.
    """

    id: DeviceId
    slots: int = 0
    memory: MiB = MiB(0)
    cores: CoreShare = CoreShare(0)
    model: str = ""
    numa: int = 0
    healthy: bool = False
    index: int = 0
    mode: str = ""
    profiles: tuple[Profile, ...] = ()
    vendor: str = ""
    custom: Mapping[str, Scalar] = field(default_factory=dict)
    agent: str = ""


PairScores = Mapping[DeviceId, Mapping[DeviceId, int]]


def decode_csv(key: str, text: str) -> tuple[RegisteredDevice, ...]:
    """The devices of a text register; one bad record fails the whole node, as in HAMi. ``":"`` alone lists none."""
    if ":" not in text:
        raise WireError(key, text, "no ':' after the last device, so the list may be cut off")
    return tuple(_record(key, part) for part in text.split(":") if part)


def encode_csv(devices: Iterable[RegisteredDevice]) -> str:
    """The text form, always with nine fields; without devices it is the empty text, which is not a register."""
    return "".join(_record_text(device) for device in devices)


def decode_json(key: str, text: str) -> tuple[RegisteredDevice, ...]:
    """The devices of a JSON register. A device that does not say that it is healthy is not."""
    return tuple(_device(item, f"{key}[{at}]") for at, item in enumerate(documents.load_list(key, text)))


def agent_of(key: str, text: str) -> str:
    """The agent that registered all devices of a JSON register; empty where there is none, or more than one."""
    if '"agent"' not in text:
        return ""
    agents = {device.agent for device in decode_json(key, text)}
    return agents.pop() if len(agents) == 1 else ""


def without_ids(key: str, text: str) -> tuple[tuple[DeviceId, ...], str]:
    """The ids of a JSON register, and its text with numbers in their place: that of equal cards on another node.

    A text that ``decode_json`` refuses for its ids stays as it is.
    """
    ids: list[DeviceId] = []
    devices: list[Json] = []
    try:
        for at, item in enumerate(documents.load_list(key, text)):
            body = documents.folded(item, key)
            ids.append(fields.device(body, "id", key))
            devices.append({**body, "id": str(at)})
    except WireError:
        return (), text
    return tuple(ids), documents.dump(devices)


def encode_json(devices: Iterable[RegisteredDevice]) -> str:
    """The JSON form; zero, empty and false members are left out, as HAMi's node agents do."""
    return documents.dump([_members(device) for device in devices])


def decode_pair_scores(key: str, text: str) -> PairScores:
    """How well devices are linked: per device the score of each other one; a pair that is missing scores 0."""
    scores: dict[DeviceId, Mapping[DeviceId, int]] = {}
    for at, item in enumerate(documents.load_list(key, text)):
        place = f"{key}[{at}]"
        body = documents.folded(item, place)
        found = fields.number_map(body, "score", place)
        scores[DeviceId(fields.text(body, "uuid", place))] = {DeviceId(other): found[other] for other in found}
    return scores


def encode_pair_scores(scores: PairScores) -> str:
    """The JSON form of pair scores, other devices in order of their ids."""
    return documents.dump(
        [documents.filled({"uuid": one, "score": dict(sorted(others.items()))}) for one, others in scores.items()]
    )


def decode_cordon(text: str) -> frozenset[DeviceId]:
    """The ids of devices that take no new work; blanks and empty members are ignored."""
    return frozenset(DeviceId(part.strip()) for part in text.split(",") if part.strip())


def encode_cordon(devices: Iterable[DeviceId]) -> str:
    """The cordon list, sorted."""
    return ",".join(sorted(devices))


def _record(key: str, part: str) -> RegisteredDevice:
    values = part.split(",")
    if len(values) not in (7, 9):
        raise WireError(key, part, f"a device with {len(values)} fields, want 7 or 9")
    index, mode = (values[7], values[8]) if len(values) == 9 else ("0", DEFAULT_MODE)

    def read(name: str, text: str, reader: Callable[[str], _Value]) -> _Value:
        try:
            return reader(text)
        except ValueError as error:
            raise WireError(key, part, f"{name}: {error}") from None

    # The order in which HAMi looks at the fields, so that the first objection is the same.
    return RegisteredDevice(
        slots=read("count", values[1], scalars.natural),
        memory=MiB(read("memory", values[2], scalars.natural)),
        cores=CoreShare(read("core", values[3], scalars.natural)),
        healthy=read("health", values[6], scalars.truth),
        numa=read("numa", values[5], scalars.integer),
        index=read("index", index, scalars.natural),
        id=read("id", values[0], scalars.device_id),
        model=values[4],
        mode=mode,
    )


def _record_text(device: RegisteredDevice) -> str:
    if any(not scalars.SEPARATORS.isdisjoint(text) for text in (device.id, device.model, device.mode)) or not device.id:
        raise WireError("device", device.id, "an id, model or mode that a text register cannot carry")
    health = "true" if device.healthy else "false"
    amounts = f"{device.slots},{device.memory},{device.cores}"
    return f"{device.id},{amounts},{device.model},{device.numa},{health},{device.index},{device.mode}:"


def _device(item: object, place: str) -> RegisteredDevice:
    body = documents.folded(item, place)
    return RegisteredDevice(
        id=fields.device(body, "id", place),
        slots=fields.natural(body, "count", place),
        memory=MiB(fields.natural(body, "devmem", place)),
        cores=CoreShare(fields.natural(body, "devcore", place)),
        model=fields.text(body, "type", place),
        numa=fields.number(body, "numa", place),
        healthy=fields.flag(body, "health", place),
        index=fields.natural(body, "index", place),
        mode=fields.text(body, "mode", place),
        profiles=tuple(
            _profile(raw, f"{place}.migProfiles[{at}]")
            for at, raw in enumerate(fields.items(body, "migprofiles", place))
        ),
        vendor=fields.text(body, "devicevendor", place),
        custom=_custom(body, place),
        agent=fields.text(body, "agent", place),
    )


def _profile(raw: object, place: str) -> Profile:
    body = documents.folded(raw, place)
    placements = []
    for at, item in enumerate(fields.items(body, "placements", place)):
        inside = f"{place}.placements[{at}]"
        slot = documents.folded(item, inside)
        placements.append(SlicePlacement(fields.natural(slot, "start", inside), fields.natural(slot, "size", inside)))
    return Profile(
        name=fields.text(body, "name", place),
        memory=MiB(fields.natural(body, "memorymb", place)),
        cores=CoreShare(fields.natural(body, "core", place)),
        slices=fields.natural(body, "slicecount", place),
        placements=tuple(placements),
    )


def _custom(body: Json, place: str) -> dict[str, Scalar]:
    """The scalar facts; nested ones have no reader. Go writes 1.0 as 1, so equal numbers become equal here."""
    facts: dict[str, Scalar] = {}
    for name, value in fields.member(body, "custominfo", place).items():
        if isinstance(value, float) and value.is_integer():
            facts[name] = int(value)
        elif value is None or isinstance(value, str | int | float):
            facts[name] = value
    return facts


def _members(device: RegisteredDevice) -> Json:
    profiles: list[dict[str, Any]] = [
        {
            "name": profile.name,
            "memoryMB": profile.memory,
            "core": profile.cores,
            "sliceCount": profile.slices,
            "placements": [{"start": start, "size": size} for start, size in profile.placements],
        }
        for profile in device.profiles
    ]
    return documents.filled(
        {
            "id": device.id,
            "index": device.index,
            "count": device.slots,
            "devmem": device.memory,
            "devcore": device.cores,
            "type": device.model,
            "numa": device.numa,
            "mode": device.mode,
            "migProfiles": profiles,
            "health": device.healthy,
            "devicevendor": device.vendor,
            "custominfo": dict(sorted(device.custom.items())),
            "agent": device.agent,
        }
    )
