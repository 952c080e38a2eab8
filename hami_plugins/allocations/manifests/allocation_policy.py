"""The admission policy that lets only schedulers, the allocator, and node agents write allocation keys on pods.

An allocation is an annotation of the pod that a node agent or a device plugin believes. The built-in ClusterRole
``edit`` patches annotations of pods, so without the policy a user raises or forges an allocation. Four ways write
them: ``pods``, ``pods/status``, ``pods/binding``, and the older ``bindings``. ``pods/ephemeralcontainers`` and
``pods/resize`` take nothing but the spec from a request (tried with kube-apiserver 1.34).

An ephemeral container asks for no resources, because the API server refuses that, and no device plugin is asked about
it. So it is refused in a pod with devices where it is privileged or sets variables by which runtimes show cards.

The API server evaluates the policy itself, so it fails closed without a process of this project. The cost of a
condition does not depend on the request: it looks up a fixed list of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any, Final

from hami_plugins.allocations.manifests.account_policies import (
    BEFORE_AND_AFTER,
    GROUPS,
    changed,
    differ,
    documents,
    listed,
    literal,
)
from hami_plugins.allocations.manifests.webhooks import BINDINGS
from hami_plugins.engine.annotate import BOOKKEEPING
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.vendors import awsneuron
from hami_plugins.wire import allocator_mark, koordinator, resizes, slice_variables

NAME: Final = "hami-plugins-allocations"
"""The name of the policy and its binding unless an operator chooses another."""

_KUBE_SCHEDULER: Final = "system:kube-scheduler"
_PODS: Final = {**BINDINGS, "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
_STATUS: Final = {**BINDINGS, "operations": ["UPDATE"], "resources": ["pods/status"]}
_DEBUG: Final = {**BINDINGS, "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """What one system records of an allocation on a pod, and which accounts record it.

    ``keys`` are annotations that only ``users`` add, change, or remove. ``marks`` are annotations that a webhook adds
    to new pods and only ``users`` change later. ``labels`` are labels that keep their value once they have it.
    ``schedulers`` are names of ServiceAccounts that are trusted in every namespace if they may bind all pods.
    """

    keys: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()

    def __or__(self, other: Allocations) -> Allocations:
        return Allocations(
            keys=_once(self.keys, other.keys),
            marks=_once(self.marks, other.marks),
            labels={**self.labels, **other.labels},
            users=_once(self.users, other.users),
            schedulers=_once(self.schedulers, other.schedulers),
        )


def systems(registry: Registry) -> Mapping[str, Allocations]:
    """The allocations of each system by its name; the keys of HAMi and Volcano are those of the registry's vendors.

    The users are the accounts of each system's own manifests and charts.
    """
    hami = _once(BOOKKEEPING, _written(registry, Dialect.HAMI))
    koordinators = (*koordinator.RECORDS, *koordinator.LIMITS, *koordinator.FOR_DEVICE_PLUGINS)
    return {
        "hami": Allocations(
            keys=(*hami, *allocator_mark.PROGRESS_KEYS),
            marks=(allocator_mark.KEY,),
            users=(_KUBE_SCHEDULER, *_accounts("kube-system", "hami-scheduler", "hami-device-plugin")),
            schedulers=("hami-scheduler",),
        ),
        "koordinator": Allocations(
            # HAMi writes some keys of device plugins as well; they are listed with HAMi's.
            keys=tuple(key for key in koordinators if key not in hami),
            marks=(koordinator.INJECTED,),
            labels={koordinator.ISOLATION: koordinator.HAMI_CORE},
            users=(_KUBE_SCHEDULER, *_accounts("koordinator-system", "koord-scheduler", "koord-manager", "koordlet")),
            schedulers=("koord-scheduler",),
        ),
        "neuron": Allocations(
            keys=awsneuron.SPEC.keys.written(),
            marks=(allocator_mark.KEY,),
            users=(
                _KUBE_SCHEDULER,
                *_accounts("kube-system", "neuron-device-plugin", "my-scheduler", "k8s-neuron-scheduler"),
                *_accounts("volcano-system", "volcano-scheduler"),
            ),
            schedulers=("k8s-neuron-scheduler", "volcano-scheduler"),
        ),
        "volcano": Allocations(
            keys=(*_written(registry, Dialect.VOLCANO), *resizes.WRITTEN_KEYS),
            marks=(allocator_mark.KEY,),
            users=(
                _KUBE_SCHEDULER,
                *_accounts("volcano-system", "volcano-scheduler"),
                *_accounts("kube-system", "volcano-device-plugin"),
            ),
            schedulers=("volcano-scheduler",),
        ),
    }


def served(registry: Registry, own: str) -> Allocations:
    """What an allocator of these vendors records; ``own`` is its account, which sends Bindings for kube-scheduler."""
    names = {Dialect.HAMI.value, *(spec.dialect.value for spec in registry)}
    names |= {"neuron"} if awsneuron.SPEC.name in registry else set()
    found = (each for name, each in systems(registry).items() if name in names)
    return reduce(or_, found) | Allocations(users=(own,))


def policy(
    allocations: Allocations, *, remedy: str, groups: Sequence[str] = GROUPS, name: str = NAME
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ValidatingAdmissionPolicy and its binding. ``remedy`` says where an operator lists further accounts."""
    return documents(rules(allocations, remedy=remedy), users=allocations.users, groups=groups, name=name)


def rules(allocations: Allocations, *, remedy: str) -> dict[str, Any]:
    """The policy's spec without the condition on the account, which a chart adds from its values.

    The conditions decide, so a request that leaves the keys as they were costs one condition.
    """
    asked = listed(allocations.keys)
    if allocations.marks:
        asked = f"({asked} + (request.operation == 'UPDATE' ? {listed(allocations.marks)} : []))"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_PODS, _STATUS, _DEBUG, BINDINGS]},
        "matchConditions": [
            {"name": "changes-an-allocation", "expression": _changes(allocations)},
            *(
                [{"name": "by-no-scheduler", "expression": _not_by(allocations.schedulers)}]
                if allocations.schedulers
                else []
            ),
        ],
        "variables": [
            *BEFORE_AND_AFTER,
            changed(asked),
            {"name": "debugs", "expression": "request.?subResource.orValue('') == 'ephemeralcontainers'"},
            {"name": "what", "expression": _what(allocations.labels)},
        ],
        "validations": [
            {
                "expression": "false",
                "reason": "Forbidden",
                "message": f"only schedulers, the allocator, and node agents write allocations on pods; {remedy}",
                "messageExpression": (
                    f"variables.what + '; user ' + request.userInfo.username + ' is not one of them. {_REMEDIES}. ' + "
                    f"{literal(f'To trust the account, {remedy}')}"
                ),
            }
        ],
    }


_REMEDIES: Final = (
    "' + (request.kind.kind == 'Binding' ? 'Send the Binding without it' : variables.debugs ? "
    "'Drop them from the container' : request.operation == 'UPDATE' ? "
    "'Leave it as it is' : 'Remove it from the pod, or from the template that the pod is created from') + '"
)


def _what(labels: Mapping[str, str]) -> str:
    """The key that changes, and who writes it."""
    writers = "only schedulers, the allocator, and node agents write this"
    label = next(iter(labels), "")
    shown = ", ".join(slice_variables.VISIBLE_DEVICES)
    debugs = f"only trusted accounts give an ephemeral container of a pod with devices privileged, envFrom, or {shown}"
    return (
        f"variables.changed.size() > 0 ? 'annotation ' + variables.changed[0] + ': {writers} annotation' : "
        f"variables.debugs ? {literal(debugs)} : "
        f"{literal(f'label {label}: the limits of the pod depend on it, and {writers} label')}"
    )


def _not_by(schedulers: Iterable[str]) -> str:
    """The condition that the account is not a scheduler that is installed in another namespace than usual.

    The name alone proves nothing, because a user with ``edit`` makes ServiceAccounts. The right to bind the pods of
    every namespace does: an account that has it decides already what runs where. Without this condition such a
    scheduler would bind no pod with devices until an operator lists it.
    """
    user = "request.userInfo.username"
    ends = listed(f":{name}" for name in sorted(schedulers))
    may_bind = "authorizer.group('').resource('pods').subresource('binding').check('create').allowed()"
    return f"!({user}.startsWith('system:serviceaccount:') && {ends}.exists(end, {user}.endsWith(end)) && {may_bind})"


def _changes(allocations: Allocations) -> str:
    """The condition that a request adds, changes, or removes a key; a new pod and a Binding have no old object."""
    found = [differ(allocations.keys)]
    if allocations.marks:
        found.append(f"(oldObject != null && {differ(allocations.marks)})")
    found += [
        f"(oldObject != null && {_labelled('oldObject', key, value)} && !{_labelled('object', key, value)})"
        for key, value in allocations.labels.items()
    ]
    return " || ".join([*found, _debugs((*allocations.keys, *allocations.marks))])


def _debugs(keys: Iterable[str]) -> str:
    """The condition that a new ephemeral container of a pod with one of these annotations sees more than its slice."""
    old = "(has(oldObject.spec.ephemeralContainers) && oldObject.spec.ephemeralContainers.exists(o, o.name == c.name))"
    privileged = "(has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged)"
    shown = (
        f"(has(c.env) && c.env.exists(e, e.name in {listed(slice_variables.VISIBLE_DEVICES)} && "
        f"!(has(e.value) && e.value in {listed(slice_variables.HIDDEN)}) && (has(e.value) || has(e.valueFrom))))"
    )
    more = f"{privileged} || (has(c.envFrom) && c.envFrom != []) || {shown}"
    return (
        "(has(request.subResource) && request.subResource == 'ephemeralcontainers' && "
        f"has(oldObject.metadata.annotations) && {listed(keys)}.exists(key, key in oldObject.metadata.annotations) && "
        f"has(object.spec.ephemeralContainers) && object.spec.ephemeralContainers.exists(c, !{old} && ({more})))"
    )


def _labelled(what: str, key: str, value: str) -> str:
    labels = f"{what}.metadata.labels"
    return f"(has({labels}) && {literal(key)} in {labels} && {labels}[{literal(key)}] == {literal(value)})"


def _written(registry: Registry, dialect: Dialect) -> tuple[str, ...]:
    return _once(*(spec.keys.written() for spec in registry if spec.dialect is dialect))


def account(namespace: str, name: str) -> str:
    """What the API server calls the user of a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{name}"


def _accounts(namespace: str, *names: str) -> tuple[str, ...]:
    return tuple(account(namespace, name) for name in names)


def _once(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))
