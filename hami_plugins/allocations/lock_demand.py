"""Which locks a pod needs on its node, and as much of a pod as the locks depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.engine.annotate import PHASE_KEY
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import OWN_AGENT
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json

Notes = Collection[tuple[str, str]]
"""The notes of a node (``NodeEntry.notes``)."""

EXPIRY: Final = 300.0
"""Seconds after which HAMi takes over a lock of another pod."""

ALLOCATING: Final = "allocating"
"""The bind phase with which a pod is bound."""

SUCCESS: Final = "success"
FAILED: Final = "failed"
"""The bind phases that a device plugin writes once it has answered the kubelet."""

RUNNING: Final = "Running"
"""The phase of a pod whose first container was started."""


@dataclass(frozen=True, slots=True)
class LockKey:
    """A lock annotation of nodes.

    Its value names the pod that has it if ``named``. A lock of another client counts as left behind after ``expiry``
    seconds.
    """

    key: str
    named: bool = True
    expiry: float = EXPIRY


@dataclass(frozen=True, slots=True)
class LockDemand:
    """The lock keys that a pod needs on its node, in sorted order; none where its device plugins look for no lock.

    ``pending`` are the annotations of a pod with devices of several vendors behind one lock: their plugins empty them
    one after the other, and the first one that is ready removes the lock.
    """

    keys: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()


class LockPod(NamedTuple):
    """A pod by its UID and by the names that a lock has room for."""

    uid: PodUid
    namespace: str
    name: str

    @property
    def owner(self) -> tuple[str, str]:
        """What a lock names."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}/{self.name}"


class ReleaseReason(StrEnum):
    """Why a pod has its locks no longer."""

    PLUGIN = "plugin"
    """The device plugin removed them, as it should; every other reason is the server's."""
    REPLACED = "replaced"
    ANSWERED = "answered"
    RUNNING = "running"
    FINISHED = "finished"
    DELETED = "deleted"
    ELSEWHERE = "bound-elsewhere"
    UNBOUND = "binding-failed"
    ABANDONED = "write-unanswered"
    EXPIRED = "plugin-unanswered"
    NODE_GONE = "node-gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProgress:
    """How far a pod is on its way to its devices.

    ``ours`` says that this allocator binds it. ``unserved`` are the annotations that still list devices for a plugin.
    """

    pod: LockPod
    ours: bool = False
    node: NodeName | None = None
    phase: str = "Pending"
    bind_phase: str = ""
    unserved: frozenset[str] = frozenset()

    def over(self, node: NodeName) -> ReleaseReason | None:
        """Why no device plugin of the node can still be looking for the pod; ``None`` where one can.

        The kubelet asks the plugins for all containers before it starts the first one.
        """
        if self.phase in FINISHED:
            return ReleaseReason.FINISHED
        if self.node is None:
            return None
        if self.node != node:
            return ReleaseReason.ELSEWHERE
        return ReleaseReason.RUNNING if self.phase == RUNNING else None

    def answered(self, pending: frozenset[str]) -> bool:
        """Whether the plugins have answered the kubelet, those of ``pending`` annotations as well, or one refused."""
        return self.bind_phase == FAILED or (self.bind_phase == SUCCESS and not self.unserved & pending)


def lock_keys(vendors: Iterable[VendorSpec], *, expiry: float = EXPIRY) -> tuple[LockKey, ...]:
    """The locks of these vendors; ``expiry`` holds where the vendor's plugin has no other one."""
    found = {}
    for spec in filter(_locked, vendors):
        keys = spec.keys
        found[keys.lock] = LockKey(keys.lock, keys.lock_names_pod, float(keys.lock_expiry or expiry))
    return tuple(found[key] for key in sorted(found))


def plugin_vendors(vendors: Iterable[VendorSpec], notes: Notes) -> tuple[VendorSpec, ...]:
    """Those whose devices are not given to containers by an agent of ours on the node that has these notes."""
    return tuple(spec for spec in vendors if (OWN_AGENT, spec.name) not in notes)


def demand_of(vendors: Iterable[VendorSpec]) -> LockDemand:
    """What a pod with devices of these vendors needs."""
    locked = list(filter(_locked, vendors))
    sharing = {spec.keys.to_allocate for spec in locked if spec.keys.lock_names_pod and spec.keys.to_allocate}
    pending = frozenset(sharing) if len(sharing) > 1 else frozenset[str]()
    return LockDemand(tuple(sorted({spec.keys.lock for spec in locked})), pending)


def progress_of(raw: Json, *, marker: tuple[str, str], pending: Collection[str]) -> PodProgress:
    """As much as can be read of a pod; ``marker`` is an annotation of the pods that this allocator binds."""
    metadata = lenient.inside(raw, "metadata")
    annotations = lenient.mapping(metadata.get("annotations"))
    node = pods.node_of(raw)
    return PodProgress(
        pod=LockPod(
            PodUid(lenient.text(metadata.get("uid"))),
            lenient.text(metadata.get("namespace")),
            lenient.text(metadata.get("name")),
        ),
        ours=annotations.get(marker[0]) == marker[1],
        node=NodeName(node) if node else None,
        phase=lenient.text(lenient.inside(raw, "status").get("phase")),
        bind_phase=lenient.text(annotations.get(PHASE_KEY)),
        unserved=frozenset([key for key in pending if "," in lenient.text(annotations.get(key))]),
    )


def _locked(spec: VendorSpec) -> bool:
    """HAMi's plugins find their pod by the lock; agents of other dialects find it in the kubelet's checkpoint."""
    return spec.dialect is Dialect.HAMI and bool(spec.keys.lock)
