"""The engine's laws, held after every step of random histories: 10,000 steps in all, over at least eight vendors."""

import random
from collections import Counter
from itertools import combinations

import pytest

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.usage import held_by
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed, Refused
from hami_plugins.model.devices import CoreMask, Instance, Mark
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId
from tests.history import History, a_history, fits, known, same
from tests.machines import MACHINES

SEEDS, STEPS = 20, 500
READ_ANEW_EVERY = 25


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_laws_hold_after_every_step_of_a_random_history(seed: int) -> None:
    history = a_history(seed)
    done: Counter[str] = Counter()
    seen: set[NodeEntry] = set()
    for number in range(STEPS):
        what = step(history)
        done[what] += 1
        for entry in {*history.snapshot.nodes} - seen:
            assert excess(history, entry) == [], (seed, number, what)
        assert overdrawn(history) == [], (seed, number, what)
        seen = {*history.snapshot.nodes}
        if number % READ_ANEW_EVERY == 0:
            reads_the_same(history)
    reads_the_same(history)
    assert len(done) >= 6, done
    assert done["placed"] > STEPS / 10, done


@pytest.mark.parametrize("left", [1, 1000])
def test_the_last_mebibyte_of_every_card_is_allocated_and_none_after_it(left: int) -> None:
    history = History(random.Random(0))
    machine = next(each for each in MACHINES if each.vendor == "NVIDIA")
    resources = history.registry[machine.vendor].resources  # type: ignore[index]
    cards = history.entry(history.join(machine)).state.shape.devices

    def fitting(memory: int) -> bool:
        raw = history.request(machine, single=True)
        raw["metadata"]["annotations"] = {}
        limits = {resources.count: "1", resources.memory: str(memory)}
        raw["spec"] |= {"initContainers": [], "containers": [{"name": "c", "resources": {"limits": limits}}]}
        return isinstance(history.submit(raw), Placed)

    assert all(fitting(card.memory - left) for card in cards)
    for _ in cards:
        assert not fitting(left + 1)
        assert fitting(left)
    assert not fitting(1)


def step(history: History) -> str:
    """One thing that happens, with the laws about it."""
    chance = history.chance
    happening = chance.choices(
        ("submit", "remove", "change", "finish", "repeat", "leave", "join"), (60, 24, 6, 5, 3, 0.4, 1.6)
    )[0]
    starting = sorted(name for name, raw in history.pods.items() if raw["spec"]["initContainers"])
    match happening:
        case "remove" if history.pods:
            return remove(history, chance.choice(sorted(history.pods)))
        case "change":
            history.change(chance.choice(sorted(history.nodes)))
        case "finish" if starting:
            history.finish_init(chance.choice(starting))
        case "repeat":
            repeat(history)
        case "leave" if len(history.nodes) > 8:
            history.leave(chance.choice(sorted(history.nodes)))
        case "join":
            history.join(chance.choice(MACHINES))
        case _:
            return submit(history)
    return happening


def submit(history: History) -> str:
    """A pod arrives: caches, and the order of nodes and pods, make no difference to the answer."""
    node = history.chance.choice(sorted(history.nodes))
    raw = history.another(history.chance.choice(history.machines[node]))
    intake = history.taken_in(raw)
    if intake.refusal:
        assert isinstance(history.submit(raw), Refused)
        return "denied"
    nodes = list(history.snapshot.nodes)
    history.chance.shuffle(nodes)
    uncached = Decider(history.registry).decide(ClusterSnapshot(nodes=tuple(nodes)), intake.demand, intake.policy)
    assert history.submit(raw) == uncached
    if not isinstance(uncached, Placed):
        return "refused"
    entry = history.snapshot.nodes[history.snapshot.position[uncached.node]]
    assert not entry.facts.unschedulable
    devices = dict(zip(entry.ids, entry.state.shape.devices, strict=True))
    assert all(devices[share.device].healthy for share in uncached.shares())
    return "placed"


def remove(history: History, pod: str) -> str:
    """A pod leaves: what fitted before fits after, and hearing of it twice changes nothing."""
    probes = [
        history.taken_in(history.request(machine, single=True))
        for machine in history.machines[history.pods[pod]["spec"]["nodeName"]]
        for _ in range(2)
    ]
    before = fits(history, probes)
    history.remove(pod)
    after = fits(history, probes)
    assert all(now for was, now in zip(before, after, strict=True) if was)
    snapshot = history.snapshot
    history.remove(pod)
    assert history.snapshot.nodes == snapshot.nodes
    return "removed"


def repeat(history: History) -> None:
    """The event of a node comes again: nothing changes."""
    before = history.snapshot.nodes
    name = history.chance.choice(sorted(history.nodes))
    history.renew(name)
    history.renew(name)
    assert same(before, history.snapshot.nodes)


def reads_the_same(history: History) -> None:
    """Usage is what the pods' records say, and what their annotations say, read in any order."""
    for seed in range(2):
        anew = history.read_anew(random.Random(seed))
        assert anew.problems == ()
        assert same(anew.nodes, history.snapshot.nodes)


def excess(history: History, entry: NodeEntry) -> list[str]:
    """What is promised of a node's devices beyond what they have.

    Cores of partitioned cards are left out: profiles carry rounded percentages, which may come to more than a card.
    """
    rounds = {machine.vendor for machine in history.machines[entry.name] if machine.rounds}
    wrong = []
    for device, usage, name in zip(entry.state.shape.devices, known(entry), entry.ids, strict=True):
        if not usage.slots:
            continue
        if usage.slots > device.slots or usage.memory > device.memory:
            wrong.append(f"{name} has {device}, promised {usage}")
        if usage.cores > device.cores and device.vendor not in rounds:
            wrong.append(f"{name} has {device.cores} cores, promised {usage.cores}")
        if usage.marks:
            wrong += clashes(name, entry.pods)
    return wrong


def overdrawn(history: History) -> list[str]:
    """Vendors of which the namespace holds more than its quota allows.

    Partitions are left out: a quota is asked for the memory that a pod names, and a partition may be larger.
    """
    rounds = {machine.vendor for machines in history.machines.values() for machine in machines if machine.rounds}
    return [
        f"{vendor}: {room}"
        for vendor, room in history.left().items()
        if vendor not in rounds and min(room.memory or 0, room.cores or 0) < 0
    ]


def clashes(device: DeviceId, pods: tuple[PodRecord, ...]) -> list[str]:
    """Partitions that overlap and cores that are given twice, among pods, and among a pod's running containers."""
    holders = [
        (record.full_name, held.marks)
        for record in pods
        if (held := held_by(record.allocations, init_finished=record.init_finished).get(device))
    ]
    running = [
        (
            f"{record.full_name}/{at}",
            tuple(share.mark for share in allocation.shares if share.device == device and share.mark),
        )
        for record in pods
        for at, allocation in enumerate(record.allocations)
        if allocation.kind is not ContainerKind.INIT
    ]
    return [
        f"{device}: {one} and {other} both hold {mark}"
        for holding in (holders, running)
        for (one, marks), (other, others) in combinations(holding, 2)
        for mark in marks
        if any(clash(mark, another) for another in others)
    ]


def clash(one: Mark, other: Mark) -> bool:
    """Whether two marks cannot be held at once."""
    if isinstance(one, Instance) and isinstance(other, Instance):
        return one.group != other.group or one.placement.overlaps(other.placement)
    return isinstance(one, CoreMask) and isinstance(other, CoreMask) and bool(one.bits & other.bits)
