"""What running pods hold, from the record of one scheduler into that of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hami_plugins.engine import annotate
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import FINISHED, Pod
from hami_plugins.model.units import DeviceId, NodeName, VendorName
from hami_plugins.vendors import koordinator as cards
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import koordinator as wire
from hami_plugins.wire import objects, pod_devices
from hami_plugins.wire import volcano as volcano_wire
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator_devices import DeviceObject
from hami_plugins.wire.pod_devices import AssignedDevice
from koordinator_adapter.core import allocations
from koordinator_adapter.core.allocations import NodeDevice
from koordinator_adapter.core.migration.kinds import name_of, path_of
from koordinator_adapter.core.migration.steps import FieldChange, Left, MigrationStep, StepKind
from koordinator_adapter.core.translation import npu
from koordinator_adapter.core.translation.model import refused


def records(
    pods: Iterable[Json], devices: Mapping[NodeName, DeviceObject], target: Dialect, registry: Registry
) -> tuple[list[MigrationStep], list[Left]]:
    """What running pods hold, in the words of the target's scheduler, so that it does not give it away again."""
    steps: list[MigrationStep] = []
    left: list[Left] = []
    others = _others(registry)
    for raw in pods:
        name = name_of(raw)
        try:
            pod = objects.pod(raw)
            written = _record(pod, devices, target, others)
        except WireError as error:
            left.append(
                Left(name=name, finding=refused(error.key, error.why, "delete the pod, so that it is placed anew"))
            )
            continue
        if written:
            before = pod.annotations
            changes = tuple(
                FieldChange(
                    ("metadata", "annotations", key),
                    (before[key],) if key in before else (),
                    (value,),
                )
                for key, value in sorted(written.items())
            )
            words = f"holds cards of {pod.node}; this is recorded for {target}'s scheduler"
            step = MigrationStep(
                kind=StepKind.RECORD, name=name, at=path_of(raw), words=words, changes=changes, uid=pod.uid
            )
            steps.append(step)
    return steps, left


def _others(registry: Registry) -> Mapping[str, VendorName]:
    """The records of cards that not every scheduler knows, with the vendor."""
    common = {nvidia.SPEC.keys.allocated, volcano.SPEC.keys.allocated, wire.ALLOCATED_KEY, ""}
    return {spec.keys.allocated: spec.name for spec in registry if spec.keys.allocated not in common}


def _record(
    pod: Pod, devices: Mapping[NodeName, DeviceObject], target: Dialect, others: Mapping[str, VendorName]
) -> Mapping[str, str]:
    """The annotations that say to the target's scheduler what a running pod holds; none where they are there."""
    if pod.node is None or pod.phase in FINISHED:
        return {}
    own = {
        Dialect.HAMI: nvidia.SPEC.keys.allocated,
        Dialect.VOLCANO: volcano.SPEC.keys.allocated,
        Dialect.KOORDINATOR: wire.ALLOCATED_KEY,
    }
    if pod.annotations.get(own[target]):
        return {}
    published = devices.get(pod.node)
    known = _cards(published)
    held = _held(pod, own, known)
    if not held:
        other = sorted(key for key in others.keys() & pod.annotations.keys() if pod.annotations[key])
        if other and target is Dialect.KOORDINATOR and (known or npu.is_npu(others[other[0]])):
            words = f"cards of {pod.node} that Koordinator allocates again, and that its records cannot express"
            raise WireError(other[0], pod.annotations[other[0]], words)
        return {}
    if target is Dialect.KOORDINATOR:
        if published is None:
            raise WireError(
                own[target], pod.full_name, f"node {pod.node} has no Device object; publish its cards first"
            )
        return {own[target]: wire.encode(allocations.synthesised(held, known))}
    at, count = cards.holder(pod), len(pod.containers)
    if target is Dialect.HAMI:
        text = allocations.hami_record(held, containers=count, at=at)
        return {own[target]: text, annotate.NODE_KEY: str(pod.node)}
    text = allocations.volcano_record(held, containers=count, at=at)
    return {own[target]: text, volcano.NODE_KEY: str(pod.node)}


def _held(pod: Pod, own: Mapping[Dialect, str], known: Iterable[NodeDevice]) -> tuple[AssignedDevice, ...]:
    """The cards that a record of any scheduler names, whichever container has them."""
    for words, key in own.items():
        text = pod.annotations.get(key)
        if not text:
            continue
        if words is Dialect.KOORDINATOR:
            return allocations.assigned(wire.decode(text), known)
        decode = volcano_wire.decode_assignment if words is Dialect.VOLCANO else pod_devices.decode
        return tuple(each for container in decode(key, text) for each in container)
    return ()


def _cards(published: DeviceObject | None) -> tuple[NodeDevice, ...]:
    if published is None:
        return ()
    return tuple(
        NodeDevice(each.minor, DeviceId(each.id), memory.ceiling if (memory := each.resources.get(wire.MEMORY)) else 0)
        for each in published.cards
    )
