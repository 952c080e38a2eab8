"""The agent's side of the kubelet's plugin directory: its socket, its registration, and the kubelet's record.

A kubelet that starts removes every plugin's socket and makes its own anew; the inode may be the same as before, the
time of its change is not (``trials.md`` K4). Then a new socket is served and registered, as fast as the directory
is looked at: until then every pod that comes is rejected for good. A kubelet can also drop a plugin that it has just
taken: the end of an older plugin's connection for the same resource does that (seen on 1.34.4). Who is not listened to
for a moment registers again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import grpc
import structlog

from hami_plugins.errors import KubeletError, WireError
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import checkpoint, sockets
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.checkpoint import Checkpoint
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import (
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)
from hami_plugins.node.kubelet.grpc_server import UnixServer
from volcano_vgpu.agent.server import OPTIONS, VolcanoDevicePlugin

SOCKET: Final = "volcano-vgpu.sock"
OTHER_SOCKET: Final = "volcano-vgpu-other.sock"
"""Where pods of the dialect that the node spoke before are served."""

POLL_SECONDS: Final = 0.4
REGISTER_SECONDS: Final = 5.0
UNHEARD_SECONDS: Final = 1.0
"""Time without a listening kubelet before the plugin registers again; a kubelet listens within milliseconds. Each
failed try doubles it, so that an overloaded machine is left alone."""

MOST_UNHEARD_SECONDS: Final = 30.0
END_SECONDS: Final = 0.5
"""How long a call may go on when the socket is served anew: a broken ``Allocate`` rejects its pod for good."""
WORKERS: Final = 16
"""Calls at the same time; each open ``ListAndWatch`` is one, and each pod that starts another."""

_log = structlog.get_logger(__name__)


class _Identity(NamedTuple):
    """The identity of a socket file, which distinguishes it from another that has the same name."""

    inode: int
    changed: int


class DevicePluginServer:
    """Serves a device plugin for as long as it runs, to one kubelet after the other.

    ``registered`` is set while a kubelet knows it.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each thing that a test may want otherwise
        self,
        plugin: VolcanoDevicePlugin,
        *,
        directory: Path,
        resource: str,
        socket: str = SOCKET,
        poll: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugin = plugin
        self._directory = directory
        self._resource = resource
        self._socket = socket
        self._poll = poll
        self._clock = clock
        self._heard = clock()
        self._patience = UNHEARD_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._server: UnixServer | None = None
        self.registered = threading.Event()

    def start(self) -> None:
        """Begin to look for a kubelet."""
        self._thread.start()

    def stop(self, grace: float = 2.0) -> None:
        """Stop serving; calls that are under way have ``grace`` seconds to end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._plugin.close()
        self._end(grace)

    def _run(self) -> None:
        """Serve and register whenever there is a kubelet that does not know this plugin."""
        known: tuple[_Identity | None, _Identity | None] | None = None
        while not self._stop.is_set():
            try:
                now = self._seen()
                if now[0] is not None and (now != known or self._unheard()):
                    known = self._introduced()
                elif now[0] is None and known is not None:
                    self.registered.clear()
                    known = None
            except Exception:  # noqa: BLE001 - the outermost loop: without it no kubelet would ever know the plugin again
                _log.exception("endpoint_failed")
                self.registered.clear()
                known = None
            self._stop.wait(self._poll)

    def _unheard(self) -> bool:
        """Whether no server has listened for too long."""
        now = self._clock()
        if self._plugin.listening:
            self._heard, self._patience = now, UNHEARD_SECONDS
        if now - self._heard <= self._patience:
            return False
        self._patience = min(2 * self._patience, MOST_UNHEARD_SECONDS)
        return True

    def _seen(self) -> tuple[_Identity | None, _Identity | None]:
        """The kubelet's socket and our own, as they are now."""
        return _identity(self._directory / sockets.KUBELET_SOCKET), _identity(self._directory / self._socket)

    def _introduced(self) -> tuple[_Identity | None, _Identity | None] | None:
        """Serve a new socket and register it; ``None`` where the kubelet did not take it, and it is tried again."""
        self.registered.clear()
        self._heard = self._clock()
        kubelet = _identity(self._directory / sockets.KUBELET_SOCKET)
        try:
            self._end(END_SECONDS)
            self._serve()
            # Before the socket is announced: any removal from now on is noticed.
            own = _identity(self._directory / self._socket)
            self._register()
        except (KubeletError, OSError, RuntimeError) as error:
            _log.warning("registration_failed", resource=self._resource, error=str(error))
            return None
        _log.info("registered", resource=self._resource, socket=self._socket)
        self.registered.set()
        return None if own is None else (kubelet, own)

    def _serve(self) -> None:
        path = self._directory / self._socket
        path.unlink(missing_ok=True)
        self._server = UnixServer(
            path,
            lambda server: add_DevicePluginServicer_to_server(self._plugin, server),
            workers=WORKERS,
            name="plugin",
        )

    def _register(self) -> None:
        request = messages.RegisterRequest(
            version=sockets.API_VERSION, endpoint=self._socket, resource_name=self._resource, options=OPTIONS
        )
        with grpc.insecure_channel(f"unix://{self._directory / sockets.KUBELET_SOCKET}") as channel:
            try:
                RegistrationStub(channel).Register(request, timeout=REGISTER_SECONDS)
            except grpc.RpcError as error:
                raise KubeletError(f"Register: {error.code().name}: {error.details()}") from error

    def _end(self, grace: float) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop(grace)
        self.registered.clear()


class CheckpointReader:
    """The kubelet's record, read again only when the file is another one."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / sockets.CHECKPOINT
        self._lock = threading.Lock()
        self._last: tuple[tuple[int, int, int], Checkpoint] | None = None

    def read(self) -> Checkpoint:
        """The record as it is now. Raises ``OSError`` and ``WireError``; one bad entry is passed over and logged.

        A kubelet that never allocated anything has no record yet.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return Checkpoint()
        key = (found.st_ino, found.st_mtime_ns, found.st_size)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        record = checkpoint.decode(self._path.read_bytes())
        for problem in record.unreadable:
            _log.warning("checkpoint_entry_unreadable", problem=problem)
        with self._lock:
            self._last = (key, record)
        return record

    def pods(self) -> frozenset[PodUid] | None:
        """The pods in the record; ``None`` where it cannot be read."""
        try:
            return frozenset(entry.pod_uid for entry in self.read().entries)
        except (OSError, WireError) as error:
            _log.warning("checkpoint_unreadable", path=str(self._path), error=str(error))
            return None


def _identity(path: Path) -> _Identity | None:
    """What is there; a directory that cannot be looked into has nothing for now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _Identity(found.st_ino, found.st_ctime_ns)
