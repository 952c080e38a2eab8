"""The webhook for new pods: marks those that need an allocation and records how their annotations are interpreted.

Records of an allocation that such a pod brings are removed, because only a scheduler's Binding writes them.

A pod is marked where a scheduler places it that asks the allocator: one of Volcano's, or that of HAMi's pods (HAMi
2.10.0 ``pkg/scheduler/webhook.go``). Pods of other schedulers are left alone, but for vendors whose devices every
scheduler's pods are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hami_plugins.allocations import remedies, submissions
from hami_plugins.allocations.product import Product
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.engine.mutate import OVER_QUOTA
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import AdmissionChange, Headroom
from hami_plugins.wire import admission, pods
from hami_plugins.wire.admission_review import SENSELESS, UNREADABLE, Allowed, Answer, Denied
from hami_plugins.wire.allocator_mark import PROGRESS_KEYS
from hami_plugins.wire.fields import Json

Quotas = Callable[[str], Mapping[VendorName, Headroom]]
"""What the quotas of a namespace leave, per vendor."""

SCHEDULER_NAME: Final = "schedulerName"


def mark(raw: Json, product: Product, left: Quotas | None = None) -> Answer:
    """The answer to the creation of a pod. A request that could never be allocated anywhere is refused at once, and
    one that is larger than the quotas of its namespace allow now; ``left`` says what that is, where it is known.
    """
    try:
        pod = pods.pod(raw)
        vendors = product.vendors_for(pod.scheduler)
        if not any(_asks(each, vendors) for each in pod.containers):
            return Allowed()
        submitted = submissions.without_records(raw, (*product.keys, *PROGRESS_KEYS))
        admitted = pods.pod(written := admission.applied(submitted.pod, _written(pod, vendors)))
        intake = take_in(admitted, vendors, product.rules, left and left(admitted.namespace))
        if intake.refusal:
            return _refused(intake)
        if not intake.demand.devices.wants_devices:
            return Allowed()
        marked = admission.applied(written, _changes(intake, product))
    except WireError as error:
        return Denied(str(error), UNREADABLE)
    if wrong := _wrong(intake, vendors):
        return Denied(wrong, SENSELESS)
    asking = {each.name for each in pod.containers if _asks(each, vendors)}
    return Allowed(admission.patch(raw, marked), (*submitted.warnings, *submissions.overrides(raw, asking)))


def _refused(intake: PodInfo) -> Denied:
    found = intake.admission
    if found.message == OVER_QUOTA:
        return Denied(f"{intake.refusal}; {remedies.OVER_QUOTA}", found.code)
    return Denied(intake.refusal, SENSELESS if found.allowed else found.code)


def _asks(container: Container, vendors: Registry) -> bool:
    """Whether a container names any amount of a resource of these vendors other than none."""
    amounts = (*container.limits.items(), *container.requests.items())
    return any(amount.nano and vendors.owner_of(name) is not None for name, amount in amounts)


def _written(pod: Pod, vendors: Registry) -> Iterator[tuple[int | None, AdmissionChange]]:
    """What vendors add to containers that do not say it themselves."""
    for spec in vendors:
        if (complete := spec.allocation.complete) is not None:
            for at, container in enumerate(pod.containers):
                yield from ((at, change) for change in complete(spec, container))


def _changes(intake: PodInfo, product: Product) -> Iterator[tuple[int | None, AdmissionChange]]:
    yield from (each for each in intake.admission.changes if product.takes_over or each.change.kind != SCHEDULER_NAME)
    yield None, AdmissionChange("annotation", *product.marker)


def _wrong(intake: PodInfo, vendors: Registry) -> str:
    """What is wrong with the pod's annotations, for the vendors whose devices it asks for."""
    rules = (vendors[name].allocation for name in intake.demand.devices.vendors)
    return next(filter(None, (each.wrong(intake.pod.annotations) for each in rules if each.wrong is not None)), "")
