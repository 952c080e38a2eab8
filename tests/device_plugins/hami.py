"""The plugins that find their pod by the owner of the node's lock: HAMi's for NVIDIA, and the one for Ascend.

Both use the same library (``util.GetPendingPod``, ``plugin.PodAllocationTrySuccess``, ``nodelock``).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tests.cluster.api import Api, ApiError, Object
from tests.device_plugins.base import (
    ALLOCATING,
    FAILED,
    LOCK,
    NODE,
    NODES,
    PHASE,
    PODS,
    SUCCESS,
    TIME,
    WORDS,
    Answer,
    Devices,
    Environment,
    PluginError,
    annotate_pod,
    decoded,
    encoded,
    environment_of_nvidia,
    notes_of,
    path_of,
    uuids,
)

PAUSES: Final = (0.1, 0.2, 0.4, 0.8)
"""Seconds between the five attempts to remove a lock; the real ones vary by half (``upstream.md hami-core 1.8``)."""


@dataclass(kw_only=True)
class HamiPlugin:
    """``phases`` are those of a pod that is found without a lock: before 2.10 only ``allocating``."""

    api: Api
    node: str
    word: str
    key: str
    environment: Environment
    phases: Collection[str] = (ALLOCATING, SUCCESS)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def allocate(self, counts: Sequence[int]) -> list[Answer]:
        """Nothing is changed where no pod is found; every later error fails the pod and gives the lock back."""
        with self._mutex:
            pod = self._pending_pod()
            try:
                answers, rest = self._popped(pod, counts)
                annotate_pod(self.api, pod, **{self.key: encoded(rest)})
            except (PluginError, ApiError) as error:
                self._end(pod, FAILED)
                raise PluginError(str(error)) from error
            self._try_success(pod)
            return answers

    def _pending_pod(self) -> Object:
        """The owner of the lock, whatever its state; without one the first that fits in the server's order."""
        try:
            if (lock := notes_of(self.api.get(f"{NODES}/{self.node}")).get(LOCK)) is not None:
                namespace, name = owner_of(lock)
                if name:
                    return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            found = self.api.items(PODS, fieldSelector=f"spec.nodeName={self.node}")
        except ApiError as error:
            raise PluginError(str(error)) from error
        for pod in found:
            notes = notes_of(pod)
            waits = pod.get("status", {}).get("phase") == "Pending" and TIME in notes
            if waits and notes.get(PHASE) in self.phases and notes.get(NODE) == self.node:
                return pod
        raise PluginError(f"no binding pod found on node {self.node}")

    def _popped(self, pod: Object, counts: Sequence[int]) -> tuple[list[Answer], list[Devices]]:
        """The first containers with devices, in order, and the list without them."""
        if self.key not in notes_of(pod):
            raise PluginError("device request not found")
        rest = decoded(notes_of(pod)[self.key], keep_empty=True)
        spec, answers = pod["spec"], []
        names = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
        for count in counts:
            at = next((at for at, devices in enumerate(rest) if devices), None)
            if at is None:
                raise PluginError("no pending device allocation found")
            devices, rest[at] = rest[at], ()
            if at >= len(names):
                raise PluginError(f"container index {at} out of range")
            if len(devices) != count:
                raise PluginError("device number not matched")
            metadata = pod["metadata"]
            given = self.environment(pod, devices)
            answers.append(Answer(metadata["namespace"], metadata["name"], names[at], devices, given))
        return answers, rest

    def _try_success(self, pod: Object) -> None:
        """The lock stays while the list still has devices, or where the pod cannot be read."""
        with suppress(ApiError):
            left = notes_of(self.api.get(path_of(pod))).get(self.key, "")
            if not any(word in left for word in WORDS):
                self._end(pod, SUCCESS)

    def _end(self, pod: Object, phase: str) -> None:
        """The phase first, then the lock; neither error is more than logged."""
        with suppress(ApiError):
            annotate_pod(self.api, pod, phase=phase)
        with suppress(ApiError):
            release(self.api, self.node, pod)


def release(api: Api, node: str, pod: Object, pause: Callable[[float], object] = time.sleep) -> None:
    """Removes the lock that names the pod, or names none and is as it was first seen; leaves all others alone."""
    metadata = pod["metadata"]
    first = notes_of(api.get(f"{NODES}/{node}")).get(LOCK)
    own = f",{metadata['namespace']},{metadata['name']}"
    if first is None or ("," in first and not first.endswith(own)):
        return
    for wait in (*PAUSES, None):
        try:
            raw = api.get(f"{NODES}/{node}")
            lock = notes_of(raw).get(LOCK)
            if lock is None or not (lock.endswith(own) or lock == first):
                return
            changed = {"annotations": {LOCK: None}, "resourceVersion": raw["metadata"]["resourceVersion"]}
            api.merge_patch(f"{NODES}/{node}", {"metadata": changed})
        except ApiError:
            if wait is None:
                raise
            pause(wait)
        else:
            return


def owner_of(lock: str) -> tuple[str, str]:
    """A lock that is neither a time nor time, namespace and name is an error."""
    stamp, *owner = lock.split(",")
    if len(owner) not in (0, 2):
        raise PluginError(f"malformed lock annotation: expected 3 parts, got {1 + len(owner)} from {lock}")
    try:
        datetime.fromisoformat(stamp)
    except ValueError as error:
        raise PluginError(str(error)) from error
    return (owner[0], owner[1]) if owner else ("", "")


def nvidia(api: Api, node: str, *, phases: Collection[str] = (ALLOCATING, SUCCESS)) -> HamiPlugin:
    """HAMi's plugin for NVIDIA."""
    key = "hami.io/vgpu-devices-to-allocate"
    return HamiPlugin(api=api, node=node, word="NVIDIA", key=key, environment=environment_of_nvidia, phases=phases)


def ascend(api: Api, node: str, word: str, cards: Mapping[str, int]) -> HamiPlugin:
    """The plugin for one kind of Ascend chip; ``cards`` are the physical numbers of the ids that it knows."""

    def environment(pod: Object, devices: Devices) -> Mapping[str, str]:
        """``upstream.md hami-vendors 3.10``: what the scheduler wrote about each id, the last entry of an id wins."""
        text = notes_of(pod).get(f"huawei.com/{word}")
        if text is None:
            raise PluginError(f"annotation huawei.com/{word} not set")
        told = {each["UUID"]: each for each in json.loads(text)}
        for each in uuids(devices):
            if each not in cards:
                raise PluginError(f"unknown uuid: {each}")
        known = [told[each] for each in uuids(devices) if each in told]
        found = {"ASCEND_VISIBLE_DEVICES": ",".join(str(cards[each]) for each in uuids(devices))}
        if notes_of(pod).get("huawei.com/vnpu-mode") == "hami-core":
            first = known[0] if known else {}
            quota = {"NPU_MEM_QUOTA": first.get("memory"), "NPU_PRIORITY": first.get("core")}
            return found | {name: str(amount) for name, amount in quota.items() if amount is not None}
        template = next((each["temp"] for each in known if each.get("temp")), "")
        return found | ({"ASCEND_VNPU_SPECS": template} if template else {})

    key = f"hami.io/{word}-devices-to-allocate"
    return HamiPlugin(api=api, node=node, word=word, key=key, environment=environment)
