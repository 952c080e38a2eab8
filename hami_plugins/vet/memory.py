"""HP21x: device memory in the wrong unit, the mistake that is made most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hami_plugins.engine.demand import WHOLE
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.requests import Absolute
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vet import facts
from hami_plugins.vet.context import Context, each_request, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, ResourceEntry

_SIZED: Final = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]+)")
_MIB_PER: Final[dict[str, float]] = {
    "ki": 2**-10, "kib": 2**-10, "kb": 2**-10,
    "mi": 1, "mib": 1, "m": 1, "mb": 1,
    "gi": 2**10, "gib": 2**10, "g": 2**10, "gb": 2**10,
    "ti": 2**20, "tib": 2**20, "t": 2**20, "tb": 2**20,
}  # fmt: skip
"""The meaning of a unit behind an amount of device memory; the factor 1000 or 1024 does not matter here."""

_BYTES_FROM: Final = 2**30
"""A plain number from here on can only mean bytes."""


class MemoryUnit(NamedTuple):
    """How a vendor counts memory: MiB per unit, and the largest amount in MiB that a card may have."""

    mib: int
    largest: int

    @property
    def words(self) -> str:
        """What messages call the unit."""
        return "MiB" if self.mib == 1 else "GiB" if self.mib == 1024 else f"units of {self.mib} MiB"


def meant(amount: ResourceEntry) -> int | None:
    """The MiB that an amount with a unit is meant to be; ``None`` for a plain number. ``3k`` is three thousand."""
    match = _SIZED.fullmatch(amount.text.strip())
    factor = None if match is None else _MIB_PER.get(match["unit"].lower())
    if match is None or factor is None:
        return None
    return max(1, round(float(match["number"]) * factor))


def unit_of(spec: VendorSpec) -> MemoryUnit:
    """How a vendor counts memory."""
    return MemoryUnit(spec.memory_factor(), facts.LARGEST_CARD.get(spec.name, facts.LARGEST_OF_ALL))


def in_bytes(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Bytes for vendors that count otherwise."""
    asked = _asked(spec, container)
    if asked is None:
        return
    unit = unit_of(spec)
    mib = meant(asked)
    if mib is None:
        whole = None if asked.quantity is None else asked.quantity.whole
        if whole is None or whole < _BYTES_FROM or whole * unit.mib <= unit.largest:
            return
        mib = whole >> 20
    elif _taken_as_bytes(spec, container, context, asked):
        return
    value = _in_units(spec, mib)
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {asked.resource}={asked.text}: memory is counted in {unit.words} here, not in "
        f"bytes: {_made_of(spec, container, context, asked)}",
        f"write {value}" if unit.mib == 1 else f"write {value}, which is {value * unit.mib} MiB",
        RewriteFix(asked.path, str(value)),
    )


def _made_of(spec: VendorSpec, container: ContainerView, context: Context, asked: ResourceEntry) -> str:
    """What the scheduler makes of an amount in bytes (``GenerateResourceRequests`` in HAMi 2.10.0
    ``pkg/device/*/device.go``, Volcano 1.14.1 ``pkg/scheduler/api/devices/util.go``)."""
    reading = context.reading(spec, container)
    if asked.quantity is not None and asked.quantity.whole is None:
        return "the API server takes whole amounts only"
    if spec.dialect is Dialect.VOLCANO and asked.quantity is not None:
        return _cut(asked.quantity.ceiling)
    if reading.denied:
        return "HAMi's webhook refuses the pod"
    if reading.request is None:
        return "HAMi 2.10 admits the pod, and takes the container for one without devices"
    if isinstance(reading.request.memory, Absolute):
        return f"it is read as {reading.request.memory.mib} MiB"
    return "it is not read, and the container has all memory of the card"


def _cut(amount: int) -> str:
    """What Volcano reads of an amount: it keeps 32 bits of it, and from 1.13 on the sums of nodes count as well."""
    kept = (amount + 2**31) % 2**32 - 2**31
    if kept == amount:
        return f"Volcano reads it as {amount} MiB, which no card has"
    read = f"{kept} MiB, which {'no' if kept > 0 else 'every'} card has" if kept else "0, which is the whole card"
    return f"Volcano from 1.13 on finds no node with so much, and before it keeps the last 32 bits: {read}"


def in_mebibytes(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """MiB for vendors with a larger unit, and other amounts that no card has."""
    asked = _asked(spec, container)
    unit = unit_of(spec)
    whole = None if asked is None or asked.quantity is None else asked.quantity.whole
    if asked is None or whole is None or meant(asked) is not None or whole >= _BYTES_FROM:
        return
    if whole * unit.mib <= unit.largest:
        return
    what = (
        f"{where(container, pod)}: {asked.resource}={asked.text} is counted in {unit.words}: "
        f"{_large(whole * unit.mib)}, more than any card has"
    )
    if unit.mib == 1 or whole > facts.LARGEST_OF_ALL:
        yield Violation(asked.path, what, f"write an amount in {unit.words}")
        return
    value = _in_units(spec, whole)
    yield Violation(asked.path, what, f"write {value} if {whole} MiB were meant", RewriteFix(asked.path, str(value)))


def too_small(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """GiB for vendors that count in MiB."""
    asked = _asked(spec, container)
    whole = None if asked is None or asked.quantity is None else asked.quantity.whole
    if asked is None or whole is None or unit_of(spec).mib != 1 or not 0 < whole < facts.SMALLEST_USEFUL:
        return
    if meant(asked) is None:
        yield Violation(
            asked.path,
            f"{where(container, pod)}: {asked.resource}={asked.text} is {whole} MiB, less than a runtime needs for "
            "itself",
            f"write {whole * 1024} if {whole} GiB were meant",
            RewriteFix(asked.path, str(whole * 1024)),
        )


def both(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """An amount and a percentage."""
    names = spec.resources
    amount = container.amount(names.memory) if names.memory else None
    percent = container.amount(names.memory_percentage) if names.memory_percentage else None
    if amount is None or percent is None:
        return
    yield Violation(
        percent.path,
        f"{where(container, pod)}: {names.memory_percentage}={percent.text} and {names.memory}={amount.text}: "
        "one of the two is ignored, under HAMi the percentage, under Volcano the amount",
        "keep one of them",
    )


def percentage_range(spec: VendorSpec, container: ContainerView, pod: PodView, _: Context) -> Iterator[Violation]:
    """Percentages that are none."""
    name = spec.resources.memory_percentage
    percent = container.amount(name) if name else None
    if percent is None or percent.quantity is None or percent.quantity.ceiling <= 100:
        return
    yield Violation(
        percent.path,
        f"{where(container, pod)}: {name}={percent.text} is not a percentage, and the webhook refuses it",
        "write 1 to 100",
    )


def whole_by_omission(
    spec: VendorSpec, container: ContainerView, pod: PodView, context: Context
) -> Iterator[Violation]:
    """A part of the cores together with all of the memory."""
    cores = container.amount(spec.resources.cores) if spec.resources.cores else None
    reading = context.reading(spec, container)
    if cores is None or reading.request is None or not spec.resources.memory:
        return
    if spec.resources.memory_percentage and container.amount(spec.resources.memory_percentage) is not None:
        return
    request = reading.request
    if request.memory == WHOLE and not request.slices and 0 < request.cores < facts.WHOLE_CORES.get(spec.name, 100):
        yield Violation(
            cores.path,
            f"{where(container, pod)}: {cores.resource}={cores.text} without {spec.resources.memory}: a part of the "
            "cores, but all of the memory, so no other pod can share the card",
            f"write {spec.resources.memory}, too",
        )


def _asked(spec: VendorSpec, container: ContainerView) -> ResourceEntry | None:
    name = spec.resources.memory
    return container.amount(name) if name and spec.name not in facts.MEMORY_IS_A_GUESS else None


def _taken_as_bytes(spec: VendorSpec, container: ContainerView, context: Context, asked: ResourceEntry) -> bool:
    """Whether the vendor understands units behind the number: it is known to, or just did."""
    if spec.name in facts.TAKES_UNITS:
        return True
    request = context.reading(spec, container).request
    if request is None or asked.quantity is None or asked.quantity.whole is None:
        return False
    return isinstance(request.memory, Absolute) and 0 < request.memory.mib == asked.quantity.whole >> 20


def _in_units(spec: VendorSpec, mib: int) -> int:
    """The least amount in the vendor's units that holds so many MiB."""
    value = max(1, -(-mib // unit_of(spec).mib))
    steps = facts.MEMORY_STEPS.get(spec.name, ())
    return next((step for step in steps if step >= value), steps[-1] if steps else value)


def _large(mib: int) -> str:
    return f"{mib / 2**20:.4g} TiB" if mib >= 2**20 else f"{mib / 2**10:.4g} GiB"


RULES: Final = (
    VetRule(
        id="HP211",
        name="memory-in-bytes",
        severity=VetSeverity.ERROR,
        summary="Device memory is written in bytes, or with a unit such as Gi.",
        why="Most vendors count MiB or larger units. 16Gi would be seventeen thousand million of them, which is "
        "refused, or overflows to nothing, and nothing means the whole card.",
        fix="Write a plain number in the vendor's unit.",
        check=each_request(in_bytes),
    ),
    VetRule(
        id="HP212",
        name="memory-unit",
        severity=VetSeverity.ERROR,
        summary="Device memory is more than any card has: MiB where the vendor counts larger units.",
        why="Units of 256 MiB, 512 MiB and 1 GiB exist; 4096 of them are a terabyte or more and fit nowhere.",
        fix="Divide by the vendor's unit.",
        check=each_request(in_mebibytes),
    ),
    VetRule(
        id="HP213",
        name="memory-too-small",
        severity=VetSeverity.WARNING,
        summary="Device memory is less than a runtime needs for itself: GiB where the vendor counts MiB.",
        why="The first allocation in the container fails.",
        fix="Multiply by 1024.",
        check=each_request(too_small),
    ),
    VetRule(
        id="HP214",
        name="memory-and-percentage",
        severity=VetSeverity.WARNING,
        summary="Device memory is given as an amount and as a percentage.",
        why="Only one of them counts, and which depends on the scheduler.",
        fix="Keep one.",
        check=each_request(both),
    ),
    VetRule(
        id="HP215",
        name="percentage-range",
        severity=VetSeverity.ERROR,
        summary="A memory percentage is above 100.",
        why="The webhook refuses the pod.",
        fix="Write 1 to 100.",
        check=each_request(percentage_range),
    ),
    VetRule(
        id="HP216",
        name="whole-memory-by-omission",
        severity=VetSeverity.NOTE,
        summary="A container takes a part of a card's cores and all of its memory.",
        why="Without a memory amount the whole memory is booked, so no other container can use the rest of the cores.",
        fix="Write a memory amount.",
        check=each_request(whole_by_omission),
    ),
)
