"""Which container holds which device, read from the kubelet's pod-resources socket.

Init containers that have no ``restartPolicy: Always`` never stand there, and pods carry no UID. The kubelet answers a
hundred calls a second for all clients together (``trials.md`` K11), so a refusal here is ordinary.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import grpc

from hami_plugins.errors import KubeletError
from hami_plugins.node.kubelet import podresources_pb2 as messages
from hami_plugins.node.kubelet.podresources_pb2_grpc import PodResourcesListerStub
from hami_plugins.node.kubelet.sockets import POD_RESOURCES_SOCKET

LARGEST_ANSWER: Final = 64 << 20
"""Bytes; big nodes exceed gRPC's default of 4 MiB."""


class ContainerDevices(NamedTuple):
    """What a container holds of one resource; both are empty for a container that holds nothing."""

    namespace: str
    pod: str
    container: str
    resource: str = ""
    device_ids: frozenset[str] = frozenset()


class PodResources:
    """A connection to the socket; it may be made before the kubelet is there."""

    def __init__(self, socket: Path = POD_RESOURCES_SOCKET) -> None:
        self._channel = grpc.insecure_channel(
            f"unix://{socket}", options=[("grpc.max_receive_message_length", LARGEST_ANSWER)]
        )
        self._stub = PodResourcesListerStub(self._channel)

    def list(self, *, timeout: float) -> tuple[ContainerDevices, ...]:
        """Every container of the node's pods; ``timeout`` in seconds. Raises ``KubeletError``."""
        try:
            answer: messages.ListPodResourcesResponse = self._stub.List(
                messages.ListPodResourcesRequest(), timeout=timeout
            )
        except grpc.RpcError as error:
            raise KubeletError(f"pod-resources List: {error.code().name}: {error.details()}") from error
        return tuple(held for pod in answer.pod_resources for held in _held(pod))

    def close(self) -> None:
        """Give the connection back."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _held(pod: messages.PodResources) -> list[ContainerDevices]:
    found: list[ContainerDevices] = []
    for container in pod.containers:
        by_resource: dict[str, set[str]] = {}
        for device in container.devices:
            by_resource.setdefault(device.resource_name, set()).update(device.device_ids)
        if not by_resource:
            found.append(ContainerDevices(pod.namespace, pod.name, container.name))
        found.extend(
            ContainerDevices(pod.namespace, pod.name, container.name, resource, frozenset(ids))
            for resource, ids in sorted(by_resource.items())
        )
    return found
