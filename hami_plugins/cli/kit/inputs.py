"""Parses files, stdin and clusters into values. Unreadable input is an error that names the file."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hami_plugins.errors import ManifestError, WireError

if TYPE_CHECKING:
    from hami_plugins.cli.kit.progress import Advancing
    from hami_plugins.config.settings import DecisionSettings, Settings
    from hami_plugins.engine.registry import Registry
    from hami_plugins.inputs.manifests import Document
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.output.usage import Usages
    from hami_plugins.plan.completeness import Gap

STDIN: Final = "-"
_MANIFESTS: Final = frozenset({".yaml", ".yml", ".json"})
_GZIP: Final = b"\x1f\x8b"
_MOST_TEXT: Final = 256 << 20
"""Most bytes that a packed manifest or settings file unpacks to."""

_MOST_DUMP: Final = 2 << 30
"""Most bytes that a packed dump of a cluster unpacks to: 100,000 pods at 16 KB, and 5,000 nodes at 80 KB."""

_PIECE: Final = 1 << 20
_LONG: Final = 4_000_000
"""Files from this size on (in bytes) show that they are being read."""
_MANY: Final = 2_000
"""Objects or pods from this number on show how far the work is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """Where the cluster comes from: dumps, a declared fleet, or a live cluster when there is neither.

    With ``evictions`` the events on evicted pods are also read from a live cluster. ``node_groups`` are files with what
    AWS says of node groups, besides.
    """

    snapshots: tuple[str, ...] = ()
    fleet: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    evictions: bool = False
    node_groups: tuple[str, ...] = ()

    @property
    def named(self) -> bool:
        """Whether people gave anything at all."""
        return bool(self.snapshots or self.fleet or self.context or self.kubeconfig)

    def words(self) -> str:
        """What people gave, for titles."""
        if self.snapshots:
            return ", ".join("stdin" if each == STDIN else Path(each).name for each in self.snapshots)
        if self.fleet is not None:
            return f"fleet {self.fleet}"
        return f"cluster {self.context}" if self.context else "the cluster of kubeconfig"


def cluster_source(
    snapshots: Sequence[str] | None, fleet: str | None, context: str | None, kubeconfig: str | None
) -> ClusterSource:
    """The source that these options name."""
    return ClusterSource(snapshots=tuple(snapshots or ()), fleet=fleet, context=context, kubeconfig=kubeconfig)


def present(*paths: str | None) -> None:
    """Raise ``OSError`` for a file or folder that is missing. Called before the modules that read it are imported."""
    for path in paths:
        if path is not None and path != STDIN:
            Path(path).stat()


def settings_of(path: str | None) -> Settings:
    """The settings of a file and the environment, or of the environment alone."""
    from hami_plugins.cli.kit import output
    from hami_plugins.config import settings

    found = settings.made({}) if path is None else settings.parse(read_text(path), source=path)
    for concern in found.concerns:
        output.remark(f"settings: {concern}")
    return found


def registry_of(settings: DecisionSettings) -> Registry:
    """The vendors as set, and those that other packages bring, also in place of built-in ones."""
    from hami_plugins.cli.kit import plugins
    from hami_plugins.engine.registry import Registry, replaced

    built_in = settings.registry()
    kept = settings.unreplaced()
    more = tuple(spec for spec in plugins.vendors() if not (spec.replaces and spec.name in kept))
    return Registry(replaced(built_in, more)) if more else built_in


def vendors_of(path: str | None) -> Registry:
    """``registry_of`` the settings of a file and the environment; where nothing is set, without reading settings.

    The library that reads settings takes half as long to load as all else that lists vendors.
    """
    from hami_plugins.config import PREFIX

    if path is not None or any(name.upper().startswith(PREFIX) for name in os.environ):
        return registry_of(settings_of(path))
    from hami_plugins.cli.kit import plugins
    from hami_plugins.engine.registry import Registry, replaced
    from hami_plugins.vendors import BUILTIN

    return Registry(replaced(BUILTIN, plugins.vendors()))


def documents(paths: Sequence[str], *, recursive: bool = False) -> tuple[Document, ...]:
    """The objects of all manifests, in the order of the command line; the files of a folder go by name."""
    from hami_plugins.inputs import manifests

    found: list[Document] = []
    for path in paths:
        for name in manifest_files(path, recursive=recursive):
            found.extend(manifests.read(read_text(name), source="stdin" if name == STDIN else name))
    return tuple(found)


def usages(paths: Sequence[str]) -> Usages:
    """What containers use, one file for each node."""
    from hami_plugins.config import texts
    from hami_plugins.output.usage import Usages
    from hami_plugins.wire import usage

    found = []
    for path in paths:
        try:
            found.append(usage.decode(texts.mapping(read_text(path), path)))
        except WireError as error:
            raise ManifestError(f"{path}: {error}") from error
    return Usages.of(found)


def objects(source: ClusterSource) -> Iterator[tuple[object, str]]:
    """The raw objects of a cluster (lists of them are not taken apart) with the place of each."""
    for path in source.snapshots:
        name = "stdin" if path == STDIN else path
        for number, raw in enumerate(_listing(read_bytes(path), name), start=1):
            yield raw, name if number == 1 else f"{name} document {number}"
    if source.fleet is not None:
        for node in fleet_objects(source.fleet):
            yield node, f"fleet {source.fleet}"
    if not source.snapshots and source.fleet is None:
        yield from _live(source)
    for path in source.node_groups:
        yield from ((raw, path) for raw in _listing(read_bytes(path), path))


def cluster(
    source: ClusterSource, registry: Registry, *, also: Callable[[object, str], None] | None = None
) -> ClusterSnapshot:
    """The snapshot. Raises ``ManifestError`` for a dump with neither nodes nor pools of which an autoscaler makes some.

    ``also`` is called with every raw object as it arrives, and its place.
    """
    from hami_plugins.inputs.list_reader import ListingReader

    with BulkRead() as reading:
        reader = ListingReader(registry, reading)
        for raw, place in objects(source):
            reading.expect(raw)
            reader.feed(raw, place)
            if also is not None:
                also(raw, place)
        found = reader.finish()
    if not found.nodes and not found.pools:
        why = "; ".join(f"{each.place}: {each.what}" for each in found.problems[:3])
        raise ManifestError(
            f"{source.words()}: it has no nodes{f' ({why})' if why else ''}; "
            "make a dump with: kubectl get nodes,pods,resourcequotas -A -o json"
        )
    return found if source.snapshots else replace(found, listing=None)


def without_gaps(gaps: Iterable[Gap], source: ClusterSource) -> None:
    """Raises ``ManifestError`` for the first thing that a listing lacks: what ``--strict`` is for."""
    for gap in gaps:
        raise ManifestError(f"{source.words()}: {gap.message}, or leave out --strict")


def read_text(path: str) -> str:
    """The text of a file or of stdin. Raises ``ManifestError`` for bytes that are no UTF-8."""
    data = read_bytes(path, most=_MOST_TEXT)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text (byte {error.start})") from error


def read_bytes(path: str, *, most: int = _MOST_DUMP) -> bytes:
    """The bytes of a file or of stdin, unpacked if they are gzip.

    Raises ``ManifestError`` for broken gzip, and before anything large is held if it unpacks to more than ``most``.
    """
    if path == STDIN:
        data = sys.stdin.buffer.read()
    else:
        file = Path(path)
        with working(f"reading {file.name}", when=file.is_file() and file.stat().st_size >= _LONG):
            data = file.read_bytes()
    if not data.startswith(_GZIP):
        return data
    try:
        if _unpacks_to_more(data, most):
            raise ManifestError(
                f"{path}: {len(data):,} bytes of gzip, which unpacks to more than {most:,} bytes, the most that is "
                "read packed; if the file is the right one, unpack it yourself and give the unpacked file"
            )
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ManifestError(f"{path}: broken gzip: {error}") from error


def _unpacks_to_more(data: bytes, most: int) -> bool:
    """Whether the unpacked size exceeds a limit, without holding what is unpacked."""
    size = 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            if size > most:
                return True
    return False


class BulkRead:
    """Progress over the objects of large lists, and no garbage collection while they are read: nearly all of it stays.

    Small lists, and stderr that is not a terminal, show nothing.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bar: Advancing | None = None
        self._large = False

    def expect(self, raw: object) -> None:
        """An object is next; if it is a large list, its items and its nodes are what is to be done."""
        items = raw.get("items") if isinstance(raw, Mapping) else None
        if not isinstance(items, list) or len(items) < _MANY:
            return
        if not self._large:
            from hami_plugins.cli.kit.memory import undisturbed

            self._large = True
            self._stack.enter_context(undisturbed(collect=False))
        nodes = sum(1 for item in items if isinstance(item, Mapping) and item.get("kind") == "Node")
        if self._bar is not None:
            self._bar.expect(len(items) + nodes)
        elif sys.stderr.isatty():
            from hami_plugins.cli.kit.progress import Advancing

            words = f"reading {len(items):,} objects"
            self._bar = self._stack.enter_context(Advancing(words, len(items) + nodes))

    def __call__(self, amount: int) -> None:
        """So many items are read, or nodes built."""
        if self._bar is not None:
            self._bar(amount)

    def __enter__(self) -> BulkRead:
        return self

    def __exit__(self, *_of_error: object) -> None:
        self._stack.close()


def advancing(words: str, total: int) -> AbstractContextManager[Callable[[int], None] | None]:
    """A bar on a terminal for work of many parts; nothing for few, and where stderr is not a terminal."""
    if total < _MANY or not sys.stderr.isatty():
        return nullcontext()
    from hami_plugins.cli.kit.progress import Advancing

    return Advancing(words, total)


def working(words: str, *, when: bool = True) -> AbstractContextManager[object]:
    """Show on a terminal that something takes its time."""
    if not when or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(words)


def manifest_files(path: str, *, recursive: bool = False) -> Iterable[str]:
    """The path itself, or the manifests of a folder by name. Raises ``ManifestError`` for a folder without any."""
    file = Path(path)
    if path == STDIN or not file.is_dir():
        return [path]
    inside = file.rglob("*") if recursive else file.iterdir()
    found = sorted(str(each) for each in inside if each.suffix in _MANIFESTS and each.is_file())
    if not found:
        raise ManifestError(f"{path}: no .yaml, .yml or .json files in this folder")
    return found


def _listing(data: bytes, name: str) -> Iterable[object]:
    """The documents of a dump."""
    from hami_plugins.library import listing_documents

    with working(f"parsing {name}", when=len(data) >= _LONG):
        return listing_documents(data, source=name)


def fleet_objects(fleet: str) -> Sequence[Mapping[str, Any]]:
    """The objects of a fleet, by its file or shipped name. Raises ``ManifestError`` where there is none."""
    from hami_plugins import examples
    from hami_plugins.inputs import fleets

    shipped = fleet in examples.fleet_names() and not Path(fleet).exists()
    if not shipped and not Path(fleet).is_file() and fleet != STDIN:
        raise ManifestError(
            f"fleet {fleet}: no such file, and the shipped fleets are {', '.join(examples.fleet_names())}; "
            "hami-plugins fleets lists them"
        )
    text = examples.fleet_text(fleet) if shipped else read_text(fleet)
    return fleets.objects_of(fleets.parse(text, source=fleet))


def _live(source: ClusterSource) -> Iterator[tuple[Mapping[str, object], str]]:
    from hami_plugins.kube.client import connect
    from hami_plugins.kube.port import EVICTION_EVENTS
    from hami_plugins.kube.snapshot import live_objects

    more = EVICTION_EVENTS if source.evictions else ()
    reader = connect(kubeconfig=source.kubeconfig, context=source.context)
    with counting() as seen:
        for raw in live_objects(reader, seen=seen, more=more):
            yield raw, "cluster"


def counting() -> AbstractContextManager[Callable[[str, int], None] | None]:
    """Reports on a terminal how many objects of each kind have arrived."""
    if not sys.stderr.isatty():
        return nullcontext()
    from hami_plugins.cli.kit.progress import Counting

    return Counting()
