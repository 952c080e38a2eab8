"""The files that say what the names in the answers of ``Allocate`` mean: one CDI specification for each pod.

A file is written at the first start of a container of the pod, for all of its containers, and before any of them is
created. It appears under its name by a rename in its own directory, because the runtime sees nothing else reliably
(``trials.md`` K3). What it says about a container never changes: a container that starts again has what it had,
whatever the settings are by then, and an allocation that is another one by then is refused.

The file also records the container of each name: a kubelet that lost its record does not.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import structlog

from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import MiB, PodUid
from hami_plugins.wire import volcano
from hami_plugins.wire.pod_devices import AssignedDevice
from volcano_vgpu.core import edits
from volcano_vgpu.core.edits import ContainerEdits
from volcano_vgpu.core.identity import KIND, Allocation
from volcano_vgpu.core.model import SlotId
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer

CONTAINER_KEY: Final = "volcano.sh/container"
SLOTS_KEY: Final = "volcano.sh/slots"
ASSIGNMENT_KEY: Final = "volcano.sh/assignment"
DIALECT_KEY: Final = "volcano.sh/dialect"
"""The allocating system, if it is not Volcano."""

_PREFIX: Final = f"{KIND.replace('/', '-')}_"
_SUFFIX: Final = ".json"
_NOTHING: Final[Mapping[str, tuple[AssignedDevice, ...]]] = {}
_REMEDIES: Final = {
    errno.EROFS: "mount the directory writable into the agent",
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.EACCES: "let the agent write there",
    errno.EPERM: "let the agent write there",
}

_log = structlog.get_logger(__name__)

Devices = Mapping[str, Mapping[str, Any]]
"""The devices of one specification by nonce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The edits for one container, and the kubelet's allocations that they belong to."""

    allocation: Allocation
    allocated: AllocatedContainer
    edits: ContainerEdits
    dialect: Dialect = Dialect.VOLCANO

    @property
    def assignment(self) -> str:
        """The assignment as one text: cards with their amounts, and what the container sees of them."""
        seen = ",".join(share.visible for share in self.allocated.shares)
        return f"{volcano.encode_assignment([self.allocated.devices])} {seen}"


class CdiDirectory:
    """The specifications of this node's pods. Safe to use from several threads, one per pod.

    Handed out amounts are in the units of ``dialect``; ``factor`` is the MiB in a unit of Volcano's register.
    """

    def __init__(self, directory: Path, *, dialect: Dialect = Dialect.VOLCANO, factor: int = 1) -> None:
        self._directory = directory
        self.dialect = dialect
        self._factor = factor
        self._lock = threading.Lock()
        self._pods: Mapping[PodUid, Devices] = {}
        self._served: Mapping[PodUid, tuple[Allocation, ...]] = {}
        self._handed: Mapping[PodUid, Mapping[str, tuple[AssignedDevice, ...]]] = {}

    def open(self) -> ContainerRefusal | None:
        """Make the directory, drop half-written files and read what was served before."""
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            for left in self._directory.glob(f".{_PREFIX}*"):
                left.unlink(missing_ok=True)
        except OSError as error:
            return _unusable(self._directory, error)
        return self.look()

    def look(self) -> ContainerRefusal | None:
        """Read what was served before, and change nothing."""
        try:
            paths = sorted(self._directory.glob(f"{_PREFIX}*{_SUFFIX}"))
        except OSError as error:
            return _unusable(self._directory, error)
        found: dict[PodUid, Devices] = {}
        for path in paths:
            try:
                found[self._uid_of(path)] = self._read(path)
            except OSError as error:
                # One file hides no other. Its own pod is refused when it starts, for then it is read again.
                _log.warning("cdi_file_unreadable", path=str(path), error=str(error))
        with self._lock:
            self._pods = {uid: devices for uid, devices in found.items() if devices}
            self._served = {uid: _allocations(uid, devices) for uid, devices in self._pods.items()}
            self._handed = {uid: self._handed_of(devices) for uid, devices in self._pods.items()}
        return None

    @property
    def pods(self) -> frozenset[PodUid]:
        """The pods that have a specification."""
        return frozenset(self._pods)

    @property
    def served(self) -> tuple[Allocation, ...]:
        """Every container that has something, by the name under which it has it."""
        return tuple(chain.from_iterable(self._served.values()))

    @property
    def allocations(self) -> Mapping[tuple[PodUid, str], tuple[AssignedDevice, ...]]:
        """What each container was handed, as Volcano had allocated it; what cannot be read any more is left out."""
        return {(uid, name): each for uid, handed in self._handed.items() for name, each in handed.items()}

    def handed_to(self, uid: PodUid) -> Mapping[str, tuple[AssignedDevice, ...]]:
        """The same for one pod, by container. The answer is the same object until the file of the pod changes."""
        return self._handed.get(uid, _NOTHING)

    def served_to(self, uid: PodUid) -> tuple[Allocation, ...]:
        """The containers of one pod that have something."""
        return self._served.get(uid, ())

    def write(self, uid: PodUid, servings: Collection[Serving]) -> ContainerRefusal | None:
        """Make the names of these containers resolve to their edits, in addition to those of the pod's other
        containers.
        """
        path = self.path(uid)
        try:
            on_disk = self._read(path)
        except OSError as error:
            return _unusable(path, error)
        before = self._pods.get(uid) or on_disk
        devices = dict(before)
        for serving in servings:
            had = next((each for each in before.values() if _container(each) == serving.allocation.container), None)
            if had is not None and had["annotations"].get(ASSIGNMENT_KEY) != serving.assignment:
                return _changed(serving, had)
            if serving.allocation.nonce not in devices:
                devices[serving.allocation.nonce] = _device(serving, had)
        if devices != on_disk:
            try:
                self._replace(path, devices)
            except OSError as error:
                return _unusable(path, error)
        with self._lock:
            self._pods = {**self._pods, uid: devices}
            self._served = {**self._served, uid: _allocations(uid, devices)}
            self._handed = {**self._handed, uid: self._handed_of(devices)}
        return None

    def forget(self, uid: PodUid) -> str:
        """Remove the specification of a pod that is gone; why its file stays, empty where it does not."""
        try:
            self.path(uid).unlink(missing_ok=True)
        except OSError as error:
            return f"{self.path(uid)}: {error.strerror or error}"
        with self._lock:
            self._pods = {other: devices for other, devices in self._pods.items() if other != uid}
            self._served = {other: served for other, served in self._served.items() if other != uid}
            self._handed = {other: handed for other, handed in self._handed.items() if other != uid}
        return ""

    def path(self, uid: PodUid) -> Path:
        """The file of a pod's specification."""
        return self._directory / f"{_PREFIX}{uid}{_SUFFIX}"

    def _handed_of(self, devices: Devices) -> Mapping[str, tuple[AssignedDevice, ...]]:
        found: dict[str, tuple[AssignedDevice, ...]] = {}
        for device in devices.values():
            text, _, _ = str(device["annotations"].get(ASSIGNMENT_KEY, "")).rpartition(" ")
            theirs = str(device["annotations"].get(DIALECT_KEY, Dialect.VOLCANO))
            with contextlib.suppress(WireError):
                found[_container(device)] = tuple(
                    each._replace(memory=self._in_units(each.memory, theirs))
                    for part in volcano.decode_assignment(ASSIGNMENT_KEY, text)
                    for each in part
                )
        return found

    def _in_units(self, memory: MiB, theirs: str) -> MiB:
        if theirs == self.dialect:
            return memory
        return MiB(memory * self._factor if self.dialect is Dialect.HAMI else -(-memory // self._factor))

    @staticmethod
    def _uid_of(path: Path) -> PodUid:
        return PodUid(path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX))

    @staticmethod
    def _read(path: Path) -> Devices:
        """What a file says; nothing where it is not there or, after a crash of the machine, not whole."""
        if not path.is_file():  # to read a pipe or a device might never end
            return {}
        try:
            document = json.loads(path.read_bytes())
            return {
                device["name"]: device
                for device in document["devices"]
                if all(isinstance(device["annotations"].get(key), str) for key in (CONTAINER_KEY, SLOTS_KEY))
            }
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            _log.warning("cdi_file_unreadable", path=str(path), error=str(error))
            return {}

    def _replace(self, path: Path, devices: Devices) -> None:
        document = {"cdiVersion": edits.CDI_VERSION, "kind": KIND, "devices": list(devices.values())}
        draft = path.with_name(f".{path.name}.{threading.get_ident()}")
        try:
            draft.write_bytes(json.dumps(document).encode())
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise


def _device(serving: Serving, had: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The device; a container that the kubelet asked for anew gets what it had."""
    allocation = serving.allocation
    about = {
        CONTAINER_KEY: allocation.container,
        SLOTS_KEY: ",".join(sorted(allocation.slots)),
        ASSIGNMENT_KEY: serving.assignment,
    }
    if serving.dialect is not Dialect.VOLCANO:
        about[DIALECT_KEY] = serving.dialect.value
    if had is None:
        return edits.cdi_device(allocation.nonce, serving.edits, about)
    return {**had, "name": allocation.nonce, "annotations": about}


def _allocations(uid: PodUid, devices: Devices) -> tuple[Allocation, ...]:
    return tuple(
        Allocation(
            pod_uid=uid,
            container=_container(device),
            slots=frozenset(map(SlotId, device["annotations"][SLOTS_KEY].split(","))),
            nonce=nonce,
        )
        for nonce, device in devices.items()
    )


def _container(device: Mapping[str, Any]) -> str:
    return str(device["annotations"][CONTAINER_KEY])


def _changed(serving: Serving, had: Mapping[str, Any]) -> ContainerRefusal:
    return ContainerRefusal(
        RefusalCode.ALLOCATION_CHANGED,
        f"container {serving.allocation.container} was given {had['annotations'].get(ASSIGNMENT_KEY)!r}, and its pod's "
        f"annotation has {serving.assignment!r} now; a container keeps its cards. Restore the annotation or "
        "delete the pod",
    )


def _unusable(path: Path, error: OSError) -> ContainerRefusal:
    remedy = _REMEDIES.get(error.errno or 0, "see that the agent can write there")
    return ContainerRefusal(RefusalCode.SPECIFICATION, f"{path}: {error.strerror or error}; {remedy}")
