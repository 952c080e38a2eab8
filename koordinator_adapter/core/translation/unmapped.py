"""What no other rule looks at: words that only one scheduler has, records of placements, and variables that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from hami_plugins.engine import annotate, koordinator
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, Path
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.vendors import volcano
from hami_plugins.wire import koordinator_hints, scalars
from hami_plugins.wire.koordinator import NPU_CORE, current
from hami_plugins.wire.pods import booked_for
from koordinator_adapter.core.refusals import cause_of
from koordinator_adapter.core.translation.model import (
    Change,
    TranslationContext,
    TranslationFinding,
    container_path,
    env_at,
    kept,
    lost,
    refused,
)
from koordinator_adapter.core.translation.vocabulary import (
    COLOCATED,
    CORE_POLICY_ENV,
    FOR_DEVICE_PLUGINS,
    HINT,
    JOINT,
    NO_CORE_LIMIT,
    OTHER_DEVICES,
    PARTITION,
    RECORDS,
    RESERVATION,
)

_ONLY_KOORDINATOR: Final = {
    JOINT: "cards and network cards of one switch are chosen together",
    PARTITION: "partitions of linked cards are honoured",
    RESERVATION: "a reservation is used",
}
_READ_BY_KOORDINATOR: Final[Mapping[str, Callable[[str], object]]] = {
    HINT: koordinator_hints.decode,
    JOINT: koordinator_hints.decode_joint,
    PARTITION: koordinator_hints.decode_partition,
}
_READ_BY_LIBRARY: Final = ("LIBCUDA_LOG_LEVEL", CORE_POLICY_ENV, "ACTIVE_OOM_KILLER")
_OWN_LIMITS: Final = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT")
_SWITCH: Final = "CUDA_DISABLE_CONTROL"
_PRELOAD: Final = "LD_PRELOAD"


def only_koordinators(case: TranslationContext) -> Iterator[Change]:
    """Wishes that only Koordinator's scheduler can meet."""
    if case.target is Dialect.KOORDINATOR:
        return
    for key, means in _ONLY_KOORDINATOR.items():
        if key in case.pod.annotations:
            path = ("metadata", "annotations", key)
            yield refused(key, f"only with Koordinator {means}", "leave the annotation out", path=path)
    for container in case.pod.containers:
        for name in container.requests:
            if name.startswith(COLOCATED):
                yield refused(name, "only Koordinator's nodes have it", f"ask for {name.rpartition('-')[2]} itself")


def other_devices(pod: Pod, target: Dialect) -> Iterator[TranslationFinding]:
    """Network cards and FPGAs, which only Koordinator gives out, and only in amounts that mean something in sum."""
    if not any(current(name) in OTHER_DEVICES for container in pod.containers for name in container.requests):
        return
    asked = {name: nano for name, nano in booked_for(pod.containers).items() if nano and current(name) in OTHER_DEVICES}
    totals: dict[str, int] = {}
    for name, nano in asked.items():
        totals[current(name)] = totals.get(current(name), 0) + nano
    for name in asked:
        path = next(
            (*container_path(pod, at), "resources", "limits", name)
            for at, container in enumerate(pod.containers)
            if name in container.requests
        )
        if target is not Dialect.KOORDINATOR:
            yield refused(name, "only Koordinator gives out these devices", "leave it out", path=path)
            continue
        found = koordinator.validated({current(name): -(-totals[current(name)] // NANO)})
        if isinstance(found, koordinator.IllegalRequest):
            cause = cause_of(found.words)
            remedy = cause.remedy if cause else ""
            yield refused(name, f"Koordinator refuses the pod: {found.words}", remedy, path=path)


def other_sharing(pod: Pod, source: Dialect, target: Dialect) -> Iterator[TranslationFinding]:
    """Volcano's older sharing and MindCluster's NPUs, which only Volcano's scheduler gives out, each in its own way."""
    if source is not Dialect.VOLCANO or target is source:
        return
    for at, container in enumerate(pod.containers):
        for name, amount in {**container.requests, **container.limits}.items():
            path = (*container_path(pod, at), "resources", "limits", name)
            if name == volcano.OLDER_SHARING[0]:
                remedy = f"write {volcano.RESOURCES.count}: 1 and {volcano.RESOURCES.memory}: {amount}"
                yield refused(name, "Volcano's older sharing limits nothing in the container", remedy, path=path)
            elif name == volcano.OLDER_SHARING[1]:
                remedy = f"write {volcano.RESOURCES.count}: {amount}"
                yield refused(name, "Volcano's older sharing gives out whole cards by it", remedy, path=path)
            elif name == NPU_CORE:
                words = "under Volcano it counts AI cores for Huawei's MindCluster, which chooses the template"
                remedy = "ask for the chip and its memory, such as huawei.com/Ascend310P"
                yield refused(name, words, remedy, path=path)


def readable(case: TranslationContext) -> Iterator[Change]:
    """Wishes for Koordinator that its scheduler can read: with others it keeps the pod waiting."""
    if case.target is not Dialect.KOORDINATOR:
        return
    for key, decode in _READ_BY_KOORDINATOR.items():
        text = case.pod.annotations.get(key)
        if text is None:
            continue
        try:
            decode(text)
        except WireError as error:
            words = f"Koordinator cannot read it and lets the pod wait: {error.why}"
            yield refused(key, words, f"correct {error.key}", path=("metadata", "annotations", key))


def only_volcanos(case: TranslationContext) -> Iterator[Change]:
    """Volcano's wishes to keep the pods of a gang on cards of their own, and to weigh resources of nodes."""
    if case.source is not Dialect.VOLCANO or case.target is case.source:
        return
    key, given = volcano.SPREAD_KEY, case.pod.annotations
    if key in given:
        path = ("metadata", "annotations", key)
        yield DropEdit(path)
        if given[key] == "spread":
            yield lost(key, "pods of one gang may share a card", path=path, remedy="ask for more of each card")
    for key in sorted(volcano.STRATEGY_KEYS & given.keys()):
        path = ("metadata", "annotations", key)
        yield DropEdit(path)
        yield lost(key, f"{given[key]} is given up: only Volcano's resource-strategy-fit reads it", path=path)


def records(case: TranslationContext) -> Iterator[Change]:
    """What a scheduler wrote on the pod when it placed it: nothing that an author writes."""
    found = sorted(case.pod.annotations.keys() & _written(case.registry)) if case.pod.annotations else []
    for key in found:
        yield DropEdit(("metadata", "annotations", key))
    if annotate.NODE_KEY in case.pod.labels:
        yield DropEdit(("metadata", "labels", annotate.NODE_KEY))
    if found:
        yield lost(found[0], "the placement record is removed: the next scheduler writes its own")


@lru_cache(maxsize=8)
def _written(registry: Registry) -> frozenset[str]:
    """Every annotation that some scheduler writes for a placement."""
    keys = {key for spec in registry for key in (*spec.keys.written(), *spec.keys.of_webhook)}
    return frozenset({*keys, annotate.NODE_KEY, annotate.TIME_KEY, *RECORDS, *FOR_DEVICE_PLUGINS})


def variables(case: TranslationContext) -> Iterator[Change]:
    """Variables that HAMi-core reads in the container, whichever component installed the library."""
    set_here = case.env
    for name in _READ_BY_LIBRARY:
        if name in set_here and (name != CORE_POLICY_ENV or NO_CORE_LIMIT not in case.pod.annotations):
            yield kept(name, "HAMi-core reads it in the container; no change")
    if case.source is case.target or case.asked.request.memory == WHOLE:
        return
    yield from _switch(case)
    if case.target is Dialect.KOORDINATOR:
        # koordlet's hook shows the cards to every container, and limits each (Koordinator 1.7.0
        # ``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``).
        for index in range(len(case.pod.containers)):
            path = container_path(case.pod, index)
            yield from _own_limits(path, env_at(case.raw, path))
            yield from _own_library(path, env_at(case.raw, path))
    elif case.source is Dialect.KOORDINATOR and case.asked.limited:
        yield from _own_limits(case.path, set_here)


def _switch(case: TranslationContext) -> Iterator[Change]:
    """The variable that keeps HAMi-core out of a container, under both schedulers' plugins."""
    if _SWITCH not in case.env:
        return
    index, value = case.env[_SWITCH]
    before, after = (_limits(words, value) for words in (case.source, case.target))
    path = (*case.path, "env", index)
    if before and case.asked.limited and not after:
        words = f"switches the limits off under {case.target}, and under {case.source} they hold"
        yield refused(_SWITCH, words, "take the variable out of the container", path=path)
    elif after and not before:
        words = f"keeps HAMi-core out of the container under {case.source}, not under {case.target}: limits hold"
        yield lost(_SWITCH, words, path=path)


def _limits(words: Dialect, value: str | None) -> bool:
    """Whether limits hold despite the switch. koordlet's hook ignores it, HAMi's plugin reads its value (unknown if
    that comes from elsewhere), Volcano's reads its name alone (HAMi 2.10.0
    ``pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go``, volcano-vgpu-device-plugin 1.12.0
    ``pkg/plugin/server.go``)."""
    if words is not Dialect.HAMI:
        return words is Dialect.KOORDINATOR
    return value is not None and not _is_true(value)


def _own_library(path: Path, env: Mapping[str, tuple[int, str | None]]) -> Iterator[Change]:
    if _PRELOAD in env:
        yield lost(_PRELOAD, "Koordinator's hook replaces it by HAMi-core's library", path=path)


def _own_limits(path: Path, env: Mapping[str, tuple[int, str | None]]) -> Iterator[Change]:
    for name, (index, _) in env.items():
        if name.startswith(_OWN_LIMITS):
            yield refused(
                name,
                "a limit of the container's own can win over the one that the node's hook or plugin sets",
                "take the variable out of the container",
                path=(*path, "env", index),
            )


def _is_true(text: str) -> bool:
    try:
        return scalars.truth(text)
    except ValueError:
        return False
