"""From a submitted pod to everything a decision needs: admission, demand, policy, and what its quota leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from hami_plugins.engine import koordinator
from hami_plugins.engine.claims.needs import wish_of
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.mutate import PodAdmission, Unusable, WebhookSettings, admit
from hami_plugins.engine.policies import PolicyDefaults, koordinator_policy, policy_of, volcano_policy
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, NodeConstraints, Pod, Toleration
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.wire import quantity, scoring_weights
from hami_plugins.wire.managed_taints import is_extended

OVERCOMMIT: Final = Fraction(12, 10)
"""Of the cluster, the part that may be held and waited for together (plugin ``overcommit``)."""


NO_DEVICES = DeviceDemand(())
_NATIVE: Final = "kubernetes.io/"
"""Part of the names of Kubernetes' own resources, of which a request may be less than the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How this cluster admits and ranks pods.

    ``queue_plugin`` is the plugin that divides the cluster among Volcano's queues, ``proportion`` or ``capacity``;
    empty if unknown. ``queue_hierarchy``: whether ``capacity`` reads the parents of queues; ``None`` if unknown.
    ``overcommit`` is the share of the cluster that may be held and waited for together. ``adds_tolerations``: whether
    the API server has the admission plugin ``ExtendedResourceToleration``; ``None``: detected from its nodes.
    """

    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    policies: PolicyDefaults = field(default_factory=PolicyDefaults)
    queue_plugin: str = ""
    queue_hierarchy: bool | None = None
    overcommit: Fraction = OVERCOMMIT
    adds_tolerations: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """A pod ready to be decided on. ``refusal`` is why it never gets that far; then demand and policy mean nothing.

    ``submitted`` is the pod as it came, ``pod`` as the webhook left it; ``words`` is the refusal as the upstream
    scheduler spells it, empty where the refusal is ours alone.
    """

    submitted: Pod
    pod: Pod
    admission: PodAdmission
    demand: PodDemand
    policy: Policy = DEFAULT_POLICY
    dialect: Dialect = Dialect.HAMI
    refusal: str = ""
    words: str = ""

    def with_constraints(self, constraints: NodeConstraints) -> PodInfo:
        """The pod if this decided alone on which nodes it may be, besides devices and quota."""
        return replace(self, demand=replace(self.demand, constraints=constraints))


def take_in(  # noqa: PLR0913 - one question with all that belongs to it
    pod: Pod,
    registry: Registry,
    rules: Rules,
    left: Mapping[VendorName, Headroom] | None = None,
    *,
    admitted: bool = False,
    written: bool = False,
) -> PodInfo:
    """Let the webhook see the pod, then read what it asks. ``left`` is what the namespace's quota leaves per vendor.

    An ``admitted`` pod is read as it is. For a pod that exists, and may or may not have passed a webhook, vendors have
    ``written`` their changes into it: they would refuse their own result for some pods (one Ascend910C device gets both
    dies, and several devices no less than their whole memory).
    """
    if admitted:
        admission = PodAdmission(allowed=True, pod=pod)
    else:
        admission = admit(pod, registry, rules.webhook, left, written=written)
    if admission.unusable is not None:
        return _unusable(pod, admission, admission.unusable, registry)
    if not admission.allowed:
        demand = PodDemand(NO_DEVICES, pod.constraints)
        denied = f"admission denied: {admission.message}"
        why = f"{denied} ({admission.detail})" if admission.detail else denied
        return PodInfo(submitted=pod, pod=pod, admission=admission, demand=demand, refusal=why, words=denied)
    seen = with_tolerations(admission.pod, adds=rules.adds_tolerations)
    read = koordinator.read_by_its_scheduler(seen)
    try:
        devices = demand_of(read, registry)
        dialect = dialect_of(devices, registry)
        policy = _policy(seen, devices, dialect, rules.policies)
    except InvalidRequestError as error:
        return _unusable(pod, admission, Unusable.of(error), registry)
    except WireError as error:
        demand = PodDemand(NO_DEVICES, pod.constraints)
        words = f"filter error: calcScore failed {scoring_weights.spelled(error)} for pod {seen.name}"
        return PodInfo(submitted=pod, pod=seen, admission=admission, demand=demand, refusal=str(error), words=words)
    return PodInfo(
        submitted=pod,
        pod=seen,
        admission=admission,
        demand=PodDemand(devices, read.constraints, tuple(sorted((left or {}).items())), wish_of(seen, registry)),
        policy=policy,
        dialect=dialect,
    )


def created(intake: PodInfo) -> PodInfo:
    """The same, refused where the API server does not create the pod, which no listing has yet.

    Devices are not overcommitted: the request of each has a limit and is equal to it (``validateContainerResource``
    of Kubernetes). The API server writes requests before the webhook writes limits, and compares them after it.
    """
    if intake.refusal or intake.submitted.uid:
        return intake
    for before, after in zip(intake.submitted.containers, intake.pod.containers, strict=True):
        for name in after.requests:
            if why := _overcommitted(name, before, after):
                demand = PodDemand(NO_DEVICES, intake.pod.constraints)
                return replace(intake, demand=demand, refusal=f"not planned: container {after.name}: {why}", words="")
    return intake


def _overcommitted(name: str, before: Container, after: Container) -> str:
    """Why the API server refuses a resource of a container; empty where it does not."""
    asked, limit = after.requests[name], after.limits.get(name)
    if "/" not in name or _NATIVE in name or (limit is not None and limit.nano == asked.nano):
        return ""
    if limit is None:
        return f"the API server refuses a request of {name} without a limit; write it under limits"
    written = before.limits.get(name)
    if written is None or written.nano != asked.nano:
        return f"the API server refuses {asked} {name} as the request with a limit of {limit}; write the limit alone"
    return (
        f"the webhook makes the limit {name}: {limit}, the request stays {asked}, and the API server refuses a pod in "
        f"which they differ; leave {name} out"
    )


def dialect_of(demand: DeviceDemand, registry: Registry) -> Dialect:
    """Whose words the pod speaks: those of the first of its requests that is not in HAMi's."""
    for container in demand.containers:
        for request in container.requests:
            dialect = registry[request.vendor].dialect
            if dialect is not Dialect.HAMI:
                return dialect
    return Dialect.HAMI


def _unusable(pod: Pod, admission: PodAdmission, amount: Unusable, registry: Registry) -> PodInfo:
    """The refusal of an amount that means nothing. It is ours: what the API server or HAMi does with it is added."""
    owner, demand = registry.owner_of(amount.resource), PodDemand(NO_DEVICES, pod.constraints)
    if amount.resource in koordinator.BITS and (owner is None or owner.dialect is Dialect.KOORDINATOR):
        why = words = amount.words  # its scheduler refuses what we refuse
    else:
        really = _really(amount, owner)
        why, words = f"not planned: {amount.words} ({really})" if really else f"not planned: {amount.words}", ""
    return PodInfo(submitted=pod, pod=admission.pod, admission=admission, demand=demand, refusal=why, words=words)


def _really(amount: Unusable, owner: VendorSpec | None) -> str:
    """What becomes of the pod in a cluster, where that is known (``GenerateResourceRequests`` in HAMi 2.10.0
    ``pkg/device/*/device.go``)."""
    try:
        found = quantity.parse(amount.value, key=amount.resource)
    except WireError:
        return ""
    if found.nano < 0 or found.whole is None:
        return "the API server takes whole amounts from 0 only"
    if owner is None or owner.dialect is not Dialect.HAMI:
        return ""
    if amount.resource == owner.resources.cores:
        return "HAMi 2.10 admits the pod, and counts other cores than these"
    return "HAMi 2.10 admits the pod, and takes the container for one without devices: it counts nothing for it"


def _policy(pod: Pod, devices: DeviceDemand, dialect: Dialect, defaults: PolicyDefaults) -> Policy:
    """The pod's preferences; what a pod without devices says about devices is not even read."""
    if dialect is Dialect.VOLCANO:
        return volcano_policy(defaults)
    if dialect is Dialect.KOORDINATOR:
        return koordinator_policy(pod.annotations, defaults)
    return policy_of(pod.annotations if devices.wants_devices else {}, defaults)


def with_tolerations(pod: Pod, *, adds: bool | None) -> Pod:
    """The pod as ``ExtendedResourceToleration`` leaves it, if the caller knows whether the cluster has that plugin.

    It adds ``operator: Exists, effect: NoSchedule`` for the name of each requested extended resource (``admission.go``
    of Kubernetes 1.34).
    """
    if adds is None:
        return pod
    constraints = replace(pod.constraints, tolerates_requests=False)
    if adds:
        names = (name for name, amount in constraints.requests if amount and is_extended(name))
        added = (Toleration(key=name, operator="Exists", effect="NoSchedule") for name in names)
        constraints = replace(constraints, tolerations=(*constraints.tolerations, *added))
    return replace(pod, constraints=constraints)
