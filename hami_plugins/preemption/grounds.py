"""By which rules the pods of a plan are evicted, with the rules' numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import PodRecord
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.values import EvictedPod, Rule


class Ground(NamedTuple):
    """A rule by which a pod is evicted, and its numbers in words."""

    rule: Rule
    words: str


def grounds_of(
    snapshot: ClusterSnapshot, rules: EvictionRules, victims: Sequence[EvictedPod]
) -> tuple[tuple[Ground, ...], ...]:
    """For each victim the rules that let it go: what it is worth, then what covers it, then why it and no equal pod."""
    leaving = Counter(gang for victim in victims if (gang := rules.gang_of(victim.pod)))
    left = {id(victim.pod) for victim in victims}
    alike = {_first_share(victim.pod) for victim in victims}
    equals: dict[Hashable, list[int]] = {}
    for entry in snapshot.nodes:
        for record in entry.pods:
            if _first_share(record) not in alike or id(record) in left or record.terminating:
                continue
            if rules.evictable_at(record) is not None:
                equals.setdefault(_worth(record, rules), []).append(record.made_at or 0)
    return tuple(tuple(_grounds(victim.pod, rules, leaving, equals)) for victim in victims)


def _grounds(
    record: PodRecord, rules: EvictionRules, leaving: Counter[str], equals: dict[Hashable, list[int]]
) -> Iterator[Ground]:
    yield Ground(*rules.ground(record))
    name = rules.gang_of(record)
    if name:
        gang, count = rules.gang(name), leaving[name]
        have = sum(gang.have.values())
        if count == len(gang.members):
            yield Ground(Rule.GANG, f"its gang {name} needs {gang.need.members} members and leaves as a whole")
        else:
            yield Ground(Rule.GANG, f"its gang {name} needs {gang.need.members} members and keeps {have - count}")
    for budget in rules.budgets_of(record):
        yield Ground(Rule.BUDGET, f"its PodDisruptionBudget {budget.name} allows {budget.allowed}")
    others = equals.get(_worth(record, rules), [])
    if others and max(others) < (record.made_at or 0):
        yield Ground(Rule.YOUNGEST, f"it is younger than {'another equal pod' if len(others) == 1 else _many(others)}")


def _many(others: Sequence[int]) -> str:
    return f"{len(others)} other equal pods"


def _first_share(record: PodRecord) -> tuple[int, int] | None:
    """Memory and cores of the first device: most pods differ in it, so that few have to be compared in full."""
    for allocation in record.allocations:
        for share in allocation.shares:
            return share.memory, share.cores
    return None


def _worth(record: PodRecord, rules: EvictionRules) -> Hashable:
    """All that two pods have in common which could be evicted for each other."""
    shares = Counter(
        (share.vendor, share.memory, share.cores) for allocation in record.allocations for share in allocation.shares
    )
    return rules.priority_of(record), frozenset(shares.items()), record.requests, rules.gang_of(record)
