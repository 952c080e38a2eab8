"""The kubelet as a client of device plugins: one connection for each resource, and the calls it makes over it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import grpc
import structlog

from hami_plugins.errors import KubeletError
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.deviceplugin_pb2_grpc import DevicePluginStub

_log = structlog.get_logger(__name__)

LARGEST_MESSAGE: Final = 4 << 20
"""Bytes that the kubelet takes in one message; a longer list of devices ends its stream."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.use_local_subchannel_pool", 1),  # a new socket under an old path is another plugin
)


def refusal_text(error: grpc.RpcError) -> str:
    """The error as a kubelet, being written in Go, prints it."""
    words = error.code().name.split("_")
    code = "Canceled" if words == ["CANCELLED"] else "".join(word.title() for word in words)
    return f"rpc error: code = {code} desc = {error.details()}"


class PluginEndpoint:
    """A plugin's end of the line. It stops once and for all when the plugin goes away or another takes its place."""

    def __init__(self, resource: str, socket: Path | None, *, pre_start_timeout: float) -> None:
        self.resource = resource
        self.options = messages.DevicePluginOptions()
        self._pre_start_timeout = pre_start_timeout
        self._stopped = threading.Event()
        self._channel: grpc.Channel | None = None
        if socket is None:
            self._stopped.set()
        else:
            self._channel = grpc.insecure_channel(f"unix://{socket}", options=_OPTIONS)
            self._stub = DevicePluginStub(self._channel)

    @property
    def stopped(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._stopped.is_set()

    def connect(self, *, timeout: float) -> None:
        """Waits for the plugin and asks for its options; raises ``KubeletError``."""
        if self._channel is None:
            raise KubeletError(f"endpoint {self.resource} has been stopped")
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout)
        except grpc.FutureTimeoutError:
            raise KubeletError("failed to dial device plugin: context deadline exceeded") from None
        try:
            self.options = self._stub.GetDevicePluginOptions(messages.Empty())
        except grpc.RpcError as error:
            raise KubeletError(f"failed to get device plugin options: {refusal_text(error)}") from error

    def watch(self, on_list: Callable[[Sequence[messages.Device]], None]) -> None:
        """Hands on each list of devices until the plugin ends, breaks or overfills the stream."""
        try:
            for answer in self._stub.ListAndWatch(messages.Empty()):
                on_list(answer.devices)
            why = "EOF"
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed before the call
            why = refusal_text(error) if isinstance(error, grpc.RpcError) else str(error)
        _log.info("list_and_watch_ended", resource=self.resource, reason=why)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> tuple[str, ...]:
        """Which devices the plugin would rather give; raises ``KubeletError``."""
        request = messages.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        self._check()
        try:
            answer: messages.PreferredAllocationResponse = self._stub.GetPreferredAllocation(
                messages.PreferredAllocationRequest(container_requests=[request])
            )
        except (grpc.RpcError, ValueError) as error:
            raise self._broken("device plugin GetPreferredAllocation rpc failed with err: ", error) from error
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    def allocate(self, ids: Iterable[str]) -> messages.ContainerAllocateResponse:
        """The container settings for these devices; raises ``KubeletError``."""
        self._check()
        request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=ids)])
        try:
            answer: messages.AllocateResponse = self._stub.Allocate(request)
        except (grpc.RpcError, ValueError) as error:
            raise self._broken("", error) from error
        if not answer.container_responses:
            raise KubeletError(f"no containers return in allocation response {answer}")
        return answer.container_responses[0]

    def pre_start(self, ids: Iterable[str]) -> None:
        """Notifies the plugin that a container with these devices is about to start; raises ``KubeletError``."""
        prefix = "device plugin PreStartContainer rpc failed with err: "
        if self.stopped:
            raise KubeletError(f"{prefix}endpoint {self.resource} has been stopped")
        try:
            self._stub.PreStartContainer(
                messages.PreStartContainerRequest(devices_ids=ids), timeout=self._pre_start_timeout
            )
        except (grpc.RpcError, ValueError) as error:
            raise self._broken(prefix, error) from error

    def stop(self) -> None:
        """Hangs up; whatever is being asked ends with an error."""
        self._stopped.set()
        if self._channel is not None:
            self._channel.close()

    def _check(self) -> None:
        if self.stopped:
            raise KubeletError(f"endpoint {self.resource} has been stopped")

    def _broken(self, prefix: str, error: grpc.RpcError | ValueError) -> KubeletError:
        text = refusal_text(error) if isinstance(error, grpc.RpcError) else f"endpoint {self.resource} has been stopped"
        return KubeletError(f"{prefix}{text}")
