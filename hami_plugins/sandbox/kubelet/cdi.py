"""Container Device Interface: what the runtime makes of the device names in a container's configuration.

Follows containerd 2.1: a spec file that cannot be read is passed over, a name that two files of one directory give
resolves to nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CdiMount:
    """A path of the host that a container sees; ``made`` says that the runtime makes the host's path if need be."""

    host: str
    container: str
    read_only: bool = False
    made: bool = False


@dataclass(frozen=True, slots=True)
class Edits:
    """What is done to a container's configuration; ``devices`` are paths of device nodes on the host."""

    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()

    def plus(self, other: Edits) -> Edits:
        """These edits and then the others."""
        return Edits(self.env + other.env, self.mounts + other.mounts, self.devices + other.devices)


class CdiError(Exception):
    """The runtime cannot give a container its devices; the text is the runtime's."""


class Cdi:
    """The spec files of one directory, read anew for every container."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def resolve(self, names: Sequence[str]) -> Edits:
        """The edits of all named devices, each file's own edits once and first; raises ``CdiError``."""
        known, conflicts = self._devices()
        for text in conflicts:
            _log.warning("cdi_registry_refresh_failed", error=text)
        if unknown := [name for name in names if name not in known]:
            raise CdiError(f"CDI device injection failed: unresolvable CDI devices {', '.join(unknown)}")
        edits = Edits()
        opened: set[str] = set()
        for name in dict.fromkeys(names):
            path, of_file, of_device = known[name]
            if path not in opened:
                opened.add(path)
                edits = edits.plus(of_file)
            edits = edits.plus(of_device)
        return edits

    def _devices(self) -> tuple[dict[str, tuple[str, Edits, Edits]], list[str]]:
        known: dict[str, tuple[str, Edits, Edits]] = {}
        conflicts: dict[str, str] = {}
        for path in self._files():
            spec = _load(path)
            if spec is None:
                continue
            common = _edits(spec.get("containerEdits"))
            for device in spec.get("devices") or ():
                name = f"{spec.get('kind')}={device.get('name')}"
                if name in known:
                    conflicts[name] = f'conflicting device "{name}" (specs "{path}", "{known[name][0]}")'
                known[name] = (str(path), common, _edits(device.get("containerEdits")))
        return {name: found for name, found in known.items() if name not in conflicts}, list(conflicts.values())

    def _files(self) -> Iterable[Path]:
        try:
            found = sorted(self._directory.iterdir())
        except FileNotFoundError:
            return ()
        return [path for path in found if path.suffix in (".json", ".yaml")]


def _load(path: Path) -> Mapping[str, Any] | None:
    try:
        text = path.read_text()
        spec = json.loads(text) if path.suffix == ".json" else texts.document(text, str(path))
    except (OSError, ValueError, ConfigError) as error:
        _log.warning("cdi_spec_unreadable", path=str(path), error=str(error))
        return None
    return spec if isinstance(spec, dict) else None


def _edits(raw: Mapping[str, Any] | None) -> Edits:
    raw = raw or {}
    return Edits(
        env=tuple((name, value) for name, _, value in (entry.partition("=") for entry in raw.get("env") or ())),
        mounts=tuple(
            CdiMount(mount["hostPath"], mount["containerPath"], read_only="ro" in (mount.get("options") or ()))
            for mount in raw.get("mounts") or ()
        ),
        devices=tuple((node.get("hostPath") or node["path"], node["path"]) for node in raw.get("deviceNodes") or ()),
    )
