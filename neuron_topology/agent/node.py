"""Writes the annotations of the agent's own node, when they change and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import structlog

from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.kube.store import Store
from hami_plugins.model.units import NodeName
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from neuron_topology.core.agent.annotations import KEYS, changes
from neuron_topology.core.hardware.machines import MachineHealth
from neuron_topology.core.hardware.neuron_ls import Observation
from neuron_topology.core.names import DEVICES, INSTANCE_LABEL, LEGACY_DEVICES

_log = structlog.get_logger(__name__)


def trimmed(node: Json) -> Json:
    """What the agent reads of its node."""
    metadata, status = lenient.inside(node, "metadata"), lenient.inside(node, "status")
    annotations, labels = lenient.texts(metadata.get("annotations")), lenient.texts(metadata.get("labels"))
    kept = {name: metadata[name] for name in ("name", "uid", "resourceVersion") if name in metadata}
    return {
        "metadata": {
            **kept,
            "annotations": {key: annotations[key] for key in KEYS if key in annotations},
            "labels": {key: labels[key] for key in (INSTANCE_LABEL,) if key in labels},
        },
        "status": {"capacity": lenient.texts(status.get("capacity"))},
    }


class NeuronNodeWriter:
    """``store`` follows the node, ``wrote`` hears of each write; ``trouble`` is why the node is not as it should be."""

    def __init__(self, api: KubeApi, store: Store, node: NodeName, *, wrote: Callable[[], None]) -> None:
        self._api = api
        self._node = node
        self._wrote = wrote
        self._lock = threading.Lock()
        self._current: Json | None = None
        self.trouble = "nothing of the machine is known yet"
        store.subscribe(self._saw)

    @property
    def has_plugin(self) -> bool:
        """Whether AWS's device plugin has told the kubelet of devices."""
        capacity = lenient.inside(self._current, "status", "capacity")
        return any(capacity.get(name) not in (None, "0") for name in (DEVICES, LEGACY_DEVICES))

    def publish(self, observed: Observation, health: MachineHealth) -> None:
        """Writes what differs; a failed write is tried again at the next call."""
        with self._lock:
            node = self._current
        if node is None:
            self.trouble = f"node {self._node} is not in the API server, or has not been read yet"
            return
        metadata = node["metadata"]
        kind = metadata["labels"].get(INSTANCE_LABEL, "") or observed.instance_type
        wanted = changes(self._node, metadata["annotations"], kind, observed=observed, health=health)
        if not wanted:
            self.trouble = ""
            return
        body: dict[str, Any] = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": wanted}}
        try:
            written = self._api.merge_patch(paths.node(self._node), body)
        except ContentionError:
            self.trouble = "another client has just changed the node; tried again at the next look"
            return
        except KubeError as error:
            if str(error) != self.trouble:
                _log.warning("node_not_written", error=str(error))
            self.trouble = str(error)
            return
        self._wrote()
        self.trouble = ""
        _log.info("node_written", node=self._node, keys=sorted(wanted))
        with self._lock:
            # The watch may be further already: what it brings is taken as it comes.
            if self._current is node:
                self._current = trimmed(written)

    def _saw(self, change: ObjectChange) -> None:
        with self._lock:
            if change.kind == "deleted":
                self._current = None
            elif change.object is not None:
                self._current = change.object
