"""Containers' usage compared with their allocation: for the page, for explanations, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from hami_plugins.explain import Explanation, RunningExplanation
from hami_plugins.model.decisions import Placed
from hami_plugins.model.units import MEBIBYTE, DeviceId
from hami_plugins.occupancy.devices import SegmentUnit
from hami_plugins.output.page.bars import amount_words
from hami_plugins.output.rows import Table, TableRow, TextLine
from hami_plugins.wire import usage
from hami_plugins.wire.usage import CardUsage, ContainerUsage, NodeUsage, ReadStatus, UsageDoubt

MOST_TOLD: Final = 3
"""Pods that are named with a waiting one, because they leave much unused."""

LEAST_UNUSED: Final = 1 << 30
"""So many bytes of an allocation have to be unused before they are worth a word."""

_COLUMNS: Final = ("POD", "CONTAINER", "CARD", "ALLOCATED", "USED", "SM", "LAST KERNEL", "PROCESSES", "REMARK")
_SPANS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_READINGS: Final = {
    ReadStatus.READ: "",
    ReadStatus.NOT_READY: "not ready",
    ReadStatus.NO_FILE: "has not used its card yet",
    ReadStatus.UNREADABLE: "cannot be read",
}
_DOUBTS: Final = {
    UsageDoubt.STALE: "may count killed processes",
    UsageDoubt.UNSETTLED: "was being written",
    UsageDoubt.INVALID: "wrong counters left out",
    UsageDoubt.UNNAMED: "a card without a name left out",
}


@dataclass(frozen=True, slots=True)
class Usages:
    """The containers of a cluster by ``namespace/name`` of their pod; without any nothing is known."""

    pods: Mapping[str, tuple[ContainerUsage, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[NodeUsage]) -> Usages:
        """Those of several nodes."""
        return cls(usage.by_pod(nodes))

    def pod(self, name: str) -> tuple[ContainerUsage, ...]:
        """The containers of one pod."""
        return self.pods.get(name, ())

    def on_card(self, name: str, card: DeviceId) -> str:
        """What a pod uses of one card, in words; empty where that is not known."""
        cards = [each for container in self.pod(name) for each in container.cards if each.card == card]
        known = [each.used.total for each in cards if each.used is not None]
        return f"uses {_amount(sum(known))}" if known else ""

    def unused(self, most: int) -> tuple[tuple[str, str], ...]:
        """Who leaves most of an allocation unused, with what is held and used: a pair of words for each card."""
        return tuple(
            (f"{each.full_name}, container {each.container}", _card_words(each, card))
            for each in self.wasteful(most)
            for card in each.cards
        )

    def wasteful(self, most: int = MOST_TOLD) -> tuple[ContainerUsage, ...]:
        """The containers that leave most of their allocation unused, the worst first."""
        found = [each for containers in self.pods.values() for each in containers if each.unused >= LEAST_UNUSED]
        return tuple(nlargest(most, found, key=lambda each: each.unused))


def told_beside(found: Explanation, usages: Usages) -> tuple[ContainerUsage, ...]:
    """The containers to be told of: those of a running pod, or whose allocations a pod that waits could use."""
    if isinstance(found.about, RunningExplanation):
        return usages.pod(found.pod)
    waits = not found.asks_nothing and not isinstance(found.about.plan.decision, Placed)
    return usages.wasteful() if waits else ()


def lines(found: Explanation, usages: Usages) -> tuple[TextLine, ...]:
    """The same in words."""
    containers = told_beside(found, usages)
    if isinstance(found.about, RunningExplanation):
        return tuple(_beside_allocation(each, card) for each in containers for card in each.cards)
    return tuple(
        TextLine(f"  unused meanwhile: {_amount(each.unused)} of {each.full_name}, container {each.container}", "warn")
        for each in containers
    )


def table(containers: Iterable[ContainerUsage]) -> Table:
    """A row for each container and card; who leaves most unused comes first."""
    ordered = sorted(containers, key=lambda each: -each.unused)
    rows = [row for each in ordered for row in _rows(each)]
    return Table(columns=_COLUMNS, rows=tuple(rows), whole=frozenset({0, 1, 3, 4}), optional=(7, 6, 5), toned=8)


def _beside_allocation(container: ContainerUsage, card: CardUsage) -> TextLine:
    words = _card_words(container, card)
    return TextLine(f"  container {container.container}: {words}", "warn" if card.unused >= LEAST_UNUSED else "")


def _card_words(container: ContainerUsage, card: CardUsage) -> str:
    if card.used is None:
        return f"{_amount(card.allocated)} of {card.card} are allocated, use is not known ({_remark(container)})"
    said = [f"uses {_amount(card.used.total)} of {_amount(card.allocated)} on {card.card}"]
    if card.utilization is not None:
        said.append(f"{card.utilization:.0%} busy")
    if container.last_kernel_age is not None:
        said.append(f"last kernel {_age(container.last_kernel_age)}")
    return ", ".join(filter(None, (*said, _remark(container))))


def _remark(container: ContainerUsage) -> str:
    """What is to be known about the numbers of a container, or why there are none."""
    said = [_READINGS[container.reading], container.problem, *(_DOUBTS[doubt] for doubt in sorted(container.doubts))]
    if container.gone:
        said.append(f"{container.gone} killed processes not counted")
    said += [
        f"limit in force {_amount(card.limit)}"
        for card in container.cards
        if card.limit is not None and card.allocated is not None and card.limit != card.allocated
    ]
    return "; ".join(filter(None, said))


def _rows(found: ContainerUsage) -> list[TableRow]:
    tone = "bad" if found.reading is ReadStatus.UNREADABLE else "warn" if found.doubts else ""
    processes = str(found.processes) if found.reading is ReadStatus.READ else "-"
    ends = (_age(found.last_kernel_age), processes, _remark(found))
    cards = found.cards or (None,)
    return [TableRow((found.full_name, found.container, *_cells(card), *ends), tone) for card in cards]


def _cells(card: CardUsage | None) -> tuple[str, str, str, str]:
    if card is None:
        return "-", "-", "-", "-"
    used = None if card.used is None else card.used.total
    share = "-" if card.utilization is None else f"{card.utilization:.0%}"
    return card.card, _amount(card.allocated), _amount(used), share


def _amount(found: int | None) -> str:
    return "-" if found is None else amount_words(SegmentUnit.MEMORY, found // MEBIBYTE)


def _age(seconds: float | None) -> str:
    """An age in its largest unit: ``3 min ago``."""
    if seconds is None:
        return "-"
    return next((f"{seconds / span:.0f} {unit} ago" for span, unit in _SPANS if seconds >= span), "now")
