"""The dialect of a pod, and its request; every dialect yields the same values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.koordinator import FULL
from hami_plugins.engine.mutate import WebhookSettings, admit
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import HamiPluginsError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.units import VendorName
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire.koordinator import NPU_CORE, NPU_CPU, NPU_DVPP, WHOLE_CARDS, current
from koordinator_adapter.core.translation import koordinator_reader, npu
from koordinator_adapter.core.translation.model import (
    RequestedDevices,
    TranslationFinding,
    TranslationOptions,
    container_path,
    refused,
)
from koordinator_adapter.core.translation.vocabulary import BESIDE, COLOCATED, OTHER_DEVICES, PREFIX

_NPU: Final = frozenset({NPU_CORE, NPU_CPU, NPU_DVPP})
_OF_PERCENT: Final = frozenset({koordinator_reader.NVIDIA, volcano.SPEC.name})
"""Vendors whose cores are percent of each card."""

_NVIDIA: Final = "nvidia.com/"
_NETWORK: Final = frozenset({"nvidia.com/hostdev", "nvidia.com/mlnxnics"})
"""What NVIDIA's network operator calls network cards; no scheduler of cards looks at them."""

_DIALECTS: Final[Mapping[Dialect, Dialect]] = {
    Dialect.HAMI: Dialect.HAMI,
    Dialect.VOLCANO: Dialect.VOLCANO,
    Dialect.KOORDINATOR: Dialect.KOORDINATOR,
}


def complete(registry: Registry) -> Registry:
    """The vendors as a translation has to read them: a percentage in Volcano's resources is intended."""
    return Registry(
        replace(spec, options=replace(spec.options, flags={**spec.options.flags, volcano.PERCENTAGE: True}))
        if spec.dialect is Dialect.VOLCANO
        else spec
        for spec in registry
    )


def words_of(pod: Pod, registry: Registry, settings: TranslationOptions) -> frozenset[Dialect]:
    """The dialects of a pod's resources; several if they are mixed.

    Whole cards by a vendor's own name also belong to Koordinator if Koordinator places the pod. Network cards and FPGAs
    go with the dialect of the cards: only Koordinator has resources for them.
    """
    names = frozenset(_amounts(pod))
    beside = {name for name in names if current(name) in OTHER_DEVICES}
    if beside and names - beside:
        asking = _words_of(names - beside, pod, registry, settings)
        if asking:
            return asking
    return _words_of(names, pod, registry, settings)


def _words_of(names: frozenset[str], pod: Pod, registry: Registry, settings: TranslationOptions) -> frozenset[Dialect]:
    if pod.scheduler == settings.schedulers[Dialect.VOLCANO] and _are_volcanos(names, registry):
        return frozenset({Dialect.VOLCANO})
    if any(_is_koordinators(name) for name in names):
        return frozenset({Dialect.KOORDINATOR, *_others(names - {*WHOLE_CARDS, *BESIDE}, registry)})
    if pod.scheduler == settings.schedulers[Dialect.KOORDINATOR] and not names.isdisjoint(WHOLE_CARDS):
        return frozenset({Dialect.KOORDINATOR, *_others(names - {*WHOLE_CARDS}, registry)})
    return frozenset(_others(names, registry))


def _are_volcanos(names: frozenset[str], registry: Registry) -> bool:
    """Whether Volcano reads every device resource of a pod that it places.

    Besides its own names these are whole cards of NVIDIA's device plugin, and Ascend NPUs by HAMi's names or by
    MindCluster's (Volcano 1.14 ``pkg/scheduler/plugins/deviceshare``).
    """
    devices = [name for name in names if _is_koordinators(name) or any(True for _ in _others((name,), registry))]
    of_nvidia = {name for name in devices if name.startswith(_NVIDIA)}
    owners = {name: spec for name in devices if (spec := registry.owner_of(name)) is not None}
    return bool(devices) and all(
        name in {NPU_CORE, *volcano.OLDER_SHARING}
        or (name == nvidia.RESOURCES.count and len(of_nvidia) == 1)
        or (name in owners and (owners[name].dialect is Dialect.VOLCANO or npu.is_npu(owners[name].name)))
        for name in devices
    )


def words_of_name(name: str, registry: Registry) -> Dialect | None:
    """The dialect of a resource; ``None`` for one that requests no cards."""
    if _is_koordinators(name):
        return Dialect.KOORDINATOR
    return next(iter(_others((name,), registry)), None)


def asked_of(pod: Pod, source: Dialect, registry: Registry) -> tuple[RequestedDevices, ...] | TranslationFinding:
    """What each container of a pod asks for, or why that cannot be said in other words."""
    objection = _unusable(pod, source, registry)
    if objection is not None:
        return objection
    if source is Dialect.KOORDINATOR:
        found = koordinator_reader.asked_of(pod)
        return found if isinstance(found, TranslationFinding) else () if found is None else (found,)
    return _slices_of(pod, registry)


def _slices_of(pod: Pod, registry: Registry) -> tuple[RequestedDevices, ...] | TranslationFinding:
    """What HAMi's or Volcano's scheduler reads, after HAMi's webhook has completed it."""
    registry = _only(registry, frozenset(spec.name for name in _amounts(pod) if (spec := registry.owner_of(name))))
    plain = replace(pod, scheduler="", node=None) if pod.scheduler or pod.node else pod
    if any(spec.dialect is Dialect.HAMI for spec in registry):
        admission = admit(plain, registry, WebhookSettings())
        if not admission.allowed:
            return refused("pod", admission.message, "ask for something that HAMi admits")
        plain = admission.pod
    try:
        demand = demand_of(plain, registry)
    except HamiPluginsError as error:
        return refused("resources", str(error), "write an amount that means something")
    found = tuple(
        RequestedDevices(container=at, request=each)
        for at, container in enumerate(demand.containers)
        for each in container.requests
    )
    parts = (each.request for each in found if each.request.vendor in _OF_PERCENT)
    too_many = next((each for each in parts if each.cores > FULL), None)
    if too_many is not None:
        name = registry[too_many.vendor].resources.cores
        words = f"{too_many.cores} is more than the 100 % of a card; HAMi takes it for 100, others refuse it"
        return refused(name, words, "ask for 1 to 100")
    return found or _nothing(pod) or ()


@lru_cache(maxsize=64)
def _only(registry: Registry, names: frozenset[VendorName]) -> Registry:
    """The vendors that a pod names, so that the others need not be asked about every pod."""
    return Registry(spec for spec in registry if spec.name in names)


def _others(names: Iterable[str], registry: Registry) -> Iterable[Dialect]:
    for name in names:
        spec = registry.owner_of(name)
        if spec is not None:
            yield _DIALECTS[spec.dialect]
        elif name in volcano.OLDER_SHARING:
            yield Dialect.VOLCANO


def _is_koordinators(name: str) -> bool:
    return (current(name).startswith(PREFIX) and not name.startswith(COLOCATED)) or name in _NPU


def _amounts(pod: Pod) -> Mapping[str, Quantity]:
    """Every amount of the pod that is not zero, by its name; of several the last."""
    return {
        name: amount
        for container in pod.containers
        for amounts in (container.requests, container.limits)
        for name, amount in amounts.items()
        if amount.nano
    }


def _unusable(pod: Pod, source: Dialect, registry: Registry) -> TranslationFinding | None:
    """Amounts that no dialect has, whatever they are of: below zero, parts of a unit, and NVIDIA's other resources."""
    for at, container in enumerate(pod.containers):
        for name, amount in {**container.requests, **container.limits}.items():
            owned = registry.owner_of(name) is not None or _is_koordinators(name)
            path = (*container_path(pod, at), "resources", "limits", name)
            if owned and (amount.nano < 0 or amount.whole is None):
                return refused(
                    name, f"{amount} is not a valid amount of it", "write a whole number, 0 or more", path=path
                )
            if name.startswith(_NVIDIA) and name not in _NETWORK and not owned and amount.nano:
                return refused(
                    name,
                    f"{source} has no equivalent in another scheduler for {name}",
                    "ask for slices by memory and cores",
                    path=path,
                )
    return None


def _nothing(pod: Pod) -> TranslationFinding | None:
    """A pod that names Volcano's resources and gets nothing for them as it is."""
    names = sorted(name for name in _amounts(pod) if name in volcano.RESOURCES.all())
    if not names:
        return None
    words = (
        f"without {volcano.RESOURCES.count}, {' and '.join(names)} ask for no card: Volcano binds the pod without one"
    )
    return refused(names[0], words, f"add {volcano.RESOURCES.count}: 1")
