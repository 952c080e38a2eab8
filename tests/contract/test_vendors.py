"""What every vendor promises, and one that is added tomorrow with it."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.apply import assigned, record_of, removed, with_pod
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed, Refused
from hami_plugins.model.devices import CoreMask, DeviceUsage, Instance
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import NoFit, Reason
from tests import acme
from tests.builders import a_container, a_pod, used
from tests.machines import MACHINES, SPECS, Limits, Machine, plain

REGISTRY = Registry([*SPECS, acme.SPEC])
ALL = (*MACHINES, plain(acme.SPEC))
RULES = Rules()
NOW = 1_790_000_000_123_456_789
SCHEDULERS = {Dialect.HAMI: "", Dialect.VOLCANO: "volcano", Dialect.KOORDINATOR: "koord-scheduler"}

every_machine = pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
every_ask = pytest.mark.parametrize(
    ("machine", "ask"),
    [pytest.param(machine, ask, id=f"{machine.name}-{at}") for machine in ALL for at, ask in enumerate(machine.asks)],
)
every_vendor = pytest.mark.parametrize("spec", tuple(REGISTRY), ids=lambda spec: spec.name)


def a_pod_for(machine: Machine, *asks: Limits, name: str = "p", words: int = 0) -> Pod:
    """A pod with one container for each ask, as its dialect's scheduler would see it."""
    scheduler = SCHEDULERS[REGISTRY[machine.vendor].dialect]  # type: ignore[index]
    containers = (a_container(ask, requests=ask, name=f"c{at}") for at, ask in enumerate(asks))
    annotations = machine.words[words % len(machine.words)]
    return a_pod(*containers, name=name, annotations=annotations, scheduler=scheduler)


def taken_in(pod: Pod) -> PodInfo:
    """The pod, admitted; every ask of a machine means something."""
    intake = take_in(pod, REGISTRY, RULES)
    assert intake.refusal == ""
    assert intake.demand.devices.wants_devices
    return intake


def decide(entry: NodeEntry, intake: PodInfo) -> Placed | Refused:
    return Decider(REGISTRY).decide(ClusterSnapshot(nodes=(entry,)), intake.demand, intake.policy)


def in_state(entry: NodeEntry, *, usage: Sequence[DeviceUsage] = (), healthy: Sequence[bool] = ()) -> NodeEntry:
    """The node with other usage or health."""
    shape = entry.state.shape
    if healthy:
        devices = tuple(replace(device, healthy=ok) for device, ok in zip(shape.devices, healthy, strict=True))
        shape = NodeShape(devices, shape.links, shape.traits)
    return replace(entry, state=NodeState(shape, tuple(usage) or entry.state.usage))


def chosen(decision: Placed | Refused, entry: NodeEntry) -> set[int]:
    """The positions of the allocated devices."""
    assert isinstance(decision, Placed)
    return {entry.ids.index(share.device) for share in decision.shares()}


def halves(entry: NodeEntry) -> Iterator[frozenset[int]]:
    """Sets of devices to take away: none, all, either half, and every other one."""
    count = len(entry.ids)
    for positions in (range(0), range(count), range(count // 2), range(count // 2, count), range(0, count, 2)):
        yield frozenset(positions)


@every_ask
def test_an_idle_machine_serves_what_may_be_asked_of_it(machine: Machine, ask: Limits) -> None:
    entry = machine.entry(REGISTRY)
    decision = decide(entry, taken_in(a_pod_for(machine, ask)))
    assert chosen(decision, entry)


@every_ask
def test_an_exclusive_request_never_shares(machine: Machine, ask: Limits) -> None:
    entry = machine.entry(REGISTRY)
    intake = taken_in(a_pod_for(machine, ask))
    intake = replace(intake, policy=replace(intake.policy, exclusive=True))
    for busy in halves(entry):
        usage = [used(1) if at in busy else used(0) for at in range(len(entry.ids))]
        decision = decide(in_state(entry, usage=usage), intake)
        if isinstance(decision, Placed):
            assert not chosen(decision, entry) & busy
        else:
            assert busy


@every_ask
def test_an_unhealthy_device_is_never_chosen(machine: Machine, ask: Limits) -> None:
    entry = machine.entry(REGISTRY)
    intake = taken_in(a_pod_for(machine, ask))
    for broken in halves(entry):
        decision = decide(in_state(entry, healthy=[at not in broken for at in range(len(entry.ids))]), intake)
        if isinstance(decision, Placed):
            assert not chosen(decision, entry) & broken
        else:
            assert broken


def overbooked(entry: NodeEntry, *, cores_too: bool) -> list[str]:
    """What is wrong with the promises on a node."""
    wrong = []
    for device, usage, name in zip(entry.state.shape.devices, entry.state.usage, entry.ids, strict=True):
        if usage.slots > device.slots:
            wrong.append(f"{name}: {usage.slots} of {device.slots} slots")
        if usage.memory > device.memory:
            wrong.append(f"{name}: {usage.memory} of {device.memory} MiB")
        if cores_too and usage.cores > device.cores:
            wrong.append(f"{name}: {usage.cores} of {device.cores} cores")
        places = [(mark.group, mark.placement) for mark in usage.marks if isinstance(mark, Instance)]
        if any(one[1].overlaps(other[1]) for one, other in itertools.combinations(places, 2)):
            wrong.append(f"{name}: overlapping partitions {places}")
        if len({group for group, _ in places}) > 1:
            wrong.append(f"{name}: cut in two ways {places}")
        masks = [mark.bits for mark in usage.marks if isinstance(mark, CoreMask)]
        if any(one & other for one, other in itertools.combinations(masks, 2)):
            wrong.append(f"{name}: cores given twice {masks}")
    return wrong


def left_of(entry: NodeEntry, decision: Placed, measure: str, *, less: int) -> NodeEntry:
    """The node on which the chosen devices have as much left as the decision takes, less so much, and no other device
    has a slot."""
    usage = [used(device.slots) for device in entry.state.shape.devices]
    for at, taken in taken_by(decision, entry, measure).items():
        usage[at] = used(0)._replace(**{measure: getattr(entry.state.shape.devices[at], measure) - taken + less})
    return in_state(entry, usage=usage)


def taken_by(decision: Placed, entry: NodeEntry, measure: str) -> Counter[int]:
    """What a decision takes of each device: slots, MiB or cores."""
    taken = Counter[int]()
    for share in decision.shares():
        taken[entry.ids.index(share.device)] += 1 if measure == "slots" else getattr(share, measure)
    return taken


def shares(entry: NodeEntry, intake: PodInfo) -> bool:
    """Whether the pod takes devices that others use."""
    return isinstance(decide(in_state(entry, usage=[used(1)] * len(entry.ids)), intake), Placed)


@every_machine
@pytest.mark.parametrize("measure", ["slots", "memory", "cores"])
def test_the_last_of_a_device_is_given_and_no_more(machine: Machine, measure: str) -> None:
    """Of what a vendor counts: partitions are counted by their places instead, and Kunlun's slices by their memory."""
    entry, uncounted = machine.entry(REGISTRY), REGISTRY[machine.vendor].fitting.takes_no_cores  # type: ignore[index]
    for ask in machine.asks:
        intake = taken_in(a_pod_for(machine, ask))
        decision = decide(entry, intake)
        assert isinstance(decision, Placed)
        if machine.rounds or not all(taken_by(decision, entry, measure).values()):
            continue
        requests = intake.demand.devices.containers[0].requests
        if measure == "cores" and uncounted and all(map(uncounted, requests)):
            continue
        if measure != "slots" or shares(entry, intake):
            assert isinstance(decide(left_of(entry, decision, measure, less=0), intake), Placed), dict(ask)
        assert isinstance(decide(left_of(entry, decision, measure, less=1), intake), Refused), dict(ask)


def filled(machine: Machine, asks: Iterator[Limits]) -> Iterator[NodeEntry]:
    """A machine after each of many pods, until nothing fits any more."""
    snapshot = ClusterSnapshot(nodes=(machine.entry(REGISTRY),))
    decider, refused = Decider(REGISTRY), 0
    for number, ask in enumerate(asks):
        intake = taken_in(a_pod_for(machine, ask, name=f"p{number}", words=number))
        decision = decider.decide(snapshot, intake.demand, intake.policy)
        if isinstance(decision, Refused):
            refused += 1
            if refused > len(machine.asks):
                return
            continue
        refused = 0
        snapshot = assigned(snapshot, intake.pod, decision)
        yield snapshot.nodes[0]


@every_machine
@pytest.mark.parametrize("start", range(3))
def test_placements_never_exceed_what_a_device_has(machine: Machine, start: int) -> None:
    asks = machine.asks[start % len(machine.asks) :] + machine.asks[: start % len(machine.asks)]
    placed = 0
    for entry in filled(machine, itertools.cycle(asks)):
        placed += 1
        assert overbooked(entry, cores_too=not machine.rounds) == []
        assert placed < 500, "the machine never gets full"
    assert placed


@every_machine
def test_a_pod_that_leaves_gives_everything_back(machine: Machine) -> None:
    empty = machine.entry(REGISTRY)
    *_, full = filled(machine, itertools.cycle(machine.asks))
    assert full.state != empty.state
    left = removed(ClusterSnapshot(nodes=(full,)), lambda record: True)
    assert left.nodes[0].state == empty.state


def recalled(pod: Pod, decision: Placed, entry: NodeEntry) -> tuple[ContainerAllocation, ...]:
    """What is read back from the annotations that the placement writes."""
    written = annotations_of(pod, decision, entry, REGISTRY, now_ns=NOW)
    record, problems = RecordReader(REGISTRY).record(replace(pod, annotations={**pod.annotations, **written}))
    assert problems == ()
    return record.allocations


def known_to(entry: NodeEntry, allocations: Sequence[ContainerAllocation]) -> tuple[ContainerAllocation, ...]:
    """Allocations without what a device does not have: a whole Neuron device is read back as "all cores there are"."""
    cores = dict(zip(entry.ids, (device.cores for device in entry.state.shape.devices), strict=True))
    return tuple(
        replace(
            allocation,
            shares=tuple(
                replace(share, mark=CoreMask(share.mark.bits & ((1 << cores[share.device]) - 1)))
                if isinstance(share.mark, CoreMask)
                else share
                for share in allocation.shares
            ),
        )
        for allocation in allocations
    )


@every_machine
def test_what_a_placement_writes_is_what_is_read_back(machine: Machine) -> None:
    """With idle containers between, because readers and writers have disagreed about those."""
    entry = machine.entry(REGISTRY)
    for number, ask in enumerate((*machine.asks, *machine.asks)):
        shapes: tuple[tuple[Limits, ...], ...] = ((ask,), ({}, ask), (ask, {}), ({}, ask, {}, ask))
        for containers in shapes:
            intake = taken_in(a_pod_for(machine, *containers, words=number))
            decision = decide(entry, intake)
            if isinstance(decision, Refused):
                continue
            allocations = known_to(entry, recalled(intake.pod, decision, entry))
            assert allocations == known_to(entry, decision.containers)
            entry = with_pod(entry, record_of(intake.pod, decision))


@every_ask
def test_an_init_container_is_read_back_too(machine: Machine, ask: Limits) -> None:
    entry = machine.entry(REGISTRY)
    scheduler = a_pod_for(machine, ask).scheduler
    containers = (
        a_container(ask, requests=ask, name="init", kind=ContainerKind.INIT),
        a_container({}, name="idle"),
        a_container(ask, requests=ask, name="app"),
    )
    intake = taken_in(a_pod(*containers, scheduler=scheduler, annotations=machine.words[0]))
    decision = decide(entry, intake)
    assert isinstance(decision, Placed)
    assert known_to(entry, recalled(intake.pod, decision, entry)) == known_to(entry, decision.containers)


@every_ask
def test_equal_inputs_have_equal_answers(machine: Machine, ask: Limits) -> None:
    answers = [
        decide(machine.entry(Registry([*SPECS, acme.SPEC])), taken_in(a_pod_for(machine, ask, ask))) for _ in range(2)
    ]
    assert answers[0] == answers[1]


def reordered(entry: NodeEntry, order: Sequence[int]) -> NodeEntry:
    """The same machine, its devices listed in another order."""
    shape, usage = entry.state.shape, entry.state.usage
    links = tuple(tuple(shape.links[one][other] for other in order) for one in order) if shape.links else ()
    devices = NodeShape(tuple(shape.devices[at] for at in order), links, shape.traits)
    state = NodeState(devices, tuple(usage[at] for at in order))
    return replace(entry, ids=tuple(entry.ids[at] for at in order), state=state)


@every_machine
def test_the_order_in_which_devices_are_listed_does_not_change_whether_a_container_fits(machine: Machine) -> None:
    entries = [machine.entry(REGISTRY), *filled(machine, itertools.cycle(machine.asks))]
    for entry in entries[:: max(len(entries) // 10, 1)]:
        count = len(entry.ids)
        orders = (range(count)[::-1], [*range(1, count), 0], [*range(0, count, 2), *range(1, count, 2)])
        for number, ask in enumerate(machine.asks):
            intake = taken_in(a_pod_for(machine, ask, words=number))
            fits = isinstance(decide(entry, intake), Placed)
            for order in orders:
                assert isinstance(decide(reordered(entry, order), intake), Placed) is fits


@every_ask
def test_other_machines_do_not_change_whether_it_fits_here(machine: Machine, ask: Limits) -> None:
    here = machine.entry(REGISTRY, "here")
    others = [other.entry(REGISTRY, f"other-{at}") for at, other in enumerate(ALL)]
    intake = taken_in(a_pod_for(machine, ask))
    alone = Decider(REGISTRY).answers(ClusterSnapshot(nodes=(here,)), intake.demand, intake.policy)
    among = Decider(REGISTRY).answers(ClusterSnapshot(nodes=(*others, here)), intake.demand, intake.policy)
    ((_, answer),) = alone
    assert [other for entry, other in among if entry.name == here.name] == [answer]


REFUSAL = re.compile(r"\d+/\d+ (?P<reason>\w+)")
KOORDINATORS = {"Insufficient GPU Devices", "Insufficient gpu devices", "Insufficient Topology Scoped GPU Devices"}
VOLCANOS = re.compile(
    r"pod required sharing mode .* is not the same as the node mode .*|no enough gpu cards on node node-0"
    r"|not enough gpu fitted on this node"
)


@every_machine
def test_refusals_are_spelled_as_the_dialects_scheduler_spells_them(machine: Machine) -> None:
    *_, full = filled(machine, itertools.cycle(machine.asks))
    broken = in_state(full, healthy=[False] * len(full.ids))
    for entry, ask in itertools.product((full, broken), (*machine.asks, _many(machine.asks[-1]))):
        decision = decide(entry, taken_in(a_pod_for(machine, ask)))
        if isinstance(decision, Placed):
            continue
        ((_, refusal),) = decision.by_node
        assert isinstance(refusal, NoFit)
        if REGISTRY[refusal.vendor].dialect is Dialect.VOLCANO:
            assert VOLCANOS.fullmatch(refusal.words)
        elif REGISTRY[refusal.vendor].dialect is Dialect.KOORDINATOR:
            assert refusal.words in KOORDINATORS
        elif refusal.words != Reason.TOO_FEW_CARDS:
            parts = refusal.words.split(", ")
            assert parts == sorted(parts)
            for part in parts:
                spelled = REFUSAL.fullmatch(part)
                assert spelled, refusal.words
                Reason(spelled["reason"])


def _many(ask: Limits) -> Limits:
    """The same of a hundred cards."""
    return {name: 100 if at == 0 else amount for at, (name, amount) in enumerate(ask.items())}


@every_vendor
def test_a_negative_amount_is_refused(spec: VendorSpec) -> None:
    for machine in ALL:
        for name in machine.asks[0] if machine.vendor == spec.name else ():
            refused = take_in(a_pod_for(machine, {**machine.asks[0], name: -1}), REGISTRY, RULES)
            assert refused.refusal


@every_vendor
def test_a_vendors_names_and_steps_are_all_told(spec: VendorSpec) -> None:
    told = (
        spec.title,
        spec.vendor,
        spec.resources.count,
        spec.keys.allocated,
        spec.memory_step,
        spec.core_step,
        spec.several,
    )
    assert all(told)
    assert set(spec.counted_by_scheduler) <= set(spec.resources.all())


def test_what_vendors_write_and_what_their_nodes_say_is_nobody_elses() -> None:
    """Keys that pods select by may serve several vendors; a list of allocations, a register and a handshake may not."""
    owned = Counter(
        key
        for spec in REGISTRY
        for key in dict.fromkeys((spec.keys.allocated, spec.keys.to_allocate, spec.keys.register, spec.keys.handshake))
        if key
    )
    assert [key for key, owners in owned.items() if owners > 1] == []
    resources = Counter(name for spec in REGISTRY for name in spec.resources.all())
    assert resources.total() == len(resources)


def test_a_key_that_one_maker_writes_is_not_read_as_another_makers_choice() -> None:
    written = {(key, spec.vendor) for spec in REGISTRY for key in spec.keys.extra}
    for spec in REGISTRY:
        inputs = {
            *spec.keys.use_ids,
            *spec.keys.avoid_ids,
            spec.keys.use_models,
            spec.keys.avoid_models,
            spec.keys.mode,
        }
        assert not {key for key, vendor in written if vendor != spec.vendor} & inputs
