"""The part on each node: HAMi-core is put there, and the node promises limits only while it is.

Koordinator places pods that share cards on nodes with the label, and pods whose limits come from the adapter do not
start without the files. So the label follows the files: it comes once they are there and goes when they are not.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import structlog
from starlette.applications import Starlette

from hami_plugins.errors import KubeError
from hami_plugins.hami_core.directories import make_for_all
from hami_plugins.hami_core.library import Library, install
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import Change, Reflector
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.probes import Check, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.wire.hami_core import LIBRARY, PRELOAD
from koordinator_adapter.settings import AdapterSettings
from koordinator_adapter.translation.vocabulary import HAMI_CORE, ISOLATION

PRODUCT: Final = "koordinator_adapter_node"
CACHES: Final = "containers"
"""Where koordlet makes a directory for each container, beside the library."""

_log = structlog.get_logger(__name__)


class NodePart:
    """Keeps one node, from ``start`` to ``stop``: looks after the files now and then, and after the label at once."""

    def __init__(self, settings: AdapterSettings, api: KubeApi, node: str, *, metrics: Metrics) -> None:
        self._settings = settings
        self._api = api
        self._node = node
        self._library = Library(problem="not looked at yet")
        self._label: str | None = None
        self._told = ""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-part", daemon=True)
        self._installed = metrics.gauge("library_installed", "Whether the library is on this node and whole")
        self._writes = metrics.counter("label_writes_total", "Writes of the node's label, by what it says", ("label",))
        selection = Selection(paths.NODES, "Node", fields=f"metadata.name={node}", cached=True)
        self._watch = Reflector(api, selection, on_change=self._changed, name="node")
        routes = probe_routes(alive={"process": lambda: ""}, ready=self._ready(), metrics=metrics)
        self._web = WebServer(Starlette(routes=routes), host=settings.listen.host, port=settings.listen.port)

    @property
    def address(self) -> tuple[str, int]:
        """Where probes and metrics are served."""
        return self._web.address

    @property
    def problem(self) -> str:
        """What is wrong with the library here, and what to do; empty where nothing is."""
        return self._library.problem

    def start(self) -> None:
        """Begins."""
        self._web.start()
        self._watch.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends. Files and label stay: containers have the library mounted. May be called twice."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._watch.stop()
        self._web.stop()

    def look(self) -> None:
        """Puts the files there if they are not, and the label right."""
        self._library = self._kept()
        self._installed.set(not self._library.problem)
        if self._library.problem != self._told:
            self._told = self._library.problem
            if self._told:
                _log.warning("library_missing", problem=self._told)
        if self._settings.node.label and self._watch.synced.is_set():
            self._relabel()

    def _kept(self) -> Library:
        hook = Path(self._settings.injection.hook_path)
        lock = Path(self._settings.injection.lock_path)
        source = self._settings.node.library_source
        found = install(None if source is None else Path(source), hook)
        try:
            hook.mkdir(parents=True, exist_ok=True)
            make_for_all(lock)
            make_for_all(hook / CACHES)
        except OSError as error:
            what = f"{error.filename}: {error.strerror or error}; let this process make directories there"
            return found._replace(problem=found.problem or what)
        lacking = [str(hook / name) for name in (LIBRARY, PRELOAD) if not (hook / name).is_file()]
        if lacking and not found.problem:
            what = f"{' and '.join(lacking)}: no such file; set node.librarySource to the image's directory"
            return found._replace(problem=what)
        return found

    def _relabel(self) -> None:
        wanted = HAMI_CORE if not self._library.problem else None
        if self._label == wanted:
            return
        try:
            self._api.merge_patch(paths.node(self._node), {"metadata": {"labels": {ISOLATION: wanted}}})
        except KubeError as error:
            _log.warning("label_not_written", node=self._node, error=str(error))
            return
        self._writes.labels(wanted or "none").inc()
        _log.info("node_labelled", node=self._node, label=wanted)
        self._label = wanted

    def _changed(self, change: Change) -> None:
        if change.object is not None:
            self._label = ((change.object.get("metadata") or {}).get("labels") or {}).get(ISOLATION)
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self.look()
            except Exception:  # noqa: BLE001 - the outermost loop: nothing may end it but stop()
                _log.exception("look_failed")
            self._wake.wait(self._settings.node.every)

    def _ready(self) -> dict[str, Check]:
        return {
            "library": lambda: self._library.problem,
            "node": lambda: "" if self._watch.synced.is_set() else "the API server has not told of this node yet",
        }
