"""The agent of each node: installs HAMi-core, and labels the node only while a component enforces limits.

Koordinator places pods that share cards on nodes with the label, and pods whose limits come from the adapter do not
start without the files. So the agent sets the label once the files exist and either the adapter or the node's koordlet
puts limits into containers, and removes it afterwards. A label written by another client stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from starlette.applications import Starlette

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import ObjectChange, Reflector
from hami_plugins.node.hami_core.directories import make_for_all
from hami_plugins.node.hami_core.library import Library, flaw, install, mismatch, write_preload
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.probes import Check, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.wire.hami_core import LIBRARY, PRELOAD
from koordinator_adapter.core.devices import koordlet
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION
from koordinator_adapter.server.settings import AdapterSettings

PRODUCT: Final = "koordinator_adapter_node"
MANAGER: Final = "hami-plugins"
"""The field manager of the agent's writes: the first word of the user agent."""

_LIMITS_BY: Final[Mapping[str, str]] = {
    "never": "koordlet",
    "auto": "koordlet, and the server for pods created while it is not on every labelled node",
    "always": "the server",
}
"""Which component sets the limits that the label promises, by ``injection.mode``."""

_log = structlog.get_logger(__name__)


class NodeAgent:
    """Keeps one node, from ``start`` to ``stop``: looks after the files now and then, and after the label at once."""

    def __init__(self, settings: AdapterSettings, api: KubeApi, node: str, *, metrics: Metrics) -> None:
        self._settings = settings
        self._api = api
        self._node = node
        self._library = Library(problem="not looked at yet")
        self._lacking = "not looked at yet"
        self._label: str | None = None
        self._ours = False
        self._koordlets: dict[str, bool] = {}
        self._told: dict[str, str] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-part", daemon=True)
        self._installed = metrics.gauge("library_installed", "Whether the library is on this node and whole")
        self._promised = metrics.gauge("limits_promised", "Whether this node has the label that promises limits")
        self._writes = metrics.counter("label_writes_total", "Writes of the node's label, by value", ("label",))
        selection = Selection(paths.NODES, "Node", fields=f"metadata.name={node}", cached=True)
        self._watch = Reflector(api, selection, on_change=self._changed, name="node")
        self._others = _koordlets(api, node, self._koordlet_changed) if self._asks_koordlet else None
        routes = probe_routes(alive={"process": lambda: ""}, ready=self._ready(), metrics=metrics)
        self._web = WebServer(Starlette(routes=routes), host=settings.listen.host, port=settings.listen.port)

    @property
    def address(self) -> tuple[str, int]:
        """Where probes and metrics are served."""
        return self._web.address

    @property
    def addresses(self) -> dict[str, tuple[str, int] | None]:
        """The same, for the log."""
        return {"address": self.address}

    @property
    def problem(self) -> str:
        """What is wrong with the library here, and what to do; empty where nothing is."""
        return self._library.problem or self._lacking

    @property
    def unenforced(self) -> str:
        """Why no component puts limits into containers on this node; empty if one does."""
        if not self._asks_koordlet or any(self._koordlets.values()):
            return ""
        why = "" if self._others is None or not self._others.last_error else f" ({self._others.last_error})"
        return (
            f"no component sets limits in containers on node {self._node}: injection.mode is never, and no koordlet "
            f"with feature gate GPUEnvInject is known to run here{why}. Switch one of the two on; until then the label "
            f"{ISOLATION} is not written"
        )

    @property
    def _knows(self) -> bool:
        """Whether enough is known of this node to write its label."""
        if self._others is not None and not self._others.synced.is_set():
            self._tell("label_withheld", self.unenforced if self._others.last_error else "")
            return False
        return self._watch.synced.is_set()

    @property
    def _asks_koordlet(self) -> bool:
        return self._settings.node.label and self._settings.injection.mode == "never"

    def start(self) -> None:
        """Begins."""
        self._web.start()
        self._watch.start()
        if self._others is not None:
            self._others.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends. Files and label stay: containers have the library mounted. May be called twice."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._watch.stop()
        if self._others is not None:
            self._others.stop()
        self._web.stop()

    def look(self) -> None:
        """Puts the files there if they are not, and the label right."""
        self._library = self._put()
        self._lacking = self._lacks()
        self._installed.set(not self._lacking)
        self._tell("library_missing", self.problem)
        if self._settings.node.label and self._knows:
            self._relabel()
        self._promised.set(self._label == HAMI_CORE)

    def _put(self) -> Library:
        """Puts the library there; what is wrong with that."""
        hook = Path(self._settings.injection.hook_path)
        source = self._settings.node.library_source
        expected = self._settings.node.library_sha256
        return install(None if source is None else Path(source), hook, sha256=expected, loadable=True)

    def _lacks(self) -> str:
        """The parts needed for limits that this node lacks."""
        hook = Path(self._settings.injection.hook_path)
        try:
            hook.mkdir(parents=True, exist_ok=True)
            write_preload(hook)
            make_for_all(Path(self._settings.injection.lock_path))
        except OSError as error:
            return f"{error.filename}: {error.strerror or error}; let this process write there"
        lacking = [str(hook / name) for name in (LIBRARY, PRELOAD) if not (hook / name).is_file()]
        if lacking:
            return f"{' and '.join(lacking)}: no such file; set node.librarySource to the image's directory"
        if why := flaw(hook / LIBRARY):
            return f"{hook / LIBRARY} {why}; set node.librarySource to the image's directory"
        return mismatch(hook / LIBRARY, self._settings.node.library_sha256)

    def _relabel(self) -> None:
        why = "" if self._lacking else self.unenforced
        self._tell("label_withheld", why)
        wanted = HAMI_CORE if not self._lacking and not why else None
        if self._label == wanted or (wanted is None and not self._ours):
            return
        before = self._label, self._ours
        # Before the write: the watch may show another client's next write before the answer is here.
        self._label, self._ours = wanted, wanted is not None
        try:
            self._api.merge_patch(paths.node(self._node), {"metadata": {"labels": {ISOLATION: wanted}}})
        except KubeError as error:
            self._label, self._ours = before
            _log.warning("label_not_written", node=self._node, error=str(error))
            return
        self._writes.labels(wanted or "none").inc()
        _log.info("node_labelled", node=self._node, label=wanted, limits_by=_LIMITS_BY[self._settings.injection.mode])

    def _tell(self, event: str, problem: str) -> None:
        """Into the log once."""
        if problem != self._told.get(event, ""):
            self._told[event] = problem
            if problem:
                _log.warning(event, problem=problem)

    def _changed(self, change: ObjectChange) -> None:
        if change.object is not None:
            metadata = change.object.get("metadata") or {}
            self._label = (metadata.get("labels") or {}).get(ISOLATION)
            if metadata.get("managedFields"):
                self._ours = is_ours(metadata)
        self._wake.set()

    def _koordlet_changed(self, change: ObjectChange) -> None:
        found = None if change.kind == "deleted" or change.object is None else koordlet.koordlet_of(change.object)
        self._koordlets = {**self._koordlets, change.uid: found is not None and found.injects}
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
            "library": lambda: self.problem,
            "node": lambda: "" if self._watch.synced.is_set() else "this node is not read from the API server yet",
        }


def _koordlets(api: KubeApi, node: str, on_change: Callable[[ObjectChange], None]) -> Reflector:
    """Follows the koordlet of a node."""
    labels = f"{koordlet.LABEL}={koordlet.NAME}"
    selection = Selection(paths.PODS, "Pod", labels=labels, fields=f"spec.nodeName={node}", cached=True)
    return Reflector(api, selection, on_change=on_change, name="koordlet")


def is_ours(metadata: Mapping[str, Any]) -> bool:
    """Whether the API server knows the node's label as written by us."""
    for entry in metadata["managedFields"]:
        fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if entry.get("manager") == MANAGER and f"f:{ISOLATION}" in (fields.get("f:labels") or {}):
            return True
    return False
