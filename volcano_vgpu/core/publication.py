"""What is to be written about a node next. Pure: ``node`` does it.

A node in HAMi's dialect has a register and nothing else; it is never touched. Of what follows, only the lock concerns
it: HAMi's names its pod.

The rules of ``trials.md`` V2: a scheduler dies of a node that offers slots without a register, so the register comes
first and goes last; and it counts wrong until it hears of the node again, so the node is touched after a restart of the
scheduler and after binds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.wire import node_lock
from hami_plugins.wire.fields import Json
from volcano_vgpu.core import register
from volcano_vgpu.core.register import NodeRegistration
from volcano_vgpu.core.settings import AgentSettings

NOBODY: Final[frozenset[DeviceId]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationTiming:
    """How long things take.

    ``settle``: until the scheduler has received a bind by itself; an earlier write heals nothing. ``interval``: between
    two writes that only touch the node. ``grace``: how long slots stay on offer while a broken register is repaired;
    withdrawing them would reject pods for good, and reaches the scheduler only with the kubelet's next status.
    """

    settle: timedelta = timedelta(seconds=1)
    interval: timedelta = timedelta(seconds=5)
    grace: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Touch:
    """The node has to be written after ``first`` and again, if that was before ``last``, after ``last``."""

    first: datetime
    last: datetime
    why: frozenset[str]

    def joined(self, other: Touch | None) -> Touch:
        """Both of them."""
        if other is None:
            return self
        return Touch(min(self.first, other.first), max(self.last, other.last), self.why | other.why)

    def after(self, written: datetime) -> Touch | None:
        """What is left of it after the node was written."""
        if self.last <= written:
            return None
        return self if self.first > written else replace(self, first=self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """All that is to be done about a node.

    ``withdraw_by``: everything is to be taken back, and until then the number may stay above zero. ``served_until``: a
    lock taken by then was for a pod that has been served. ``served`` are the names of pods that have been, for locks
    that name theirs. ``not_before``: the first write after a start waits so long.
    """

    words: NodeRegistration | None = None
    handshake: bool = True
    touch: Touch | None = None
    served_until: datetime | None = None
    served: tuple[tuple[str, str], ...] = ()
    withdraw_by: datetime | None = None
    not_before: datetime | None = None


class Patch(NamedTuple):
    """One merge patch of the node or of its status, and why."""

    status: bool
    body: Json
    why: str


@dataclass(frozen=True, slots=True)
class PublicationStep:
    """What to do now, if anything, and when to look again although nothing happened; ``finished`` ends a withdrawal."""

    patch: Patch | None = None
    wake: datetime | None = None
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """The cards whose slots may be offered, and since when that is so only by grace."""

    cards: frozenset[DeviceId] = field(default=NOBODY)
    broken_since: datetime | None = None


def offer(node: Json | None, duties: Duties, before: Offer, now: datetime, timing: PublicationTiming) -> Offer:
    """Which cards may be offered. A node that does not say so may not, but for a moment it is given grace."""
    if duties.words is None or duties.withdraw_by is not None or not duties.words.healthy:
        return Offer()
    dialect = duties.words.dialect
    if node is not None and register.is_valid(node, handshake=duties.handshake, dialect=dialect):
        return Offer(duties.words.healthy & register.registered_on(node, dialect))
    since = before.broken_since or now
    if before.cards and now - since < timing.grace:
        return Offer(before.cards & duties.words.healthy, since)
    return Offer(broken_since=since)


def next_step(
    node: Json, duties: Duties, settings: AgentSettings, now: datetime, timing: PublicationTiming
) -> PublicationStep:
    """The next thing to write about a node."""
    if duties.withdraw_by is not None:
        return _withdrawal(node, duties.withdraw_by, settings, now)
    step = _upkeep(node, duties, settings, now, timing)
    if step.patch is not None and duties.not_before is not None and now < duties.not_before:
        return PublicationStep(wake=duties.not_before)
    return step


def _upkeep(
    node: Json, duties: Duties, settings: AgentSettings, now: datetime, timing: PublicationTiming
) -> PublicationStep:
    """Register and lock, then the touch that is due, then the sums."""
    told = _publication(node, duties, settings)
    notes = dict((told.node.get("metadata") or {}).get("annotations") or {})
    why = ["register"] if notes else []
    lock = settings.spec.keys.lock
    if _is_served(node, lock, duties):
        notes[lock] = None
        why.append("lock")
    due = _touch_due(node, duties, timing, now)
    if notes or (due is not None and due <= now):
        if duties.touch is not None:
            why.extend(sorted(duties.touch.why))
        # Every write is a touch, and says so: after a restart of the agent the next one is not written needlessly.
        if not settings.speaks_hami:
            notes[TOUCHED_KEY] = f"{now.astimezone(UTC).isoformat(timespec='microseconds')} {','.join(why)}"
        return PublicationStep(Patch(status=False, body={"metadata": {"annotations": notes}}, why=",".join(why)))
    if told.status:
        return PublicationStep(Patch(status=True, body=told.status, why="capacity"))
    return PublicationStep(wake=due)


def touched_at(node: Json) -> datetime | None:
    """When the agent last wrote the node's annotations."""
    stamp, _, _ = register.annotations_of(node).get(TOUCHED_KEY, "").partition(" ")
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _publication(node: Json, duties: Duties, settings: AgentSettings) -> register.Changes:
    """What has to change in what the node says of its cards. The last is not taken back while slots are on offer."""
    if duties.words is None:
        return register.Changes({}, {})
    found = register.changes(node, duties.words)
    on_offer = register.allocatable(node, settings.names.count) > 0
    if settings.speaks_hami or duties.words.registered or not on_offer or not register.registered_on(node):
        return found
    notes = (found.node.get("metadata") or {}).get("annotations") or {}
    kept = {key: text for key, text in notes.items() if key != register.REGISTER_KEY}
    return register.Changes({"metadata": {"annotations": kept}} if kept else {}, {})


def _withdrawal(node: Json, by: datetime, settings: AgentSettings, now: datetime) -> PublicationStep:
    count = settings.names.count
    if register.allocatable(node, count) > 0:
        if now < by:
            return PublicationStep(wake=by)
        # The number has no owner any more: the kubelet is gone, and would have corrected it.
        gone = {"status": {"capacity": {count: "0"}, "allocatable": {count: "0"}}}
        return PublicationStep(Patch(status=True, body=gone, why="number-to-zero"))
    left = register.withdrawal(node, settings)
    if left.node:
        return PublicationStep(Patch(status=False, body=left.node, why="withdrawal"))
    if left.status:
        return PublicationStep(Patch(status=True, body=left.status, why="withdrawal"))
    return PublicationStep(finished=True)


def _is_served(node: Json, key: str, duties: Duties) -> bool:
    text = register.annotations_of(node).get(key)
    if text is None or (duties.served_until is None and not duties.served):
        return False
    try:
        lock = node_lock.parse(key, text)
    except WireError:
        return False
    if lock.name:
        return (lock.namespace, lock.name) in duties.served
    return duties.served_until is not None and lock.since <= duties.served_until


def _touch_due(node: Json, duties: Duties, timing: PublicationTiming, now: datetime) -> datetime | None:
    """When the node has to be touched. One without cards never is."""
    if duties.touch is None or duties.words is None or not duties.words.registered:
        return None
    before = touched_at(node)
    if before is None or before > now + timing.interval:
        return duties.touch.first
    left = duties.touch.after(before)
    return None if left is None else max(left.first, before + timing.interval)
