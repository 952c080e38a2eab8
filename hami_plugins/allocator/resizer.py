"""Books what users ask of running slices: one write of a pod, on the version of it that was decided on.

A booked amount counts in the cache before it is written, so that no other pod is given the room. If the write fails, it
still counts until the pod is decided on again: the API server may have carried it out.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from hami_plugins.allocations.resizes import next_step
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.pod_writer import PodWriter
from hami_plugins.kube.port import Writing
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import MiB, PodUid
from hami_plugins.wire import lenient, pods, resizes
from hami_plugins.wire.fields import Json
from hami_plugins.wire.resizes import PodResize


class Resizer(PodWriter):
    """Answers the annotation that asks for another amount of memory."""

    def __init__(self, api: Writing, cache: LockedAllocationCache) -> None:
        super().__init__(api, "resizes")
        self._cache = cache
        self._nodeless: dict[str, Json] = {}
        self._one_at_a_time = threading.Lock()

    def pod_changed(self, change: ObjectChange) -> None:
        """See ``PodWriter``."""
        with self._one_at_a_time:
            self._nodeless.pop(change.uid, None)
            super().pod_changed(change)

    def look(self) -> None:
        """Decides on pods whose nodes have become known since: the watches run side by side, a node may come later."""
        with self._one_at_a_time:
            for uid, raw in tuple(self._nodeless.items()):
                if self._cache.resizable(PodUid(uid)):
                    del self._nodeless[uid]
                    super().pod_changed(ObjectChange("modified", raw, uid))

    def missing(self, raw: Json) -> Mapping[str, object] | None:
        """What is booked, or why nothing is; ``None`` for a pod about which there is nothing to decide.

        A pod with an ask that holds nothing, or whose node is not known, is kept for ``look``.
        """
        metadata = lenient.inside(raw, "metadata")
        found = resizes.decode(lenient.texts(metadata.get("annotations")))
        if found is None or not pods.node_of(raw) or lenient.inside(raw, "status").get("phase") in FINISHED:
            return None
        uid = PodUid(lenient.uid(raw))
        known = self._cache.resizable(uid)
        if not known:
            self._nodeless[uid] = raw
            return None
        written = self._written(found, uid, known)
        # On a newer version the ask, or what is in force, may be another.
        return written and {"annotations": written, "resourceVersion": metadata.get("resourceVersion")}

    def _written(self, found: PodResize, uid: PodUid, known: Mapping[str, MiB | str]) -> Mapping[str, str] | None:
        if found.ask and not found.refused:
            why = "; ".join(found.problems) or _unanswerable(found, known)
            if why:
                return {resizes.REFUSED_KEY: resizes.refusal(found.ask, why)}
        plain = {name: MiB(each) for name, each in known.items() if isinstance(each, int)}
        step = next_step(found, plain)
        if step is None:
            self._cache.unbook(uid)
            return None
        booked, why = self._cache.book(uid, step.container, step.memory)
        if why:
            return {resizes.REFUSED_KEY: resizes.refusal(found.ask, f"container {step.container}: {why}")}
        return {resizes.BOOKED_KEY: resizes.encode(booked)}


def _unanswerable(found: PodResize, known: Mapping[str, MiB | str]) -> str:
    """Why what is asked for means nothing for this pod."""
    for name in sorted(found.asked):
        each = known.get(name)
        if each is None:
            return f"the pod has no container {name}; it has {', '.join(sorted(known))}"
        if isinstance(each, str):
            return f"container {name}: {each}"
    return ""
