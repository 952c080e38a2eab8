"""What is known of Volcano's scheduler, and what its version needs of a node.

Sources: Volcano 1.14.1 ``pkg/scheduler/api/devices/nvidia/vgpu/device_info.go``, ``trials.md`` V1 to V4 and V8. What is
not known needs everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube.leases import lease_selection
from hami_plugins.kube.port import KubeApi
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector
from hami_plugins.model.dialect import Dialect
from hami_plugins.vendors.volcano_releases import COUNTED_TWICE, HANDSHAKE, Version, version_of, version_of_deployment
from volcano_vgpu.core.settings import Choice, Scheduler

_BACKOFF: Final = Backoff(first=1.0, most=300.0)


class WriteReason(StrEnum):
    """Why a node is to be written again although nothing about it changed."""

    RESTART = "scheduler-restarted"
    BIND = "pod-bound"
    UNALLOCATED = "pod-bound-without-cards"


def needs_handshake(version: Version | None) -> bool:
    """Whether nodes without a handshake have no cards to that scheduler: all up to 1.14.2, and 1.15.0."""
    return HANDSHAKE.covers(version)


def needs_touch(version: Version | None, why: WriteReason) -> bool:
    """Whether that scheduler has to see an event of the node to count right again.

    After its restart every version is assumed to: no version without this has been observed (``trials.md`` V3). After a
    bind 1.14.1 counts the pod twice (``trials.md`` V4); the code of 1.15 and later counts each pod once.
    """
    return why is not WriteReason.BIND or COUNTED_TWICE.covers(version)


@dataclass(frozen=True, slots=True)
class Needs:
    """What the scheduler needs, after the version and the settings.

    HAMi's needs neither: from 2.10 on it keeps a node that offers slots without an answer to its handshake (HAMi 2.10.0
    ``pkg/device/devices.go``). Older ones are answered where the operator says so; no node of HAMi is ever touched.
    """

    version: Version | None = None
    settings: Scheduler = field(default_factory=Scheduler)
    dialect: Dialect = Dialect.VOLCANO

    @property
    def handshake(self) -> bool:
        """Whether the node must have a handshake."""
        auto = self.dialect is Dialect.VOLCANO and needs_handshake(self.version)
        return _chosen(self.settings.handshake, auto=auto)

    def touch(self, why: WriteReason) -> bool:
        """Whether the node is to be written for that reason."""
        if self.dialect is Dialect.HAMI:
            return False
        return _chosen(self.settings.touch, auto=needs_touch(self.version, why))


def _chosen(choice: Choice, *, auto: bool) -> bool:
    return auto if choice == "auto" else choice == "always"


class Leader(NamedTuple):
    """The scheduler that leads, and since when by its own clock."""

    identity: str
    since: datetime | None


def leader_of(lease: Mapping[str, Any]) -> Leader | None:
    """The holder of a lease, ``None`` where there is none."""
    spec = lease.get("spec") or {}
    identity = spec.get("holderIdentity")
    if not isinstance(identity, str) or not identity:
        return None
    try:
        since = datetime.fromisoformat(str(spec.get("acquireTime")))
    except ValueError:
        return Leader(identity, None)
    return Leader(identity, since if since.tzinfo is not None else None)


class SchedulerWatch:
    """Follows the scheduler: looks up its version, and watches its lease.

    ``on_needs`` is called with the scheduler's needs, once at the start and when they change; ``on_leader`` with the
    leader that is found first, and each that follows, ``fresh`` if it has just taken over. Both are called from a
    thread of this object, or from that of ``start``. Without the permission to read the Deployment or the lease there
    are no calls, and everything counts as needed.
    """

    def __init__(
        self,
        api: KubeApi,
        settings: Scheduler,
        *,
        on_needs: Callable[[Needs], None],
        on_leader: Callable[[Leader, bool], None],
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self.leader: Leader | None = None
        self._api = api
        self._settings = settings
        self._on_needs = on_needs
        self._on_leader = on_leader
        self._log = structlog.get_logger(__name__)
        self._lock = threading.Lock()
        self._needs: Needs | None = None
        lease = lease_selection(settings.namespace, settings.lease)
        self._reflector = Reflector(api, lease, on_change=self._saw, name="scheduler-lease", backoff=backoff)

    @property
    def needs(self) -> Needs:
        """The scheduler's needs as far as they are known."""
        with self._lock:
            return self._needs or Needs(None, self._settings)

    def start(self) -> None:
        """Looks up the version, then begins to follow the lease."""
        self.look_up()
        self._reflector.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """Ends; whether the thread is gone."""
        return self._reflector.stop(timeout)

    def look_up(self) -> None:
        """Determines the version anew, and reports changed needs."""
        found = Needs(self._version(), self._settings)
        with self._lock:
            changed = found != self._needs
            self._needs = found
        if changed:
            self._log.info("scheduler_version_known", version=str(found.version or "unknown"))
            self._on_needs(found)

    def _version(self) -> Version | None:
        if self._settings.version:
            return version_of(self._settings.version)
        name, namespace = self._settings.deployment, self._settings.namespace
        path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{quote(name, safe='')}"
        try:
            deployment = self._api.get(path)
        except KubeError as error:
            self._log.info("scheduler_version_unknown", deployment=f"{namespace}/{name}", error=str(error))
            return None
        return version_of_deployment(deployment)

    def _saw(self, change: ObjectChange) -> None:
        if change.object is None or change.kind not in ("added", "modified"):
            return
        leader, before = leader_of(change.object), self.leader
        if leader is None or (before is not None and leader.identity == before.identity):
            return
        self.leader = leader
        if before is not None:
            self._log.info("scheduler_changed", leader=leader.identity, before=before.identity)
        if before is not None or self.needs.version is None:
            # A new leader may be a new release; and what could not be read at the start may be readable now.
            self.look_up()
        self._on_leader(leader, before is not None)
