"""From a submitted pod to everything a decision needs: admission, demand, policy, and what its quota leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.mutate import Admission, WebhookSettings, admit
from hami_plugins.engine.policies import PolicyDefaults, koordinator_policy, policy_of, volcano_policy
from hami_plugins.engine.queues import OVERCOMMIT
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.pods import Pod
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Dialect, Headroom
from hami_plugins.wire import scoring_weights

NO_DEVICES = DeviceDemand(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How this cluster admits and ranks pods.

    ``queue_plugin`` is what divides it among Volcano's queues, ``proportion`` or ``capacity``; empty where nobody says.
    ``queue_hierarchy`` says whether ``capacity`` reads the parents of queues; ``None`` where nobody says.
    ``overcommit`` is how much of the cluster may be held and waited for together.
    """

    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    policies: PolicyDefaults = field(default_factory=PolicyDefaults)
    queue_plugin: str = ""
    queue_hierarchy: bool | None = None
    overcommit: Fraction = OVERCOMMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A pod ready to be decided on. ``refusal`` is why it never gets that far; then demand and policy mean nothing.

    ``submitted`` is the pod as it came, ``pod`` as the webhook left it; ``words`` is the refusal as the upstream
    scheduler spells it.
    """

    submitted: Pod
    pod: Pod
    admission: Admission
    demand: PodDemand
    policy: Policy = DEFAULT_POLICY
    dialect: Dialect = Dialect.HAMI
    refusal: str = ""
    words: str = ""


def take_in(pod: Pod, registry: Registry, rules: Rules, left: Mapping[VendorName, Headroom] | None = None) -> Intake:
    """Let the webhook see the pod, then read what it asks. ``left`` is what the namespace's quota leaves per vendor."""
    admission = admit(pod, registry, rules.webhook, left)
    if not admission.allowed:
        demand = PodDemand(NO_DEVICES, pod.constraints)
        denied = f"admission denied: {admission.message}"
        why = f"{denied} ({admission.detail})" if admission.detail else denied
        return Intake(submitted=pod, pod=pod, admission=admission, demand=demand, refusal=why, words=denied)
    admitted = admission.pod
    try:
        devices = demand_of(admitted, registry)
        dialect = dialect_of(devices, registry)
        policy = _policy(admitted, devices, dialect, rules.policies)
    except (InvalidRequestError, WireError) as error:
        demand = PodDemand(NO_DEVICES, pod.constraints)
        return Intake(
            submitted=pod,
            pod=admitted,
            admission=admission,
            demand=demand,
            refusal=str(error),
            words=_spelled(error, admitted),
        )
    return Intake(
        submitted=pod,
        pod=admitted,
        admission=admission,
        demand=PodDemand(devices, admitted.constraints, tuple(sorted((left or {}).items()))),
        policy=policy,
        dialect=dialect,
    )


def dialect_of(demand: DeviceDemand, registry: Registry) -> Dialect:
    """Whose words the pod speaks: those of the first of its requests that is not in HAMi's."""
    for container in demand.containers:
        for request in container.requests:
            dialect = registry[request.vendor].dialect
            if dialect is not Dialect.HAMI:
                return dialect
    return Dialect.HAMI


def _spelled(error: InvalidRequestError | WireError, pod: Pod) -> str:
    """HAMi's answer to a filter call for a pod whose scoring weights it cannot read."""
    if isinstance(error, InvalidRequestError):
        return str(error)
    return f"filter error: calcScore failed {scoring_weights.spelled(error)} for pod {pod.name}"


def _policy(pod: Pod, devices: DeviceDemand, dialect: Dialect, defaults: PolicyDefaults) -> Policy:
    """The pod's preferences; what a pod without devices says about devices is not even read."""
    if dialect is Dialect.VOLCANO:
        return volcano_policy(defaults)
    if dialect is Dialect.KOORDINATOR:
        return koordinator_policy(pod.annotations, defaults)
    return policy_of(pod.annotations if devices.wants_devices else {}, defaults)
