"""Admission policies that let only listed accounts write some annotations, as the API server evaluates them itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

API_VERSION: Final = "admissionregistration.k8s.io/v1"
GROUPS: Final = ("system:masters", "system:nodes")
"""Groups that every policy trusts. A kubelet is root on its node and writes only the pods of that node."""

UNLISTED: Final = "by-an-unlisted-account"
"""The name of the condition on the account."""

ACCOUNTS: Final = (
    "!(request.userInfo.username in %s || "
    "(has(request.userInfo.groups) && %s.exists(group, group in request.userInfo.groups)))"
)
"""That condition, with the lists of users and of groups in the places of ``%s``. A chart fills it in from values."""

BEFORE_AND_AFTER: Final = (
    {"name": "before", "expression": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
    {"name": "after", "expression": "object.metadata.?annotations.orValue({})"},
)
"""The variables of a policy with the annotations of the object before and after the request."""


def documents(
    spec: Mapping[str, Any], *, users: Iterable[str], groups: Sequence[str], name: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ValidatingAdmissionPolicy and its binding: ``spec`` with the condition that the account is not listed."""
    unlisted = {"name": UNLISTED, "expression": ACCOUNTS % (_sorted(users), _sorted(groups))}
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


def differ(keys: Iterable[str]) -> str:
    """The condition that a request adds, changes, or removes one of these annotations."""
    after = "(has(object.metadata.annotations) && key in object.metadata.annotations)"
    before = "(oldObject != null && has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations)"
    values = "object.metadata.annotations[key] != oldObject.metadata.annotations[key]"
    return f"{listed(keys)}.exists(key, {after} != {before} || ({after} && {before} && {values}))"


def changed(keys: str) -> dict[str, str]:
    """The variable with those annotations of a list in CEL that a request changes."""
    return {"name": "changed", "expression": f"{keys}.filter(key, variables.before[?key] != variables.after[?key])"}


def listed(names: Iterable[str]) -> str:
    """A list of texts in CEL."""
    return literal(list(names), separators=(",", ":"))


def literal(value: object, *, separators: tuple[str, str] | None = None) -> str:
    """A text, or a list of texts, in CEL: its escapes are those of JSON, so no quote ends a text early."""
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _sorted(names: Iterable[str]) -> str:
    return listed(sorted(set(names)))
