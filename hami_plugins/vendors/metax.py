"""MetaX cards under HAMi: whole GPUs (``Metax-GPU``) and shares of them (``Metax-SGPU``).

A shared card runs under one scheduling quality (QoS) at a time, and either latency-critical (online) pods with the
best-effort (offline) ones that make room for them, or ordinary pods. Whole cards asked for through sGPU come from as
few MetaLink zones as possible.

Source: HAMi 2.10.0 ``pkg/device/metax/device.go`` and ``sdevice.go``. Deviations from HAMi 2.10, on purpose: the
containers of a pod may have different whole cards (HAMi wants all of a pod's devices to be one card, which cards for
one container each cannot be), a shared card's QoS is that of the pods on it (HAMi takes the node's report, which lags
behind, and a memory that it loses when it restarts), containers of one online or offline pod may share a card, a bare
amount that the API server writes as ``1k`` still counts GiB (HAMi reads bytes, and gives the whole card), equal
MetaLink zones are taken in order of their numbers (in HAMi by chance), and unusable amounts are refused (HAMi takes the
container for one without cards).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hami_plugins.engine.demand import WHOLE, cores_of, count_of, invalid, selector_of
from hami_plugins.engine.fit import spelled
from hami_plugins.engine.inventories import capacity_of, cards
from hami_plugins.errors import AdmissionDeniedError, WireError
from hami_plugins.model.devices import Device, DeviceShare, Mark, Tenant
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, ContainerAllocation, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand
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
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import metax, scalars

LOSSES_KEY: Final = "metax-tech.com/gpu.topology.losses"
SCORES_KEY: Final = "metax-tech.com/gpu.topology.scores"
CARDS_KEY: Final = "metax-tech.com/node-gpu-devices"
PARTS_KEY: Final = "metax-tech.com/gpu-devices-allocated"
TIME_KEY: Final = "metax-tech.com/predicate-time"
QOS_KEY: Final = "metax-tech.com/sgpu-qos-policy"
TOPOLOGY_KEY: Final = "metax-tech.com/sgpu-topology-aware"
APP_CLASS_KEY: Final = "metax-tech.com/sgpu-app-class"

ONLINE: Final = "online"
OFFLINE: Final = "offline"
APP_CLASSES: Final = (ONLINE, OFFLINE)
BEST_EFFORT: Final = "best-effort"
QUALITIES: Final = (BEST_EFFORT, "fixed-share", "burst-share")

TOPOLOGY_FLAG: Final = "sgpuTopologyAware"
WHOLE_CORES: Final = CoreShare(100)
LINK_SCORE: Final = 10
"""What a pair of cards in one MetaLink zone is worth."""

BEST_NODE: Final = 2000.0

_GIB: Final = MiB(1024)
_MIB_BITS: Final = 20


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """As many equal cards as the node's capacity says, and what sets of them cost or score, as traits of the node."""
    count = capacity_of(node, spec.resources.count) or 0
    found = cards(spec, node, count, infix="metax", slots=1, memory=MiB(65_536), cores=WHOLE_CORES)
    return replace(found, traits=(*_costs(node, LOSSES_KEY), *_costs(node, SCORES_KEY))) if found.ids else found


def _costs(node: NodeObject, key: str) -> tuple[tuple[str, str], ...]:
    """One trait that the node has the table, and one per count; a table that cannot be read counts as empty."""
    text = node.annotations.get(key)
    if text is None:
        return ()
    try:
        costs = metax.decode_topology(key, text)
    except WireError:
        costs = {}
    return ((key, ""), *((f"{key}/{count}", str(cost)) for count, cost in costs.items()))


def score_whole(scoring: Scoring) -> float:
    """How well the node's links suit the pod, by the tables that MetaX's agent computes; 0 without a table."""
    key = {"binpack": LOSSES_KEY, "spread": SCORES_KEY}.get(scoring.policy.node_words, "")
    shape = scoring.state.shape
    if shape.trait(key) is None:
        return 0.0
    count = sum(map(len, scoring.containers))
    return BEST_NODE - float(shape.trait(f"{key}/{count}") or 0)


def shared_inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from MetaX's own annotation; their place in it is their index."""
    text = node.annotations.get(CARDS_KEY)
    if text is None:
        return NO_DEVICES
    found = metax.decode_cards(CARDS_KEY, text)
    devices = tuple(
        Device(
            vendor=spec.name,
            model=spec.name,
            slots=card.slots,
            memory=card.memory,
            cores=card.cores,
            index=index,
            numa=card.numa,
            healthy=card.healthy,
            group=str(card.link_zone) if card.link_zone > 0 else None,
            traits=(("model", card.model),) if card.model else (),
        )
        for index, card in enumerate(found)
    )
    return DeviceInventory(devices, tuple(card.id for card in found))


def shared_request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and of each card memory (a bare number counts GiB) and cores in percent; all of both when not said."""
    count = count_of(spec, container)
    if count is None:
        return None
    cores = cores_of(container, spec.resources.cores, requests_too=False)
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=_memory(spec, container),
        cores=WHOLE_CORES if cores is None else cores,
        selector=selector_of(spec.keys, pod.annotations),
        options=_options(spec, pod.annotations),
    )


def _memory(spec: VendorSpec, container: Container) -> MemoryDemand:
    name = spec.resources.memory
    found = container.limits.get(name)
    if found is None or found.nano == 0:
        return WHOLE
    remedy = "write GiB as a whole number, or an amount with a unit such as 2048Mi"
    amount = found.whole
    if amount is None or amount < 0:
        raise invalid(container, name, found, "not an amount of memory", remedy)
    memory = amount * _GIB if _counts_gib(found) else amount >> _MIB_BITS
    if not 0 < memory <= INT32_MAX:
        raise invalid(container, name, found, "not an amount that a card can hold", remedy)
    return Absolute(MiB(memory))


def _counts_gib(found: Quantity) -> bool:
    """Whether an amount was written without a unit: the API server turns 2000 into 2k, and 2 kB is never meant."""
    has_unit = any(character.isalpha() for character in found.text)
    return not has_unit or (not found.text.endswith("i") and found.ceiling < 1 << _MIB_BITS)


def _options(spec: VendorSpec, annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    near = spec.options.flags.get(TOPOLOGY_FLAG, False)
    if TOPOLOGY_KEY in annotations:
        with suppress(ValueError):
            near = scalars.truth(annotations[TOPOLOGY_KEY])
    said = ((key, annotations[key]) for key in (APP_CLASS_KEY, QOS_KEY) if key in annotations)
    return (*said, (TOPOLOGY_KEY, "true")) if near else tuple(said)


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """HAMi's webhook for one container: the application class and the QoS have to mean something."""
    count = container.limits.get(spec.resources.count)
    if count is None:
        return ContainerAdmission(False)
    app_class = pod.annotations.get(APP_CLASS_KEY)
    if app_class is not None:
        if app_class not in APP_CLASSES:
            raise AdmissionDeniedError(f"{APP_CLASS_KEY} must be set one of [{', '.join(APP_CLASSES)}]", 500)
        if count.ceiling != 1:
            remedy = f"ask for {spec.resources.count}: 1, or drop the annotation {APP_CLASS_KEY}"
            raise AdmissionDeniedError("app-class pod must request single device", 500, remedy=remedy)
    if app_class == ONLINE:
        return ContainerAdmission(True)
    quality = pod.annotations.get(QOS_KEY)
    if quality is None:
        return ContainerAdmission(True, (AdmissionChange("annotation", QOS_KEY, BEST_EFFORT),))
    if quality not in QUALITIES:
        raise AdmissionDeniedError(f"{QOS_KEY} must be set one of [{', '.join(QUALITIES)}]", 500)
    return ContainerAdmission(True)


def holds_no_cores(request: DeviceRequest) -> bool:
    """Online pods take the cores they need from the offline ones on the same card; their cores are not counted."""
    return request.option(APP_CLASS_KEY) == ONLINE


def class_fits(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Pods with a class do not share a card with other classes, and offline ones would only wait for online ones."""
    if not candidate.used.slots:
        return None
    app_class = ask.request.option(APP_CLASS_KEY)
    online, offline = _classes(candidate.used.marks)
    if bool(online or offline) != (app_class in APP_CLASSES):
        return Reason.APP_CLASS
    return Reason.APP_CLASS if online and app_class == OFFLINE else None


def quality_fits(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A card runs under one QoS, that of the pods on it; an idle card and a request for all cores take any."""
    if not candidate.used.slots or holds_no_cores(ask.request) or ask.request.cores == WHOLE_CORES:
        return None
    quality = ask.request.option(QOS_KEY) or ""
    in_force = (mark.qos for mark in candidate.used.marks if isinstance(mark, Tenant))
    return Reason.QOS if any(other not in ("", quality) for other in in_force) else None


def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """The slice, with what later neighbours need to know of its pod."""
    request = ask.request
    online = holds_no_cores(request)
    cores = CoreShare(0) if online else request.cores
    tenant = _tenant(request.option(APP_CLASS_KEY), request.option(QOS_KEY), cores)
    return DeviceShare(candidate.position, request.memory.on(candidate.device), cores, tenant)


def _tenant(app_class: str | None, quality: str | None, cores: CoreShare) -> Tenant:
    known = app_class if app_class in APP_CLASSES else ""
    return Tenant(known or "", "" if known == ONLINE or cores == WHOLE_CORES else quality or "")


def recall(
    annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
) -> tuple[ContainerAllocation, ...]:
    """Put back what kind of pod holds the shares."""
    app_class, quality = annotations.get(APP_CLASS_KEY), annotations.get(QOS_KEY)
    return tuple(
        replace(
            allocation,
            shares=tuple(replace(share, mark=_tenant(app_class, quality, share.cores)) for share in allocation.shares),
        )
        for allocation in allocations
    )


def best(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate]:
    """Online pods go where they disturb least, pods with whole cards where MetaLink zones stay whole."""
    count, app_class = ask.request.count, ask.request.option(APP_CLASS_KEY)
    if len(candidates) == count:
        return candidates
    if app_class == ONLINE:
        return sorted(candidates, key=_disturbance)[:count]
    if app_class is None and ask.request.cores == WHOLE_CORES:
        return _zoned(candidates, count)
    return candidates[:count]


def _disturbance(candidate: Candidate) -> tuple[bool, int, int]:
    """Cards with nothing but offline pods come last: those would all be suspended."""
    online, offline = _classes(candidate.used.marks)
    return (not online and offline > 0, online, offline)


def _zoned(candidates: Sequence[Candidate], count: int) -> Sequence[Candidate]:
    zones: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        zones.setdefault(int(candidate.device.group or 0), []).append(candidate)
    unlinked = zones.pop(0, [])
    smallest_first = [zone for _, zone in sorted(zones.items(), key=lambda item: (len(item[1]), item[0]))]
    for zone in smallest_first:
        if len(zone) >= count:
            return zone[:count]
    return [candidate for zone in (*smallest_first, unlinked) for candidate in zone][:count]


def _classes(marks: Iterable[Mark]) -> tuple[int, int]:
    """How many online and offline pods there are."""
    found = Counter(mark.app_class for mark in marks if isinstance(mark, Tenant))
    return found[ONLINE], found[OFFLINE]


def words(shortfall: Shortfall, ask: ContainerRequest) -> str:
    """HAMi has a word of its own for unhealthy shared cards."""
    return spelled(
        {(Reason.UNHEALTHY_SGPU if why is Reason.HEALTH else why): cards for why, cards in shortfall.tally.items()},
        len(shortfall.devices),
    )


def score_shared(scoring: Scoring) -> float:
    """How few neighbours an online pod meets, or how well a pod with whole cards leaves the MetaLink zones."""
    if any(map(holds_no_cores, scoring.requests)):
        positions = {share.position for shares in scoring.containers for share in shares}
        return float(sum(_neighbours(scoring.state.usage[at].marks) for at in positions))
    near = any(request.option(TOPOLOGY_KEY) for request in scoring.requests)
    taken = [share.position for shares in scoring.containers for share in shares if share.cores == WHOLE_CORES]
    if not (near and taken):
        return 0.0
    devices = scoring.state.shape.devices
    idle = [at for at, used in enumerate(scoring.state.usage) if not used.slots]
    own, free, left = (
        _linked(devices[at] for at in positions) for positions in (taken, idle, [at for at in idle if at not in taken])
    )
    return float(LINK_SCORE * own - (free - own - left))


def _neighbours(marks: Iterable[Mark]) -> int:
    online, offline = _classes(marks)
    return -100 * offline if offline and not online else -20 * online - 2 * offline


def _linked(devices: Iterable[Device]) -> int:
    zones = Counter(device.group for device in devices if device.group is not None and device.vendor == SHARED.name)
    return LINK_SCORE * sum(cards * (cards - 1) // 2 for cards in zones.values())


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The same shares in MetaX's own form, for its device plugin."""
    parts = [
        [metax.SharedPart(share.device, share.cores, share.memory) for share in shares] for shares in view.containers
    ]
    return {PARTS_KEY: metax.encode_parts(parts), TIME_KEY: str(view.now_ns)}


SPEC: Final = VendorSpec(
    name=VendorName("Metax-GPU"),
    title="MetaX GPU",
    vendor="MetaX",
    resources=ResourceNames(count="metax-tech.com/gpu"),
    keys=AnnotationKeys(
        allocated="hami.io/metax-gpu-devices-allocated",
        to_allocate="hami.io/metax-gpu-devices-to-allocate",
        lock="",
        inputs=(LOSSES_KEY, SCORES_KEY),
    ),
    inventory=inventory,
    requests=RequestRules(cores_default=WHOLE_CORES),
    scoring=ScoringRules(score_node=score_whole),
    memory_step="none: whole card",
    core_step="none: whole card",
    several="whole cards",
    facts=facts.METAX,
)


SHARED: Final = VendorSpec(
    name=VendorName("Metax-SGPU"),
    title="MetaX sGPU",
    vendor="MetaX",
    resources=ResourceNames(count="metax-tech.com/sgpu", memory="metax-tech.com/vmemory", cores="metax-tech.com/vcore"),
    keys=AnnotationKeys(
        allocated="hami.io/metax-sgpu-devices-allocated",
        to_allocate="hami.io/metax-sgpu-devices-to-allocate",
        register=CARDS_KEY,
        use_ids=("metax-tech.com/use-gpuuuid",),
        avoid_ids=("metax-tech.com/nouse-gpuuuid",),
        inputs=(QOS_KEY, TOPOLOGY_KEY, APP_CLASS_KEY),
        extra=(PARTS_KEY, TIME_KEY),
    ),
    inventory=shared_inventory,
    requests=RequestRules(memory_unit=_GIB, cores_default=WHOLE_CORES, requests_too=False, read=shared_request),
    admit=admit,
    fitting=FittingRules(
        early_checks=(class_fits, quality_fits),
        select=best,
        share_of=share_of,
        takes_no_cores=holds_no_cores,
        message=words,
        clamps_cores=False,
    ),
    scoring=ScoringRules(score_node=score_shared, is_neutral=True),
    records=AllocationRecords(annotate=annotate, recall=recall),
    memory_step="1 GiB, or 1 MiB with a unit",
    facts=facts.SGPU,
)

SPECS: Final = (SPEC, SHARED)
