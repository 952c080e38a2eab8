"""One case's world: a plugin of its own, pods of its own, and words for what is to be seen of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet import podresources_pb2 as listing
from hami_plugins.node.kubelet.podresources_pb2_grpc import PodResourcesListerStub
from hami_plugins.node.kubelet.sockets import CHECKPOINT
from tests.contract.kubelet.plugin import ScriptedPlugin
from tests.contract.kubelet.port import KubeletUnderTest
from tests.waiting import PATIENCE

Found = TypeVar("Found")
Raw = dict[str, Any]

NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A container of a pod: how many devices it asks for, what it runs, and which kind it is."""

    name: str
    devices: int = 1
    command: tuple[str, ...] = ("sleep", "100000")
    init: bool = False
    sidecar: bool = False

    def raw(self, resource: str) -> Raw:
        made: Raw = {"name": self.name, "command": list(self.command)}
        if self.devices:
            made["resources"] = {"limits": {resource: str(self.devices)}}
        return made | ({"restartPolicy": "Always"} if self.sidecar else {})


def app(name: str, devices: int = 1, command: tuple[str, ...] = ("sleep", "100000")) -> Wanted:
    """An ordinary container."""
    return Wanted(name=name, devices=devices, command=command)


def init(name: str, devices: int = 1) -> Wanted:
    """An init container that ends well."""
    return Wanted(name=name, devices=devices, command=("true",), init=True)


def sidecar(name: str, devices: int = 1) -> Wanted:
    """An init container that goes on."""
    return Wanted(name=name, devices=devices, init=True, sidecar=True)


@dataclass(slots=True)
class Trial:
    """Use it as a context manager: pods and plugins are gone afterwards."""

    kubelet: KubeletUnderTest
    name: str
    plugin: ScriptedPlugin = field(init=False)
    _pods: list[str] = field(default_factory=list)
    _plugins: list[ScriptedPlugin] = field(default_factory=list)
    _specs: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plugin = self.another_plugin(f"contract.example/{self.name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._pods:
            self._ask_to_go(name)
        for name in self._pods:
            self.delete(name)
        for plugin in self._plugins:
            plugin.stop()
        for path in self._specs:
            path.unlink(missing_ok=True)

    def another_plugin(self, resource: str, *, socket: str = "") -> ScriptedPlugin:
        """One more plugin, with four devices, not yet started."""
        directory = self.kubelet.plugin_directory
        made = ScriptedPlugin(directory, resource, {f"slot-{n}": True for n in range(4)}, socket=socket)
        self._plugins.append(made)
        return made

    def start_plugin(self) -> ScriptedPlugin:
        """The case's plugin registers, and the node shows it."""
        self.plugin.start()
        self.sees_node(capacity=len(self.devices()), allocatable=len(self.devices()))
        return self.plugin

    def devices(self) -> dict[str, bool]:
        """What the plugin offers at first."""
        return {f"slot-{n}": True for n in range(4)}

    def pod(self, name: str, *containers: Wanted, restart_policy: str = "Always", **more: Any) -> Raw:
        """Creates a pod on the node and gives it as stored."""
        full = f"{self.name}-{name}"
        spec: Raw = {
            "nodeName": self.kubelet.node,
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 1,  # with 0 a pod is gone before its kubelet knows
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [each.raw(self.plugin.resource) for each in containers if each.init],
            "containers": [each.raw(self.plugin.resource) for each in containers if not each.init],
            **more,
        }
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": full, "namespace": NAMESPACE}, "spec": spec}
        self._pods.append(full)
        return dict(self.kubelet.api.create(paths.pods(NAMESPACE), self.kubelet.manifest(raw)))

    def delete(self, name: str) -> None:
        """Deletes a pod and waits until it is gone."""
        full = name if name.startswith(f"{self.name}-") else f"{self.name}-{name}"
        self._ask_to_go(full)
        self.until(lambda: self._absent(paths.pod(NAMESPACE, full)), f"pod {full} is gone")

    def see(self, pod: Raw) -> Raw:
        """The pod as it is now."""
        metadata = pod["metadata"]
        return dict(self.kubelet.api.get(paths.pod(metadata["namespace"], metadata["name"])))

    def phase(self, pod: Raw, phase: str) -> Raw:
        """Waits for a phase; the pod then."""
        return self.until(lambda: self._in(pod, phase), f"pod {pod['metadata']['name']} is {phase}")

    def state(self, pod: Raw, container: str) -> Mapping[str, Any]:
        """A container's status now; empty before there is one."""
        status = self.see(pod).get("status") or {}
        every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        return next((each for each in every if each["name"] == container), {})

    def waits(self, pod: Raw, container: str, reason: str) -> str:
        """Waits until a container waits for a reason; the message."""
        return self.until(lambda: self._waiting(pod, container, reason), f"{container} waits: {reason}")

    def sees_node(self, *, capacity: int, allocatable: int) -> None:
        """Waits until the node has so many of the plugin's devices."""
        wanted = (str(capacity), str(allocatable))
        self.until(lambda: self.node_amounts() == wanted or None, f"the node has {wanted}")

    def node_amounts(self, resource: str = "") -> tuple[str | None, str | None]:
        """Capacity and allocatable of a resource, the plugin's unless said."""
        status = self.kubelet.api.get(paths.node(self.kubelet.node))["status"]
        name = resource or self.plugin.resource
        return (status.get("capacity") or {}).get(name), (status.get("allocatable") or {}).get(name)

    def knows_devices(self) -> bool:
        """Whether the kubelet has the plugin's list; until then a kubelet that remembers nothing admits any pod."""
        with self._pod_resources() as channel:
            answer = PodResourcesListerStub(channel).GetAllocatableResources(
                listing.AllocatableResourcesRequest(), timeout=PATIENCE, wait_for_ready=True
            )
        return any(devices.resource_name == self.plugin.resource for devices in answer.devices)

    def listed(self) -> dict[str, dict[str, list[str]]]:
        """What pod-resources says of this case's pods: pod to container to ids."""
        with self._pod_resources() as channel:
            answer = PodResourcesListerStub(channel).List(
                listing.ListPodResourcesRequest(), timeout=PATIENCE, wait_for_ready=True
            )
        return {
            pod.name.removeprefix(f"{self.name}-"): {
                container.name: sorted(one for devices in container.devices for one in devices.device_ids)
                for container in pod.containers
            }
            for pod in answer.pod_resources
            if pod.name.startswith(f"{self.name}-")
        }

    def recorded(self, pod: Raw) -> dict[str, checkpoint.CheckpointEntry]:
        """What the kubelet's checkpoint says of a pod, by container."""
        found = checkpoint.decode((self.kubelet.plugin_directory / CHECKPOINT).read_bytes())
        return {entry.container: entry for entry in found.entries if entry.pod_uid == pod["metadata"]["uid"]}

    def write_spec(self, file: str, device: str, env: Mapping[str, str], mounts: Mapping[str, str]) -> str:
        """A CDI spec file of one device, put in place as a whole; the device's full name."""
        kind = "contract.example/slot"
        edits = {
            "env": [f"{name}={value}" for name, value in env.items()],
            "mounts": [
                {"hostPath": host, "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
                for inside, host in mounts.items()
            ],
        }
        spec = {"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": device, "containerEdits": edits}]}
        path = self.kubelet.cdi_directory / f"{self.name}-{file}.json"
        self._specs.append(path)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(spec))
        unfinished.replace(path)
        return f"{kind}={device}"

    def plugin_comes_back(self) -> None:
        """After a restart of the kubelet the plugin serves a new socket and registers again."""
        self.plugin.stop()
        self.plugin.start()

    def until(self, look: Callable[[], Found | None], what: str) -> Found:
        """Looks again and again until there is something to be seen."""
        deadline = time.monotonic() + self.kubelet.patience
        while (found := look()) is None:
            assert time.monotonic() < deadline, f"after {self.kubelet.patience} s still not: {what}"
            time.sleep(self._pause)
        return found

    def throughout(self, holds: Callable[[], bool], what: str) -> None:
        """Looks for a while whether something stays as it is."""
        deadline = time.monotonic() + self.kubelet.quiet
        while time.monotonic() < deadline:
            assert holds(), f"no longer: {what}"
            time.sleep(self._pause)

    def _pod_resources(self) -> grpc.Channel:
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"unix://{self.kubelet.pod_resources_socket}", options=options)

    @property
    def _pause(self) -> float:
        """Between two looks: the more patient the case, the fewer questions."""
        return self.kubelet.patience / 3000

    def _ask_to_go(self, full: str) -> None:
        try:
            self.kubelet.api.delete(paths.pod(NAMESPACE, full))
        except KubeError as error:
            if error.status != 404:
                raise

    def _in(self, pod: Raw, phase: str) -> Raw | None:
        seen = self.see(pod)
        return seen if seen["status"]["phase"] == phase else None

    def _waiting(self, pod: Raw, container: str, reason: str) -> str | None:
        waiting = (self.state(pod, container).get("state") or {}).get("waiting") or {}
        return str(waiting.get("message")) if waiting.get("reason") == reason else None

    def _absent(self, path: str) -> bool | None:
        try:
            self.kubelet.api.get(path)
        except KubeError as error:
            if error.status == 404:
                return True
            raise
        return None
