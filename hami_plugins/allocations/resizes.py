"""Resizes of running slices as the cache books them, and what the allocator does next about a pod.

Whatever is written down and not seen yet counts with the larger amount. Growth is booked first and put in force by the
node agent afterwards; a slice shrinks in force first. ``IN_FORCE_KEY`` is never below what the container can book: the
agent raises it before the region and lowers it after, so that what is booked can follow it down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.engine.resizes import with_memory
from hami_plugins.engine.usage import held_by
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, Pod, PodRecord
from hami_plugins.model.units import MiB
from hami_plugins.wire.resizes import BOOKED_KEY, Amounts, PodResize, decode

Booked = tuple[tuple[str, MiB], ...]
"""Amounts in the order of the containers' names."""


class BookedMemory(NamedTuple):
    """What resizes have booked for a bound pod; ``pending`` is being written on the pod instead."""

    booked: Booked = ()
    pending: Booked | None = None

    def seen(self, said: Booked) -> tuple[BookedMemory, bool]:
        """The pod says this now; and whether another component than the allocator made it smaller.

        A larger amount takes nothing from other pods, so it counts.
        """
        if said == self.pending:
            return BookedMemory(said), False
        before = dict(self.booked)
        if said == self.booked or not all(before.get(name, 0) <= amount for name, amount in said):
            return self, said != self.booked
        return (BookedMemory(said, self.pending), False) if before.keys() <= dict(said).keys() else (self, True)

    def held(self, plain: Sequence[ContainerAllocation], names: Sequence[str]) -> tuple[ContainerAllocation, ...]:
        """What the pod holds: of what is booked and what is pending the larger amount. ``plain`` is without resizes."""
        if not self.booked and not self.pending:
            return tuple(plain)
        booked = with_memory(plain, names, dict(self.booked))
        if self.pending is None:
            return booked
        pending = with_memory(plain, names, dict(self.pending))
        return tuple(max(both, key=_memory) for both in zip(booked, pending, strict=True))


class ResizeStep(NamedTuple):
    """An amount to be booked for a container."""

    container: str
    memory: MiB


def next_step(found: PodResize, plain: Amounts) -> ResizeStep | None:
    """What is to be booked next for a pod, ``None`` for nothing. ``plain`` are containers that can be resized.

    A refused ask is taken back to what is in force.
    """
    for name in sorted(plain):
        booked = found.booked.get(name, plain[name])
        in_force = found.in_force.get(name, plain[name])
        wanted = found.asked.get(name, booked)
        if found.refused:
            wanted = min(booked, in_force) if name in found.asked else booked
        if wanted > booked:
            return ResizeStep(name, wanted)
        if max(wanted, in_force) < booked:
            return ResizeStep(name, MiB(max(wanted, in_force)))
    return None


def shortage_of(before: PodRecord, after: PodRecord, others: NodeEntry) -> str:
    """Why a pod cannot hold more on its own cards; empty where it can. ``others`` is its node without the pod."""
    had = held_by(before.allocations, init_finished=before.init_finished)
    for name, held in held_by(after.allocations, init_finished=after.init_finished).items():
        if held.memory <= had[name].memory:
            continue
        at = others.position(name)
        if at is None:
            return f"its card {name} is not registered"
        capacity, used = others.state.shape.devices[at].memory, others.state.usage[at].memory
        if used + held.memory > capacity:
            return (
                f"card {name} has {capacity - used} of {capacity} MiB for this pod, which would hold "
                f"{held.memory} MiB; the rest is allocated or promised to other pods"
            )
    return ""


def as_written(pod: Pod) -> tuple[Booked, Pod]:
    """What resizes have booked for a pod by its annotations, and the pod without them."""
    if BOOKED_KEY not in pod.annotations:
        return (), pod
    found = decode(pod.annotations)
    rest = {key: text for key, text in pod.annotations.items() if key != BOOKED_KEY}
    return of_amounts({} if found is None else found.booked), replace(pod, annotations=rest)


def of_amounts(found: Mapping[str, MiB]) -> Booked:
    """Amounts in their order."""
    return tuple(sorted(found.items()))


def _memory(allocation: ContainerAllocation) -> int:
    return sum(share.memory for share in allocation.shares)
