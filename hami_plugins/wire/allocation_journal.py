"""The journal of allocations: one JSON object a line, written by an allocator that answers, read to charge for devices.

A *run* is the time in which one process wrote. Its first line (``began``) has the time of day; all others have only the
milliseconds since then by a monotonic clock, so that a change of the time of day within a run moves nothing. After
``began`` come all pods that hold devices (``held``), then ``listed``; from then on each change, and ``alive`` in
between, so that a reader knows until when the writer's state was complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, assert_never

from typing_extensions import TypedDict

from hami_plugins.errors import WireError
from hami_plugins.model.charges import ChargeKey, HeldAmount
from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json, wrong

VERSION: Final = "hami-plugins.io/allocation-journal/v1"


class JournalLine(TypedDict, total=False):
    """A line. The members of a pod are on ``held`` alone, ``uid`` and ``vendor`` also on ``ended``."""

    journal: str
    event: Literal["began", "listed", "held", "ended", "alive"]
    run: str
    """Identifies a run among those of all replicas."""
    unixMilliseconds: int
    """On ``began`` alone."""
    elapsedMilliseconds: int
    uid: str
    namespace: str
    pod: str
    node: str
    queue: str
    owner: str
    vendor: str
    devices: str
    """Whole devices, as an integer or a fraction: ``1/4``."""
    memoryMiB: int


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A process begins to write."""

    unix_milliseconds: int


@dataclass(frozen=True, slots=True)
class AllListed:
    """All that was held when the process began has been written."""


@dataclass(frozen=True, slots=True)
class PodHeld:
    """A pod holds this from now on, instead of what it held before."""

    amount: HeldAmount


@dataclass(frozen=True, slots=True)
class PodEnded:
    """A pod holds no devices of a vendor any more."""

    uid: PodUid
    vendor: VendorName


@dataclass(frozen=True, slots=True)
class RunAlive:
    """The process still writes."""


JournalEvent = RunBegan | AllListed | PodHeld | PodEnded | RunAlive


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One line: what happened, in which run, how long after its beginning."""

    run: str
    elapsed_milliseconds: int
    event: JournalEvent


def encode(record: JournalRecord) -> JournalLine:
    """The line of a record."""
    line: JournalLine = {
        "journal": VERSION,
        "event": "alive",
        "run": record.run,
        "elapsedMilliseconds": record.elapsed_milliseconds,
    }
    match record.event:
        case RunBegan(unix_milliseconds):
            return {**line, "event": "began", "unixMilliseconds": unix_milliseconds}
        case AllListed():
            return {**line, "event": "listed"}
        case PodHeld(amount):
            return {**line, "event": "held", **_amount_line(amount)}
        case PodEnded(uid, vendor):
            return {**line, "event": "ended", "uid": uid, "vendor": vendor}
        case RunAlive():
            return line
        case _ as unreachable:
            assert_never(unreachable)


def decode(raw: object, place: str) -> JournalRecord:
    """The record of a line. Raises ``WireError`` with ``place`` and the member that is wrong."""
    body = fields.whole(raw, place)
    version = fields.text(body, "journal", place)
    if version != VERSION:
        raise WireError(fields.path(place, "journal"), version, f"expected {VERSION}")
    return JournalRecord(
        run=fields.needed(body, "run", place),
        elapsed_milliseconds=_natural(body, "elapsedMilliseconds", place),
        event=_event(body, place),
    )


def _event(body: Json, place: str) -> JournalEvent:
    match kind := fields.text(body, "event", place):
        case "began":
            return RunBegan(_natural(body, "unixMilliseconds", place))
        case "listed":
            return AllListed()
        case "held":
            return PodHeld(_amount(body, place))
        case "ended":
            uid, vendor = fields.needed(body, "uid", place), fields.needed(body, "vendor", place)
            return PodEnded(PodUid(uid), VendorName(vendor))
        case "alive":
            return RunAlive()
        case _:
            raise wrong(fields.path(place, "event"), kind, "began, listed, held, ended or alive")


def _amount_line(amount: HeldAmount) -> JournalLine:
    return {
        "uid": amount.uid,
        "namespace": amount.key.namespace,
        "pod": amount.pod,
        "node": amount.node,
        "queue": amount.key.queue,
        "owner": amount.key.owner,
        "vendor": amount.key.vendor,
        "devices": str(amount.devices),
        "memoryMiB": amount.memory,
    }


def _amount(body: Json, place: str) -> HeldAmount:
    return HeldAmount(
        uid=PodUid(fields.needed(body, "uid", place)),
        pod=fields.needed(body, "pod", place),
        node=NodeName(fields.text(body, "node", place)),
        key=ChargeKey(
            fields.needed(body, "namespace", place),
            fields.text(body, "queue", place),
            fields.text(body, "owner", place),
            VendorName(fields.needed(body, "vendor", place)),
        ),
        devices=_devices(body, place),
        memory=MiB(_natural(body, "memoryMiB", place)),
    )


def _devices(body: Json, place: str) -> Fraction:
    text = fields.needed(body, "devices", place)
    over, _, under = text.partition("/")
    if not (_is_natural(over) and (not under or (_is_natural(under) and int(under)))) or text.endswith("/"):
        raise wrong(fields.path(place, "devices"), text, "a number of devices, such as 2 or 1/4")
    return Fraction(int(over), int(under or 1))


def _is_natural(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


def _natural(body: Json, name: str, place: str) -> int:
    found = fields.number(body, name, place, default=-1)
    if found < 0:
        raise wrong(fields.path(place, name), body.get(name), "an integer that is not negative")
    return found


_LONGEST: Final = 18
"""Digits of a number."""
