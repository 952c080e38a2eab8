"""What a pod object itself gives its containers: environment and volumes, laid over what plugins gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hami_plugins.sandbox.kubelet.cdi import CdiMount, Edits
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec

_ENTRY: Final = re.compile(r"metadata\.(annotations|labels)\['([^']+)'\]")


def edits(pod: PodSpec, container: ContainerSpec, *, volumes: Path) -> Edits:
    """Plain values and the downward API's fields; hostPath volumes, and directories under ``volumes`` for emptyDir."""
    return Edits(env=tuple(_env(pod, container)), mounts=tuple(_mounts(pod, container, volumes)))


def _env(pod: PodSpec, container: ContainerSpec) -> Iterator[tuple[str, str]]:
    for entry in container.raw.get("env") or ():
        field = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        yield entry["name"], str(entry.get("value") or "") if field is None else _field(pod, field)


def _field(pod: PodSpec, path: str) -> str:
    metadata: Mapping[str, Any] = pod.raw["metadata"]
    if found := _ENTRY.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    value: Any = pod.raw
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _mounts(pod: PodSpec, container: ContainerSpec, volumes: Path) -> Iterator[CdiMount]:
    known = {volume["name"]: volume for volume in (pod.raw.get("spec") or {}).get("volumes") or ()}
    for mount in container.raw.get("volumeMounts") or ():
        volume = known.get(mount["name"], {})
        read_only = bool(mount.get("readOnly"))
        if "hostPath" in volume:
            yield CdiMount(volume["hostPath"]["path"], mount["mountPath"], read_only=read_only, made=True)
        elif "emptyDir" in volume:
            yield CdiMount(str(volumes / pod.uid / mount["name"]), mount["mountPath"], read_only=read_only, made=True)
