"""Gangs: how many members have to start together, which of them run already, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot


class Need(NamedTuple):
    """``members`` of a gang start together, among them so many of each task, or none does."""

    members: int
    by_task: tuple[tuple[str, int], ...] = ()


def running(snapshot: ClusterSnapshot, namespace: str, group: str) -> Counter[str]:
    """The members of a group that have a place already or have ended well, per task.

    Those that are being deleted do not count, nor those that failed (``JobInfo.ReadyTaskNum`` of Volcano 1.14.1).
    """
    found = Counter(
        record.task
        for entry in snapshot.nodes
        for record in entry.pods
        if group in (record.group, record.native_group) and record.namespace == namespace and not record.terminating
    )
    found.update(snapshot.succeeded.get(f"{namespace}/{group}", {}))
    return found


class Missing(NamedTuple):
    """A gang (or one ``task`` of it) that needs more members than it has."""

    needed: int
    have: int
    task: str = ""


def missing(need: Need, have: Mapping[str, int]) -> tuple[Missing, ...]:
    """What a gang misses with so many members per task; nothing when it is complete."""
    found = [Missing(need.members, total)] if (total := sum(have.values())) < need.members else []
    found += [Missing(least, have.get(task, 0), task) for task, least in need.by_task if have.get(task, 0) < least]
    return tuple(found)


def in_turn(tasks: Sequence[str], need: Need, have: Mapping[str, int]) -> list[int]:
    """The order in which members are tried: first those that tasks need, then the others; each in the order given."""
    left = {task: least - have.get(task, 0) for task, least in need.by_task}
    first: list[int] = []
    rest: list[int] = []
    for at, task in enumerate(tasks):
        if left.get(task, 0) > 0:
            left[task] -= 1
            first.append(at)
        else:
            rest.append(at)
    return first + rest


def least_requests(members: Iterable[tuple[str, Mapping[str, int]]], need: Need) -> dict[str, int]:
    """What the members that have to start ask together (plain requests, nano units): the first of each task.

    ``members`` are their tasks and requests, in order (Volcano 1.14.1
    ``pkg/controllers/podgroup/pg_controller_handler.go``: a PodGroup's ``minResources``).
    """
    listed = list(members)
    chosen = in_turn([task for task, _ in listed], need, {})[: need.members]
    total: dict[str, int] = {}
    for at in chosen:
        for resource, amount in listed[at][1].items():
            total[resource] = total.get(resource, 0) + amount
    return total
