"""AWS's device plugin for Neuron as a peer: it serves the real kubelet over the device plugin API, without a device.

The kubelet's call names no pod. So the plugin takes the pod of its node that the allocator has annotated for as many
devices, that is not marked as served, and that was bound first; it hands out what the annotation names, whichever ids
the kubelet has chosen, and marks the pod. In place of each ``/dev/neuronN`` a container finds ``/dev/null``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from tests.cluster.api import Api, Object
from tests.contract.kubelet.plugin import RefusedError, ScriptedPlugin
from tests.device_plugins.base import PODS, notes_of, path_of

DEVICES, CORES, EFA = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "vpc.amazonaws.com/efa"
IDS, SERVED, BOUND_AT = "AWS_NEURON_IDS", "NEURON_ALLOCATED", "NEURON_ALLOC_TIME"
VISIBLE: Final = "AWS_NEURON_VISIBLE_DEVICES"
"""The variable in which containers find the devices; in ``NEURON_RT_VISIBLE_CORES`` AWS's plugin names their cores."""


class NeuronPlugin:
    """The plugin of one node with so many of each resource, for the time of a ``with``; ``directory`` is the kubelet's.

    Containers that ask for whole devices alone are served; cores and EFA interfaces are only offered.
    """

    def __init__(self, api: Api, node: str, directory: Path, *, devices: int, cores: int, efa: int) -> None:
        self._api = api
        self._node = node
        self._mutex = threading.Lock()
        amounts = {DEVICES: devices, CORES: cores, EFA: efa}
        self._plugins = {name: self._of(directory, name, count) for name, count in amounts.items()}
        self._plugins[DEVICES].allocate = self._hand_out

    def __enter__(self) -> NeuronPlugin:
        for plugin in self._plugins.values():
            plugin.start()
        return self

    def __exit__(self, *_: object) -> None:
        for plugin in self._plugins.values():
            plugin.stop()

    def withdraw(self) -> None:
        """It offers no devices any more: the kubelet goes on to count those of a plugin that only ends, for minutes."""
        for plugin in self._plugins.values():
            plugin.offer({})

    @staticmethod
    def _of(directory: Path, resource: str, count: int) -> ScriptedPlugin:
        """It has no preference among ids, and is not asked before containers start."""
        name = resource.rpartition("/")[2]
        plugin = ScriptedPlugin(directory, resource, {f"{name}-{at:02}": True for at in range(count)})
        plugin.options = messages.DevicePluginOptions()
        plugin.allocate = lambda ids: messages.ContainerAllocateResponse()
        return plugin

    def _hand_out(self, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        with self._mutex:
            pod = self._waiting(len(ids))
            self._api.merge_patch(path_of(pod), {"metadata": {"annotations": {SERVED: "true"}}})
        named = notes_of(pod)[IDS]
        files = [
            messages.DeviceSpec(container_path=f"/dev/neuron{number}", host_path="/dev/null", permissions="rw")
            for number in named.split(",")
        ]
        return messages.ContainerAllocateResponse(envs={VISIBLE: named}, devices=files)

    def _waiting(self, count: int) -> Object:
        """The pod that was bound first of those that wait for so many devices. Raises ``RefusedError``."""
        found = self._api.items(PODS, fieldSelector=f"spec.nodeName={self._node},status.phase=Pending")
        waits = [
            pod
            for pod in found
            if notes_of(pod).get(SERVED) == "false" and len(notes_of(pod).get(IDS, "").split(",")) == count
        ]
        if not waits:
            raise RefusedError(f"no pod of {self._node} waits for {count} devices")
        return min(waits, key=lambda pod: int(notes_of(pod)[BOUND_AT]))
