"""Kunlunxin XPUs under HAMi: whole cards (``kunlun``) and quarter, half and whole slices (``XPU``).

Eight cards make a machine: two wings of four, cards 0 to 3 and 4 to 7, fully linked inside, and card i linked to card
i + 4 across. Only 1, 2, 4 or 8 cards go together, and sets that keep to one wing come first.

Source: HAMi 2.10.0 ``pkg/device/kunlun/device.go`` and ``vdevice.go``. Deviations from HAMi 2.10, on purpose: wings are
distinguished by the cards' indexes (HAMi takes the place in a list that it has sorted by load, so that "wings" mix both
sides once cards are busy), a card never holds more slices than it registered, and unusable amounts are refused (HAMi
takes the container for one without XPUs, or gives a whole card).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hami_plugins.engine.demand import count_of, invalid, selector_of
from hami_plugins.engine.inventories import capacity_of, cards, json_register
from hami_plugins.model.device_links import Together
from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB, VendorName
from hami_plugins.model.vendor import (
    AdmissionChange,
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerAdmission,
    ContainerRequest,
    FittingRules,
    RequestRules,
    Scoring,
    ScoringRules,
    Shortfall,
    TopologyRules,
    Unselectable,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts

CARD_MEMORY: Final = MiB(98_304)
SLICES: Final = (MiB(24_576), MiB(49_152), CARD_MEMORY)
"""A quarter, a half and a whole card."""

WING: Final = 4
SETS: Final = frozenset({1, 2, 4, 8})
"""How many cards may go together."""

INDEX_KEY: Final = "BAIDU_COM_DEVICE_IDX"

_LONE_CARD_ORDER: Final = (1, 3, 2, 4)
"""A single card comes from a wing with one free card, else with three: pairs and whole wings are kept."""

_CROSS_PAIRS: Final = frozenset(frozenset({at, at + WING}) for at in range(WING))
_CROSS_QUADS: Final = tuple(
    frozenset(quad) for quad in ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
)
"""Two pairs across the wings that are also linked to each other, in the order in which they are tried."""


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """As many equal cards as the node's capacity says; the second half is on NUMA node 1."""
    return cards(
        spec,
        node,
        capacity_of(node, spec.resources.count) or 0,
        infix="kunlun",
        slots=100,
        memory=CARD_MEMORY,
        cores=CoreShare(100),
        right_half_numa=True,
    )


def sliced_request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards and the slice of each: the memory rounded up to a quarter, half or whole card, and cores in proportion."""
    count = count_of(spec, container)
    if count is None:
        return None
    found = container.amount(spec.resources.memory)
    memory = CARD_MEMORY if found is None else slice_of(_mebibytes(spec, container, found))
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=Absolute(memory),
        cores=CoreShare(memory * 100 // CARD_MEMORY),
        selector=selector_of(spec.keys, pod.annotations),
    )


def slice_of(memory: int) -> MiB:
    """The slice that serves a memory need; more than a card still means a card, as in HAMi."""
    return next((size for size in SLICES if memory <= size), CARD_MEMORY)


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """Writes the slice's size over the memory asked for."""
    names = spec.resources
    if names.count not in container.limits:
        return ContainerAdmission(False)
    found = container.limits.get(names.memory)
    if found is None or found.nano < 0:
        return ContainerAdmission(True)
    size = slice_of(found.ceiling)
    changes = [
        AdmissionChange(kind, names.memory, str(size))
        for kind, amounts in (("limit", container.limits), ("request", container.requests))
        if (known := amounts.get(names.memory)) is None or known.text != str(size)
    ]
    return ContainerAdmission(True, tuple(changes))


def is_idle(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A whole card is an unused card."""
    return Reason.EXCLUSIVE if candidate.used.slots > 0 else None


def no_core_rules(request: DeviceRequest) -> bool:
    """Cores follow from the slice, so its memory says everything."""
    return True


def same_slices(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A card is cut into equal slices, so those it holds must be of the size asked for."""
    used = candidate.used
    if used.slots and used.memory // used.slots != ask.request.memory.on(candidate.device):
        return Reason.VENDOR_RULE
    return None


def whole_card(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """All of a card."""
    return DeviceShare(candidate.position, candidate.device.memory, candidate.device.cores)


def linked(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
    """The cards that go together best: in the wing that they fill up most, else across the wings along their links."""
    by_index = {candidate.device.index: candidate for candidate in candidates}
    chosen = choose(by_index, ask.request.count)
    if not chosen:
        return Unselectable(Reason.TOPOLOGY, len(candidates))
    return [by_index[index] for index in chosen]


def choose(free: Iterable[int], count: int) -> Sequence[int]:
    """Which of the free cards (by index) serve a request for ``count``; empty when no set of them is linked."""
    indexes = sorted(free)
    if count not in SETS:
        return ()
    if count == 2 * WING:
        return indexes if indexes == list(range(2 * WING)) else ()
    wings = ([at for at in indexes if at < WING], [at for at in indexes if at >= WING])
    sizes = _LONE_CARD_ORDER if count == 1 else range(count, WING + 1)
    for size in sizes:
        for wing in wings:
            if len(wing) == size:
                return wing[:count]
    return _across(frozenset(indexes), count)


def _across(free: frozenset[int], count: int) -> Sequence[int]:
    if count == 2:
        return next((sorted(pair) for pair in sorted(_CROSS_PAIRS, key=min) if pair <= free), ())
    if count != WING or len(free) not in (4, 5, 6):
        return ()
    quads = [quad for quad in _CROSS_QUADS if quad <= free]
    if not quads:
        return ()
    if len(free) < 6:
        return sorted(quads[0])
    return sorted(next((quad for quad in quads if _are_linked(free - quad)), quads[-1]))


def _are_linked(pair: frozenset[int]) -> bool:
    return pair in _CROSS_PAIRS or len({at // WING for at in pair}) == 1


def whole_words(shortfall: Shortfall, ask: ContainerRequest) -> str:
    """HAMi's words: cards that the pod's id lists refuse, else one word for everything."""
    return _of_ids(shortfall, ask) or f"1/{len(shortfall.devices)} {Reason.NUMA}"


def sliced_words(shortfall: Shortfall, ask: ContainerRequest) -> str:
    """HAMi's words; busy cards that only the mutex policy refuses are named before anything else."""
    if ask.policy.exclusive:
        busy = sum(1 for each in shortfall.devices if each.used.slots and _holds_another(each, ask))
        if busy:
            return f"{busy}/{len(shortfall.devices)} {Reason.EXCLUSIVE}"
    return whole_words(shortfall, ask)


def _holds_another(candidate: Candidate, ask: ContainerRequest) -> bool:
    need = ask.request.memory.on(candidate.device)
    return (
        candidate.device.healthy
        and candidate.used.memory + need <= candidate.device.memory
        and same_slices(candidate, ask) is None
    )


def _of_ids(shortfall: Shortfall, ask: ContainerRequest) -> str:
    refused = sum(1 for each in shortfall.devices if not each.wanted)
    return f"{refused}/{len(shortfall.devices)} {Reason.ID}" if refused else ""


def score_node(scoring: Scoring) -> float:
    """How little the pod breaks up the wings, 0 to 3000; 0 on a node that also has other accelerators."""
    devices = scoring.state.shape.devices
    if any(device.vendor != SPEC.name for device in devices):
        return 0.0
    before = {device.index for device, used in zip(devices, scoring.state.usage, strict=True) if used.slots}
    now = {devices[share.position].index for shares in scoring.containers for share in shares}
    return _SCORES.get(_broken(now) - _broken(before), 1000.0)


_SCORES: Final[Mapping[int, float]] = {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}


def _broken(indexes: Iterable[int]) -> int:
    """How badly a set of cards breaks up its wings: 0 for a full wing, 2 for a lone card, 1 for anything else."""
    left = right = 0
    for index in indexes:
        left += index < WING
        right += index >= WING
    if not (left or right):
        return 1
    return sum({WING: 0, 1: 2}.get(wing, 1) for wing in (left, right))


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The indexes of the last container that got cards, for the device plugin."""
    lists = [",".join(str(view.indexes[share.device]) for share in shares) for shares in view.containers if shares]
    return {INDEX_KEY: lists[-1]} if lists else {}


def _mebibytes(spec: VendorSpec, container: Container, found: Quantity) -> int:
    if found.nano < 0 or found.nano % NANO or found.whole is None or found.whole > INT32_MAX:
        raise invalid(container, spec.resources.memory, found, "not an amount of MiB", "use 24576, 49152 or 98304")
    return found.whole


def together(asked: DeviceRequest, shape: NodeShape) -> Together | None:
    """Numbers of cards that never go together, with those next to them; the sets of the others are not listed."""
    if asked.count in SETS or asked.count > max(SETS) or asked.vendor not in shape.positions:
        return None
    below, above = max(each for each in SETS if each < asked.count), min(each for each in SETS if each > asked.count)
    return Together((), (below, above))


_USE_IDS: Final = ("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid")
_AVOID_IDS: Final = ("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid")

SPEC: Final = VendorSpec(
    name=VendorName("kunlun"),
    title="Kunlun XPU",
    vendor="Kunlunxin",
    resources=ResourceNames(count="kunlunxin.com/xpu"),
    keys=AnnotationKeys(
        allocated="hami.io/kunlun-allocated", use_ids=_USE_IDS, avoid_ids=_AVOID_IDS, lock="", extra=(INDEX_KEY,)
    ),
    inventory=inventory,
    fitting=FittingRules(
        early_checks=(is_idle,), select=linked, share_of=whole_card, takes_no_cores=no_core_rules, message=whole_words
    ),
    topology=TopologyRules(together=together),
    scoring=ScoringRules(score_node=score_node),
    records=AllocationRecords(annotate=annotate),
    memory_step="none: whole card",
    core_step="none: whole card",
    several="1, 2, 4 or 8 linked cards",
    facts=facts.XPU,
)

SLICED: Final = VendorSpec(
    name=VendorName("XPU"),
    title="Kunlun vXPU",
    vendor="Kunlunxin",
    resources=ResourceNames(count="kunlunxin.com/vxpu", memory="kunlunxin.com/vxpu-memory"),
    keys=AnnotationKeys(
        allocated="hami.io/xpu-devices-allocated",
        to_allocate="hami.io/xpu-devices-to-allocate",
        register="hami.io/node-register-xpu",
        handshake="hami.io/node-handshake-xpu",
        use_ids=_USE_IDS,
        avoid_ids=_AVOID_IDS,
    ),
    inventory=json_register,
    requests=RequestRules(read=sliced_request),
    admit=admit,
    fitting=FittingRules(
        early_checks=(same_slices,), select=linked, takes_no_cores=no_core_rules, message=sliced_words
    ),
    topology=TopologyRules(together=together),
    memory_step="a quarter, half or whole card",
    core_step="follows the memory",
    several="1, 2, 4 or 8 linked cards, equal slices",
    facts=facts.VXPU,
)

SPECS: Final = (SPEC, SLICED)
