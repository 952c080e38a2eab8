"""The mark of pods that were created while no replica answered, so that the webhook on new pods did not mark them.

An API server asks about the Binding of a marked pod until it has an answer, and lets an unmarked one pass while the
server is away: a pod that Volcano placed just before would run without its devices. So such pods are marked as soon as
they are seen, and Volcano places none before its own copy of the pod, whose annotations its Binding carries, has the
mark. Pods of HAMi's scheduler stay unmarked: by that they are known to be its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.allocations.product import Product
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.pod_writer import PodWriter
from hami_plugins.engine.intake import PodInfo
from hami_plugins.kube.port import Writing
from hami_plugins.model.pods import Pod
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

UNMARKED: Final = (
    "the pod was created while the allocator was away and is not marked yet; it is being marked and is tried again"
)


class LateMarks(PodWriter):
    """Marks pods that the cache knows as ones of Volcano's that wait.

    One that the API server does not let us mark is placed without.
    """

    def __init__(self, api: Writing, cache: LockedAllocationCache) -> None:
        super().__init__(api, "marks")
        self._cache = cache

    def missing(self, raw: Json) -> Mapping[str, object] | None:
        """The mark, for a pod that lacks it."""
        metadata = lenient.inside(raw, "metadata")
        key, mode = self._cache.product.marker
        if key in lenient.inside(metadata, "annotations"):
            return None
        seen = self._cache.seen(str(metadata.get("namespace")), str(metadata.get("name")))
        intake = None if seen is None or seen.uid != lenient.uid(raw) else seen.intake
        if intake is None or intake.refusal or not needs_mark(intake.pod, self._cache.product):
            return None
        return {"annotations": {key: mode}}

    def blocking_reason(self, intake: PodInfo) -> str:
        """Why Volcano must not place the pod yet, as it has it; empty where it may."""
        pod = intake.pod
        if not needs_mark(pod, self._cache.product):
            return ""
        seen = self._cache.seen(pod.namespace, pod.name)
        if seen is None or seen.uid != pod.uid or seen.intake is None or self.gave_up(pod.uid):
            return ""
        return UNMARKED


def needs_mark(pod: Pod, product: Product) -> bool:
    """Whether a pod that asks for devices is one of Volcano's, and unmarked."""
    return pod.scheduler in product.schedulers and product.marker[0] not in pod.annotations
