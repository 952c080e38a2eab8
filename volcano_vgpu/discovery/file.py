"""Cards out of a file: for machines without any, for demonstrations, and to make cards fail at will.

::

    driver: "550.54.15"
    seed: node-1                       # makes the UUIDs of this node; needed where cards have none of their own
    count: 8                           # eight cards alike ...
    model: NVIDIA A100-SXM4-40GB
    memory: 40Gi                       # MiB, or a quantity
    cards:                             # ... or each for itself
    - uuid: GPU-5bb1e1d8-0000-0000-0000-000000000000
      memory: 81920
      numa: 0
      mig: [{uuid: MIG-1, profile: 1g.10gb, memory: 9728, start: 0, size: 1}]    # or true
      migProfiles: [{name: 1g.10gb, memory: 9728, slices: 1, size: 1, starts: [0, 1, 2, 3, 4, 5, 6]}]
      links: [{peer: GPU-..., kind: nvlink, lanes: 12}]
      problems: ["XID 79: fallen off the bus; reboot the node"]
      use: {memoryUsed: 10Gi, utilization: 0.5, temperature: 60, powerWatts: 250}

A card that cannot be read is passed over with the reason. A file that cannot be read as a whole is not taken: the last
good one stays in force.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import structlog
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import INT32_MAX, DeviceId, MiB
from hami_plugins.wire import quantity
from volcano_vgpu.core.model import DeviceLink, DeviceMeasurement, MigInstance, NodeInventory, PhysicalDevice
from volcano_vgpu.discovery.port import DiscoveryError

POLL_SECONDS: Final = 0.5
"""How soon a change is seen, at a cost that a thousand agents in one process can bear."""

MOST_CARDS: Final = 64
"""More cards than this in a shorthand is a slip of the pen; no machine has them."""

_MIB: Final = 2**20
_MODEL: Final = "NVIDIA A100-SXM4-40GB"


def _mebibytes(found: object) -> object:
    """A number is MiB, a text is a quantity in bytes."""
    return _bytes(found) // _MIB if isinstance(found, str) else found


def _bytes(found: object) -> int:
    if not isinstance(found, str | int) or isinstance(found, bool):
        raise ValueError("not an amount; write a number or a quantity such as 40Gi")  # noqa: TRY004 - pydantic's rule
    try:
        return quantity.parse(found, key="memory").nano // NANO
    except WireError as error:
        raise ValueError(error.why) from error


Memory = Annotated[int, BeforeValidator(_mebibytes), Field(ge=0, le=INT32_MAX)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=0)]
Natural = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class _Slice(_Strict):
    uuid: str
    profile: str
    memory: Memory
    start: Natural
    size: Annotated[int, Field(ge=1)]
    processes: Natural = 0


class _Profile(_Strict):
    """A profile that the card can be cut into, for those who make instances (``file_partitions``)."""

    name: str
    memory: Memory
    slices: Annotated[int, Field(ge=1)]
    size: Annotated[int, Field(ge=1)]
    starts: tuple[Natural, ...]


class _Joint(_Strict):
    peer: str
    kind: str
    lanes: Natural = 0


class _Use(_Strict):
    memory_used: Bytes | None = None
    utilization: Annotated[float, Field(ge=0, le=1)] | None = None
    temperature: float | None = None
    power_watts: float | None = None


class _Card(_Strict):
    uuid: str = ""
    index: Natural | None = None
    minor: int | None = None
    model: str = _MODEL
    memory: Memory
    numa: Natural | None = None
    pci_bus: str = ""
    links: tuple[_Joint, ...] = ()
    mig: bool | tuple[_Slice, ...] = False
    mig_profiles: tuple[_Profile, ...] = ()
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    use: _Use = _Use()


class _File(_Strict):
    driver: str = "file"
    seed: str = ""
    count: Annotated[int, Field(ge=0, le=MOST_CARDS)] = 0
    model: str = _MODEL
    memory: Memory | None = None
    cards: tuple[Any, ...] = ()


class FileInventory(NamedTuple):
    """What a file says."""

    inventory: NodeInventory
    use: Mapping[DeviceId, DeviceMeasurement]


def parse(text: str, source: str) -> FileInventory:
    """What the text of a file says; raises ``DiscoveryError`` where it is none as a whole."""
    try:
        raw = texts.document(text, f"cards file {source}")
        file = _File.model_validate({} if raw is None else raw)
    except ConfigError as error:
        raise DiscoveryError(str(error)) from error
    except ValidationError as error:
        raise DiscoveryError(f"cards file {source}: {_complaint(error)}") from error
    if file.count and file.memory is None:
        raise DiscoveryError(f"cards file {source}: count without memory; give the memory of each card")
    plain = {"model": file.model, **({} if file.memory is None else {"memory": file.memory})}
    raws: list[Any] = [plain] * file.count + list(file.cards)
    cards: list[PhysicalDevice] = []
    use: dict[DeviceId, DeviceMeasurement] = {}
    passed_over: dict[str, str] = {}
    for at, each in enumerate(raws):
        try:
            read = _Card.model_validate({**plain, **each} if isinstance(each, dict) else each)
        except ValidationError as error:
            name = str(each.get("uuid") or "") if isinstance(each, dict) else ""
            passed_over[name or f"card {at}"] = f"cards file {source}: cards[{at - file.count}]: {_complaint(error)}"
            continue
        card = _card(read, at, file.seed)
        cards.append(card)
        use[card.uuid] = DeviceMeasurement(**read.use.model_dump())
    cards.sort(key=lambda card: (card.minor, card.uuid))
    return FileInventory(NodeInventory(driver=file.driver, cards=tuple(cards), passed_over=passed_over), use)


def _card(read: _Card, at: int, seed: str) -> PhysicalDevice:
    index = at if read.index is None else read.index
    instances = () if isinstance(read.mig, bool) else read.mig
    return PhysicalDevice(
        uuid=DeviceId(read.uuid or f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{seed}/{at}')}"),
        index=index,
        minor=index if read.minor is None else read.minor,
        model=read.model,
        memory=MiB(read.memory),
        numa=read.numa,
        pci_bus=read.pci_bus,
        links=tuple(DeviceLink(peer=DeviceId(each.peer), kind=each.kind, lanes=each.lanes) for each in read.links),
        mig=bool(read.mig) or bool(read.mig_profiles),
        instances=tuple(
            MigInstance(
                uuid=DeviceId(each.uuid),
                profile=each.profile,
                memory=MiB(each.memory),
                start=each.start,
                size=each.size,
            )
            for each in instances
            if each.uuid
        ),
        problems=read.problems,
        unreadable=read.unreadable,
    )


def _complaint(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or '(top)'}: {each['msg']} (found {str(each['input'])[:60]!r})"
        for each in error.errors(include_url=False)
    )


class FileDiscovery:
    """Looks at a file. ``problem`` says what is wrong with the newest one, empty where it is in force."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self._path = path
        self._clock = clock
        self._closed = threading.Event()
        self._found: FileInventory | None = None
        self._seen: tuple[int, ...] | None = None
        self._log = structlog.get_logger(__name__)

    def open(self) -> None:
        """See ``Discovery``."""
        self._look()
        if self._found is None:
            raise DiscoveryError(self.problem)

    def inventory(self) -> NodeInventory:
        """See ``Discovery``."""
        self._look()
        if self._found is None:
            raise DiscoveryError(self.problem)
        return self._found.inventory

    def use(self, uuid: DeviceId) -> DeviceMeasurement:
        """See ``Discovery``."""
        return DeviceMeasurement() if self._found is None else self._found.use.get(uuid, DeviceMeasurement())

    def wait(self, timeout: float) -> bool:
        """See ``Discovery``. A file is looked at, not watched, for it may be replaced, mounted anew or gone a while."""
        until = self._clock() + timeout
        while (left := until - self._clock()) > 0:
            if self._signature() != self._seen:
                return True
            if self._closed.wait(min(left, POLL_SECONDS)):
                return False
        return self._signature() != self._seen

    def close(self) -> None:
        """See ``Discovery``."""
        self._closed.set()

    def _look(self) -> None:
        seen = self._signature()
        if seen == self._seen and self._found is not None:
            return
        self._seen = seen
        try:
            self._found = parse(self._path.read_text(encoding="utf-8"), str(self._path))
            self.problem = ""
        except (OSError, UnicodeDecodeError) as error:
            self._refuse(f"cards file {self._path}: {error}; create it, or leave cardsFile unset")
        except DiscoveryError as error:
            self._refuse(str(error))

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self._log.warning("cards_file_refused", path=str(self._path), error=problem, kept=self._found is not None)

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino)
