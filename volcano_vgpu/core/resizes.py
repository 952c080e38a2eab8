"""The agent's next step for a container whose memory is to be changed. Pure: the region as it was read goes in.

The annotation of what is in force is never below what the container can book: it is raised before the region, and
lowered only when a later look still finds the lower limit and no more than that in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.model.units import MiB
from hami_plugins.wire import resizes
from hami_plugins.wire.resizes import PodResize
from hami_plugins.wire.shared_region import UnreadableRegion
from hami_plugins.wire.usage import ReadStatus
from volcano_vgpu.core.monitor.join import MIB
from volcano_vgpu.core.monitor.regions import Content, Region, reading_of

_REMARKS: Final = {
    ReadStatus.NO_FILE: "it has not used its card yet, so that no limit is in force; ask again then",
    ReadStatus.NOT_READY: "its processes are just starting; ask again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInForce:
    """What a container can book on its card (``limit``, at ``index`` of its region) and has booked, in bytes."""

    index: int
    limit: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """What to do: first ``annotations``, and then, if they are written, ``limit`` bytes into the region."""

    annotations: Mapping[str, str] | None = None
    limit: int | None = None


NOTHING: Final = AgentStep()


def in_force(content: Content, card: str) -> LimitInForce | str:
    """The limit of a container on its only card, or why it cannot be changed."""
    if not isinstance(content, Region):
        status = reading_of(content)
        text = content.text if isinstance(content, UnreadableRegion) else ""
        return _REMARKS.get(status) or f"its file of HAMi-core cannot be changed: {text}"
    header = content.header
    if card not in header.uuids:
        return "its file of HAMi-core does not name its card"
    index = header.uuids.index(card)
    limit = header.memory_limits[index]
    if limit == 0:
        return "HAMi-core enforces no memory limit in it"
    used = sum(process.devices[index].total for process in content.processes if process.counts)
    return LimitInForce(index=index, limit=limit, used=used)


def next_step(found: PodResize, name: str, plain: MiB, region: LimitInForce | str, *, factor: int) -> AgentStep:
    """What to do about container ``name``, which was given ``plain`` units of ``factor`` MiB of its only card.

    The target is the smaller of the requested and the booked amount: growth waits for the allocator.
    """
    booked = found.booked.get(name, plain)
    wanted = booked if found.refused else MiB(min(found.asked.get(name, booked), booked))
    declared = found.in_force.get(name, plain)
    if isinstance(region, str):
        return NOTHING if wanted == declared or found.refused else _refused(found, name, region)
    limit = wanted * factor * MIB
    if region.limit < limit:
        return AgentStep(annotations=_declared(found, name, wanted) if declared < wanted else None, limit=limit)
    if region.used > limit and (region.limit > limit or declared > wanted):
        if wanted == booked:
            return NOTHING  # no request waits for it: as memory is freed, a later pass finds less in use
        used = -(-region.used // (factor * MIB))
        return _refused(found, name, f"{used} MiB are in use now; free memory in the container, then ask again")
    if region.limit > limit:
        return AgentStep(limit=limit)
    return NOTHING if declared == wanted else AgentStep(annotations=_declared(found, name, wanted))


def _declared(found: PodResize, name: str, amount: MiB) -> Mapping[str, str]:
    return {resizes.IN_FORCE_KEY: resizes.encode({**found.in_force, name: amount})}


def _refused(found: PodResize, name: str, why: str) -> AgentStep:
    return AgentStep(annotations={resizes.REFUSED_KEY: resizes.refusal(found.ask, f"container {name}: {why}")})
