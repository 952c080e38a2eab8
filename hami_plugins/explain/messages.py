"""Our words for why a pod is not placed, and for why it is placed where it is: text made of values, never read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hami_plugins.engine.blockers import Blocked
from hami_plugins.engine.choice import Choice
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, NodeShortage, Supply, WhyNot
from hami_plugins.inputs import old_names, typos
from hami_plugins.model.decisions import UNREGISTERED
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import NodePolicy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, DeviceRequest, Percent
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.plan.slices import runs
from hami_plugins.wire import koordinator, quantity

MOST_REASONS: Final = 4
"""Reasons that a summary spells out; the nodes behind the others are counted."""

MOST_HOLDERS: Final = 4
"""Pods that are named because they hold a part of a set of devices."""

CPU: Final = "cpu"
MILLI: Final = NANO // 1000

MEBIBYTE: Final = 2**20 * NANO
GIBIBYTE: Final = 2**30 * NANO
MANY: Final = 100 * GIBIBYTE
"""From here on, messages do not show memory in MiB."""

BINARY: Final = frozenset({"memory", "ephemeral-storage", koordinator.MEMORY})
"""Resources that people write with binary suffixes."""


def summary(why: WhyNot, registry: Registry, containers: Sequence[str] = ()) -> str:
    """Every reason in one line, the most frequent first. ``containers`` are the names of the pod's containers."""
    if not why.nodes:
        return "the cluster has no nodes"
    lines = [f"{nodes_words(each, why)}: {reason_words(each, registry, containers)}" for each in why.reasons]
    rest = sum(each.nodes for each in why.reasons[MOST_REASONS:])
    return "; ".join([*lines[:MOST_REASONS], *([f"{rest:,} nodes for other reasons"] if rest else [])])


def nodes_words(reason: CardShortage | NodeShortage, why: WhyNot) -> str:
    """How many of the nodes give a reason."""
    return f"{reason.nodes:,} of {counted(why.nodes, 'node')}"


def reason_words(reason: CardShortage | NodeShortage, registry: Registry, containers: Sequence[str] = ()) -> str:
    """One reason with its numbers: what was asked, the most that there is, and what there is in all."""
    if isinstance(reason, NodeShortage):
        return _about_nodes(reason, registry)
    spec = registry[reason.vendor]
    where = f"container {containers[reason.container]}: " if len(containers) > 1 else ""
    if reason.blocked is not None and not reason.blocked.members:
        return f"{where}{_never(reason, reason.blocked, spec)}"
    if reason.supply is None:
        return f"{where}{_said(reason, spec)}"
    return f"{where}{_measured(reason, reason.supply, spec)}{_beside(reason, reason.supply, containers)}"


def _beside(reason: CardShortage, supply: Supply, containers: Sequence[str]) -> str:
    """What other containers of the pod leave: in numbers where all of them have to share one card."""
    taken = sum(amount for _, amount in reason.before)
    left = supply.largest - taken
    alone = reason.request.count == 1 and supply.total == supply.largest and reason.reason is Reason.MEMORY
    if not alone or not reason.before or reason.asked is None or not 0 <= left < reason.asked:
        return ", less what other containers of the pod take" if reason.beside else ""
    names = " and ".join(containers[at] for at, _ in reason.before)
    leave = "leaves" if len(reason.before) == 1 else "leave"
    return f", of which {names} {leave} {mebibytes(left)}: {mebibytes(reason.asked - left)} too few"


def choice_words(choice: Choice) -> str:
    """Why this node: its score and where that comes from, among how many, and what would have been next."""
    parts = [("slots", choice.slots), ("cores", choice.cores), ("memory", choice.memory), ("devices", choice.vendor)]
    sums = " + ".join(f"{name} {part:.2f}" for name, part in parts if part or name != "devices")
    score = f"score {choice.score:.2f} ({sums})"
    if choice.next_node is None:
        only = "the cluster's only node" if choice.nodes == 1 else f"the only one of {choice.nodes:,} nodes that fits"
        return f"{only}; {score}"
    better = "emptiest" if choice.policy is NodePolicy.SPREAD else "fullest"
    equal = choice.next_score == choice.score
    then = (
        f"{choice.next_node} has the same and comes later by name"
        if equal
        else (f"next is {choice.next_node} with {choice.next_score:.2f}")
    )
    return (
        f"the {better} of {choice.candidates:,} that fit, of {counted(choice.nodes, 'node')} "
        f"({choice.policy.value}); {score}; {then}"
    )


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def mebibytes(amount: int) -> str:
    """An amount of device memory."""
    return f"{amount:,} MiB"


def cores(amount: int, spec: VendorSpec) -> str:
    """An amount of cores in the unit that the vendor sells."""
    return f"{amount:,} %" if "%" in spec.core_step else counted(amount, "core")


def plain(resource: str, nano: int) -> str:
    """An amount of a plain resource as manifests may spell it: devices, their MiB and CPUs are numbers, not ``30k``."""
    if resource not in BINARY and ("/" in resource or resource == CPU) and nano % NANO == 0:
        return str(nano // NANO)
    if resource == CPU and nano % MILLI == 0:
        return f"{nano // NANO}.{nano % NANO // MILLI:03}".rstrip("0")
    return quantity.canonical(nano, binary=resource in BINARY or resource.startswith("hugepages-"))


def _about_nodes(reason: NodeShortage, registry: Registry) -> str:
    supply = reason.supply
    if reason.words == UNREGISTERED.words:
        return "no vendor has registered devices there"
    if supply is None:
        return reason.words
    if reason.resource == "pods":
        return "too many pods"
    if not reason.offered:
        asked = plain(reason.resource, reason.asked)
        return f"{reason.resource}: asked {asked}; there is none{_instead_of(reason.resource, registry)}"
    asked = plain(reason.resource, reason.asked)
    most, total = (_no_more_than(reason.resource, each) for each in (supply.largest, supply.total))
    return f"{reason.resource}: asked {asked}; largest free {most} ({supply.at}), total free {total}"


def _no_more_than(resource: str, nano: int) -> str:
    """An amount that is left, in whole tenths of a GiB where its exact number says nothing to people."""
    unit = MEBIBYTE if nano < MANY else GIBIBYTE
    if resource in BINARY and nano >= GIBIBYTE and nano % unit:
        tenths = nano * 10 // GIBIBYTE
        return f"{tenths // 10}.{tenths % 10}Gi"
    return plain(resource, nano)


def _instead_of(resource: str, registry: Registry) -> str:
    """What to write in place of a resource that no node has, where that can be told."""
    spec = registry.owner_of(resource)
    if spec is None:
        close = () if resource in old_names.RESOURCES else typos.closest(resource, registry.resources)
        return f" (did you mean {' or '.join(close)}?)" if close else old_names.remark(resource)
    if resource == spec.resources.memory_percentage and spec.resources.memory:
        return f" (write {spec.resources.memory}, or have the nodes' agents offer it)"
    return old_names.remark(resource)


def _measured(reason: CardShortage, supply: Supply, spec: VendorSpec) -> str:
    """What is short of something that can be measured."""
    request = reason.request
    noun, on, memory = spec.noun, _cards(request, spec), _memory_of(request, reason.asked)
    match reason.reason:
        case Reason.MEMORY:
            words = f"memory: asked {memory} on {on}; {_free(reason, supply, spec, mebibytes)}"
        case Reason.PARTITION:
            most = f"{mebibytes(supply.largest)} ({supply.at})"
            words = f"partitions: asked {memory} on {on}; largest with a place {most}"
        case Reason.CORES:
            free = _free(reason, supply, spec, lambda amount: cores(amount, spec))
            words = f"cores: asked {cores(request.cores, spec)} on {on}; {free}"
        case Reason.SLOTS:
            free = _free(reason, supply, spec, lambda amount: f"{amount:,}")
            full = f"{_of_cards(reason, spec)} {_are(reason)} already shared by as many containers as allowed"
            words = f"slots: asked one on {on}; {free}" if supply.total else f"slots: {full}"
        case Reason.EXCLUSIVE:
            words = f"idle {noun}s: asked {request.count:,} without others on them; {_most(supply)}"
        case Reason.TOO_FEW_CARDS:
            words = (
                f"{noun}s: asked {request.count:,} x {spec.title}; {_most(supply) if supply.total else 'there is none'}"
            )
        case _:
            words = f"{noun}s: asked {request.count:,} that hold the request at once; {_most(supply)}"
    return words


def _said(reason: CardShortage, spec: VendorSpec) -> str:
    """Defects without a number."""
    match reason.reason:
        case Reason.COMPUTE:
            words = f"cores: fully allocated on {_of_cards(reason, spec)}; no further containers are admitted"
        case Reason.MODEL:
            words = (
                f"model: asked {_models(reason.request, spec)}; {_of_cards(reason, spec)} {_are(reason)} something else"
            )
        case Reason.ID:
            words = f"{spec.noun}s by id: asked {_ids(reason.request, spec)}; that leaves out {_of_cards(reason, spec)}"
        case Reason.QUOTA:
            words = f"quota: {_quota(reason.request, reason.headroom or Headroom(), spec)}"
        case Reason.TOPOLOGY if reason.blocked is not None and reason.blocked.holders:
            words = _nearest(reason, reason.blocked, spec)
        case Reason.HEALTH | Reason.UNHEALTHY_SGPU | Reason.CORDON:
            near = f" ({', '.join(reason.examples)}{', ...' if reason.nodes > len(reason.examples) else ''})"
            topic = _TOPICS[reason.reason].format(are=_are(reason))
            words = f"{spec.noun}s: asked {reason.request.count:,}; {_of_cards(reason, spec)} {topic}{near}"
        case _:
            words = f"{spec.noun}s: {_of_cards(reason, spec)} {_TOPICS[reason.reason].format(are=_are(reason))}"
    return words


def _nearest(reason: CardShortage, blocked: Blocked, spec: VendorSpec) -> str:
    """Which set of devices would do, and who holds it."""
    entry, count = blocked.entry, len(blocked.members)
    devices = len(entry.state.shape.positions[reason.vendor])
    held = ", ".join(
        f"{each.pod.full_name} holds {_numbers(entry, each.positions)}" for each in blocked.holders[:MOST_HOLDERS]
    )
    rest = len(blocked.holders) - MOST_HOLDERS
    more = f" and {counted(rest, 'more pod')}" if rest > 0 else ""
    return (
        f"linked {spec.noun}s: {len(blocked.free):,} of {devices:,} are free on {entry.name}, but no {count:,} of them "
        f"may go together; the nearest are {_numbers(entry, blocked.members)}: {held}{more}"
    )


def _never(reason: CardShortage, blocked: Blocked, spec: VendorSpec) -> str:
    """Which numbers of devices go together, where the one that is asked for never does."""
    near = " or ".join(map(str, blocked.nearest)) or "none"
    there = (
        reason.request
        if spec.requests.on_node is None
        else spec.requests.on_node(reason.request, blocked.entry.state.shape)
    )
    asked = f"{there.count:,}"
    if there.count != reason.request.count:
        asked = f"{cores(reason.request.cores, spec)}, {asked} {spec.noun}s"
    return (
        f"linked {spec.noun}s: asked {asked}, which {blocked.entry.name} never allocates together; "
        f"the nearest numbers that it does: {near}"
    )


def _numbers(entry: NodeEntry, positions: Sequence[int]) -> str:
    return f"#{runs(entry.state.shape.devices[at].index for at in positions)}"


def _models(request: DeviceRequest, spec: VendorSpec) -> str:
    selector, keys = request.selector, spec.keys
    defaults = [
        f"{verb} {', '.join(words) or 'nothing'} ({key})"
        for verb, words, key in (
            ("only", selector.use_models, keys.use_models),
            ("not", selector.avoid_models, keys.avoid_models),
            ("mode", None if selector.modes is None else (selector.modes,), keys.mode),
        )
        if words is not None
    ]
    return " and ".join(defaults) or spec.title


def _ids(request: DeviceRequest, spec: VendorSpec) -> str:
    selector, keys = request.selector, spec.keys
    return " and ".join(
        f"{verb} {', '.join(sorted(ids)) or 'none'} ({', '.join(names)})"
        for verb, ids, names in (("only", selector.use_ids, keys.use_ids), ("not", selector.avoid_ids, keys.avoid_ids))
        if ids is not None
    )


def _quota(request: DeviceRequest, headroom: Headroom, spec: VendorSpec) -> str:
    asked, left = [], []
    if headroom.memory is not None:
        asked.append(_memory_of(request))
        left.append(mebibytes(headroom.memory))
    if headroom.cores is not None:
        asked.append(cores(request.cores, spec))
        left.append(cores(headroom.cores, spec))
    return f"asked {' and '.join(asked)} on {_cards(request, spec)}; the namespace has {' and '.join(left)} left"


def _free(reason: CardShortage, supply: Supply, spec: VendorSpec, words: Callable[[int], str]) -> str:
    count = reason.request.count
    on = f" on each of {count:,} {spec.noun}s of a node" if count > 1 else ""
    return f"largest free{on} {words(supply.largest)} ({supply.at}), total free {words(supply.total)}"


def _most(supply: Supply) -> str:
    return f"most on one node {supply.largest:,} ({supply.at}), {supply.total:,} in all"


def _memory_of(request: DeviceRequest, on_card: int | None = None) -> str:
    match request.memory:
        case Absolute(mib):
            return mebibytes(mib)
        case Percent(100):
            return "all memory"
        case percent:
            return f"{percent.of_device} % of the memory{'' if on_card is None else f' ({mebibytes(on_card)})'}"


def _cards(request: DeviceRequest, spec: VendorSpec) -> str:
    return f"1 {spec.noun}" if request.count == 1 else f"each of {request.count:,} {spec.noun}s"


def _of_cards(reason: CardShortage, spec: VendorSpec) -> str:
    return f"{reason.cards:,} of {counted(reason.devices, spec.noun)}"


def _are(reason: CardShortage) -> str:
    return "is" if reason.cards == 1 else "are"


_TOPICS: Final[Mapping[Reason, str]] = {
    Reason.HEALTH: "{are} unhealthy",
    Reason.UNHEALTHY_SGPU: "{are} unhealthy",
    Reason.CORDON: "{are} cordoned",
    Reason.NUMA: "would do, but on too many NUMA nodes",
    Reason.VENDOR_RULE: "{are} not the one that other containers of the pod have",
    Reason.MODE: "{are} in another mode than the pod asks for",
    Reason.QOS: "{are} promised with another quality of service",
    Reason.APP_CLASS: "{are} taken by applications of another class",
    Reason.GROUP: "{are} taken by a pod of the same group",
    Reason.WITHHELD: "{are} free but reserved: the node reports that many broken devices without naming them",
    Reason.TOPOLOGY: "would do one by one, but no set of them that may be allocated together is free",
}
"""What is wrong with cards, for reasons without numbers of their own."""
