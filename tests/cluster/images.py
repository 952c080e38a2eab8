"""The two images of all test pods, written as docker-archives without any image tool."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BASE: Final = "localhost/base:1"
PAUSE: Final = "localhost/pause:1"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS: Final = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin", "var", "var/run")


def archive(
    target: Path, name: str, busybox: Path, command: Sequence[str], *, scripts: Mapping[str, str] | None = None
) -> None:
    """A docker-archive at ``target`` of one layer: busybox with a link for each of its commands, and scripts for it."""
    layer = _layer(busybox, scripts or {})
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin:/usr/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as tar:
        for member, data in (
            ("layer.tar", layer),
            ("config.json", config),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            _add(tar, member, data, mode=0o644)


def _layer(busybox: Path, scripts: Mapping[str, str]) -> bytes:
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
        _add(tar, "etc/group", b"root:x:0:\n", mode=0o644)
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for name in listed.stdout.split():
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        for name, script in scripts.items():
            _add(tar, f"bin/{name}", f"#!/bin/sh\n{script}".encode(), mode=0o755)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
