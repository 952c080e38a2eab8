"""The parts of an image: each checked file by file against the list of its publisher, and described for the bill.

A library is checked against the RECORD of its wheel, a package of Debian's against its md5sums; apt has checked the
signature of the package itself. A file that differs ends the build.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CLASSIFIER: Final = "License :: OSI Approved :: "
_MACHINE_READABLE: Final = re.compile(r"^Format: \S*copyright-format/1\.0", re.MULTILINE)
_LICENCE: Final = re.compile(r"^License:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_ONE_LINE: Final = 80
"""Characters of a licence's name; what is longer is its text."""


class ImageError(Exception):
    """The image cannot be made; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something that is in the image, for its bill of materials.

    ``sha256`` is that of what was fetched: of the package, of the wheel, or of a library's RECORD, which has the hash
    of each of its files.
    """

    name: str
    version: str
    purl: str
    sha256: str
    licence: str


def library(name: str, home: Path) -> Part:
    """Copy a library that is installed here into ``home``, without byte code. Raises ``ImageError``."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise ImageError(f"{name}: the image needs it, and it is not installed here; run make set-up") from error
    for each in _listed(found):
        target = home / each
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_checked(found, each))
    return described(found)


def described(found: importlib.metadata.Distribution) -> Part:
    """An installed library. Raises ``ImageError`` where its METADATA names no licence."""
    name, version = found.metadata["Name"], found.version
    record = "".join(f"{each},{each.hash},{each.size}\n" for each in _listed(found)).encode()
    purl = f"pkg:pypi/{name}@{version}"
    return Part(name=name, version=version, purl=purl, sha256=sha256(record), licence=licence_of(found))


def _listed(found: importlib.metadata.Distribution) -> list[importlib.metadata.PackagePath]:
    return sorted(files_of(found), key=str)


def files_of(found: importlib.metadata.Distribution) -> Iterator[importlib.metadata.PackagePath]:
    """The files of a library that its wheel has, those outside of the folder of libraries (commands) left out."""
    for each in found.files or ():
        if each.hash is not None and each.parts[0] != ".." and each.name not in {"INSTALLER", "REQUESTED"}:
            yield each


def licence_of(found: importlib.metadata.Distribution) -> str:
    """The licence of a library, as its METADATA names it. Raises ``ImageError`` where it names none."""
    metadata = found.metadata
    named = [str(each) for key in ("License-Expression", "License") for each in metadata.get_all(key) or []]
    listed = metadata.get_all("Classifier") or []
    named.append(" AND ".join(each.removeprefix(_CLASSIFIER) for each in listed if each.startswith(_CLASSIFIER)))
    for licence in named:
        if licence.strip() and "\n" not in licence and len(licence) <= _ONE_LINE:
            return licence.strip()
    raise ImageError(f"{metadata['Name']} {found.version}: its METADATA names no licence, so the bill cannot")


def debian_licence(package: str, copyright_file: str) -> str:
    """The licences of a package of Debian's, or where its image has them in words."""
    if _MACHINE_READABLE.search(copyright_file):
        return " AND ".join(dict.fromkeys(_LICENCE.findall(copyright_file)))
    return f"see /usr/share/doc/{package}/copyright"


def md5sums(control: tarfile.TarFile) -> Mapping[str, str]:
    """The checksums that a package of Debian's has for its files, by their paths; empty for its conffiles."""
    texts = {"md5sums": "", "conffiles": ""}
    for member in control:
        content = control.extractfile(member) if member.isreg() else None
        if content is not None and (name := member.name.removeprefix("./")) in texts:
            texts[name] = content.read().decode()
    sums = dict.fromkeys((line.lstrip("/") for line in texts["conffiles"].splitlines()), "")
    return sums | {path: digest for digest, path in (line.split("  ", 1) for line in texts["md5sums"].splitlines())}


def check_md5(package: str, path: str, content: bytes, sums: Mapping[str, str]) -> None:
    """Raises ``ImageError`` where a file of a package is not the one that the package lists."""
    expected, found = sums.get(path), hashlib.md5(content, usedforsecurity=False).hexdigest()
    if expected not in {"", found}:
        listed = f"lists {expected}" if expected else "does not list it"
        raise ImageError(f"/{path}: its MD5 is {found}, and {package} {listed}; fetch the package anew")


def sha256(data: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def bill(parts: Iterable[Part]) -> list[dict[str, object]]:
    """The parts as components of a CycloneDX document, in one order."""
    return [
        {
            "type": "library",
            "name": each.name,
            "version": each.version,
            "purl": each.purl,
            "bom-ref": each.purl,
            "hashes": [{"alg": "SHA-256", "content": each.sha256}],
            "licenses": [{"license": {"name": each.licence}}],
        }
        for each in sorted(parts, key=lambda each: each.purl)
    ]


def _checked(found: importlib.metadata.Distribution, each: importlib.metadata.PackagePath) -> bytes:
    """The content of a file of a library, which is what RECORD says."""
    path = Path(str(found.locate_file(each)))
    what = f"{path}: of {found.metadata['Name']} {found.version}"
    remedy = "reinstall the library (make set-up after removing .venv)"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{what}, {error.strerror}; {remedy}") from error
    assert each.hash is not None  # noqa: S101 - see files_of
    digest = hashlib.new(each.hash.mode, content).digest()
    hashed = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if hashed != each.hash.value:
        raise ImageError(f"{what}, its hash is {hashed}, and RECORD has {each.hash.value}; {remedy}")
    return content
