"""Upstream's own device choice where it depends on the sorting of a list, replayed for comparison.

The replay shares the sorting and the reading of nodes and pods with the product, and nothing else: the choice itself is
written here from the reference, defects included, so that a rule can show that a defect accounts for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hami_plugins.engine.order import arranged
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from tests.golden import corpus
from tests.golden.rules import Answer, Case


@dataclass(slots=True)
class Card:
    """One card while containers are placed. ``cores`` and ``used_cores`` are as upstream counts them."""

    position: int
    id: str
    device: Device
    wanted: bool
    used: int
    used_memory: int
    used_cores: int
    told: int | None = None
    """What upstream remembers of a Neuron device's cores within one decision."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One card of one container: what upstream writes down, and whether it counts that within the decision."""

    card: Card
    memory: int
    cores: int
    cache: bool = True
    told: int = 0


Choice = Callable[[Sequence[Card], DeviceRequest, bool], "list[Taken] | str"]
"""Chooses from upstream's sorted list (with the policy's mutex flag), or gives upstream's reason."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Upstream's answer: reason when it does not fit, else the cards of each container."""

    reason: str = ""
    containers: list[list[Taken]] = field(default_factory=list)


def replayed(case: Case, registry: Registry, choose: Choice, *, last: Sequence[str] = ()) -> Replay | None:
    """Upstream's way through a case; ``None`` for a pod that never gets to devices.

    ``last`` names cards that come last among equals, first choice first.
    """
    entry, intake, _ = corpus.situation(case, registry)
    if intake.refusal or not intake.demand.devices.wants_devices:
        return None
    order = sorted(range(len(entry.ids)), key=lambda at: -last.index(entry.ids[at]) if entry.ids[at] in last else -999)
    running = list(order)
    cards = _cards(entry)
    containers: list[list[Taken]] = []
    for demand in intake.demand.devices.containers:
        given: list[Taken] = []
        init = demand.kind is ContainerKind.INIT
        mine, sequence = (_cards(entry), list(order)) if init else (cards, running)
        for request in demand.requests:
            if request.count > len(mine):
                return Replay("NodeInsufficientDevice")
            usage = [DeviceUsage(each.used, MiB(each.used_memory), CoreShare(each.used_cores)) for each in mine]
            devices = [each.device for each in mine]
            sequence[:] = arranged(sequence, devices, usage, intake.policy, demand.requests)[::-1]
            for each in mine:
                each.wanted = request.selector.accepts_id(entry.ids[each.position])
            found = choose([mine[at] for at in sequence], request, intake.policy.exclusive)
            if isinstance(found, str):
                return Replay(found)
            _book(found)
            given += found
        containers.append(given)
    return Replay("", containers)


@dataclass(frozen=True, slots=True)
class Writing:
    """A vendor's choice as it is recorded: the list's annotations, and those of the vendor ``beside`` them."""

    keys: tuple[str, ...]
    beside: Callable[[Case, Replay], dict[str, str]] = lambda case, replay: {}

    def __call__(self, case: Case, ours: Answer, replay: Replay) -> Answer:
        """The whole answer, as far as admission is not concerned."""
        if replay.reason:
            return replace(ours, fits=False, reason=replay.reason, annotations={})
        text = "".join(f"{''.join(map(_record, given))};" for given in replay.containers)
        node = case["node"]["metadata"]["name"]
        shared = {"hami.io/vgpu-node": node, "hami.io/vgpu-time": "<unix-seconds>", **dict.fromkeys(self.keys, text)}
        return replace(ours, fits=True, reason="", annotations={**shared, **self.beside(case, replay)})


def explains(case: Case, ours: Answer, theirs: Replay | None, mended: Replay | None, writing: Writing) -> bool:
    """Whether upstream's answer is the replay with its defects, and ours the replay without them."""
    if theirs is None or mended is None:
        return False
    differing = corpus.differing(case, writing(case, ours, theirs)) - {"admission", "mutated"}
    return not differing and writing(case, ours, mended) == ours


def _record(taken: Taken) -> str:
    return f"{taken.card.id},{taken.card.device.vendor},{taken.memory},{taken.cores}:"


def _cards(entry: NodeEntry) -> list[Card]:
    return [
        Card(at, entry.ids[at], device, True, used.slots, used.memory, used.cores)
        for at, (device, used) in enumerate(zip(entry.state.shape.devices, entry.state.usage, strict=True))
    ]


def _book(found: Sequence[Taken]) -> None:
    for taken in found:
        card = taken.card
        card.used += 1
        card.told = (card.told or 0) + taken.told
        if taken.cache:
            card.used_memory += taken.memory
            card.used_cores += taken.cores
