"""What the admission webhook decides about a pod: allowed or not, and every change it makes (HAMi 2.10.0
``pkg/scheduler/webhook.go``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hami_plugins.engine import quota
from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import AdmissionDeniedError, InvalidRequestError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceDemand
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import AdmissionChange, ContainerAdmission, Headroom, VendorSpec
from hami_plugins.wire import quantity

DEFAULT_SCHEDULER: Final = "default-scheduler"
OTHER_SCHEDULER: Final = "pod already has different scheduler assigned"
OVER_QUOTA: Final = "exceeding resource quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """HAMi's scheduler name, and whether pods that name the default scheduler are taken over."""

    scheduler: str = "hami-scheduler"
    takes_over_default: bool = True


class PodChange(NamedTuple):
    """One change of the pod; ``container`` indexes the pod's containers (init containers first), or is ``None``."""

    container: int | None
    change: AdmissionChange


class Unusable(NamedTuple):
    """An amount of a container that means nothing: the resource, what is written for it, and the whole of it in "
    "words."""

    resource: str
    value: str
    words: str

    @classmethod
    def of(cls, error: InvalidRequestError) -> Unusable:
        """What an error says."""
        return cls(error.resource, error.value, str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdmission:
    """The webhook's answer: ``pod`` is the pod with ``changes`` applied; ``claimed`` are the vendors it uses.

    ``message`` is as HAMi spells it, ``detail`` what it does not say: the numbers of a quota, or what to do.
    ``unusable`` is set where the refusal is ours: an amount that means nothing, with which HAMi may admit the pod.
    """

    allowed: bool
    pod: Pod
    code: int = 200
    message: str = ""
    changes: tuple[PodChange, ...] = ()
    claimed: tuple[VendorName, ...] = ()
    detail: str = ""
    unusable: Unusable | None = None


def admit(
    pod: Pod,
    registry: Registry,
    settings: WebhookSettings,
    left: Mapping[VendorName, Headroom] | None = None,
    *,
    written: bool = False,
) -> PodAdmission:
    """The webhook's decision on a new pod. ``left`` is what the namespace's quota leaves, per vendor.

    With ``written`` vendors have written into the pod what they do, and refuse nothing: some would not take that again.

    Where HAMi lets a pod with an unusable request through without any accounting, it is denied here.
    """
    if not any(container.kind is ContainerKind.APP for container in pod.containers):
        return _denied(pod, "pod has no containers")
    if not is_hamis(pod.scheduler, settings):
        return PodAdmission(allowed=True, pod=pod, message=OTHER_SCHEDULER)
    try:
        _refuse_negative(pod, registry)
        changed = _taken_over(_with_vendors(pod, registry, written=written), settings)
        demand = demand_of(changed.pod, registry)
    except AdmissionDeniedError as error:
        return replace(_denied(pod, error.message, error.code), detail=error.remedy)
    except InvalidRequestError as error:
        return replace(_denied(pod, str(error), error.http_status), unusable=Unusable.of(error))
    over = [each.words(registry[each.vendor]) for each in quota.excesses(_asked(demand), left or {})]
    return replace(_denied(pod, OVER_QUOTA), detail="; ".join(over)) if over else changed


def is_hamis(scheduler: str, settings: WebhookSettings) -> bool:
    """Whether pods that name this scheduler are HAMi's, or are taken over by it."""
    if not scheduler or (scheduler == DEFAULT_SCHEDULER and settings.takes_over_default):
        return True
    return bool(settings.scheduler) and scheduler == settings.scheduler


def _refuse_negative(pod: Pod, registry: Registry) -> None:
    """Refuse amounts below zero as the API server does; those of vendors' resources are for the vendors to refuse."""
    for container in pod.containers:
        for amounts in (container.limits, container.requests):
            for resource, amount in amounts.items():
                if amount.nano < 0 and registry.owner_of(resource) is None:
                    why, remedy = "the amount is negative", "ask for 0 or more"
                    raise InvalidRequestError(
                        container=container.name, resource=resource, value=str(amount), why=why, remedy=remedy
                    )


def applied(pod: Pod, change: PodChange) -> Pod:
    """The pod with one change made."""
    kind, key, value = change.change
    if change.container is not None:
        containers = list(pod.containers)
        containers[change.container] = _applied_to(containers[change.container], change.change)
        return replace(pod, containers=tuple(containers))
    match kind:
        case "annotation":
            return replace(pod, annotations={**pod.annotations, key: value})
        case "runtimeClassName":
            return replace(pod, runtime_class=value)
        case _:
            return replace(pod, scheduler=value)


def _applied_to(container: Container, change: AdmissionChange) -> Container:
    match change.kind:
        case "limit":
            amount = quantity.parse(change.value, key=change.key)
            return replace(container, limits={**container.limits, change.key: amount})
        case "request":
            amount = quantity.parse(change.value, key=change.key)
            return replace(container, requests={**container.requests, change.key: amount})
        case _:
            return replace(container, env=container.env | {change.key})


def _with_vendors(pod: Pod, registry: Registry, *, written: bool) -> PodAdmission:
    changes: list[PodChange] = []
    claimed: dict[VendorName, None] = {}
    for at in range(len(pod.containers)):
        for spec in registry:
            if spec.dialect is not Dialect.HAMI:
                continue
            ask = _plain if written or spec.admit is None else spec.admit
            answer = ask(spec, pod.containers[at], pod)
            if answer.claimed:
                claimed[spec.name] = None
            for change in answer.changes:
                of_pod = change.kind in ("annotation", "runtimeClassName")
                each = PodChange(None if of_pod else at, change)
                changes.append(each)
                pod = applied(pod, each)
    return PodAdmission(allowed=True, pod=pod, changes=tuple(changes), claimed=tuple(claimed))


def _taken_over(changed: PodAdmission, settings: WebhookSettings) -> PodAdmission:
    """A pod that asks for devices is given to HAMi's scheduler, if that has a name. Raises ``AdmissionDeniedError``."""
    if not changed.claimed:
        return changed
    privileged = next((each.name for each in changed.pod.containers if each.privileged), None)
    if privileged is not None:
        remedy = "it would see every card; drop securityContext.privileged"
        raise AdmissionDeniedError(f"container {privileged} is privileged", remedy=remedy)
    if not settings.scheduler:
        return changed
    if changed.pod.node:
        remedy = f"no scheduler looks at it then; write nodeSelector kubernetes.io/hostname: {changed.pod.node}"
        raise AdmissionDeniedError("pod has node assigned", remedy=remedy)
    change = PodChange(None, AdmissionChange("schedulerName", "schedulerName", settings.scheduler))
    return replace(changed, pod=applied(changed.pod, change), changes=(*changed.changes, change))


def _plain(spec: VendorSpec, container: Container, _pod: Pod) -> ContainerAdmission:
    """Most vendors claim a container whose limits name their count, and change nothing."""
    return ContainerAdmission(spec.resources.count in container.limits)


def _asked(demand: DeviceDemand) -> Mapping[VendorName, tuple[int, int]]:
    """Memory and cores that a demand names outright: the sum over applications or the largest init container.

    Percentages count for nothing here, because only a card says what they are worth (HAMi 2.10.0
    ``pkg/scheduler/webhook.go``).
    """
    sums: dict[VendorName, tuple[int, int]] = {}
    peaks: dict[VendorName, tuple[int, int]] = {}
    for container in demand.containers:
        into = peaks if container.kind is ContainerKind.INIT else sums
        for request in container.requests:
            memory = request.memory.mib * request.count if isinstance(request.memory, Absolute) else 0
            cores = request.cores * request.count
            known = into.get(request.vendor, (0, 0))
            if container.kind is ContainerKind.INIT:
                into[request.vendor] = (max(known[0], memory), max(known[1], cores))
            else:
                into[request.vendor] = (known[0] + memory, known[1] + cores)
    asked: dict[VendorName, tuple[int, int]] = {}
    for vendor in {**sums, **peaks}:
        (memory, cores), (most_memory, most_cores) = sums.get(vendor, (0, 0)), peaks.get(vendor, (0, 0))
        asked[vendor] = (max(memory, most_memory), max(cores, most_cores))
    return asked


def _denied(pod: Pod, message: str, code: int = 403) -> PodAdmission:
    return PodAdmission(allowed=False, pod=pod, code=code, message=message)
