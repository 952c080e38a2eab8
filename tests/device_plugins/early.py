"""The plugins that do not look at who has the lock: Hygon's, and HAMi's for NVIDIA from before locks named pods.

They take the first pod that is ``allocating`` on their node, in the server's order, and remove whatever lock there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    Answer,
    Environment,
    PluginError,
    annotate_pod,
    decoded,
    encoded,
    environment_of_nvidia,
    notes_of,
    path_of,
)

RETRIES: Final = 5
PAUSE: Final = 0.1


@dataclass(kw_only=True)
class EarlyPlugin:
    """``everywhere`` says that it lists the pods of the whole cluster; of none it asks whether they have ended."""

    api: Api
    node: str
    word: str
    key: str
    environment: Environment
    everywhere: bool
    pause: Callable[[float], object] = time.sleep

    def allocate(self, counts: Sequence[int]) -> list[Answer]:
        """``Allocate``: the lock is removed even where no pod is found. Every container is read from the first list."""
        try:
            pod = self._pending_pod()
        except PluginError:
            with suppress(ApiError):
                self._release()
            raise
        try:
            answers = [self._one(pod, count) for count in counts]
        except (PluginError, ApiError) as error:
            self._end(pod, FAILED)
            raise PluginError(str(error)) from error
        with suppress(ApiError):
            if self.word not in notes_of(self.api.get(path_of(pod))).get(self.key, ""):
                self._end(pod, SUCCESS)
        return answers

    def _pending_pod(self) -> Object:
        """``GetPendingPod``: neither the lock, nor the pod's own node, nor its state is asked for."""
        query = {} if self.everywhere else {"fieldSelector": f"spec.nodeName={self.node}"}
        try:
            found = self.api.items(PODS, **query)
        except ApiError as error:
            raise PluginError(str(error)) from error
        for pod in found:
            notes = notes_of(pod)
            if TIME in notes and notes.get(PHASE) == ALLOCATING and notes.get(NODE) == self.node:
                return pod
        raise PluginError(f"no binding pod found on node {self.node}")

    def _one(self, pod: Object, count: int) -> Answer:
        """``GetNextDeviceRequest`` and ``EraseNextDeviceTypeFromAnnotation``: containers without devices do not count,
        so that the container's name may be another one's."""
        if self.key not in notes_of(pod):
            raise PluginError("device request not found")
        pending = decoded(notes_of(pod)[self.key], keep_empty=False)
        if not pending:
            raise PluginError("device request not found")
        devices, name = pending[0], pod["spec"]["containers"][0]["name"]
        if len(devices) != count:
            raise PluginError("device number not matched")
        annotate_pod(self.api, pod, **{self.key: encoded([(), *pending[1:]])})
        metadata = pod["metadata"]
        return Answer(metadata["namespace"], metadata["name"], name, devices, self.environment(pod, devices))

    def _end(self, pod: Object, phase: str) -> None:
        with suppress(ApiError):
            annotate_pod(self.api, pod, phase=phase)
        with suppress(ApiError):
            self._release()

    def _release(self) -> None:
        """``ReleaseNodeLock``: an update of the whole node, whichever pod the lock belongs to."""
        path = f"{NODES}/{self.node}"
        if LOCK not in notes_of(self.api.get(path)):
            return
        for attempt in range(RETRIES + 1):
            try:
                raw = self.api.get(path)
                notes_of(raw).pop(LOCK, None)
                self.api.replace(path, raw)
            except ApiError:
                if attempt == RETRIES:
                    raise
                self.pause(PAUSE)
            else:
                return


def hygon(api: Api, node: str) -> EarlyPlugin:
    """Hygon's plugin (dcu-vgpu-device-plugin 10dd197)."""
    key = "hami.io/dcu-devices-to-allocate"
    return EarlyPlugin(api=api, node=node, word="DCU", key=key, environment=lambda _pod, _devices: {}, everywhere=True)


def nvidia_2_4(api: Api, node: str) -> EarlyPlugin:
    """HAMi's plugin for NVIDIA as of 02f49a5 (2.4): it lists the pods of its node."""
    key = "hami.io/vgpu-devices-to-allocate"
    return EarlyPlugin(api=api, node=node, word="NVIDIA", key=key, environment=environment_of_nvidia, everywhere=False)
