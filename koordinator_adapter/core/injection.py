"""HAMi-core in containers that share cards, where koordlet's own hook does not put it there.

Which cards a pod gets, and how much a percentage of them is, is known when Koordinator's scheduler records it. So the
containers take both from annotations of their pod, which are written in the very update that records the cards: the
kubelet reads them when it starts a container. A pod without them sees no card at all.

A container's edits are those of koordlet's hook (Koordinator 1.7.0 ``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``),
with differences on purpose: every card has its own limit, memory as the record says it, ids instead of numbers, and
``/etc/ld.so.preload`` instead of ``LD_PRELOAD``, which belongs to the container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import FULL
from hami_plugins.errors import WireError
from hami_plugins.model.edits import AppendEdit, Edit, Path, PutEdit
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.wire import koordinator
from hami_plugins.wire.hami_core import (
    CORE_ENV,
    LIBRARY,
    LIBRARY_IN_CONTAINER,
    LOCK_DIRECTORY,
    MEMORY_ENV,
    MOST_CARDS,
    PRELOAD,
    PRELOAD_IN_CONTAINER,
    VISIBLE_ENV,
)
from hami_plugins.wire.koordinator import ALLOCATED_KEY, GPU_TYPE, MEMORY, NPU_CORE, RATIO, AllocatedDevice
from koordinator_adapter.core.translation import koordinator_reader
from koordinator_adapter.core.translation.model import RequestedDevices, TranslationFinding, at, container_path, refused
from koordinator_adapter.core.translation.vocabulary import (
    HAMI_CORE,
    INJECTED,
    ISOLATION,
    MEMORY_LIMIT,
    VISIBLE,
)

_LIBRARY_VOLUME: Final = "hami-core-library"
_PRELOAD_VOLUME: Final = "hami-core-preload"
_LOCK_VOLUME: Final = "hami-core-lock"
_MOUNTS: Final[tuple[Mapping[str, object], ...]] = (
    {"name": _LIBRARY_VOLUME, "mountPath": LIBRARY_IN_CONTAINER, "readOnly": True},
    {"name": _PRELOAD_VOLUME, "mountPath": PRELOAD_IN_CONTAINER, "readOnly": True},
    {"name": _LOCK_VOLUME, "mountPath": LOCK_DIRECTORY},
)


class PodLimits(NamedTuple):
    """What becomes of the limits of a placed pod: whether it shares a card, whether its label promises limits, whether
    its containers take them from annotations, and why koordlet's hook sets none (empty where it would)."""

    shares: bool
    labelled: bool
    injected: bool
    not_hooked: str = ""


def is_shared(request: DeviceRequest) -> bool:
    """Whether others may use the cards as well, and HAMi-core can limit what the pod uses: it knows NVIDIA's alone."""
    return request.vendor == koordinator_reader.NVIDIA and request.memory != WHOLE


def request_of(pod: Pod) -> DeviceRequest | None:
    """A pod's request in Koordinator's resources; empty if it is not for cards, or has no meaning."""
    if not any(koordinator_reader.amounts_of(pod, index) for index in range(len(pod.containers))):
        return None
    asked = koordinator_reader.asked_of(pod)
    return asked.request if isinstance(asked, RequestedDevices) else None


def edits_of(raw: Mapping[str, object], pod: Pod, hook: str, lock: str) -> tuple[Edit, ...] | TranslationFinding:
    """What is added to a pod in Koordinator's words; nothing where it shares no card or wants no limits.

    ``hook`` and ``lock`` are the folders of the library and of its locks on nodes. Asked about a pod that has it all it
    adds nothing.
    """
    request = request_of(pod)
    if pod.labels.get(ISOLATION) != HAMI_CORE or request is None or not is_shared(request):
        return ()
    if request.count > MOST_CARDS:
        words = f"HAMi-core limits at most {MOST_CARDS} cards of a container, not {request.count}"
        return refused(ISOLATION, words, "ask for fewer cards, or for whole ones")
    paths = [container_path(pod, index) for index in range(len(pod.containers))]
    volumes = _volumes(hook, lock)
    if objection := _other_use(raw, paths, volumes):
        return objection
    found: list[Edit] = [PutEdit(("metadata", "annotations", INJECTED), str(request.count))]
    wanted = _variables(request.count, request.cores)
    for path in paths:
        found += _in_container(raw, path, wanted)
    listed = _items(raw, ("spec", "volumes"))
    found += [AppendEdit(("spec", "volumes"), volume) for volume in volumes if volume not in listed]
    return tuple(found)


def is_ours(variable: Mapping[str, object], pod: Pod) -> bool:
    """Whether a variable of a container says what we had put there for this pod."""
    request = request_of(pod)
    if request is None or INJECTED not in pod.annotations:
        return False
    return dict(variable) in _variables(request.count, request.cores)


def resolved(raw: Mapping[str, object], pod: Pod) -> tuple[Edit, ...]:
    """What is written on a pod, ready for limits, whose cards have just been recorded.

    Raises ``WireError`` where the record cannot be read or says no memory: without a limit no container may start.
    """
    text = pod.annotations.get(ALLOCATED_KEY)
    if INJECTED not in pod.annotations or text is None:
        return ()
    cards = sorted(koordinator.decode(text).get(GPU_TYPE, ()), key=lambda each: each.minor)
    if not cards:
        raise WireError(ALLOCATED_KEY, text, "no cards in it")
    wanted = {VISIBLE: ",".join(each.id or str(each.minor) for each in cards)}
    wanted |= {f"{MEMORY_LIMIT}{place}": str(_bytes(each)) for place, each in enumerate(cards)}
    held = at(raw, ("metadata", "annotations"))
    known = held if isinstance(held, Mapping) else {}
    stale = [key for key in known if key.startswith(MEMORY_LIMIT) and key not in wanted]
    if stale:
        raise WireError(stale[0], str(known[stale[0]]), f"the record has {len(cards)} cards")
    return tuple(PutEdit(("metadata", "annotations", key), value) for key, value in wanted.items())


def is_injected(raw: Mapping[str, object], pod: Pod) -> bool:
    """Whether every container of a placed pod takes limits from annotations of its pod, and these are there."""
    paths = [container_path(pod, index) for index in range(len(pod.containers))]
    limited = all(any(each.get("name") == f"{MEMORY_ENV}0" for each in _items(raw, (*path, "env"))) for path in paths)
    return limited and VISIBLE in pod.annotations


def limits_of(raw: Mapping[str, object], pod: Pod, cards: Sequence[AllocatedDevice] | None) -> PodLimits:
    """What becomes of the limits of a placed pod. ``cards`` are those of its record, ``None`` where it has none."""
    labelled = pod.labels.get(ISOLATION) == HAMI_CORE
    request = request_of(with_label(pod))
    part = request is not None and is_shared(request)
    if any(NPU_CORE in each.resources for each in cards or ()):
        return PodLimits(shares=False, labelled=labelled, injected=False)
    why = "" if cards is None else _not_hooked(cards, request)
    if cards is None:
        why = f"has no record of its cards ({ALLOCATED_KEY}), so its usage is neither counted nor limited"
    return PodLimits(
        # A record of a part without either belongs to a pod in another dialect: the component that shares its card
        # limits it as well.
        shares=(part and bool(why)) or ((part or labelled) and _shares_a_card(cards or ())),
        labelled=labelled,
        injected=is_injected(raw, pod),
        not_hooked=why,
    )


def with_label(pod: Pod) -> Pod:
    """The pod with the label as it has to be: with any other one its request means nothing."""
    return replace(pod, labels={**pod.labels, ISOLATION: HAMI_CORE})


def _not_hooked(cards: Sequence[AllocatedDevice], request: DeviceRequest | None) -> str:
    """Why koordlet's hook sets no limits by this record: it reads the first card (Koordinator 1.7.0
    ``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``)."""
    first = cards[0].resources if cards else {}
    lacking = next((name for name in (RATIO, MEMORY) if name not in first), None)
    if lacking is not None and (lacking == RATIO or first[RATIO].ceiling < FULL):
        return f"has a record without {lacking}, by which koordlet's hook sets no limit"
    if lacking is None and first[RATIO].ceiling >= FULL and request is not None and 0 < request.cores < FULL:
        return f"has all memory of a card, of which koordlet's hook does not limit the cores to {request.cores}, either"
    return ""


def _shares_a_card(cards: Sequence[AllocatedDevice]) -> bool:
    """Whether a record says that some card is only in part the pod's (Koordinator 1.7.0
    ``apis/extension/device_share.go``)."""
    return any((ratio := each.resources.get(RATIO)) is not None and ratio.ceiling < FULL for each in cards)


def _bytes(card: AllocatedDevice) -> int:
    size = card.resources.get(MEMORY)
    if size is None or size.ceiling <= 0:
        raise WireError(ALLOCATED_KEY, str(card.minor), f"says no {MEMORY} of this card, so nothing can be limited")
    return size.ceiling


def _variables(count: int, cores: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [_from_annotation(VISIBLE_ENV, VISIBLE)]
    found += [_from_annotation(f"{MEMORY_ENV}{place}", f"{MEMORY_LIMIT}{place}") for place in range(count)]
    if 0 < cores < FULL:
        found += [{"name": f"{CORE_ENV}{place}", "value": str(cores)} for place in range(count)]
    return found


def _from_annotation(name: str, key: str) -> dict[str, object]:
    field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{key}']"}
    return {"name": name, "valueFrom": {"fieldRef": field}}


def _in_container(raw: Mapping[str, object], path: Path, wanted: Sequence[Mapping[str, object]]) -> Iterator[Edit]:
    """The variables, over what the container says itself, and the mounts."""
    listed = _items(raw, (*path, "env"))
    places = {each.get("name"): index for index, each in enumerate(listed)}
    for variable in wanted:
        place = places.get(variable["name"])
        if place is None:
            yield AppendEdit((*path, "env"), variable)
        elif listed[place] != variable:
            yield PutEdit((*path, "env", place), variable)
    mounted = _items(raw, (*path, "volumeMounts"))
    for mount in _MOUNTS:
        if mount not in mounted:
            yield AppendEdit((*path, "volumeMounts"), mount)


def _volumes(hook: str, lock: str) -> tuple[Mapping[str, object], ...]:
    """The library's files; a pod for which they are not there does not start, and so never runs without limits."""
    return (
        {"name": _LIBRARY_VOLUME, "hostPath": {"path": f"{hook}/{LIBRARY}", "type": "File"}},
        {"name": _PRELOAD_VOLUME, "hostPath": {"path": f"{hook}/{PRELOAD}", "type": "File"}},
        {"name": _LOCK_VOLUME, "hostPath": {"path": lock, "type": "Directory"}},
    )


def _other_use(
    raw: Mapping[str, object], paths: Sequence[Path], volumes: Sequence[Mapping[str, object]]
) -> TranslationFinding | None:
    """Something else of the pod's in the places of the library, so that limits would not hold."""
    ours = {each["name"]: each for each in volumes}
    for volume in _items(raw, ("spec", "volumes")):
        if volume.get("name") in ours and volume != ours[volume["name"]]:
            return refused(str(volume["name"]), "this name is that of a volume with HAMi-core", "name yours otherwise")
    targets = {each["mountPath"]: each for each in _MOUNTS}
    for path in paths:
        for mount in _items(raw, (*path, "volumeMounts")):
            target = mount.get("mountPath")
            if target in targets and mount != targets[target]:
                return refused(str(target), "HAMi-core is mounted there", "mount something else elsewhere", path=path)
    return None


def _items(raw: Mapping[str, object], path: Path) -> list[Mapping[str, object]]:
    """The objects of a list, none for other values."""
    listed = at(raw, path)
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
