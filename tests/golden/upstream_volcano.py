"""What Volcano 1.14.1 makes of a case: its defects one by one, so that a difference can be traced to them.

Each defect is a change of the case or of the vendor's rules. Facts from Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/device_info.go``, ``utils.go`` and ``mig.go``, and from the recorded answers.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Any, Final

from hami_plugins.engine import mig
from hami_plugins.engine.checks import memory_on
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.devices import Device, DeviceShare, DeviceUsage, Instance, Profile, SlicePlacement
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand, Percent
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, Scoring, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import volcano
from hami_plugins.wire import objects
from hami_plugins.wire.volcano import decode_slot, is_unseen
from tests.golden import corpus_volcano
from tests.golden.rules import Answer, Case

REGISTER = "volcano.sh/node-vgpu-register"
HANDSHAKE = "volcano.sh/node-vgpu-handshake"
IDS = "volcano.sh/vgpu-ids-new"
SENTINEL = 101
"""The percentage that means "none given" to Volcano."""


PHANTOM = "phantom-"


class Defect(StrEnum):
    """Something that Volcano does and we do not."""

    HEALTH = "health is not looked at"
    SELECTORS = "id lists are not looked at"
    INIT = "init containers get no cards"
    REQUESTS = "amounts that only requests name are not looked at"
    AMOUNTS = "amounts are cast to int32, and what does not parse counts as 0"
    UNREGISTERED = "a node without registered cards is not checked"
    ONE_POD = "slots that the pod's earlier containers got count as free"
    LISTED = "in a group in force, only slices of profiles in use can be had"
    ONCE = "a pod on a MIG card holds only the first slot that it names there"


def answer(case: Case, defects: frozenset[Defect]) -> Answer:
    """What we would say with some of the defects."""
    changed = copy.deepcopy(case)
    for defect, change in _CHANGES.items():
        if defect in defects:
            change(changed)
    (spec,) = corpus_volcano.registry(case["config"])
    if Defect.AMOUNTS in defects:
        late = (*spec.fitting.late_checks, _wraps)
        spec = replace(
            spec,
            requests=replace(spec.requests, read=_request),
            fitting=replace(spec.fitting, late_checks=late, memory_of=_truncated),
            scoring=replace(spec.scoring, score_node=_wrapped_score),
        )
    if {Defect.ONE_POD, Defect.LISTED, Defect.ONCE} & defects:
        spec = _Slots.of(changed, defects).spec(spec)
    return corpus_volcano.answer(changed, Registry([spec]))


def explanations(case: Case) -> Iterator[frozenset[Defect]]:
    """The sets of defects that can concern a case, smallest first."""
    possible = [defect for defect in Defect if _concerns(case, defect)]
    for size in range(1, len(possible) + 1):
        yield from map(frozenset, combinations(possible, size))


def _concerns(case: Case, defect: Defect) -> bool:
    """Whether a case has what a defect is about."""
    return _SIGNS[defect](case)


def _records(case: Case) -> list[list[str]]:
    text = (case["node"]["metadata"].get("annotations") or {}).get(REGISTER, "")
    return [record.split(",") for record in text.split(":") if "," in record]


def _cut(case: Case) -> bool:
    return any(len(record) > 5 and record[5] == "mig" for record in _records(case))


def _unregistered(case: Case) -> bool:
    handshake = (case["node"]["metadata"].get("annotations") or {}).get(HANDSHAKE)
    register = (case["node"]["metadata"].get("annotations") or {}).get(REGISTER, "")
    return is_unseen(register) or handshake is None or "Deleted" in handshake


def _selects(case: Case) -> bool:
    given = case["pod"]["metadata"].get("annotations") or {}
    return any(key in given for key in (*volcano.SPEC.keys.use_ids, *volcano.SPEC.keys.avoid_ids))


def _asks(container: dict[str, Any], *lists: str) -> bool:
    resources = container.get("resources") or {}
    names = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory")
    return any(name in (resources.get(kind) or {}) for kind in lists or ("limits", "requests") for name in names)


def _odd(case: Case) -> bool:
    """Whether we refuse an amount of the pod, or an amount is one that Volcano reads as something else."""
    (spec,) = corpus_volcano.registry(case["config"])
    pod = objects.pod(case["pod"], default_requests=False)
    for container in pod.containers:
        try:
            ours = volcano.request(spec, container, pod)
        except InvalidRequestError:
            return True
        asks_for_none = ours is None and container.amount(spec.resources.count) is not None
        if asks_for_none or ours != _request(spec, container, pod):
            return True
    return False


def _heal(case: Case) -> None:
    annotations = case["node"]["metadata"]["annotations"]
    annotations[REGISTER] = re.sub(r",false,([^,:]*):", r",true,\1:", annotations[REGISTER])


def _without_selectors(case: Case) -> None:
    for key in (*volcano.SPEC.keys.use_ids, *volcano.SPEC.keys.avoid_ids):
        case["pod"]["metadata"]["annotations"].pop(key, None)


def _without_init(case: Case) -> None:
    case["pod"]["spec"].pop("initContainers")


def _without_mere_requests(case: Case) -> None:
    for container in case["pod"]["spec"]["containers"]:
        if not _asks(container, "limits"):
            _strip(container, case["config"])


def _unlooked_at(case: Case) -> None:
    (case["node"]["metadata"].get("annotations") or {}).pop(REGISTER, None)
    for container in _containers(case):
        _strip(container, case["config"])


def _containers(case: Case) -> list[dict[str, Any]]:
    spec = case["pod"]["spec"]
    return [*(spec.get("initContainers") or []), *spec["containers"]]


def _strip(container: dict[str, Any], config: str) -> None:
    """Take all of the vendor's resources out of a container."""
    (spec,) = corpus_volcano.registry(config)
    for amounts in (container.get("resources") or {}).values():
        for name in spec.resources.all():
            amounts.pop(name, None)


def _first_slots_only(case: Case) -> None:
    """Leave of each running pod's list the first entry per card."""
    for pod in case["pods"]:
        annotations = pod["metadata"].get("annotations") or {}
        seen: set[str] = set()
        segments = []
        for segment in annotations.get(IDS, "").split(";"):
            kept = []
            for entry in filter(None, segment.split(":")):
                card = entry.split(",")[0].partition("[")[0]
                if card not in seen:
                    kept.append(f"{entry}:")
                    seen.add(card)
            segments.append("".join(kept))
        if IDS in annotations:
            annotations[IDS] = ";".join(segments)


def _request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    names = spec.resources
    if container.amount(names.count) is None and container.amount(names.memory) is None:
        return None
    count = container.amount(names.count)
    wanted = 1 if count is None else _int32(count)
    if wanted <= 0:
        return None
    plain = replace(container, limits={names.count: Quantity(10**9, "1")}, requests={})
    like = volcano.request(spec, plain, pod)
    assert like is not None
    cores = container.amount(names.cores)
    return replace(
        like,
        count=wanted,
        memory=_memory(spec, container),
        cores=CoreShare(0 if cores is None else _int32(cores)),
    )


def _memory(spec: VendorSpec, container: Container) -> MemoryDemand:
    memory = container.amount(spec.resources.memory)
    amount = 0 if memory is None else _int32(memory)
    percent = SENTINEL
    if spec.options.flags.get(volcano.PERCENTAGE, False):
        given = container.amount(spec.resources.memory_percentage)
        if given is not None and given.whole is not None:
            percent = _int32(given)
    if percent != SENTINEL:
        return Percent(percent)
    return Absolute(MiB(amount)) if amount else WHOLE


def _int32(amount: Quantity) -> int:
    whole = amount.whole
    return 0 if whole is None else (whole + 2**31) % 2**32 - 2**31


def _wraps(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A value below zero is a huge unsigned number: no slot is so large, and cores fit only where it wraps around."""
    if candidate.device.mode == volcano.MIG_MODE and memory_on(candidate, ask) < 0:
        return Reason.PARTITION
    return Reason.CORES if ask.request.cores < 0 and candidate.used.cores < -ask.request.cores else None


def _truncated(device: Device, request: DeviceRequest) -> MiB:
    memory = request.memory
    return MiB(int(device.memory * memory.of_device / 100)) if isinstance(memory, Percent) else memory.mib


def _wrapped_score(scoring: Scoring) -> float:
    """Memory below zero is a huge unsigned number."""
    if scoring.policy.device_words != "binpack" or all(used.memory >= 0 for used in _after(scoring)):
        return volcano.score_node(scoring)
    devices, booked = scoring.state.shape.devices, [used.memory for used in scoring.state.usage]
    total = 0.0
    for shares in scoring.containers:
        for share in shares:
            booked[share.position] = MiB((booked[share.position] + share.memory) % 2**64)
            total += 100.0 * (float(booked[share.position]) / devices[share.position].memory)
    return total


def _after(scoring: Scoring) -> list[DeviceUsage]:
    usage = list(scoring.state.usage)
    for shares in scoring.containers:
        for share in shares:
            usage[share.position] = usage[share.position].plus(share.memory, share.cores)
    return usage


def _book_phantoms(case: Case) -> None:
    """What becomes of containers that ask for no card.

    A container that asks for zero cards gets none, but while its pod is looked at one card counts as used by it
    (all of them for a negative number): what a running pod in its place would do to later containers."""
    (spec,) = corpus_volcano.registry(case["config"])
    containers = case["pod"]["spec"]["containers"]
    if _wants_another_mode(case):
        # Volcano looks at the mode before it looks at amounts.
        for container in containers:
            for amounts in (container.get("resources") or {}).values():
                amounts.update({name: "1" for name in spec.resources.all() if name in amounts})
        return
    for at, raw in enumerate(containers[:-1]):
        count = (
            objects.pod(case["pod"], default_requests=False)
            .containers[-len(containers) + at]
            .amount(spec.resources.count)
        )
        if count is None or _int32(count) > 0:
            continue
        alone = copy.deepcopy(case)
        alone["pod"]["spec"] = {**alone["pod"]["spec"], "containers": [copy.deepcopy(raw)]}
        alone["pod"]["spec"].pop("initContainers", None)
        cards = case["node"]["metadata"]["annotations"].get(REGISTER, "").count(",") // 5
        for number in (1,) if _int32(count) == 0 else range(cards, 0, -1):
            for amounts in alone["pod"]["spec"]["containers"][0]["resources"].values():
                amounts[spec.resources.count] = str(number)
            taken = answer(alone, frozenset({Defect.AMOUNTS}))
            if taken.fits:
                phantom = copy.deepcopy(alone["pod"])
                phantom["metadata"] = {
                    **phantom["metadata"],
                    "name": f"{PHANTOM}{at}",
                    "annotations": taken.annotations,
                }
                phantom["status"] = {"phase": "Running"}
                case["pods"] = [*case["pods"], phantom]
                break


def _wants_another_mode(case: Case) -> bool:
    plain = copy.deepcopy(case)
    plain["pod"]["spec"] = {
        "containers": [{"name": "plain", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}],
        "schedulerName": "volcano",
    }
    return corpus_volcano.answer(plain).reason.startswith("pod required sharing mode")


@dataclass(frozen=True, slots=True)
class _Slots:
    """Volcano's ledger of slots: per card (by position) the slots of running pods, in the order of the pods."""

    held: tuple[tuple[Instance, ...], ...]
    defects: frozenset[Defect]

    @classmethod
    def of(cls, case: Case, defects: frozenset[Defect]) -> _Slots:
        register = (case["node"]["metadata"].get("annotations") or {}).get(REGISTER, "")
        cards = [record.split(",")[0] for record in register.split(":") if "," in record]
        held: dict[str, list[Instance]] = {card: [] for card in cards}
        for pod in case["pods"]:
            if pod["metadata"]["name"].startswith(PHANTOM):
                continue  # The pod's own momentary usage is not a slot that came back with a pod.
            text = (pod["metadata"].get("annotations") or {}).get(IDS, "")
            for entry in filter(None, re.split("[:;]", text)):
                slot = decode_slot(IDS, entry.split(",")[0])
                if slot is not None and slot.device in held:
                    mark = Instance(f"{slot.group}-{slot.position}", SlicePlacement(slot.position, 1), slot.group)
                    held[slot.device].append(mark)
        return cls(tuple(tuple(held[card]) for card in cards), defects)

    def spec(self, spec: VendorSpec) -> VendorSpec:
        """The vendor with this ledger."""
        return replace(
            spec,
            fitting=replace(spec.fitting, late_checks=(self.slot_left,), share_of=self.share_of),
            scoring=replace(spec.scoring, score_node=self.score),
        )

    def slot_left(self, candidate: Candidate, ask: ContainerRequest) -> Reason | None:
        if candidate.device.mode != volcano.MIG_MODE:
            return None
        need = ask.request.memory.on(candidate.device)
        if candidate.device.memory - self._booked(candidate) < need:
            return Reason.MEMORY
        return Reason.PARTITION if self._pick(candidate, need) is None else None

    def share_of(self, candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
        share = volcano.share_of(candidate, ask)
        if candidate.device.mode != volcano.MIG_MODE:
            return share
        found = self._pick(candidate, share.memory)
        assert found is not None
        profile, place = found
        return share._replace(mark=Instance(f"{profile.group}-{place.start}", place, profile.group))

    def score(self, scoring: Scoring) -> float:
        devices = scoring.state.shape.devices
        if not devices or devices[0].mode != volcano.MIG_MODE:
            return volcano.score_node(scoring)
        booked = [sum(_size(device, mark) for mark in marks) for device, marks in zip(devices, self.held, strict=True)]
        slots = [used.slots for used in scoring.state.usage]
        total = 0.0
        for shares in scoring.containers:
            for share in shares:
                at = share.position
                assert isinstance(share.mark, Instance)
                booked[at] += _size(devices[at], share.mark)
                slots[at] += 1
                if scoring.policy.device_words == "binpack":
                    total += 100.0 * (booked[at] / devices[at].memory)
                elif scoring.policy.device_words == "spread" and slots[at] == 1:
                    total += 100.0
        return total

    def _new(self, candidate: Candidate) -> list[Instance]:
        """The slots that earlier containers of the pod got."""
        marks = Counter(mark for mark in candidate.used.marks if isinstance(mark, Instance))
        return list((marks - Counter(self.held[candidate.position])).elements())

    def _booked(self, candidate: Candidate) -> int:
        marks = (*self.held[candidate.position], *self._new(candidate))
        return sum(_size(candidate.device, mark) for mark in marks)

    def _pick(self, candidate: Candidate, need: MiB) -> tuple[Profile, SlicePlacement] | None:
        held = list(self.held[candidate.position])
        if Defect.ONE_POD not in self.defects:
            held += self._new(candidate)
        if Defect.LISTED in self.defects and held:
            return _among_listed(candidate.device.profiles, need, held)
        return mig.choose_in_group(candidate.device.profiles, need, held)


def _size(device: Device, mark: Instance) -> int:
    """The memory of a slot."""
    return next(
        (
            profile.memory
            for profile in device.profiles
            if profile.group == mark.group and mark.placement in profile.placements
        ),
        0,
    )


def _among_listed(
    profiles: Sequence[Profile], need: MiB, held: Sequence[Instance]
) -> tuple[Profile, SlicePlacement] | None:
    """Volcano's choice on a card in use: the group named last, and of it only profiles with an entry in the list."""
    listed: dict[str, set[int]] = {}
    for mark in held:
        for profile in profiles:
            if profile.group == mark.group and mark.placement in profile.placements:
                listed.setdefault(profile.name, set()).add(profile.placements.index(mark.placement))
    of_group = [profile for profile in profiles if profile.group == held[-1].group]
    for profile in sorted(of_group, key=lambda each: each.memory):
        used = listed.get(profile.name)
        if used is not None and len(used) < len(profile.placements) and profile.memory >= need:
            at = next(at for at in range(len(profile.placements)) if at not in used)
            return profile, profile.placements[at]
    return None


_CHANGES: Final[Mapping[Defect, Callable[[Case], None]]] = {
    Defect.HEALTH: _heal,
    Defect.SELECTORS: _without_selectors,
    Defect.INIT: _without_init,
    Defect.REQUESTS: _without_mere_requests,
    Defect.ONCE: _first_slots_only,
    Defect.UNREGISTERED: _unlooked_at,
    Defect.AMOUNTS: _book_phantoms,
}

_SIGNS: Final[Mapping[Defect, Callable[[Case], bool]]] = {
    Defect.HEALTH: lambda case: any(len(record) > 5 and record[4] != "true" for record in _records(case)),
    Defect.SELECTORS: _selects,
    Defect.INIT: lambda case: any(_asks(each) for each in case["pod"]["spec"].get("initContainers") or []),
    Defect.REQUESTS: lambda case: any(
        _asks(each, "requests") and not _asks(each, "limits") for each in case["pod"]["spec"]["containers"]
    ),
    Defect.AMOUNTS: _odd,
    Defect.UNREGISTERED: _unregistered,
    Defect.ONE_POD: lambda case: _cut(case) and len(_containers(case)) > 1,
    Defect.LISTED: lambda case: _cut(case) and bool(case["pods"]),
    Defect.ONCE: lambda case: _cut(case) and bool(case["pods"]),
}
