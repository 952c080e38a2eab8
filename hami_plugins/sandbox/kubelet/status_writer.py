"""What a kubelet writes about pods: their status, their end, and events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.events import EventRecorder, ObjectRef
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.kubelet.specs import PodSpec

_log = structlog.get_logger(__name__)

_NOT_THE_SAME_POD: Final = frozenset({404, 409})
"""The pod is gone, or another one has its name: there is nothing to write any more."""


class StatusWriter:
    """Writes through ``api``; every method that may fail says whether it came through."""

    def __init__(self, api: KubeApi, events: EventRecorder) -> None:
        self._api = api
        self._events = events

    def report(self, pod: PodSpec, status: Mapping[str, Any]) -> bool:
        """The pod's status, unless the pod is another one by now."""
        body = {"metadata": {"uid": pod.uid}, "status": dict(status)}
        try:
            self._api.merge_patch(paths.pod_status(pod.namespace, pod.name), body)
        except KubeError as error:
            return self._lost(error, "pod_status_not_written", pod)
        return True

    def remove(self, pod: PodSpec) -> bool:
        """Nothing is left of the pod on this node: the object can go."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        try:
            self._api.delete(paths.pod(pod.namespace, pod.name), body=body)
        except KubeError as error:
            return self._lost(error, "pod_not_removed", pod)
        return True

    def event(self, pod: PodSpec, reason: str, message: str) -> None:
        """Emits an event."""
        regarding = ObjectRef("Pod", pod.name, pod.uid, pod.namespace)
        self._events.emit(regarding, reason, message, now=datetime.now(UTC))

    def _lost(self, error: KubeError, event: str, pod: PodSpec) -> bool:
        if error.status in _NOT_THE_SAME_POD:
            return True
        _log.warning(event, pod=pod.full_name, pod_uid=pod.uid, error=str(error))
        return False
