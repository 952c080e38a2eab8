"""The admission policy that lets only node agents, schedulers, and the allocator write device records on nodes.

A node's annotations say which devices it has (register, pair scores), whether its agent lives (handshake), and which
pod is on its way to a plugin (lock). The built-in roles of tenants write no nodes, so this is for clusters where other
accounts do: those of autoscalers, and of agents that label nodes.

A kubelet writes its own node alone (plugin ``NodeRestriction``), so its group is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from hami_plugins.engine.registry import Registry

NAME: Final = "hami-plugins-node-records"
"""The name of the policy and its binding unless an operator chooses another."""

_NODES: Final = {"apiGroups": [""], "apiVersions": ["v1"], "scope": "Cluster"}


def records(registry: Registry) -> tuple[str, ...]:
    """The annotations of nodes that hold what these vendors' agents and their schedulers tell one another."""
    found = ((keys.register, keys.handshake, keys.pair_scores, keys.lock) for keys in (spec.keys for spec in registry))
    return tuple(dict.fromkeys(key for keys in found for key in keys if key))


def policy(
    registry: Registry, *, users: Iterable[str], remedy: str, groups: Sequence[str] = GROUPS, name: str = NAME
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ValidatingAdmissionPolicy and its binding. ``remedy`` says where an operator lists further accounts."""
    return documents(rules(records(registry), remedy=remedy), users=users, groups=groups, name=name)


def rules(keys: Sequence[str], *, remedy: str) -> dict[str, Any]:
    """The policy's spec without the condition on the account."""
    writers = "only node agents, schedulers, and the allocator write this annotation of nodes"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {**_NODES, "operations": ["CREATE", "UPDATE"], "resources": ["nodes"]},
                {**_NODES, "operations": ["UPDATE"], "resources": ["nodes/status"]},
            ]
        },
        "matchConditions": [{"name": "changes-a-record", "expression": differ(keys)}],
        "variables": [*BEFORE_AND_AFTER, changed(listed(keys))],
        "validations": [
            {
                "expression": "false",
                "reason": "Forbidden",
                "message": f"{writers}; {remedy}",
                "messageExpression": (
                    f"'annotation ' + variables.changed[0] + {literal(f': {writers}; user ')} + "
                    f"request.userInfo.username + {literal(f' is not one of them. To trust the account, {remedy}')}"
                ),
            }
        ],
    }
