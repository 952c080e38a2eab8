"""``python -m charts.docker.image TARGET FILE``: an image without a registry, a daemon or root.

The base is a handful of Debian packages of the machine's own release: Python and what its libraries need, no shell. The
rest is this tree as a wheel, and those libraries, from the environment that runs this, that the target's processes
import. The same packages, libraries and tree make the same image, byte by byte. FILE is an OCI archive, which ``ctr
images import`` and ``skopeo`` read; FILE.cdx.json, a CycloneDX document, lists its content with hash and licence.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from charts.docker import parts
from charts.docker.parts import ImageError, Part
from charts.docker.targets import TARGETS, Target
from hami_plugins import __version__

TREE: Final = Path(__file__).parents[2]
PYTHON: Final = f"python3.{sys.version_info.minor}"
PACKAGES: Final = (
    f"{PYTHON}-minimal", f"lib{PYTHON}-minimal", f"lib{PYTHON}-stdlib",
    "libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5",
    "libuuid1", "libcrypt1",
)  # fmt: skip
"""Debian's, bookworm's names: an interpreter whose modules all load, but for terminals and databases. From trixie on
some are called so with ``t64`` behind it."""

LEFT_OUT: Final = re.compile(
    r"usr/share/(?!doc/[^/]+/copyright)|usr/lib/python3[^/]*/(test|idlelib|tkinter|turtledemo|lib2to3|ensurepip)/|"
    r".*/__pycache__/|usr/lib/x86_64-linux-gnu/gconv/|usr/lib/aarch64-linux-gnu/gconv/|etc/(apt|dpkg)/|lib/systemd/"
)
HOME: Final = "opt/hami-plugins"
EPOCH: Final = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_MERGED: Final = ("bin", "sbin", "lib", "lib64")


@dataclass(frozen=True, slots=True)
class Built:
    """What came of it: the bytes that a node has to fetch, and the digest that names them."""

    compressed: int
    digest: str
    components: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer, compressed, the SHA-256 of its tar, and what is in it."""

    packed: bytes
    digest: str
    components: tuple[Part, ...]


def build(target: Target, file: Path, *, name: str) -> Built:
    """Write the image, called ``name``, and its bill of materials. Raises ``ImageError``."""
    built = _archive(target, file, name, (_base(), _own(target)))
    file.with_suffix(file.suffix + ".cdx.json").write_text(_bill(target, built))
    return built


@cache
def _base() -> _Layer:
    """The layer of Debian's packages, made once for all images of a process: they have the same one."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        root = Path(folder) / "root"
        components = tuple(_debian(Path(folder), root))
        (root / HOME).mkdir(parents=True)
        _accounts(root)
        _compile(root, root / "usr/lib" / PYTHON)
        return _layer(root, root, components)


def _own(target: Target) -> _Layer:
    """The layer of this tree and of the libraries that the target's processes import."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        root = Path(folder) / "root"
        libraries = [parts.library(name, root / HOME) for name in target.packages]
        pack = _pack(Path(folder), root / HOME)
        _compile(root, root / HOME)
        return _layer(root, root / HOME, (*libraries, pack))


def _debian(folder: Path, root: Path) -> Iterator[Part]:
    """Debian's packages, laid out with ``/lib`` in ``/usr/lib`` as on every Debian of today."""
    wanted, seen = set(PACKAGES), set[str]()
    while wanted:
        where = folder / f"packages-{len(seen)}"
        where.mkdir()
        fetch(where, sorted(wanted))
        described = [_package(file, root) for file in sorted(where.glob("*.deb"))]
        yield from (part for part, _ in described)
        seen |= {part.name for part, _ in described}
        wanted = {told for _, told in described} - seen
    for link in _MERGED:
        (root / "usr" / link).mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(f"usr/{link}")


def _package(file: Path, root: Path) -> tuple[Part, str]:
    """One of Debian's packages, laid out and described, and the package that has its copyright file."""
    fields = _run("dpkg-deb", "--field", str(file), "Package", "Version", "Architecture").decode()
    described = dict(line.split(": ", 1) for line in fields.splitlines())
    name, version = described["Package"], described["Version"]
    with tarfile.open(fileobj=io.BytesIO(_run("dpkg-deb", "--ctrl-tarfile", str(file)))) as control:
        sums = parts.md5sums(control)
    words, told = "", name
    with tarfile.open(fileobj=io.BytesIO(_run("dpkg-deb", "--fsys-tarfile", str(file)))) as content:
        for member in content:
            path = member.name.removeprefix("./")
            if member.isreg():
                data = content.extractfile(member)
                assert data is not None  # noqa: S101 - of a regular file
                held = data.read()
                parts.check_md5(f"{name} {version}", path, held, sums)
                words = held.decode() if path == f"usr/share/doc/{name}/copyright" else words
            if member.issym() and path == f"usr/share/doc/{name}":
                told = member.linkname
            _lay(content, member, root)
    part = Part(
        name=name,
        version=version,
        purl=f"pkg:deb/debian/{name}@{version}?arch={described['Architecture']}",
        sha256=parts.sha256(file.read_bytes()),
        licence=parts.debian_licence(told, words),
    )
    return part, told


def fetch(folder: Path, packages: Iterable[str]) -> None:
    """Debian's packages of these names, as files. Raises ``ImageError``."""
    names = tuple(packages)
    try:
        _download(folder, names)
    except ImageError:  # a machine that has never fetched the lists, or whose lists are old
        try:
            _run("apt-get", "-qq", "update")
            _download(folder, names)
        except ImageError as error:
            raise ImageError(f"Debian's packages could not be had, run apt-get update: {error}") from error


def _download(folder: Path, packages: Iterable[str]) -> None:
    known = set(_run("apt-cache", "pkgnames").decode().split())
    wanted = [name if name in known else f"{name}t64" for name in packages]
    _run("apt-get", "-qq", "download", *wanted, folder=folder)


def _lay(content: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = member.name.removeprefix("./")
    if not path or member.isdir() or LEFT_OUT.match(path):
        return
    target = root / (f"usr/{path}" if path.partition("/")[0] in _MERGED else path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif (source := content.extractfile(member)) is not None:
        target.write_bytes(source.read())
        target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _pack(folder: Path, home: Path) -> Part:
    """This tree, as a wheel."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    _run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder / "wheels"), str(TREE))
    (wheel,) = (folder / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        for each in content.namelist():
            content.extract(each, home)
    version = wheel.name.split("-")[1]
    purl, digest = f"pkg:pypi/hami-plugins@{version}", parts.sha256(wheel.read_bytes())
    licence = parts.licence_of(importlib.metadata.distribution("hami-plugins"))
    return Part(name="hami-plugins", version=version, purl=purl, sha256=digest, licence=licence)


def _accounts(root: Path) -> None:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnonroot:x:65532:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    for folder in ("tmp", "proc", "sys", "dev", "run", "var"):
        (root / folder).mkdir(exist_ok=True)
    (root / "var/run").symlink_to("/run")


def _compile(root: Path, place: Path) -> None:
    """Byte code that says nothing of when its source was written, so that a read-only root needs none of its own."""
    options = ["-q", "-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(
        [sys.executable, "-m", "compileall", *options, str(place)],
        check=False,
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def _layer(root: Path, place: Path, components: tuple[Part, ...]) -> _Layer:
    """The files in a folder of the root, as a tar in one order and of one time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(place.rglob("*")):
            name = str(path.relative_to(root))
            entry = tar.gettarinfo(path, name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = EPOCH
            entry.mode = 0o1777 if name == "tmp" else (0o755 if entry.isdir() or entry.mode & 0o100 else 0o644)
            tar.addfile(entry, io.BytesIO(path.read_bytes()) if entry.isreg() else None)
    content = buffer.getvalue()
    return _Layer(gzip.compress(content, 6, mtime=0), parts.sha256(content), components)


def _archive(target: Target, file: Path, name: str, layers: tuple[_Layer, ...]) -> Built:
    """An OCI image layout in a tar."""
    packed = [layer.packed for layer in layers]
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Entrypoint": [f"/usr/bin/{PYTHON}", "-m", "hami_plugins.cli"],
            "Env": [
                "PATH=/usr/bin:/bin",
                f"PYTHONPATH=/{HOME}",
                "PYTHONUNBUFFERED=1",
                "PYTHONDONTWRITEBYTECODE=1",
            ],
            "User": target.user,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
    }
    blobs = [json.dumps(config).encode(), *packed]
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": _described(blobs[0], f"{kind}.config.v1+json"),
        "layers": [_described(blob, f"{kind}.layer.v1.tar+gzip") for blob in packed],
    }
    blobs.append(json.dumps(manifest).encode())
    named = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    listed = _described(blobs[-1], f"{kind}.manifest.v1+json") | {"annotations": named}
    index = {"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [listed]}
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in blobs:
            _add(tar, f"blobs/sha256/{parts.sha256(blob)}", blob)
    components = tuple(part for layer in layers for part in layer.components)
    return Built(sum(map(len, packed)), f"sha256:{parts.sha256(blobs[-1])}", components)


def _described(blob: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{parts.sha256(blob)}", "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def _bill(target: Target, built: Built) -> str:
    image = {"type": "container", "name": target.name, "version": built.digest}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": image}}
    return json.dumps({**document, "components": parts.bill(built.components)}, indent=1) + "\n"


def _run(*command: str, folder: Path | None = None) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder)
    if done.returncode:
        raise ImageError(f"{' '.join(command[:3])} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def image_name(target: Target) -> str:
    """How the image of this version is called where charts look for it."""
    return f"docker.io/hami-plugins/{target.name}:{__version__}"


def main(arguments: list[str]) -> int:
    """Build one image; 1 where that cannot be done."""
    known = {target.name: target for target in TARGETS}
    parser = argparse.ArgumentParser(prog="python -m charts.docker.image", description="An image without a registry.")
    parser.add_argument("target", choices=sorted(known))
    parser.add_argument("file", type=Path)
    parser.add_argument("--name", help="how the image is called; default: hami-plugins/TARGET:VERSION")
    found = parser.parse_args(arguments)
    name = found.name or image_name(known[found.target])
    try:
        built = build(known[found.target], found.file, name=name)
    except ImageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        f"{name} {built.digest} {built.compressed / 2**20:.1f} MiB compressed, {len(built.components)} parts\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
