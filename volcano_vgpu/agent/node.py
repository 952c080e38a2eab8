"""The one place that writes the Node.

A thread keeps the node's annotations up to date: it is woken by the node's own watch, by publishers of cards, by
requests for a touch and by served pods, and writes only differences. Every patch is conditional on the version that was
read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import structlog

from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.kube.reflector import Backoff, ObjectChange
from hami_plugins.model.units import DeviceId
from hami_plugins.runnable import Runnable
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.scheduler import Leader, Needs, WriteReason
from volcano_vgpu.core import publication, register
from volcano_vgpu.core.model import NodeInventory
from volcano_vgpu.core.publication import Duties, Offer, Patch, PublicationTiming, Touch
from volcano_vgpu.core.register import NodeRegistration
from volcano_vgpu.core.settings import AgentSettings

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403

_TIMING: Final = PublicationTiming()
_BACKOFF: Final = Backoff(first=0.1, most=30.0)

MOST_SERVED: Final = 256
"""So many pods are remembered whose lock may still be seen on the node."""

FIRST_SESSION: Final = timedelta(seconds=4)
"""How long a scheduler needs from taking over to its first session; a touch before that is lost (``trials.md`` V3)."""


def _time_of_day() -> datetime:
    return datetime.now(UTC)


class SteadyClock:
    """The time of day as it was at the start, and as much later as has passed since.

    A machine that starts may set its clock back by hours, and whatever was due by the old one would wait so long.
    """

    def __init__(
        self, wall: Callable[[], datetime] = _time_of_day, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._started = wall()
        self._at = monotonic()
        self._monotonic = monotonic

    def __call__(self) -> datetime:
        """The current time."""
        return self._started + timedelta(seconds=self._monotonic() - self._at)


class OwnNode(Protocol):
    """The watch of the agent's own node: a ``Store`` of one object."""

    def by_name(self, namespace: str, name: str) -> Json | None:
        """The node, with its annotations and its status."""

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> None:
        """Calls back on every change."""


def trimmed(node: Json) -> Json:
    """What the publisher reads of a node."""
    metadata = node.get("metadata") or {}
    status = node.get("status") or {}
    kept = ("name", "uid", "resourceVersion", "annotations")
    return {
        "kind": "Node",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "status": {name: status[name] for name in ("capacity", "allocatable") if name in status},
    }


class NodePublisher(Runnable):
    """Makes the node say which cards it has, and keeps it so.

    ``on_offer`` is called with the cards whose slots may be offered, whenever that changes: none while the register on
    the API server is not valid. It is called from a thread of this object and must not block. ``written`` counts
    patches, ``last_error`` is why the last one failed, empty if it did not.
    """

    def __init__(  # noqa: PLR0913 - what it writes to, and everything that tests and settings want to choose
        self,
        api: KubeApi,
        store: OwnNode,
        settings: AgentSettings,
        *,
        on_offer: Callable[[frozenset[DeviceId]], None],
        timing: PublicationTiming = _TIMING,
        backoff: Backoff = _BACKOFF,
        now: Callable[[], datetime] | None = None,
        luck: random.Random | None = None,
    ) -> None:
        self.written = 0
        self.last_error = ""
        self._api = api
        self._store = store
        self._settings = settings
        self._on_offer = on_offer
        self._timing = timing
        self._backoff = backoff
        self._now = now or SteadyClock()
        self._luck = luck or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._log = structlog.get_logger(__name__).bind(node=settings.node)
        self._path = paths.node(settings.node)
        self._changed = threading.Condition()
        self._dirty = True
        self._stopping = False
        self._node: Json | None = None
        self._inventory: NodeInventory | None = None
        self._leftovers: str | None = None
        self._forgotten = False
        self._needs = Needs(None, settings.scheduler, settings.dialect)
        self._duties = Duties()
        self._offer = Offer()
        self._finished = False
        self._failures = 0
        self._retry_at: datetime | None = None
        self._thread = threading.Thread(target=self._run, name="node-publisher", daemon=True)

    def start(self) -> None:
        """Begins to look after the node. Nothing is written before ``publish``."""
        delay = timedelta(seconds=self._luck.uniform(0, self._settings.start_jitter))
        with self._changed:
            self._duties = replace(self._duties, not_before=self._now() + delay)
        self._store.subscribe(self._saw)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """Ends the thread and leaves the node as it is, for a restart must not be seen; whether the thread is gone."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def offered(self) -> frozenset[DeviceId]:
        """The cards whose slots may be offered now."""
        with self._changed:
            return self._offer.cards

    @property
    def valid(self) -> bool:
        """Whether slots may be offered: the API server has a valid register of cards that can be given out."""
        return bool(self.offered)

    @property
    def words(self) -> NodeRegistration | None:
        """The node's intended annotations, ``None`` before the first inventory."""
        with self._changed:
            return self._duties.words

    def publish(self, inventory: NodeInventory) -> NodeRegistration:
        """Publishes these cards on the node; returns the intended annotations, which are written later."""
        with self._changed:
            self._inventory = inventory
            words = self._reworded()
            self._wake()
        return words

    def report_leftovers(self, leftovers: str | None) -> None:
        """Makes the node say what of ended pods cannot be removed from it (see ``GarbageCollector.kept``)."""
        with self._changed:
            if leftovers != self._leftovers:
                self._leftovers = leftovers
                self._reworded()
                self._wake()

    def forget_other(self) -> None:
        """Removes the number of slots of the other dialect, which the kubelet no longer writes."""
        with self._changed:
            if not self._forgotten:
                self._forgotten = True
                self._reworded()
                self._wake()

    def adapt(self, needs: Needs) -> None:
        """Takes to a scheduler that needs something else."""
        with self._changed:
            self._needs = needs
            self._reworded()
            self._wake()

    def touch(self, why: WriteReason) -> None:
        """Writes the node soon, if the scheduler needs that; many touches are one write."""
        with self._changed:
            if self._needs.touch(why):
                self._touch_after(self._now() + self._timing.settle, why)

    def led_by(self, leader: Leader, fresh: bool) -> None:
        """Sees to it that the node is written once after this scheduler took over.

        ``fresh``: it has just done so. Otherwise it has been there, and a write since then is enough. Its clock may be
        ahead of ours.
        """
        with self._changed:
            if self._needs.touch(WriteReason.RESTART):
                now = self._now()
                since = now if fresh or leader.since is None else min(leader.since, now)
                self._touch_after(since + FIRST_SESSION + self._timing.settle, WriteReason.RESTART)

    def release_lock(self, taken_by: datetime, pod: tuple[str, str] = ("", "")) -> None:
        """Releases the node's lock where it was taken at or before that moment, or names that pod, which was served.

        Volcano's lock does not say whose it is, but it is taken before its pod is assigned, and no other meanwhile.
        HAMi's has namespace and name.
        """
        with self._changed:
            until = self._duties.served_until
            served = (*(each for each in self._duties.served if each != pod), pod)[-MOST_SERVED:]
            taken = taken_by if until is None else max(until, taken_by)
            self._duties = replace(self._duties, served_until=taken, served=served)
            self._wake()

    def withdraw(self, timeout: float = 30.0) -> bool:
        """Takes back what the node says: no slots first, then the register and the sums. Whether all is gone.

        The number of slots is the kubelet's to write, so that half of ``timeout`` seconds is for it to reach zero;
        after that it is set to zero here.
        """
        with self._changed:
            self._duties = replace(self._duties, withdraw_by=self._now() + timedelta(seconds=timeout / 2))
            self._finished = False
            self._wake()
            return self._changed.wait_for(lambda: self._finished or self._stopping, timeout) and self._finished

    def _reworded(self) -> NodeRegistration:
        inventory = self._inventory or NodeInventory()
        words = register.desired(
            inventory,
            self._settings,
            handshake=self._needs.handshake,
            leftovers=self._leftovers,
            forgotten=self._forgotten,
        )
        known = None if self._inventory is None else words
        self._duties = replace(self._duties, words=known, handshake=self._needs.handshake)
        return words

    def _touch_after(self, at: datetime, why: WriteReason) -> None:
        self._duties = replace(self._duties, touch=Touch(at, at, frozenset({why.value})).joined(self._duties.touch))
        self._wake()

    def _wake(self) -> None:
        self._dirty = True
        self._changed.notify_all()

    def _saw(self, change: ObjectChange) -> None:
        if change.kind == "synced":
            return
        with self._changed:
            if change.kind == "deleted":
                self._node = None
            elif change.object is not None and _name(change.object) == self._settings.node:
                self._take(change.object, certain=change.listed)
            self._wake()

    def _take(self, node: Json, *, certain: bool = False) -> None:
        """Keeps the newer one of two views: an answer to a patch may overtake the watch, or the watch an answer.

        ``certain``: this one is what the server has now, although its version is lower, as after a restore.
        """
        if certain or self._node is None or _uid(node) != _uid(self._node) or _version(node) >= _version(self._node):
            self._node = node

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    break
                self._dirty = False
            try:
                pause = self._step()
            except KubeError as error:
                pause = self._failed(error)
            except Exception:  # noqa: BLE001 - the outermost loop: nothing may end it but stop()
                self._log.exception("node_publisher_failed")
                pause = self._later()
            with self._changed:
                if pause is None or pause > 0:
                    self._changed.wait_for(lambda: self._dirty or self._stopping, pause)
        self._tell(Offer())

    def _step(self) -> float | None:
        """One look at the node and at most one write; the seconds until the next look, ``None`` for when it changes."""
        with self._changed:
            node, duties, before = self._node, self._duties, self._offer
        now = self._now()
        offer = publication.offer(node, duties, before, now, self._timing)
        self._tell(offer)
        wakes = [offer.broken_since + self._timing.grace] if offer.broken_since is not None and offer.cards else []
        if node is not None:
            step = publication.next_step(node, duties, self._settings, now, self._timing)
            if step.patch is not None and (self._retry_at is None or now >= self._retry_at):
                self._write(node, step.patch, now)
                return 0.0
            if step.patch is not None and self._retry_at is not None:
                wakes.append(self._retry_at)
            if step.wake is not None:
                wakes.append(step.wake)
            self._finish(finished=step.finished)
        return min(((each - now).total_seconds() for each in wakes), default=None)

    def _finish(self, *, finished: bool) -> None:
        with self._changed:
            self._finished = finished
            self._changed.notify_all()

    def _tell(self, offer: Offer) -> None:
        with self._changed:
            changed = offer.cards != self._offer.cards
            self._offer = offer
        if changed:
            self._log.info("slots_offered", cards=len(offer.cards))
            self._on_offer(offer.cards)

    def _write(self, node: Json, patch: Patch, now: datetime) -> None:
        body = {**patch.body, "metadata": {**patch.body.get("metadata", {}), "resourceVersion": _rv(node)}}
        path = paths.node_status(self._settings.node) if patch.status else self._path
        try:
            found = self._api.merge_patch(path, body)
        except ContentionError:
            # Another client wrote the node: decide anew on its current state.
            self._read(node)
            self._later()
            return
        with self._changed:
            self._take(trimmed(found))
            touch = self._duties.touch
            if not patch.status and touch is not None:
                self._duties = replace(self._duties, touch=touch.after(now))
            self._duties = replace(self._duties, not_before=None)
            self.written += 1
            self._failures, self._retry_at, self.last_error = 0, None, ""
        self._log.info("node_written", why=patch.why, status=patch.status)

    def _read(self, known: Json) -> None:
        """Reads the node anew, which is not the one that was ``known``."""
        found = self._api.get(self._path)
        with self._changed:
            # Versions only go back where the server's store was restored: what the watch has shown is void.
            self._take(trimmed(found), certain=_version(found) < _version(known))

    def _failed(self, error: KubeError) -> float:
        """What a failed write means, and how long to wait before the next."""
        if error.status == _NOT_FOUND:
            with self._changed:
                self._node = None
        self.last_error = str(error)
        remedy = ""
        if error.status == _FORBIDDEN:
            remedy = "give the agent's service account get and patch on nodes and patch on nodes/status"
        self._log.warning("node_not_written", error=str(error), remedy=remedy)
        return self._later(error.retry_after or 0.0)

    def _later(self, least: float = 0.0) -> float:
        """Puts the next write off; slots go on being watched meanwhile."""
        self._failures += 1
        pause = max(self._backoff.pause(self._failures, self._luck), least)
        self._retry_at = self._now() + timedelta(seconds=pause)
        return pause


def _name(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name") or "")


def _uid(node: Json) -> str:
    return str((node.get("metadata") or {}).get("uid") or "")


def _rv(node: Json) -> str:
    return str((node.get("metadata") or {}).get("resourceVersion") or "")


def _version(node: Json) -> int:
    """Resource versions are numbers that grow; where one is not, whatever came last counts."""
    text = _rv(node)
    return int(text) if text.isascii() and text.isdigit() else 0
