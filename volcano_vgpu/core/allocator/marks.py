"""What the webhook on new pods does: marks those that need an allocation, and puts into words what they mean.

Volcano takes memory alone for one card, and cores alone for none; a kubelet hands out nothing for either. So the number
is written down. Pods of other schedulers, and pods that ask for no cards, are left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.vendor import AdmissionChange, VendorSpec
from hami_plugins.vendors.volcano import PERCENTAGE
from hami_plugins.wire import admission, pods
from hami_plugins.wire.admission_review import Allowed, Answer, Denied
from hami_plugins.wire.fields import Json
from volcano_vgpu.core.allocator.mode import AllocatorMode
from volcano_vgpu.core.allocator.names import MARKER_KEY

_UNREADABLE: Final = 422
_SENSELESS: Final = 400


def mark(raw: Json, spec: VendorSpec, rules: Rules, schedulers: Collection[str], mode: AllocatorMode) -> Answer:
    """The answer to the creation of a pod, in a cluster whose allocations are put right in this mode."""
    try:
        pod = pods.pod(raw)
        if pod.scheduler not in schedulers or not any(_asks(spec, each) for each in pod.containers):
            return Allowed()
        marked = admission.applied(raw, _changes(spec, pod, mode))
        intake = take_in(pods.pod(marked), Registry([spec]), rules)
    except WireError as error:
        return Denied(str(error), _UNREADABLE)
    if intake.refusal:
        return Denied(intake.refusal, _SENSELESS if intake.admission.allowed else intake.admission.code)
    return Allowed(admission.patch(raw, marked))


def lacks_number(spec: VendorSpec, pod: Pod) -> str:
    """The first container that asks for a share of a card without its number, which gets it nothing; else empty."""
    return next((each.name for each in pod.containers if _unnumbered(spec, each) and not _has_memory(spec, each)), "")


def _changes(spec: VendorSpec, pod: Pod, mode: AllocatorMode) -> Iterator[tuple[int | None, AdmissionChange]]:
    for at, container in enumerate(pod.containers):
        if _unnumbered(spec, container):
            yield at, AdmissionChange("limit", spec.resources.count, "1")
    yield None, AdmissionChange("annotation", MARKER_KEY, mode.value)


def _asks(spec: VendorSpec, container: Container) -> bool:
    number = container.amount(spec.resources.count)
    return (number is not None and number.nano > 0) or _unnumbered(spec, container)


def _unnumbered(spec: VendorSpec, container: Container) -> bool:
    """Whether a container asks for a share of a card, and does not say of how many."""
    if container.amount(spec.resources.count) is not None:
        return False
    return any((amount := container.amount(name)) is not None and amount.nano for name in _shares(spec))


def _has_memory(spec: VendorSpec, container: Container) -> bool:
    return container.amount(spec.resources.memory) is not None


def _shares(spec: VendorSpec) -> tuple[str, ...]:
    names = spec.resources
    percentage = (names.memory_percentage,) if spec.options.flags.get(PERCENTAGE, False) else ()
    return (names.memory, names.cores, *percentage)
