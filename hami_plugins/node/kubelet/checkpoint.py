"""The kubelet's own record of device allocations, ``kubelet_internal_checkpoint``.

An internal file, but the only place on a node that says for which container of which pod a plugin was asked: each entry
holds the answer that the plugin gave (``trials.md`` K10, seen on 1.34). Unreadable content is an error, never a guess.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from hami_plugins.errors import WireError
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse

_NO_NUMA: Final = "-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """What one container holds of one resource, and what the plugin answered when it was given."""

    pod_uid: PodUid
    container: str
    resource: str
    device_ids: frozenset[str]
    response: ContainerAllocateResponse


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The whole record. ``registered`` are all device ids that plugins have ever offered, by resource.

    ``unreadable`` says what is wrong with entries that could not be taken; the others are sound.
    """

    entries: tuple[CheckpointEntry, ...] = ()
    registered: Mapping[str, tuple[str, ...]] | None = None
    unreadable: tuple[str, ...] = ()


def decode(text: bytes | str, *, key: str = "kubelet_internal_checkpoint") -> Checkpoint:
    """The record; raises ``WireError`` when it is none as a whole."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(key, str(text[:40]), f"not JSON: {error}; the kubelet may be writing it, try again") from error
    data = document.get("Data") if isinstance(document, dict) else None
    if not isinstance(data, dict):
        raise WireError(key, str(text[:40]), "no member Data; this is not the device manager's checkpoint")
    raw_entries = data.get("PodDeviceEntries") or []
    if not isinstance(raw_entries, list):
        raise WireError(f"{key}.Data.PodDeviceEntries", str(raw_entries)[:40], "not a list")
    entries: list[CheckpointEntry] = []
    unreadable: list[str] = []
    for at, raw in enumerate(raw_entries):
        try:
            entries.append(_entry(raw))
        except (ValueError, TypeError, KeyError, AttributeError, DecodeError, binascii.Error) as error:
            unreadable.append(f"{key}.Data.PodDeviceEntries[{at}]: {type(error).__name__}: {error}")
    return Checkpoint(tuple(entries), _registered(data.get("RegisteredDevices")), tuple(unreadable))


def encode(checkpoint: Checkpoint) -> bytes:
    """The file that a kubelet writes. The checksum is 0: only the kubelet itself reads it."""
    entries = [
        {
            "PodUID": entry.pod_uid,
            "ContainerName": entry.container,
            "ResourceName": entry.resource,
            "DeviceIDs": {_NO_NUMA: sorted(entry.device_ids)},
            "AllocResp": base64.b64encode(entry.response.SerializeToString()).decode(),
        }
        for entry in checkpoint.entries
    ]
    registered = {name: list(ids) for name, ids in (checkpoint.registered or {}).items()}
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": registered}, "Checksum": 0}).encode()


def _entry(raw: Mapping[str, Any]) -> CheckpointEntry:
    by_numa = raw["DeviceIDs"]
    ids: Iterable[str] = by_numa if isinstance(by_numa, list) else (each for part in by_numa.values() for each in part)
    found = frozenset(ids)
    names = (raw["PodUID"], raw["ContainerName"], raw["ResourceName"], *found)
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("a pod, container, resource or device without a name")
    return CheckpointEntry(
        pod_uid=PodUid(raw["PodUID"]),
        container=raw["ContainerName"],
        resource=raw["ResourceName"],
        device_ids=found,
        response=ContainerAllocateResponse.FromString(base64.b64decode(raw["AllocResp"] or "", validate=True)),
    )


def _registered(raw: object) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(raw, dict):
        return {}
    return {str(name): tuple(map(str, ids)) for name, ids in raw.items() if isinstance(ids, list)}
