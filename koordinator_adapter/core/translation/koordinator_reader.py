"""What a pod in Koordinator's words asks for, and what is wrong with words that only look like Koordinator's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from hami_plugins.engine import koordinator
from hami_plugins.engine.koordinator import CARD_NAMES, FULL, AmountRefusal, IllegalRequest
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.units import CoreShare, VendorName
from hami_plugins.vendors.koordinator import summed
from hami_plugins.wire.koordinator import CORE, NPU_CORE, current, misspells_hami_core
from koordinator_adapter.core.refusals import cause_of
from koordinator_adapter.core.translation import npu
from koordinator_adapter.core.translation.model import RequestedDevices, TranslationFinding, container_path, refused
from koordinator_adapter.core.translation.vocabulary import (
    BESIDE,
    COLOCATED,
    HAMI_CORE,
    ISOLATION,
    KNOWN,
    NO_CORE_LIMIT,
    PREFIX,
    VENDOR_LABEL,
    VENDORS,
)

NVIDIA: Final = VendorName("NVIDIA")
WHOLE_ONLY: Final = {VendorName("AMD"): "amd.com/gpu", VendorName("DCU"): "dcu.com/gpu"}
"""Vendors whose cards Koordinator knows whole, by the name of a device plugin."""


def asked_of(pod: Pod) -> RequestedDevices | TranslationFinding | None:
    """The request of a pod that has some of Koordinator's words, or why it means nothing; ``None`` without cards."""
    objection = next(_misspelt(pod), None)
    if objection is not None:
        return objection
    asking = asking_of(pod)
    if not asking:
        return None
    mismatch = next((found for at in asking if (found := _mismatch(pod, at)) is not None), None)
    if mismatch is not None:
        return mismatch
    if len(asking) == 1:
        return _request(pod, asking[0], amounts_of(pod, asking[0]))
    total = summed(pod, completed=True)
    return several(pod, "no template is the sum of two") if NPU_CORE in total else _request(pod, asking[0], total)


def asking_of(pod: Pod) -> Sequence[int]:
    """The containers that ask for cards, application containers before the others."""
    asking = [at for at in range(len(pod.containers)) if amounts_of(pod, at)]
    return sorted(asking, key=lambda at: pod.containers[at].kind is not ContainerKind.APP)


def several(pod: Pod, why: str) -> TranslationFinding:
    """The refusal of cards in more than one container."""
    asking, total = asking_of(pod), summed(pod, completed=True)
    names = ", ".join(pod.containers[at].name for at in asking)
    sums = ", ".join(f"{name} {total[name]}" for name in sorted(total))
    return refused(
        "containers",
        f"{len(asking)} containers ask for cards ({names}); Koordinator makes one request of them ({sums}), and each "
        f"container sees all of its cards: {why}",
        "put the cards into one container, or make several pods",
    )


def _request(pod: Pod, at: int, amounts: Mapping[str, int]) -> RequestedDevices | TranslationFinding:
    if NPU_CORE in amounts:
        return npu.asked_of(pod, at, amounts)
    found = koordinator.submitted(amounts)
    if isinstance(found, IllegalRequest):
        cause = cause_of(found.words)
        return refused("resources", f"Koordinator refuses the pod: {found.words}", cause.remedy if cause else "")
    memory = koordinator.memory_of(found)
    if isinstance(memory, AmountRefusal):
        return refused(memory.resource, memory.words, memory.remedy)
    cores = found.per_card.get(CORE, 0) if found.shared else FULL
    if pod.annotations.get(NO_CORE_LIMIT) == str(cores):
        cores = 0
    request = DeviceRequest(vendor=_vendor(pod, amounts), count=found.count, memory=memory, cores=CoreShare(cores))
    limited = not found.shared or pod.labels.get(ISOLATION) == HAMI_CORE
    return RequestedDevices(container=at, request=request, limited=limited)


def _vendor(pod: Pod, amounts: Mapping[str, int]) -> VendorName:
    """The vendor of the requested cards: Koordinator's resources are the same for all, the nodes' label is not."""
    asked = {name for container in pod.containers for name in (*container.limits, *container.requests)}
    beside = next((vendor for name, vendor in BESIDE.items() if name in asked), NVIDIA)
    named = next((vendor for vendor, name in WHOLE_ONLY.items() if name in amounts), beside)
    label = dict(pod.constraints.selector).get(VENDOR_LABEL)
    if label in {None, VENDORS[NVIDIA]}:
        return named
    return next((vendor for vendor, text in VENDORS.items() if text == label), VendorName(str(label)))


def amounts_of(pod: Pod, container: int) -> Mapping[str, int]:
    """What a container asks of cards: present names, whole units, zeros left out as the scheduler does."""
    found = pod.containers[container]
    named = {current(name): amount for name, amount in {**found.requests, **found.limits}.items()}
    return {name: named[name].ceiling for name in named if name in CARD_NAMES and named[name].nano}


def _misspelt(pod: Pod) -> Iterator[TranslationFinding]:
    for at, container in enumerate(pod.containers):
        for name, amount in {**container.requests, **container.limits}.items():
            path = (*container_path(pod, at), "resources", "limits", name)
            if name.startswith(COLOCATED):
                continue
            if amount.nano and current(name).startswith(PREFIX) and current(name) not in KNOWN:
                close = get_close_matches(name, sorted(KNOWN))
                remedy = f"write {close[0]}" if close else "leave it out"
                yield refused(name, f"unknown resource {name}: the pod would wait for ever", remedy, path=path)
    value = pod.labels.get(ISOLATION, HAMI_CORE)
    if misspells_hami_core(value):
        yield refused(
            ISOLATION,
            f"{value!r} is not {HAMI_CORE}: no component acts on it, and the container runs without limits",
            f"write {HAMI_CORE}, on the pod and on its nodes",
            path=("metadata", "labels", ISOLATION),
        )


def _mismatch(pod: Pod, at: int) -> TranslationFinding | None:
    container = pod.containers[at]
    for name, amount in container.limits.items():
        asked = container.requests.get(name)
        if current(name) in CARD_NAMES and asked is not None and asked.nano != amount.nano:
            path = (*container_path(pod, at), "resources", "requests", name)
            words = f"requests say {asked}, limits {amount}: the API server refuses that of an extended resource"
            return refused(name, words, "write the same amount in both", path=path)
    return None
