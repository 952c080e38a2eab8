"""The kubelets of nodes that have none: each asks the plugins of its node for one bound pod after the other.

As a kubelet does, it asks before the first container starts, once for each container and resource, init containers
first, with as many ids as the limits say. A refused pod fails with UnexpectedAdmissionError, any other one runs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.kube import paths
from hami_plugins.kube.port import Selection, Watching
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector
from hami_plugins.runnable import Runnable
from tests.cluster.api import Api, ApiError, Object
from tests.device_plugins.base import JSON_PATCH, Answer, DevicePlugin, PluginError, path_of

ENDED: Final = ("Succeeded", "Failed")


class Served(NamedTuple):
    """What a container was given: the pod that the kubelet asked for, and the plugin's answer."""

    namespace: str
    pod: str
    container: str
    resource: str
    answer: Answer
    at: float
    """Seconds of a clock that only goes forward."""

    @property
    def right(self) -> bool:
        """Whether the plugin took the pod that was meant."""
        return (self.answer.namespace, self.answer.pod) == (self.namespace, self.pod)


@dataclass(kw_only=True)
class Kubelets(Runnable):
    """``plugins`` are those of each node by the resource that they offer; ``runs`` says whether served pods run.

    ``before`` is called with each pod before its plugins are asked, and may refuse it.
    """

    watching: Watching
    api: Api
    plugins: Mapping[str, Mapping[str, DevicePlugin]]
    runs: bool = True
    before: Callable[[Object], object] = lambda _pod: None
    served: list[Served] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """The text that a pod failed with, by its name."""

    _queues: dict[str, queue.SimpleQueue[Object | None]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _threads: list[threading.Thread] = field(default_factory=list)
    _watch: Reflector | None = None

    def start(self) -> None:
        """Follows all pods; each node has a thread of its own."""
        for node in self.plugins:
            self._queues[node] = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(node,), name=f"kubelet-{node}", daemon=True)
            self._threads.append(thread)
            thread.start()
        backoff = Backoff(first=0.05, most=0.5)
        selection = Selection(paths.PODS, "Pod")
        self._watch = Reflector(self.watching, selection, on_change=self._see, name="kubelets", backoff=backoff)
        self._watch.start()

    def stop(self) -> None:
        """Ends after the pods that were bound until now."""
        if self._watch is not None:
            self._watch.stop()
        for each in self._queues.values():
            each.put(None)
        for thread in self._threads:
            thread.join()

    def of(self, pod: str) -> list[Served]:
        """What the containers of a pod were given."""
        return [each for each in self.served if each.pod == pod]

    def _see(self, change: ObjectChange) -> None:
        if change.kind == "deleted" or change.object is None:
            return
        pod: Object = dict(change.object)
        node = pod["spec"].get("nodeName", "")
        ended = pod.get("status", {}).get("phase") in (*ENDED, "Running")
        if node in self._queues and not ended and change.uid not in self._seen:
            self._seen.add(change.uid)
            self._queues[node].put(pod)

    def _run(self, node: str) -> None:
        while (pod := self._queues[node].get()) is not None:
            try:
                self.before(pod)
                self._admit(pod, self.plugins[node])
            except PluginError as error:
                self.refused[pod["metadata"]["name"]] = str(error)
                self._status(pod, phase="Failed", reason="UnexpectedAdmissionError", message=str(error))
            else:
                if self.runs:
                    self._status(pod, phase="Running")

    def _admit(self, pod: Object, plugins: Mapping[str, DevicePlugin]) -> None:
        spec, metadata = pod["spec"], pod["metadata"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for resource, count in _limits(container):
                if (plugin := plugins.get(resource)) is not None:
                    (answer,) = plugin.allocate([count])
                    name = container["name"]
                    at = time.monotonic()
                    self.served.append(Served(metadata["namespace"], metadata["name"], name, resource, answer, at))

    def _status(self, pod: Object, **status: str) -> None:
        """A pod that is gone meanwhile is left so."""
        with suppress(ApiError):
            changes = [{"op": "add", "path": f"/status/{key}", "value": value} for key, value in status.items()]
            self.api.request("PATCH", f"{path_of(pod)}/status", changes, content_type=JSON_PATCH)


def _limits(container: Object) -> Iterable[tuple[str, int]]:
    limits = container.get("resources", {}).get("limits", {})
    return [(name, int(amount)) for name, amount in limits.items() if str(amount).isdecimal()]


@dataclass
class SilentPlugin:
    """A plugin that does not answer until ``speak`` is called; then it refuses."""

    asked: threading.Event = field(default_factory=threading.Event)
    _spoken: threading.Event = field(default_factory=threading.Event)

    def allocate(self, counts: object) -> list[Answer]:
        """Waits."""
        del counts
        self.asked.set()
        self._spoken.wait()
        raise PluginError("the plugin ended")

    def speak(self) -> None:
        """Ends every wait."""
        self._spoken.set()
