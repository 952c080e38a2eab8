"""HAMi-core on this node: the library and the file that makes programs load it, installed from the process's image.

A file is copied next to its target, flushed, and renamed. Containers that have the old one mounted keep it: a rename
leaves its inode alone. The installed version is recorded next to the library, and an unchanged library is not written
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from hami_plugins.node.files import write_whole
from hami_plugins.wire.hami_core import LIBRARY, LIBRARY_IN_CONTAINER, PRELOAD

RECORD: Final = f"{LIBRARY}.version"

_PRELOADED: Final = f"{LIBRARY_IN_CONTAINER}\n".encode()
_THIS_PROGRAM: Final = Path("/proc/self/exe")
_ELF: Final = b"\x7fELF"
_HEADER: Final = 20
_CLASS: Final = slice(4, 6)
"""Of an ELF header: the size of words, and the order of their bytes (``man 5 elf``)."""

_MACHINE: Final = slice(18, 20)

_log = structlog.get_logger(__name__)


class Library(NamedTuple):
    """The library of this node: its digest (empty where there is none) and version.

    ``problem`` says what is wrong and what to do; a library that is there may be good all the same.
    """

    digest: str = ""
    version: str = ""
    problem: str = ""


def install(source: Path | None, hook: Path, *, version: str = "", sha256: str = "", loadable: bool = False) -> Library:
    """Put the library of ``source`` (a directory) into ``hook``, under ``version`` or what its own record says.

    Without a source, where it cannot be copied, where ``sha256`` is another one's, or where it has to be ``loadable``
    here and has a ``flaw``, the node's own library stays.
    """
    there = installed(hook)
    if source is None:
        return there
    try:
        content = (source / LIBRARY).read_bytes()
        wanted = _described(source, version, hashlib.sha256(content).hexdigest())
        if why := _differs(source / LIBRARY, wanted.digest, sha256):
            return there._replace(problem=f"{why}; {_kept(there)}")
        if loadable and (why := _flaw(content)):
            what = f"{source / LIBRARY} {why}, and is not put on the node; set librarySource to another"
            return there._replace(problem=what)
        hook.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_whole(content, hook / LIBRARY, mode=0o755)
        write_whole(_PRELOADED, hook / PRELOAD, mode=0o644)
        write_whole(_record(wanted), hook / RECORD, mode=0o644)
    except OSError as error:
        why = f"{error.filename or source}: {error.strerror or error}"
        return there._replace(problem=f"{why}; {_kept(there)}. Check librarySource and hookPath")
    if wanted.digest != there.digest:
        _log.info("library_installed", digest=wanted.digest, version=wanted.version, path=str(hook / LIBRARY))
    return wanted


def installed(hook: Path) -> Library:
    """The library that a node has."""
    try:
        return _described(hook, "", _digest(hook / LIBRARY))
    except OSError as error:
        problem = (
            f"{hook / LIBRARY}: {error.strerror or error}; containers cannot be created without it. Set librarySource "
            "to the directory of the image that has it, or install HAMi-core on the node"
        )
        return Library(problem=problem)


def mismatch(library: Path, sha256: str) -> str:
    """Why a library is not the expected one; empty where it is, where it is missing, and where ``sha256`` is empty."""
    if not sha256:
        return ""
    try:
        return _differs(library, _digest(library), sha256)
    except OSError:
        return ""


def flaw(library: Path) -> str:
    """Why the dynamic linker of this machine would pass over a library; empty where it would not, or none is there.

    It says so on stderr and runs the program without: limits do not hold then.
    """
    try:
        with library.open("rb") as file:
            return _flaw(file.read(_HEADER))
    except OSError:
        return ""


def _flaw(header: bytes) -> str:
    """The same for the first bytes of a library."""
    with _THIS_PROGRAM.open("rb") as file:
        ours = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_ELF):
        return "is not a shared library"
    if (header[_CLASS], header[_MACHINE]) != (ours[_CLASS], ours[_MACHINE]):
        return "is a library for another kind of machine"
    return ""


def write_preload(hook: Path) -> None:
    """Write the file that makes programs load the library, where a node has the library without it.

    Raises ``OSError``.
    """
    if (hook / LIBRARY).is_file() and not (hook / PRELOAD).exists():
        write_whole(_PRELOADED, hook / PRELOAD, mode=0o644)


def _digest(library: Path) -> str:
    with library.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _differs(library: Path, found: str, expected: str) -> str:
    if expected in {"", found}:
        return ""
    return (
        f"{library}: its SHA-256 is {found}, and librarySha256 is {expected}; use an image that has that library, or "
        "correct librarySha256"
    )


def _kept(there: Library) -> str:
    return "the library that is there stays" if there.digest else "there is none on this node: limits do not hold"


def _described(directory: Path, version: str, digest: str) -> Library:
    """The record of a directory whose library has this digest."""
    recorded: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((directory / RECORD).read_bytes())
        recorded = found if isinstance(found, dict) else {}
    if not version and recorded.get("sha256", digest) == digest:
        version = str(recorded.get("version", ""))
    return Library(digest, version)


def _record(library: Library) -> bytes:
    return json.dumps({"sha256": library.digest, "version": library.version}).encode()
