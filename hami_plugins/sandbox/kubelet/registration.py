"""kubelet.sock: where plugins register, and the connections that come of it."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import structlog

from hami_plugins.errors import KubeletError
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server
from hami_plugins.node.kubelet.grpc_server import UnixServer
from hami_plugins.node.kubelet.sockets import API_VERSION, CHECKPOINT, HEALTHY, KUBELET_SOCKET
from hami_plugins.sandbox.kubelet.devices import DeviceRecords
from hami_plugins.sandbox.kubelet.plugins import PluginEndpoint
from hami_plugins.sandbox.kubelet.specs import is_extended
from hami_plugins.sandbox.kubelet.times import Times

_log = structlog.get_logger(__name__)


class Registrations(RegistrationServicer):
    """Takes plugins in and listens to them.

    ``on_devices`` is called (without locks held) whenever the book changed. As in the real kubelet, a stream that ends
    disconnects whichever plugin serves the resource at that moment, also one that registered meanwhile.
    """

    def __init__(
        self,
        directory: Path,
        book: DeviceRecords,
        *,
        times: Times,
        clock: Callable[[], float],
        on_devices: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._book = book
        self._times = times
        self._clock = clock
        self._on_devices = on_devices
        self._lock = threading.Lock()
        self._endpoints: dict[str, PluginEndpoint] = {}
        self._connected: dict[str, PluginEndpoint] = {}
        self._listening: list[threading.Thread] = []
        self._server: UnixServer | None = None
        self._over = False

    def start(self) -> None:
        """Removes every socket that lies in the directory and opens kubelet.sock anew."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.name != CHECKPOINT and stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink(missing_ok=True)
        self._server = UnixServer(
            self._directory / KUBELET_SOCKET,
            lambda server: add_RegistrationServicer_to_server(self, server),
            workers=4,
            name="kubelet-registration",
        )

    def stop(self) -> None:
        """Closes the socket and hangs up on all plugins; the book is left as it is."""
        if self._server is not None:
            self._server.stop()
        with self._lock:
            self._over = True
            endpoints = [*self._endpoints.values(), *self._connected.values()]
            listening = list(self._listening)
        for endpoint in endpoints:
            endpoint.stop()
        for thread in listening:
            thread.join()

    def remember(self, resources: Sequence[str]) -> None:
        """Resources of the checkpoint: their plugins have stopped until they register again."""
        with self._lock:
            for resource in resources:
                self._endpoints[resource] = self._endpoint(resource, None)

    def endpoint(self, resource: str) -> PluginEndpoint | None:
        """The newest plugin of a resource, stopped or not; none once the kubelet has given the resource up."""
        with self._lock:
            return self._endpoints.get(resource) if self._book.knows(resource) else None

    def Register(  # noqa: N802 - gRPC's name
        self, request: messages.RegisterRequest, context: grpc.ServicerContext
    ) -> messages.Empty:
        """The plugin is called back before it is answered."""
        resource = request.resource_name
        try:
            _check(request)
            self._connect(resource, self._directory / request.endpoint)
        except KubeletError as error:
            _log.warning("plugin_refused", resource=resource, error=str(error))
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return messages.Empty()

    def _connect(self, resource: str, socket: Path) -> None:
        endpoint = self._endpoint(resource, socket)
        with self._lock:
            self._connected[resource] = endpoint
        try:
            endpoint.connect(timeout=self._times.dial)
        except KubeletError:
            with self._lock:
                self._connected.pop(resource, None)
            endpoint.stop()
            raise
        listening = threading.Thread(target=self._listen, args=(endpoint,), name=f"kubelet-watches-{resource}")
        with self._lock:
            if self._over:
                raise KubeletError("the kubelet is stopping")
            self._endpoints[resource] = endpoint
            self._listening = [thread for thread in self._listening if thread.is_alive()]
            self._listening.append(listening)
            self._book.connect(resource)
            listening.start()
        _log.info("plugin_connected", resource=resource, socket=str(socket))

    def _listen(self, endpoint: PluginEndpoint) -> None:
        resource = endpoint.resource
        endpoint.watch(lambda devices: self._take(endpoint, devices))
        endpoint.stop()
        with self._lock:
            serving = None if self._over else self._connected.pop(resource, None)
            newest = self._endpoints.get(resource)
        if serving is None:
            return
        for one in (serving, newest):
            if one is not None:
                one.stop()
        with self._lock:
            self._book.disconnect(resource, self._clock())
        self._on_devices()

    def _take(self, endpoint: PluginEndpoint, devices: Sequence[messages.Device]) -> None:
        healthy = [device.ID for device in devices if device.health == HEALTHY]
        unhealthy = [device.ID for device in devices if device.health != HEALTHY]
        with self._lock:
            if endpoint.stopped:
                return
            self._book.offer(endpoint.resource, healthy, unhealthy)
        _log.info("devices_listed", resource=endpoint.resource, healthy=len(healthy), unhealthy=len(unhealthy))
        self._on_devices()

    def _endpoint(self, resource: str, socket: Path | None) -> PluginEndpoint:
        return PluginEndpoint(resource, socket, pre_start_timeout=self._times.pre_start)


def _check(request: messages.RegisterRequest) -> None:
    if request.version != API_VERSION:
        raise KubeletError(
            f'requested API version "{request.version}" is not supported by kubelet. '
            f'Supported version is ["{API_VERSION}"]'
        )
    if not is_extended(request.resource_name):
        raise KubeletError(f'the ResourceName "{request.resource_name}" is invalid')
