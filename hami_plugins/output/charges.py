"""Charges as tables, as a document, and as CSV. Hours are rounded to thousandths; what is summed is exact."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.model.charges import ChargedAmount, ChargeKey
from hami_plugins.occupancy.charges import ChargeReport, TimeSpan
from hami_plugins.output.rows import Table, TableRow, TextLine
from hami_plugins.output.schema import API_VERSION

_COLUMNS: Final = ("NAMESPACE", "QUEUE", "OWNER", "VENDOR", "DEVICE-HOURS", "GIB-HOURS")
_CSV: Final = ("namespace", "queue", "owner", "vendor", "device_hours", "gib_hours")
_USED: Final = ("NAMESPACE", "ALLOCATED GIB-HOURS", "USED GIB-HOURS", "USED")
_IDLE: Final = ("IDLE POD", "HOURS", "ALLOCATED GIB", "USED", "BUSY")

ChargeSource = Literal["prometheus", "journal"]


class ChargeDocument(TypedDict):
    """One owner's charges for one vendor's devices."""

    namespace: str
    queue: str
    """Empty where the pods are in none."""
    owner: str
    """The controller as Kind/name, or the value of the owner label; (other) for owners that metrics do not name."""
    vendor: str
    deviceHours: float
    """A whole device for an hour is 1; a slice counts with the larger one of its shares of memory and of cores."""
    gibHours: float


class ChargeGapDocument(TypedDict):
    """A time of which nothing is known."""

    since: str
    until: str
    seconds: float


class UsedMemoryDocument(TypedDict):
    """What the pods of a namespace were allocated and used, as node agents measured it."""

    namespace: str
    allocatedGibHours: float
    usedGibHours: float


class IdlePodDocument(TypedDict):
    """A pod that hardly uses what it holds. Ratios are null where nothing was measured."""

    namespace: str
    pod: str
    hours: float
    allocatedGib: float
    usedRatio: float | None
    busyRatio: float | None


class ChargesDocument(TypedDict):
    """The answer of ``usage``: device-hours and GiB-hours by who is charged for them."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["DeviceCharges"]
    source: ChargeSource
    since: str
    until: str
    charges: list[ChargeDocument]
    deviceHours: float
    gibHours: float
    uncertainDeviceHours: float
    """What may have been held besides, in gaps of the journal."""
    uncertainGibHours: float
    gaps: list[ChargeGapDocument]
    used: list[UsedMemoryDocument] | None
    """Null where the source does not measure use."""
    idle: list[IdlePodDocument] | None
    defects: list[str]
    """Parts of the source that could not be used."""
    remarks: list[str]


def document(found: ChargeReport, source: ChargeSource) -> ChargesDocument:
    """The document of a report."""
    total = found.total
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceCharges",
        "source": source,
        "since": _time(found.span.since),
        "until": _time(found.span.until),
        "charges": [_charge(key, amount) for key, amount in _ordered(found)],
        "deviceHours": _rounded(total.device_hours),
        "gibHours": _rounded(total.gib_hours),
        "uncertainDeviceHours": _rounded(found.uncertain.device_hours),
        "uncertainGibHours": _rounded(found.uncertain.gib_hours),
        "gaps": [_gap(each) for each in found.gaps],
        "used": None if found.used is None else _used(found),
        "idle": None if found.idle is None else _idle(found),
        "defects": list(found.defects),
        "remarks": list(found.remarks),
    }


def table(found: ChargeReport) -> Table:
    """A row for each key, what is charged most first, and a row with the sums."""
    rows = [TableRow((*_cells(key), *_amounts(amount))) for key, amount in _ordered(found)]
    rows.append(TableRow(("total", "", "", "", *_amounts(found.total)), "good"))
    return Table(columns=_COLUMNS, rows=tuple(rows), whole=frozenset({0, 4, 5}))


def used_table(found: ChargeReport) -> Table:
    """Allocated against used memory, by namespace."""
    rows = (
        TableRow(
            (
                each.namespace,
                decimal(each.allocated_gib_hours),
                decimal(each.used_gib_hours),
                _percent(each.used_gib_hours / each.allocated_gib_hours if each.allocated_gib_hours else None),
            )
        )
        for each in found.used or ()
    )
    return Table(columns=_USED, rows=tuple(rows), whole=frozenset({0}))


def idle_table(found: ChargeReport) -> Table:
    """The pods that idle."""
    rows = (
        TableRow(
            (
                f"{each.namespace}/{each.pod}",
                decimal(each.hours),
                decimal(each.gib),
                _percent(each.used),
                _percent(each.busy),
            ),
            "warn",
        )
        for each in found.idle or ()
    )
    return Table(columns=_IDLE, rows=tuple(rows), whole=frozenset({0}))


def csv_rows(found: ChargeReport) -> Iterator[tuple[str, ...]]:
    """The header and a row for each key, without sums."""
    yield _CSV
    for key, amount in _ordered(found):
        yield (key.namespace, key.queue, key.owner, key.vendor, *_amounts(amount))


def lines(found: ChargeReport) -> Iterator[TextLine]:
    """What to know about the numbers."""
    for gap in found.gaps:
        words = f"nothing is known from {_time(gap.since)} to {_time(gap.until)} ({gap.milliseconds // 1000} s)"
        yield TextLine(words, "warn")
    if any(found.uncertain):
        hours, gib = _amounts(found.uncertain)
        yield TextLine(f"up to {hours} device-hours and {gib} GiB-hours more may have been held in gaps", "warn")
    for defect in found.defects:
        yield TextLine(defect, "warn")
    for remark in found.remarks:
        yield TextLine(remark, "dim")


def decimal(value: Fraction) -> str:
    """A number that is not negative, with three places."""
    whole, thousandths = divmod(round(value * 1000), 1000)
    return f"{whole}.{thousandths:03d}"


def _ordered(found: ChargeReport) -> list[tuple[ChargeKey, ChargedAmount]]:
    return sorted(found.charged.items(), key=lambda each: (-each[1].device_milliseconds, each[0]))


def _cells(key: ChargeKey) -> tuple[str, ...]:
    return tuple(each or "-" for each in key)


def _amounts(amount: ChargedAmount) -> tuple[str, str]:
    return decimal(amount.device_hours), decimal(amount.gib_hours)


def _charge(key: ChargeKey, amount: ChargedAmount) -> ChargeDocument:
    return {
        "namespace": key.namespace,
        "queue": key.queue,
        "owner": key.owner,
        "vendor": key.vendor,
        "deviceHours": _rounded(amount.device_hours),
        "gibHours": _rounded(amount.gib_hours),
    }


def _gap(span: TimeSpan) -> ChargeGapDocument:
    return {"since": _time(span.since), "until": _time(span.until), "seconds": span.milliseconds / 1000}


def _used(found: ChargeReport) -> list[UsedMemoryDocument]:
    return [
        {
            "namespace": each.namespace,
            "allocatedGibHours": _rounded(each.allocated_gib_hours),
            "usedGibHours": _rounded(each.used_gib_hours),
        }
        for each in found.used or ()
    ]


def _idle(found: ChargeReport) -> list[IdlePodDocument]:
    return [
        {
            "namespace": each.namespace,
            "pod": each.pod,
            "hours": _rounded(each.hours),
            "allocatedGib": _rounded(each.gib),
            "usedRatio": None if each.used is None else _rounded(each.used),
            "busyRatio": None if each.busy is None else _rounded(each.busy),
        }
        for each in found.idle or ()
    ]


def _rounded(value: Fraction) -> float:
    return float(round(value, 6))


def _percent(share: Fraction | None) -> str:
    return "-" if share is None else f"{float(share):.1%}"


def _time(unix_milliseconds: int) -> str:
    found = datetime.fromtimestamp(unix_milliseconds // 1000, UTC)
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")
