"""Allocations with another amount of memory: which containers can be resized, and what they hold then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hami_plugins.model.devices import GroupMember
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.wire.resizes import Amounts


def obstacle(allocation: ContainerAllocation) -> str:
    """Why the memory of a container cannot be changed; empty where it can."""
    if len(allocation.shares) != 1:
        return f"it holds {len(allocation.shares)} cards; only a container with one card can be resized"
    mark = allocation.shares[0].mark
    if mark is not None and not isinstance(mark, GroupMember):
        return "it holds a hardware partition, whose size is fixed"
    return ""


def with_memory(
    allocations: Sequence[ContainerAllocation], names: Sequence[str], amounts: Amounts
) -> tuple[ContainerAllocation, ...]:
    """The same with these amounts, by the names of the containers; what cannot be resized stays as it is."""
    return tuple(
        replace(each, shares=(replace(each.shares[0], memory=amounts[name]),))
        if name in amounts and not obstacle(each)
        else each
        for name, each in zip(names, allocations, strict=True)
    )
