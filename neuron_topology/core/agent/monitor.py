"""Reports of ``neuron-monitor``: one JSON object a line, read into what each container uses of each device.

Source: the Neuron Monitor user guide (AWS Neuron SDK 2.32): ``neuron_runtime_data`` has an entry for each process with
the runtime, with its cores (numbered over the whole machine), its memory, and what it executed since the last report;
``neuron_hw_counters`` has the errors of each device. A metric group that is missing, or that carries an error, leaves
its figures unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.model.units import DeviceId, MiB, NodeName, PodUid
from hami_plugins.wire import documents, fields, lenient
from hami_plugins.wire.cgroups import ProcessOwner
from hami_plugins.wire.fields import Json
from hami_plugins.wire.usage import CardUsage, ContainerUsage, MemoryUse
from neuron_topology.core.agent.processes import PodDevices
from neuron_topology.core.agent.sensors import DeviceErrors
from neuron_topology.core.nodes import VENDOR

_BYTES: Final = 1 << 20
_KINDS: Final = {"runtime_memory": "context", "model_code": "module", "constants": "data", "tensors": "data"}
"""Kinds of memory of a core, and the ones that the usage document has; any other kind is ``other``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeUse:
    """One process with the runtime. ``cores`` are ratios of busy time by core, ``memory`` is device memory by core.

    ``total`` is all device memory of the process in bytes, ``None`` where it is not known. ``errors`` and ``completed``
    count executions since the report before.
    """

    pid: int
    cores: Mapping[int, float] = field(default_factory=dict)
    memory: Mapping[int, MemoryUse] = field(default_factory=dict)
    total: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    completed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorReport:
    """One line. ``devices`` are the errors by the hardware's counters, ``cores`` those of a device, 0 if not told."""

    runtimes: tuple[RuntimeUse, ...] = ()
    devices: tuple[DeviceErrors, ...] = ()
    cores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Conversion factors for values of cores: the node, the logical cores and the memory of a device."""

    node: NodeName
    cores: int
    memory: MiB

    def card(self, device: int) -> DeviceId:
        """HAMi's id of a device."""
        return DeviceId(f"{self.node}-{VENDOR}-{device}")


def decode(place: str, line: str | bytes) -> MonitorReport:
    """One report; unreadable entries are left out. Raises ``WireError`` if it is not a report at all."""
    body = fields.whole(documents.load(place, line), place)
    listed = fields.items(body, "neuron_runtime_data", place)
    counters = lenient.inside(body, "system_data", "neuron_hw_counters")
    return MonitorReport(
        runtimes=tuple(_runtime(pid, raw) for raw in lenient.mappings(listed) if (pid := _natural(raw.get("pid")))),
        devices=tuple(
            DeviceErrors(
                index=index,
                memory=_natural(raw.get("mem_ecc_uncorrected")),
                sram=_natural(raw.get("sram_ecc_uncorrected")),
            )
            for raw in lenient.mappings(counters.get("neuron_devices"))
            if (index := lenient.whole(raw.get("neuron_device_index"))) is not None
        ),
        cores=_natural(lenient.inside(body, "neuron_hardware_info").get("neuroncore_per_device_count")),
    )


def usage_of(
    report: MonitorReport,
    owner: Callable[[int], ProcessOwner | None],
    pods: Mapping[PodUid, PodDevices],
    facts: MachineFacts,
) -> tuple[ContainerUsage, ...]:
    """Containers' usage, compared with their allocation; processes of no pod are left out.

    Pods with an allocation and without a process are reported as well: they use nothing.
    """
    found: dict[tuple[PodUid, str], list[RuntimeUse]] = {
        (uid, container): [] for uid, pod in pods.items() if pod.devices for container in pod.asking
    }
    for runtime, uid, container in owned(report.runtimes, owner, pods):
        found.setdefault((uid, container), []).append(runtime)
    return tuple(
        ContainerUsage(
            pod_uid=uid,
            container=container,
            namespace=pods[uid].namespace if uid in pods else "",
            pod=pods[uid].name if uid in pods else "",
            processes=len(runtimes),
            cards=tuple(_cards(runtimes, pods.get(uid), facts)),
        )
        for (uid, container), runtimes in sorted(found.items(), key=lambda each: each[0])
    )


def owned(
    runtimes: Iterable[RuntimeUse], owner: Callable[[int], ProcessOwner | None], pods: Mapping[PodUid, PodDevices]
) -> Iterator[tuple[RuntimeUse, PodUid, str]]:
    """The processes of containers, with pod and container; the container's name is empty where it is not known."""
    for runtime in runtimes:
        found = owner(runtime.pid)
        for uid in sorted(found.pods if found is not None else ())[:1]:
            known = pods.get(uid)
            asking = known.asking if known is not None else ()
            named = known.containers.get(found.container_id, "") if known is not None and found is not None else ""
            yield runtime, uid, named or (asking[0] if len(asking) == 1 else "")


def _cards(runtimes: Iterable[RuntimeUse], pod: PodDevices | None, facts: MachineFacts) -> Iterator[CardUsage]:
    busy: defaultdict[int, list[float]] = defaultdict(list)
    memory: defaultdict[int, list[MemoryUse]] = defaultdict(list)
    for runtime in runtimes:
        for core, ratio in runtime.cores.items():
            busy[core // facts.cores].append(ratio)
        for core, used in (runtime.memory or _whole(runtime)).items():
            memory[core // facts.cores].append(used)
    shares = _shares(pod, facts)
    for device in sorted({*busy, *memory, *shares}):
        ratios, held = busy[device], memory[device]
        share = shares.get(device)
        yield CardUsage(
            card=facts.card(device),
            allocated=None if share is None else round(facts.memory * _BYTES * share),
            cores_allocated=share,
            used=MemoryUse(*map(sum, zip(*held, strict=True))) if held else MemoryUse(0, 0, 0, 0),
            utilization=sum(ratios) / len(ratios) if ratios else 0.0,
        )


def _whole(runtime: RuntimeUse) -> Mapping[int, MemoryUse]:
    """All memory of a process that does not tell it by core, where it has one core and so one place for it."""
    if runtime.total is None or len(runtime.cores) != 1:
        return {}
    return {next(iter(runtime.cores)): MemoryUse(0, 0, 0, runtime.total)}


def _shares(pod: PodDevices | None, facts: MachineFacts) -> dict[int, float]:
    """The share of each device that a pod was allocated; nothing where several of its containers have a part of it."""
    if pod is None or len(pod.asking) != 1:
        return {}
    return {device: min(pod.cores.get(device, facts.cores) / facts.cores, 1.0) for device in pod.devices or ()}


def _runtime(pid: int, raw: Json) -> RuntimeUse:
    report = lenient.inside(raw, "report")
    used = lenient.inside(report, "memory_used", "neuron_runtime_used_bytes")
    stats = lenient.inside(report, "execution_stats")
    cores = lenient.inside(report, "neuroncore_counters", "neuroncores_in_use")
    by_core = lenient.inside(used, "usage_breakdown", "neuroncore_memory_usage")
    return RuntimeUse(
        pid=pid,
        cores={
            int(core): _ratio(lenient.mapping(each).get("neuroncore_utilization"))
            for core, each in cores.items()
            if _is_core(core)
        },
        memory={int(core): _memory(lenient.mapping(each)) for core, each in by_core.items() if _is_core(core)},
        total=lenient.whole(used.get("neuron_device")),
        errors={kind: _natural(count) for kind, count in lenient.inside(stats, "error_summary").items()},
        completed=_natural(lenient.inside(stats, "execution_summary").get("completed")),
    )


def _is_core(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


def _memory(raw: Json) -> MemoryUse:
    found = dict.fromkeys(MemoryUse._fields, 0)
    for kind, count in raw.items():
        found[_KINDS.get(kind, "other")] += _natural(count)
    return MemoryUse(**found)


def _ratio(value: object) -> float:
    """A percentage as a ratio from 0 to 1."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return min(max(value / 100, 0.0), 1.0)


def _natural(value: object) -> int:
    return max(lenient.whole(value) or 0, 0)
