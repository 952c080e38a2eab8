"""Cambricon's and MetaX's cards, whose device plugins want amounts of their own besides Koordinator's names.

HAMi names the vendor's resources alone. Source: Koordinator's manuals of 1.7 and 1.8 for these devices; Koordinator
1.8.0 ``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go`` (in 1.7.0 it has no part for MetaX); HAMi 2.10.0
``pkg/device/cambricon/device.go`` and ``pkg/device/metax/sdevice.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import FULL
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, PutEdit
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import MEBIBYTE, MiB, VendorName
from hami_plugins.vendors import cambricon, metax
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.model import (
    Change,
    TranslationContext,
    TranslationFinding,
    lost,
    refused,
)
from koordinator_adapter.core.translation.resources import unknown
from koordinator_adapter.core.translation.rewriting import replaced
from koordinator_adapter.core.translation.vocabulary import ISOLATION, VENDOR_LABEL, VENDORS

_MLU: Final = cambricon.SPEC.resources
_SGPU: Final = metax.SHARED.resources
_NAMES: Final[Mapping[VendorName, frozenset[str]]] = {
    cambricon.SPEC.name: frozenset({_MLU.count, _MLU.memory, _MLU.cores}),
    metax.SHARED.name: frozenset({_SGPU.count, _SGPU.memory, _SGPU.cores}),
}
_KOORDINATORS: Final = frozenset({SHARED, MEMORY, RATIO, CORE})
_SINCE: Final[Mapping[VendorName, str]] = {cambricon.SPEC.name: "1.7.0", metax.SHARED.name: "1.8.0"}
"""The first release of Koordinator that writes the allocation as the vendor's device plugin reads it."""

Written = Mapping[str, int | str]


def wants_resources(vendor: VendorName) -> bool:
    """Whether Koordinator divides the vendor's cards together with the vendor's device plugin."""
    return vendor in _NAMES


def amounts(case: TranslationContext) -> Iterator[Change]:
    """What the container asks for, in the other words."""
    if case.target is Dialect.VOLCANO:
        yield from unknown(case)
        return
    old = _NAMES[case.asked.request.vendor] | _KOORDINATORS
    written = _for_koordinator(case) if case.target is Dialect.KOORDINATOR else _for_hami(case)
    if isinstance(written, TranslationFinding):
        yield written
        return
    yield from replaced(case, old, written)
    yield from _remarks(case)


def nodes(case: TranslationContext) -> Iterator[Change]:
    """Whose cards are meant, which Koordinator's resources do not say: a label of nodes does."""
    if case.target is Dialect.KOORDINATOR:
        yield PutEdit(("spec", "nodeSelector", VENDOR_LABEL), VENDORS[case.asked.request.vendor])
    elif ISOLATION in case.pod.labels:
        yield DropEdit(("metadata", "labels", ISOLATION))
        yield lost(ISOLATION, f"{case.target} has no choice of what isolates the pod: the vendor's plugin does")


def _for_koordinator(case: TranslationContext) -> Written | TranslationFinding:
    request = case.asked.request
    vendor, name = request.vendor, _count_name(request)
    if request.count > 1 or request.selector.names_ids:
        what = f"{request.count} cards" if request.count > 1 else "a list of ids"
        return refused(name, f"{what}: Koordinator divides one card of any for a pod", "ask for 1, without a list")
    if request.memory == WHOLE:
        if vendor == cambricon.SPEC.name:
            words = "all memory of a card: Cambricon's device plugin wants the amount besides Koordinator's"
            return refused(_MLU.count, words, f"say how much {_MLU.memory} a card has")
        return {SHARED: 1, RATIO: FULL, CORE: FULL, _SGPU.count: 1}
    if not isinstance(request.memory, Absolute) or not request.cores:
        return refused(name, "Koordinator needs memory and cores of this card", "ask for both, 1 % of cores at least")
    size = request.memory.mib
    found: dict[str, int | str] = {SHARED: 1, MEMORY: _spelled(size), CORE: request.cores}
    if vendor == cambricon.SPEC.name:
        return found | {_MLU.cores: request.cores, _MLU.memory: size // cambricon.MEMORY_UNIT}
    return found | {_SGPU.count: 1}


def _for_hami(case: TranslationContext) -> Written | TranslationFinding:
    request = case.asked.request
    names = _MLU if request.vendor == cambricon.SPEC.name else _SGPU
    if request.memory == WHOLE:
        return {names.count: request.count}
    if not isinstance(request.memory, Absolute):
        return refused(RATIO, f"HAMi has no percentage of memory for {names.count}", f"ask by {MEMORY}")
    size = request.memory.mib
    in_units = size // cambricon.MEMORY_UNIT if names is _MLU else _spelled(size)
    if not in_units:
        return refused(MEMORY, f"{size} MiB are less than the unit of {cambricon.MEMORY_UNIT} MiB", "ask for more")
    cores = {names.cores: request.cores} if request.cores else {}
    return {names.count: request.count, names.memory: in_units, **cores}


def _remarks(case: TranslationContext) -> Iterator[Change]:
    request = case.asked.request
    if case.target is Dialect.KOORDINATOR:
        yield lost(
            _count_name(request),
            f"Koordinator writes the allocation for the vendor's device plugin from {_SINCE[request.vendor]} on, where "
            "its scheduler has the feature gate DevicePluginAdaption",
            remedy="start koord-scheduler with --feature-gates=DevicePluginAdaption=true",
        )
        for key in sorted({metax.TOPOLOGY_KEY, metax.APP_CLASS_KEY} & case.pod.annotations.keys()):
            yield lost(key, "Koordinator's scheduler does not read it", path=("metadata", "annotations", key))
        return
    if not request.cores:
        yield lost(CORE, f"without {CORE} HAMi gives the pod all cores of the card")
    if request.vendor == cambricon.SPEC.name and isinstance(request.memory, Absolute):
        yield from _of_mlu(case, request.memory.mib)


def _of_mlu(case: TranslationContext, size: MiB) -> Iterator[Change]:
    """Amounts for Cambricon's device plugin that are not Koordinator's."""
    units, cores = (case.container.amount(name) for name in (_MLU.memory, _MLU.cores))
    if size % cambricon.MEMORY_UNIT:
        yield lost(MEMORY, f"{size} MiB are rounded down to units of {cambricon.MEMORY_UNIT} MiB")
    if units is not None and units.ceiling * cambricon.MEMORY_UNIT != size:
        yield lost(_MLU.memory, f"{units} units of {cambricon.MEMORY_UNIT} MiB are not {size} MiB: {MEMORY} counts")
    if cores is not None and cores.ceiling != amounts_of(case.pod, case.asked.container).get(CORE, 0):
        yield lost(_MLU.cores, f"{cores} is not {CORE}, which counts")


def _count_name(request: DeviceRequest) -> str:
    return (_MLU if request.vendor == cambricon.SPEC.name else _SGPU).count


def _spelled(size: MiB) -> str:
    return quantity.canonical(size * MEBIBYTE * NANO, binary=True)
