"""The server as a whole: the store, its thread, its port."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
import uvicorn

from hami_plugins.errors import HamiPluginsError
from hami_plugins.runnable import Runnable
from hami_plugins.sandbox.apiserver.answers import not_found
from hami_plugins.sandbox.apiserver.api import Api, ClusterParts
from hami_plugins.sandbox.apiserver.decoder import decoded
from hami_plugins.sandbox.apiserver.faults import Faults
from hami_plugins.sandbox.apiserver.http import App, ClientConnections
from hami_plugins.sandbox.apiserver.kinds import BUILTIN, NAMESPACES, ResourceKind, ResourceKinds
from hami_plugins.sandbox.apiserver.lists import rendered, stored_form
from hami_plugins.sandbox.apiserver.store import ApiStore, Key, Stored
from hami_plugins.sandbox.apiserver.tally import RequestTally
from hami_plugins.sandbox.apiserver.watches import Hub
from hami_plugins.sandbox.apiserver.webhook_calls import Caller
from hami_plugins.sandbox.apiserver.writer import DeleteOptions, Writer
from hami_plugins.web.listeners import accept_no_more
from hami_plugins.wire.fields import Json

HOST: Final = "127.0.0.1"

_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_START_SECONDS: Final = 30.0


class ApiServerError(HamiPluginsError):
    """The embedded server cannot be started."""


def _now() -> datetime:
    return datetime.now(UTC)


def _new_uid() -> str:
    return str(uuid.uuid4())


class ApiServer(Runnable):
    """An API server on 127.0.0.1. Use it as a context manager, or ``start`` and ``stop`` it.

    ``window`` is how many events of each resource watches can begin from, ``kinds`` are custom resources that are there
    from the start (``VOLCANO``, ``KOORDINATOR``), ``users`` names callers by their bearer tokens in ``requests`` and
    ``faults``; ``bookmark_seconds`` is the time between bookmarks, ``around`` what the cluster has besides, ``port``
    where to serve (0: on a free port). What it stores outlives ``pause`` and ``stop``.
    """

    def __init__(  # noqa: PLR0913 - each has a default that fits
        self,
        *,
        clock: Callable[[], datetime] = _now,
        window: int = 1000,
        kinds: Iterable[ResourceKind] = (),
        users: Mapping[str, str] | None = None,
        bookmark_seconds: float = 60.0,
        new_uid: Callable[[], str] = _new_uid,
        around: ClusterParts | None = None,
        port: int = 0,
    ) -> None:
        self.store = ApiStore(window=window)
        self.kinds = ResourceKinds((*BUILTIN, *kinds))
        self.faults = Faults()
        self.requests = RequestTally()
        self._writer = Writer(self.store, self.kinds, clock=clock, new_uid=new_uid)
        self._hub = Hub(self.store)
        self._api = Api(self._writer, self._hub, around=around)
        self._connections = ClientConnections()
        self._caller = Caller()
        self._app = App(
            self._api,
            faults=self.faults,
            requests=self.requests,
            connections=self._connections,
            users=dict(users or {}),
            ask=self._caller.ask,
            clock=clock,
        )
        self._bookmark_seconds = bookmark_seconds
        self._port = port
        self._running: _Running | None = None
        self._place: socket.socket | None = None
        for name in _FIRST_NAMESPACES:
            self._writer.create(NAMESPACES, "", {"metadata": {"name": name}})

    @property
    def url(self) -> str:
        """``http://127.0.0.1:port``; raises ``ApiServerError`` before the first start."""
        return f"http://{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """The port, the same from ``start`` to ``stop``, pauses included."""
        if self._place is None:
            raise ApiServerError("the embedded API server has no port before it is started")
        return int(self._place.getsockname()[1])

    def start(self) -> str:
        """Serve; the answer is the URL. Raises ``OSError`` where the port is taken."""
        if self._place is None:
            self._place = _bound(self._port)
        self.resume()
        return self.url

    def stop(self) -> None:
        """Break all connections and give the port back."""
        self.pause()
        if self._place is not None:
            self._place.close()
            self._place = None

    def pause(self) -> None:
        """The server is away: connections break, new ones are refused. The port is kept from others."""
        if self._running is not None:
            self._running.stop()
            self._running = None
            self._caller.close()

    def resume(self) -> None:
        """The server is back, on the same port, with everything it stored."""
        if self._running is None:
            self._running = _Running(self._app, self._connections, self._hub, self.port, self._bookmark_seconds)

    def compact(self) -> None:
        """Forget all history: watches and pages from older versions get 410. Open watches go on."""
        self.store.compact()

    def restore(self, version: int) -> None:
        """Go back to how everything was at a version, as after a restore of etcd: watches break, versions begin there.

        A watch from a later version waits in silence until versions are past it, as on the real server.
        """
        with self.store.lock:
            self.store.restore(version)
            self.cut_watches(abruptly=True)

    def cut_watches(self, resource: str | None = None, *, abruptly: bool = False) -> int:
        """End the open watches of a resource, or all; ``abruptly`` breaks their connections. How many there were."""
        cut = [watch for watch in self._hub.watches() if resource in (None, watch.kind.qualified)]
        for watch in cut:
            watch.abrupt = abruptly
            self._hub.close(watch)
        return len(cut)

    def open_watches(self, resource: str | None = None) -> int:
        """How many watches are open now."""
        return sum(resource in (None, watch.kind.qualified) for watch in self._hub.watches())

    def bookmark(self) -> None:
        """Send a bookmark to every watch that allows them, now."""
        self._hub.bookmark()

    def kubeconfig(self, path: Path, *, token: str = "") -> Path:
        """Write a kubeconfig for this server; the answer is its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "embedded", "user": {"token": token or "embedded"}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
        }
        path.write_text(json.dumps(config, indent=1) + "\n")
        return path

    def put(self, obj: Json) -> dict[str, Any]:
        """Create or replace an object as a whole, status included, without HTTP. Raises ``ApiError``."""
        kind = self.kinds.of(obj)
        body = decoded(kind, stored_form(kind, obj))
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "default") if kind.namespaced else ""
        with self.store.lock:
            stored = self.store.get(kind, Key(namespace, metadata.get("name", "")))
            if stored is None:
                stored = self._writer.create(kind, namespace, {**body, "metadata": _without_version(metadata)})
                told = {"status": {**stored.raw.get("status", {}), **body["status"]}} if "status" in body else {}
                body = {**stored.raw, **told}
            else:
                body["metadata"] = {
                    **metadata,
                    **{name: stored.raw["metadata"][name] for name in _SERVERS if name in stored.raw["metadata"]},
                }
            return _copy(kind, self._writer.settle(kind, stored, body))

    def get(self, resource: str, name: str, namespace: str = "") -> dict[str, Any]:
        """A copy of an object (``pods``, ``jobs.batch.volcano.sh``); raises ``ApiError`` 404."""
        kind = self.kinds.named(resource)
        stored = self.store.get(kind, _key(kind, namespace, name))
        if stored is None:
            raise not_found(kind, name)
        return _copy(kind, stored)

    def objects(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        """Copies of all objects of a resource, in order."""
        kind = self.kinds.named(resource)
        return [_copy(kind, stored) for stored in self.store.select(kind, namespace)]

    def delete(self, resource: str, name: str, namespace: str = "", *, grace: int | None = None) -> None:
        """Delete an object as a client would; raises ``ApiError`` 404."""
        kind = self.kinds.named(resource)
        with self.store.lock:
            self._writer.delete(kind, _key(kind, namespace, name), DeleteOptions(grace=grace))


_SERVERS: Final = ("namespace", "uid", "resourceVersion", "creationTimestamp", "generation")


def _key(kind: ResourceKind, namespace: str, name: str) -> Key:
    return Key((namespace or "default") if kind.namespaced else "", name)


def _without_version(metadata: Json) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != "resourceVersion"}


def _copy(kind: ResourceKind, stored: Stored) -> dict[str, Any]:
    copied: dict[str, Any] = orjson.loads(rendered(kind, stored))
    return copied


def _bound(port: int) -> socket.socket:
    """A socket that has the port without listening.

    While it is held, no other process gets the port, and a client that connects during a pause cannot be given it as
    its own end, which would let it talk to itself. The protocol is named because asyncio turns Nagle's algorithm off
    only then; with it each answer takes 40 ms.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise
    return bound


class _Uvicorn(uvicorn.Server):
    """uvicorn in a thread that says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.ready.set()


class _Running:
    """One stretch of serving, from start or resume to pause or stop."""

    def __init__(self, app: App, connections: ClientConnections, hub: Hub, port: int, bookmark_seconds: float) -> None:
        self._connections = connections
        self._hub = hub
        self._every = bookmark_seconds
        config = uvicorn.Config(
            app,
            http=connections.protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=600,
            timeout_graceful_shutdown=1,
            backlog=4096,
        )
        self._server = _Uvicorn(config)
        listening = _bound(port)
        listening.listen(4096)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="embedded-apiserver", daemon=True
        )
        self._thread.start()
        if not self._server.ready.wait(_START_SECONDS) or self._server.loop is None:
            raise ApiServerError(f"the embedded API server on port {port} did not start in {_START_SECONDS:.0f} s")
        self._loop = self._server.loop
        self._loop.call_soon_threadsafe(self._tick)

    def stop(self) -> None:
        """Break everything off and wait for the thread."""
        asyncio.run_coroutine_threadsafe(self._break(), self._loop)
        self._thread.join()

    async def _break(self) -> None:
        try:
            await accept_no_more(self._server.servers)
            for server in self._server.servers:
                server.close()
            for watch in self._hub.watches():
                self._hub.close(watch)
            self._connections.break_all()
        finally:
            self._server.should_exit = True

    def _tick(self) -> None:
        self._loop.call_later(self._every, self._beat)

    def _beat(self) -> None:
        self._hub.bookmark()
        self._tick()
