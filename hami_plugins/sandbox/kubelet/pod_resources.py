"""pod-resources/kubelet.sock: the kubelet's answer to which container holds which device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from hami_plugins.node.kubelet import podresources_pb2 as messages
from hami_plugins.node.kubelet.grpc_server import UnixServer
from hami_plugins.node.kubelet.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from hami_plugins.sandbox.kubelet.devices import DeviceRecords
from hami_plugins.sandbox.kubelet.specs import PodSpec, Role


class Rate(NamedTuple):
    """Calls a second, and how many may come at once."""

    per_second: float = 100.0
    burst: int = 10


class Limiter:
    """A bucket of tokens that fills up with time."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(rate.burst)
        self._seen = clock()

    def allow(self) -> bool:
        """Whether one more call may pass now."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._rate.burst, self._tokens + (now - self._seen) * self._rate.per_second)
            self._seen = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class PodResourcesServer(PodResourcesListerServicer):
    """Serves the socket from the book. ``active`` gives the pods that have not ended, those under admission included.

    As in the real kubelet a List frees (``release``) the devices of pods that are gone. Init containers that end never
    appear, pods carry no UID, and all clients together share one rate limit (``None``: no limit).
    """

    def __init__(  # noqa: PLR0913 - wiring
        self,
        socket: Path,
        book: DeviceRecords,
        *,
        active: Callable[[], Sequence[PodSpec]],
        release: Callable[[], None],
        rate: Rate | None,
        clock: Callable[[], float],
    ) -> None:
        self._socket = socket
        self._book = book
        self._active = active
        self._release = release
        self._limiter = None if rate is None else Limiter(rate, clock)
        self._server: UnixServer | None = None

    def start(self) -> None:
        """Opens the socket."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        self._server = UnixServer(
            self._socket,
            lambda server: add_PodResourcesListerServicer_to_server(self, server),
            workers=8,
            name="kubelet-pod-resources",
        )

    def stop(self) -> None:
        """Closes it."""
        if self._server is not None:
            self._server.stop()

    def List(  # noqa: N802 - gRPC's name
        self, _request: messages.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> messages.ListPodResourcesResponse:
        """Every active pod."""
        self._limit(context)
        pods = self._active()
        self._release()
        return messages.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in pods])

    def Get(  # noqa: N802 - gRPC's name
        self, request: messages.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> messages.GetPodResourcesResponse:
        """One pod by its name."""
        self._limit(context)
        wanted = (request.pod_namespace, request.pod_name)
        for pod in self._active():
            if (pod.namespace, pod.name) == wanted:
                return messages.GetPodResourcesResponse(pod_resources=self._pod(pod))
        context.abort(grpc.StatusCode.UNKNOWN, f"pod {wanted[1]} in namespace {wanted[0]} not found")
        raise AssertionError  # abort has raised

    def GetAllocatableResources(  # noqa: N802 - gRPC's name
        self, _request: messages.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> messages.AllocatableResourcesResponse:
        """The healthy devices, whether given out or not."""
        self._limit(context)
        return messages.AllocatableResourcesResponse(
            devices=[
                messages.ContainerDevices(resource_name=resource, device_ids=[device])
                for resource, ids in self._book.allocatable().items()
                for device in ids
            ]
        )

    def _limit(self, context: grpc.ServicerContext) -> None:
        if self._limiter is not None and not self._limiter.allow():
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _pod(self, pod: PodSpec) -> messages.PodResources:
        return messages.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[
                messages.ContainerResources(name=container.name, devices=self._devices(pod.uid, container.name))
                for container in pod.containers
                if container.role is not Role.INIT
            ],
        )

    def _devices(self, uid: str, container: str) -> list[messages.ContainerDevices]:
        return [
            messages.ContainerDevices(resource_name=resource, device_ids=[device])
            for resource, entry in self._book.held(uid, container).items()
            for device in sorted(entry.device_ids)
        ]
