"""A scripted device plugin that records its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import grpc

from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)
from hami_plugins.node.kubelet.sockets import API_VERSION, HEALTHY, KUBELET_SOCKET, UNHEALTHY
from tests.waiting import PATIENCE


class Call(NamedTuple):
    """One call of the kubelet; ``available`` only where the kubelet asks for a preference."""

    verb: str
    ids: tuple[str, ...]
    available: tuple[str, ...] = ()


class RefusedError(Exception):
    """Raised by a hook: the kubelet gets it as INTERNAL with this text."""


class ScriptedPlugin(DevicePluginServicer):
    """Serves ``devices`` (id to healthy) of ``resource``.

    The hooks get the ids and may raise ``RefusedError``; ``prefer`` gets what is available and the size.
    """

    def __init__(self, directory: Path, resource: str, devices: dict[str, bool], *, socket: str = "") -> None:
        self.directory = directory
        self.resource = resource
        self.socket = socket or f"{resource.replace('/', '-')}.sock"
        self.options = messages.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        self.prefer: Callable[[Sequence[str], int], Sequence[str]] = lambda available, size: sorted(available)[:size]
        self.allocate: Callable[[Sequence[str]], messages.ContainerAllocateResponse] = lambda ids: (
            messages.ContainerAllocateResponse(envs={"IDS": ",".join(sorted(ids))})
        )
        self.pre_start: Callable[[Sequence[str]], object] = lambda ids: None
        self.streams_begun = 0
        self.streams_ended = 0
        self._devices = dict(devices)
        self._calls: list[Call] = []
        self._changed = threading.Condition()
        self._version = 0
        self._serving = False
        self._server: grpc.Server | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """Everything that was asked so far, oldest first."""
        with self._changed:
            return tuple(self._calls)

    def verbs(self, *wanted: str) -> list[Call]:
        """The calls of some verbs."""
        return [call for call in self.calls if call.verb in wanted]

    def serve(self) -> None:
        """Opens the socket (again)."""
        path = self.directory / self.socket
        path.unlink(missing_ok=True)
        self._serving = True
        self._server = grpc.server(ThreadPoolExecutor(8, "scripted-plugin"))
        add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()

    def register(self, *, version: str = API_VERSION) -> None:
        """Registers with the kubelet; raises ``grpc.RpcError`` if it refuses."""
        request = messages.RegisterRequest(
            version=version, endpoint=self.socket, resource_name=self.resource, options=self.options
        )
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix://{self.directory / KUBELET_SOCKET}", options=options) as channel:
            RegistrationStub(channel).Register(request, timeout=PATIENCE, wait_for_ready=True)

    def start(self) -> None:
        """Serves and registers."""
        self.serve()
        self.register()

    def stop(self) -> None:
        """Goes away as a process that ends: its streams break, its socket file stays."""
        with self._changed:
            self._serving = False
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def offer(self, devices: dict[str, bool]) -> None:
        """From now on these are the devices."""
        with self._changed:
            self._devices = dict(devices)
            self._version += 1
            self._changed.notify_all()

    def GetDevicePluginOptions(  # noqa: N802 - gRPC's name
        self, request: messages.Empty, context: grpc.ServicerContext
    ) -> messages.DevicePluginOptions:
        return self.options

    def ListAndWatch(  # noqa: N802 - gRPC's name
        self, request: messages.Empty, context: grpc.ServicerContext
    ) -> Iterator[messages.ListAndWatchResponse]:
        context.add_callback(self._stream_ended)
        self.streams_begun += 1
        told = -1
        while self._serving and context.is_active():
            with self._changed:
                if told == self._version:
                    self._changed.wait(0.1)
                    continue
                told = self._version
                devices = [
                    messages.Device(ID=name, health=HEALTHY if good else UNHEALTHY)
                    for name, good in self._devices.items()
                ]
            yield messages.ListAndWatchResponse(devices=devices)

    def GetPreferredAllocation(  # noqa: N802 - gRPC's name
        self, request: messages.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> messages.PreferredAllocationResponse:
        asked = request.container_requests[0]
        self._note(Call("GetPreferredAllocation", (), tuple(asked.available_deviceIDs)))
        chosen = self.prefer(asked.available_deviceIDs, asked.allocation_size)
        return messages.PreferredAllocationResponse(
            container_responses=[messages.ContainerPreferredAllocationResponse(deviceIDs=chosen)]
        )

    def Allocate(  # noqa: N802 - gRPC's name
        self, request: messages.AllocateRequest, context: grpc.ServicerContext
    ) -> messages.AllocateResponse:
        ids = tuple(sorted(request.container_requests[0].devices_ids))
        assert len(request.container_requests) == 1
        self._note(Call("Allocate", ids))
        try:
            return messages.AllocateResponse(container_responses=[self.allocate(ids)])
        except RefusedError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
            raise

    def PreStartContainer(  # noqa: N802 - gRPC's name
        self, request: messages.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> messages.PreStartContainerResponse:
        ids = tuple(sorted(request.devices_ids))
        self._note(Call("PreStartContainer", ids))
        try:
            self.pre_start(ids)
        except RefusedError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
        return messages.PreStartContainerResponse()

    def _note(self, call: Call) -> None:
        with self._changed:
            self._calls.append(call)

    def _stream_ended(self) -> None:
        with self._changed:
            self.streams_ended += 1
            self._changed.notify_all()
