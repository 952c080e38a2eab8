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


class Turn(NamedTuple):
    """``size`` of the pods of the member ``at``, without those before ``first``."""

    at: int
    first: int
    size: int


def turns(members: Sequence[tuple[str, int]], need: Need, have: Mapping[str, int]) -> list[Turn]:
    """The order in which members are tried: first those that tasks need, then the others; each in the order given.

    ``members`` are their tasks, and how many pods each stands for.
    """
    left = {task: least - have.get(task, 0) for task, least in need.by_task}
    first: list[Turn] = []
    rest: list[Turn] = []
    for at, (task, count) in enumerate(members):
        needed = max(min(left.get(task, 0), count), 0)
        if needed:
            left[task] -= needed
            first.append(Turn(at, 0, needed))
        if needed < count:
            rest.append(Turn(at, needed, count - needed))
    return first + rest


def in_turn(tasks: Sequence[str], need: Need, have: Mapping[str, int]) -> list[int]:
    """The same of single pods: their places."""
    return [turn.at for turn in turns([(task, 1) for task in tasks], need, have)]


def least_requests(members: Iterable[tuple[str, Mapping[str, int], int]], need: Need) -> dict[str, int]:
    """The sum of the requests of the members that have to start (plain requests, nano units): the first of each task.

    ``members`` are their tasks, requests and numbers of pods, in order (Volcano 1.14.1
    ``pkg/controllers/podgroup/pg_controller_handler.go``: a PodGroup's ``minResources``).
    """
    listed = list(members)
    total: dict[str, int] = {}
    missing = need.members
    for turn in turns([(task, count) for task, _, count in listed], need, {}):
        count = min(turn.size, missing)
        missing -= count
        for resource, amount in listed[turn.at][1].items() if count else ():
            total[resource] = total.get(resource, 0) + amount * count
    return total
