"""HAMi's pod assignment: which devices each container holds, as scheduler and node agent exchange it.

One piece per container (init containers first), each ended by ``;``; in it one record per device, ended by ``:``::

    GPU-a,NVIDIA,500,3:GPU-b,NVIDIA,500,3:;;GPU-c,NVIDIA,3000,30:;

Only id, word, memory and cores travel; partitions and marks have annotations of their own.
"""

from collections.abc import Iterable
from typing import NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import scalars


class AssignedDevice(NamedTuple):
    """One record: memory in MiB, cores in the vendor's unit, ``word`` the vendor's word (AMD: the card model)."""

    device: DeviceId
    word: str
    memory: MiB
    cores: CoreShare


AssignedContainers = tuple[tuple[AssignedDevice, ...], ...]


def decode(key: str, text: str) -> AssignedContainers:
    """The devices of each container, by position in the pod.

    Node agents that serve a container append a ``;`` each time, so there may be more (empty) containers at the end than
    the pod has. As HAMi does, pieces without a comma are passed over and fields beyond the fourth are ignored. Negative
    amounts (HAMi has written such cores) are a ``WireError``: the held amount is unknown.
    """
    try:
        containers = [_container(piece) for piece in text.split(";")]
    except ValueError as error:
        raise WireError(key, text, str(error)) from None
    if not containers[-1]:
        containers.pop()
    return tuple(containers)


def salvaged(text: str) -> tuple[tuple[AssignedDevice | DeviceId, ...], ...]:
    """What a text that ``decode`` refuses still says: the same, with the bare id where the rest of a record is wrong.

    A record without an id says nothing.
    """
    pieces = text.removesuffix(";").split(";")
    return tuple(tuple(filter(None, map(_salvaged, piece.split(":")))) for piece in pieces)


def encode(containers: Iterable[Iterable[AssignedDevice]]) -> str:
    """The text that HAMi writes; one ``;`` per container, so no containers give an empty text."""
    return "".join(f"{''.join(record(device) for device in container)};" for container in containers)


def record(device: AssignedDevice) -> str:
    """One device with its colon."""
    if (
        not device.device
        or not scalars.SEPARATORS.isdisjoint(device.device)
        or not scalars.SEPARATORS.isdisjoint(device.word)
    ):
        raise WireError("device", f"{device.device} {device.word}", "an id or word that an assignment cannot carry")
    return f"{device.device},{device.word},{device.memory},{device.cores}:"


def records(text: str) -> Iterable[AssignedDevice]:
    """The devices of one piece; raises ``ValueError`` for a record that does not parse."""
    for part in text.split(":"):
        if "," in part:
            yield _device(part)


def _container(piece: str) -> tuple[AssignedDevice, ...]:
    return tuple(records(piece)) if piece else ()


def _salvaged(part: str) -> AssignedDevice | DeviceId | None:
    device = part.partition(",")[0].strip()
    if "," not in part or not device:
        return None
    try:
        return _device(part)
    except ValueError:
        return DeviceId(device)


def _device(part: str) -> AssignedDevice:
    device, word, *amounts = part.split(",")
    if len(amounts) < 2:
        raise ValueError(f"{part!r} has {2 + len(amounts)} fields, want id, word, memory and cores")
    if not device:
        raise ValueError(f"{part!r} names no device")
    memory, cores = _amount("memory", device, amounts[0]), _amount("cores", device, amounts[1])
    return AssignedDevice(DeviceId(device), word, MiB(memory), CoreShare(cores))


def _amount(name: str, device: str, text: str) -> int:
    try:
        return scalars.natural(text)
    except ValueError as error:
        raise ValueError(f"{name} of {device}: {error}") from None
