"""The webhook on Bindings: whatever a scheduler believed, the allocation that goes with a Binding is the cache's.

The API server lays the Binding's annotations over the pod's in the write that sets the node, so all keys of an
allocation are written always: what an earlier try left behind would stay otherwise. A refusal breaks gangs, and
schedulers do not back off (``trials.md`` V16): only what the node cannot hold at all is refused, and a pod whose device
plugin waits for a lock of the node that is not free in time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from hami_plugins.allocations.answers import AllocationSource, DeclineCode, Declined, PodAllocation
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.memory import LogOnce
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.pod_locks import PodLocks
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.engine.annotate import NODE_KEY, labels_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError, WireError
from hami_plugins.model.units import NodeName
from hami_plugins.web.documents import waiting
from hami_plugins.wire import admission, fields, lenient, pods
from hami_plugins.wire.admission_review import UNREADABLE, AdmissionRequest, Allowed, Answer, Denied
from hami_plugins.wire.fields import Json

UNTOUCHED: Final = Allowed()
_AWAY: Final = 503

_PASS: Final = frozenset({DeclineCode.GONE, DeclineCode.BOUND})
"""Bindings that the API server itself refuses, and says why."""

_log = structlog.get_logger(__name__)


class BindingRequest(NamedTuple):
    """A Binding: the pod, with its UID if given, its node, and the annotations that it carries."""

    namespace: str
    name: str
    uid: str
    node: NodeName
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """``read`` asks the API server for a pod that the watch has not shown yet; ``touch`` is called with each node that
    a scheduler's own cache now has wrong; ``now_ns`` gives Unix nanoseconds. ``locks`` are the locks of HAMi's device
    plugins."""

    cache: LockedAllocationCache
    metrics: AllocatorMetrics
    read: ReadPod
    now_ns: Callable[[], int]
    touch: Callable[[NodeName], None]
    locks: PodLocks | None = None
    _heard: LogOnce = field(default_factory=LogOnce, init=False, repr=False)

    def __call__(self, request: AdmissionRequest) -> Answer:
        """The answer to one Binding."""
        try:
            binding = _read(request)
        except WireError as error:
            self.metrics.answered("binding", "unreadable")
            return Denied(str(error), UNREADABLE)
        if binding is None:
            return self._untouched("no-node")
        intake = self._intake(binding)
        if not isinstance(intake, PodInfo):
            return intake
        if intake.refusal:
            return self._refused(binding, intake.refusal, DeclineCode.REQUEST)
        return self._allocated(binding, intake, request)

    def _intake(self, binding: BindingRequest) -> PodInfo | Answer:
        """What the pod asks for, or the answer where that does not matter or cannot be found out.

        A Binding without a UID may be for a pod that was made again under its name: that one is read as well.
        """
        seen = self.cache.seen(binding.namespace, binding.name)
        if seen is None or binding.uid != seen.uid:
            return self._read_now(binding)
        if seen.fault:
            return self._refused(binding, seen.fault, DeclineCode.REQUEST)
        if seen.intake is not None and self._is_late(binding, seen.intake):
            return self._read_now(binding)
        return seen.intake or self._without_cards(binding)

    def _is_late(self, binding: BindingRequest, intake: PodInfo) -> bool:
        """Whether HAMi's scheduler may have written an allocation that the watch has not shown yet.

        It writes on the pod just before it binds the pod.
        """
        return self.cache.product.of_hami(intake.pod) and intake.pod.annotations.get(NODE_KEY) != binding.node

    def _read_now(self, binding: BindingRequest) -> PodInfo | Answer:
        """The same for a pod that the watch has not shown yet."""
        try:
            raw = self.read(binding.namespace, binding.name)
            if raw is None or binding.uid not in ("", lenient.uid(raw)):
                return self._untouched(DeclineCode.GONE)
            return self._untouched(DeclineCode.BOUND) if pods.node_of(raw) else self.cache.intake(raw)
        except WireError as error:
            return self._refused(binding, str(error), DeclineCode.REQUEST)
        except KubeError as error:
            if not self._is_marked(binding):
                _log.warning("binding_unknown", pod=f"{binding.namespace}/{binding.name}", error=str(error))
                return self._untouched("unknown")
            reason = f"pod {binding.namespace}/{binding.name} is not known yet and cannot be read: {error}; try again"
            return self._refused(binding, reason, "unknown", status=_AWAY)

    def _allocated(self, binding: BindingRequest, intake: PodInfo, request: AdmissionRequest) -> Answer:
        """All keys of the allocation; those that it does not use are emptied where the pod has them."""
        locks = None if request.dry_run else self.locks
        if locks is not None and locks.missing(binding.node, intake):
            _in_a_thread_that_may_wait()
        else:
            locks = None
        carried = self.cache.product.carried(binding.node, intake, binding.annotations)
        again = self.cache.answered(intake.pod.uid)
        found = self.cache.allocate(binding.node, intake, carried=carried, dry=request.dry_run, now_ns=self.now_ns())
        if isinstance(found, Declined):
            if found.code in _PASS:
                return self._untouched(found.code)
            if not request.dry_run:
                self.touch(binding.node)
            return self._refused(binding, self.cache.words(found, intake), found.code)
        allocated, annotations = found
        if allocated.source is AllocationSource.NOTHING:
            return self._without_cards(binding)
        if locks is not None and (why := locks.admit(binding.node, intake, marked=self._is_marked(binding))):
            if not again:
                self.cache.undo(intake.pod.uid, binding.node)
            return self._refused(binding, why, "lock", status=_AWAY)
        if not request.dry_run:
            self.touch(binding.node)
            self._tell(binding, allocated)
        keys = self.cache.product.keys
        emptied = {key: "" for key in keys if key not in annotations and intake.pod.annotations.get(key)}
        return Allowed(_operations(request.object or {}, annotations | emptied, keys))

    def _is_marked(self, binding: BindingRequest) -> bool:
        return self.cache.product.marker[0] in binding.annotations

    def _tell(self, binding: BindingRequest, allocated: PodAllocation) -> None:
        self.metrics.answered("binding", allocated.source)
        _log.info(
            "allocated",
            pod=f"{binding.namespace}/{binding.name}",
            uid=allocated.uid,
            node=binding.node,
            source=allocated.source.value,
            cards=[share.device for share in allocated.shares()],
        )

    def _without_cards(self, binding: BindingRequest) -> Answer:
        """Nothing is allocated. An allocation on the Binding is emptied all the same: the pod may carry it as well."""
        stale = {key: "" for key in self.cache.product.keys if binding.annotations.get(key)}
        if not stale:
            return self._untouched("without-cards")
        self.metrics.answered("binding", "emptied")
        before, after = (
            {"metadata": {"annotations": each}} for each in (binding.annotations, {**binding.annotations, **stale})
        )
        return Allowed(admission.patch(before, after))

    def _untouched(self, why: str) -> Answer:
        self.metrics.answered("binding", why)
        return UNTOUCHED

    def _refused(self, binding: BindingRequest, reason: str, code: str, *, status: int = 403) -> Denied:
        self.metrics.answered("binding", "refused")
        self.metrics.refused(code)
        pod = f"{binding.namespace}/{binding.name}"
        if self._heard.first(pod, binding.uid, binding.node, reason):
            _log.warning("binding_refused", pod=pod, node=binding.node, reason=reason)
        return Denied(reason, status)


@waiting
def _in_a_thread_that_may_wait() -> None:
    """Nothing has been changed yet, so that the request can be asked again there."""


def _read(request: AdmissionRequest) -> BindingRequest | None:
    """What the Binding says; ``None`` for one without a node, which the API server refuses itself."""
    place = "Binding:"
    body = fields.whole(request.object, place)
    metadata, target = fields.member(body, "metadata", place), fields.member(body, "target", place)
    node = fields.text(target, "name", f"{place} target")
    if not node or fields.text(target, "kind", f"{place} target") not in ("", "Node"):
        return None
    return BindingRequest(
        namespace=request.namespace or fields.text(metadata, "namespace", f"{place} metadata"),
        name=fields.text(metadata, "name", f"{place} metadata") or request.name,
        uid=fields.text(metadata, "uid", f"{place} metadata"),
        node=NodeName(node),
        annotations=fields.text_map(metadata, "annotations", f"{place} metadata"),
    )


def _operations(before: Json, annotations: Mapping[str, str], keys: Collection[str]) -> list[Json]:
    """What makes the Binding say just this. No ``keys`` of an earlier try stay."""
    metadata = before.get("metadata") or {}
    others = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in keys}
    after = {**metadata, "annotations": {**others, **annotations}}
    if labels := labels_of(annotations):
        after["labels"] = {**(metadata.get("labels") or {}), **labels}
    return admission.patch({"metadata": metadata}, {"metadata": after})
