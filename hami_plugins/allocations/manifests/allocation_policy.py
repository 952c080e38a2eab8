"""The admission policy that lets only schedulers, the allocator, and node agents write allocation keys on pods.

An allocation is an annotation of the pod that a node agent or a device plugin believes. The built-in ClusterRole
``edit`` patches annotations of pods, so without the policy a user raises or forges an allocation. Four ways write
them: ``pods``, ``pods/status``, ``pods/binding``, and the older ``bindings``. ``pods/ephemeralcontainers`` and
``pods/resize`` take nothing but the spec from a request (tried with kube-apiserver 1.34).

The API server evaluates the policy itself, so it fails closed and no process of ours has to run. What a condition
costs does not depend on the request: it looks up a fixed list of keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hami_plugins.allocations.manifests.webhooks import BINDINGS
from hami_plugins.engine.annotate import BOOKKEEPING
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.vendors import awsneuron, volcano
from hami_plugins.wire import allocator_mark, koordinator

NAME: Final = "hami-plugins-allocations"
"""The name of the policy and its binding unless an operator chooses another."""

API_VERSION: Final = "admissionregistration.k8s.io/v1"
GROUPS: Final = ("system:masters", "system:nodes")
"""Groups that every policy trusts. A kubelet is root on its node and writes only the pods of that node."""

_ACCOUNT: Final = "system:serviceaccount"
_KUBE_SCHEDULER: Final = "system:kube-scheduler"
UNLISTED: Final = "by-an-unlisted-account"
"""The name of the condition on the account."""

ACCOUNTS: Final = (
    "!(request.userInfo.username in %s || "
    "(has(request.userInfo.groups) && %s.exists(group, group in request.userInfo.groups)))"
)
"""That condition, with the lists of users and of groups in the places of ``%s``. A chart fills it in from values."""

_PODS: Final = {**BINDINGS, "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
_STATUS: Final = {**BINDINGS, "operations": ["UPDATE"], "resources": ["pods/status"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """What one system records of an allocation on a pod, and which accounts record it.

    ``keys`` are annotations that only ``users`` add, change, or remove. ``marks`` are annotations that a webhook adds
    to new pods and only ``users`` change later. ``labels`` are labels that keep their value once they have it.
    """

    keys: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()

    def __or__(self, other: Allocations) -> Allocations:
        return Allocations(
            keys=_once(self.keys, other.keys),
            marks=_once(self.marks, other.marks),
            labels={**self.labels, **other.labels},
            users=_once(self.users, other.users),
        )


def systems(registry: Registry) -> Mapping[str, Allocations]:
    """The allocations of each system by its name; the keys of HAMi and Volcano are those of the registry's vendors.

    The users are the accounts of each system's own manifests and charts.
    """
    hami = _once(BOOKKEEPING, _written(registry, Dialect.HAMI))
    koordinators = (*koordinator.RECORDS, *koordinator.LIMITS, *koordinator.FOR_DEVICE_PLUGINS)
    return {
        "hami": Allocations(
            keys=hami,
            marks=(allocator_mark.KEY,),
            users=(_KUBE_SCHEDULER, *_accounts("kube-system", "hami-scheduler", "hami-device-plugin")),
        ),
        "koordinator": Allocations(
            # HAMi writes some keys of device plugins as well; they are listed with HAMi's.
            keys=tuple(key for key in koordinators if key not in hami),
            marks=(koordinator.INJECTED,),
            labels={koordinator.ISOLATION: koordinator.HAMI_CORE},
            users=(_KUBE_SCHEDULER, *_accounts("koordinator-system", "koord-scheduler", "koord-manager", "koordlet")),
        ),
        "neuron": Allocations(
            keys=awsneuron.SPEC.keys.written(),
            marks=(awsneuron.ALLOCATOR_MARK,),
            users=(
                _KUBE_SCHEDULER,
                *_accounts("kube-system", "neuron-device-plugin", "my-scheduler", "k8s-neuron-scheduler"),
                *_accounts("volcano-system", "volcano-scheduler"),
            ),
        ),
        "volcano": Allocations(
            keys=_written(registry, Dialect.VOLCANO),
            marks=(volcano.ALLOCATOR_MARK,),
            users=(
                _KUBE_SCHEDULER,
                *_accounts("volcano-system", "volcano-scheduler"),
                *_accounts("kube-system", "volcano-device-plugin"),
            ),
        ),
    }


def policy(
    allocations: Allocations, *, remedy: str, groups: Sequence[str] = GROUPS, name: str = NAME
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ValidatingAdmissionPolicy and its binding. ``remedy`` says where an operator lists further accounts."""
    spec = rules(allocations, remedy=remedy)
    unlisted = {"name": UNLISTED, "expression": ACCOUNTS % (_sorted(allocations.users), _sorted(groups))}
    return (
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {**spec, "matchConditions": [*spec["matchConditions"], unlisted]},
        },
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )


def rules(allocations: Allocations, *, remedy: str) -> dict[str, Any]:
    """The policy's spec without the condition on the account, which a chart adds from its values.

    The conditions decide, so a request that leaves the keys as they were costs one condition.
    """
    created, later = _listed(allocations.keys), _listed(allocations.marks)
    asked = f"({created} + (request.operation == 'UPDATE' ? {later} : []))"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_PODS, _STATUS, BINDINGS]},
        "matchConditions": [{"name": "changes-an-allocation", "expression": _changes(allocations)}],
        "variables": [
            {"name": "before", "expression": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
            {"name": "after", "expression": "object.metadata.?annotations.orValue({})"},
            {
                "name": "changed",
                "expression": f"{asked}.filter(key, variables.before[?key] != variables.after[?key])",
            },
            {"name": "what", "expression": _what(allocations.labels)},
        ],
        "validations": [
            {
                "expression": "false",
                "reason": "Forbidden",
                "message": f"only schedulers, the allocator, and node agents write allocations on pods; {remedy}",
                "messageExpression": (
                    f"variables.what + '; user ' + request.userInfo.username + ' is not one of them. {_REMEDIES}. ' + "
                    f"{_literal(f'To trust the account, {remedy}')}"
                ),
            }
        ],
    }


_REMEDIES: Final = (
    "' + (request.kind.kind == 'Binding' ? 'Send the Binding without it' : request.operation == 'UPDATE' ? "
    "'Leave it as it is' : 'Remove it from the pod, or from the template that the pod is created from') + '"
)


def _what(labels: Mapping[str, str]) -> str:
    """The key that changes, and who writes it."""
    writers = "only schedulers, the allocator, and node agents write this"
    label = next(iter(labels), "")
    return (
        f"variables.changed.size() > 0 ? 'annotation ' + variables.changed[0] + ': {writers} annotation' : "
        f"{_literal(f'label {label}: the limits of the pod depend on it, and {writers} label')}"
    )


def _changes(allocations: Allocations) -> str:
    """The condition that a request adds, changes, or removes a key; a new pod and a Binding have no old object."""
    found = [_differ(allocations.keys)]
    if allocations.marks:
        found.append(f"(oldObject != null && {_differ(allocations.marks)})")
    found += [
        f"(oldObject != null && {_labelled('oldObject', key, value)} && !{_labelled('object', key, value)})"
        for key, value in allocations.labels.items()
    ]
    return " || ".join(found)


def _differ(keys: Iterable[str]) -> str:
    after = "(has(object.metadata.annotations) && key in object.metadata.annotations)"
    before = "(oldObject != null && has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations)"
    values = "object.metadata.annotations[key] != oldObject.metadata.annotations[key]"
    return f"{_listed(keys)}.exists(key, {after} != {before} || ({after} && {before} && {values}))"


def _labelled(what: str, key: str, value: str) -> str:
    labels = f"{what}.metadata.labels"
    return f"(has({labels}) && {_literal(key)} in {labels} && {labels}[{_literal(key)}] == {_literal(value)})"


def _written(registry: Registry, dialect: Dialect) -> tuple[str, ...]:
    return _once(*(spec.keys.written() for spec in registry if spec.dialect is dialect))


def _accounts(namespace: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{_ACCOUNT}:{namespace}:{name}" for name in names)


def _once(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _sorted(names: Iterable[str]) -> str:
    return _listed(sorted(set(names)))


def _listed(names: Iterable[str]) -> str:
    return _literal(list(names), separators=(",", ":"))


def _literal(value: object, *, separators: tuple[str, str] | None = None) -> str:
    """A text, or a list of texts, in CEL: its escapes are those of JSON, so no quote ends a text early."""
    return json.dumps(value, ensure_ascii=False, separators=separators)
