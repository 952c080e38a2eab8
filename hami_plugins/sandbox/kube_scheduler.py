"""A stand-in for kube-scheduler where an extender decides: one try of a pod, with the calls of the real one.

It knows no sums of a node: all resources are the extender's (``managedResources`` with ``ignoredByScheduler``). The
extender also binds, and is asked by the names of nodes (``nodeCacheCapable``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.extender_calls import ExtenderCalls
from hami_plugins.sandbox.volcano.sessions import unschedulable
from hami_plugins.wire.fields import Json

_TIMEOUT: Final = 5.0
"""Seconds, the default of ``httpTimeout``."""


class EmulatedKubeScheduler:
    """Tries pods when it is asked to. A pod that has to wait says why in its condition ``PodScheduled``."""

    def __init__(self, api: KubeApi, calls: ExtenderCalls) -> None:
        self._api = api
        self._calls = calls

    @classmethod
    @contextmanager
    def asking(cls, url: str, api: KubeApi) -> Iterator[EmulatedKubeScheduler]:
        """One that asks the extender with this prefix (``urlPrefix``)."""
        calls = ExtenderCalls(url, timeout=_TIMEOUT)
        try:
            yield cls(api, calls)
        finally:
            calls.close()

    def schedule(self, pod: Json, nodes: Sequence[str]) -> str:
        """Why the pod has to wait; empty where it is bound to one of the nodes. Raises ``KubeError``."""
        why = self._bound(pod, nodes)
        if why:
            metadata = pod["metadata"]
            body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [unschedulable(why)]}}
            self._api.merge_patch(paths.pod_status(metadata["namespace"], metadata["name"]), body)
        return why

    def _bound(self, pod: Json, nodes: Sequence[str]) -> str:
        found = self._calls.post("filter", {"Pod": pod, "NodeNames": list(nodes)})
        if isinstance(found, str):
            return found
        if found["Error"]:
            return str(found["Error"])
        fitting = found["NodeNames"] or []
        if not fitting:
            return _refusal({**(found["FailedNodes"] or {}), **(found["FailedAndUnresolvableNodes"] or {})})
        metadata = pod["metadata"]
        named = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
        bound = self._calls.post("bind", {**named, "Node": self._best(pod, fitting)})
        return bound if isinstance(bound, str) else str(bound["Error"])

    def _best(self, pod: Json, fitting: Sequence[str]) -> str:
        """The node with the highest score; extenders are not asked about a single one, nor does their error count."""
        if len(fitting) == 1:
            return fitting[0]
        reply: Any = self._calls.post("prioritize", {"Pod": pod, "NodeNames": list(fitting)})
        scores = {} if isinstance(reply, str) else {each["Host"]: each["Score"] for each in reply}
        return max(fitting, key=lambda node: scores.get(node, 0))


def _refusal(failed: Mapping[str, str]) -> str:
    """As kube-scheduler words it: each reason with the number of its nodes."""
    texts = sorted(failed.values())
    counted = [f"{texts.count(text)} {text}" for text in dict.fromkeys(texts)]
    return f"0/{len(failed)} nodes are available: {', '.join(counted)}."
