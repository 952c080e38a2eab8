"""The requests that the policy for device records on nodes refuses, and the users it trusts."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.manifests.node_policy import policy, records
from hami_plugins.engine.registry import Registry
from hami_plugins.sandbox.apiserver.conditions import compiled
from hami_plugins.vendors import BUILTIN

REGISTRY = Registry(BUILTIN)
REGISTER = "hami.io/node-nvidia-register"


def node(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "n1"} | ({"annotations": annotations} if annotations else {})}


def refused(new: Any, old: Any = None, *, user: str = "jane", groups: tuple[str, ...] = ()) -> bool:
    document, _ = policy(REGISTRY, users=("agent",), remedy="list it")
    variables = {"object": new, "oldObject": old, "request": {"userInfo": {"username": user, "groups": list(groups)}}}
    return all(compiled(each["expression"]).holds(variables) for each in document["spec"]["matchConditions"])


@pytest.mark.parametrize(
    "key",
    [
        REGISTER,
        "hami.io/node-handshake",
        "hami.io/node-nvidia-score",
        "hami.io/mutex.lock",
        "cambricon.com/dsmlu.lock",
        "hami.io/node-register-Ascend910B4",
        "hami.io/node-handshake-Ascend910B4",
        "hami.io/node-MR-V100-register",
        "metax-tech.com/node-gpu-devices",
        "enflame.com/gcu-drs-capacity",
        "volcano.sh/node-vgpu-register",
        "volcano.sh/node-vgpu-handshake",
    ],
)
def test_a_record_of_a_node_is_added_changed_and_removed_by_listed_accounts_alone(key: str) -> None:
    before, after = node(**{key: "x", "a": "b"}), node(**{key: "y", "a": "b"})
    for new, old in ((before, None), (before, node()), (after, before), (node(a="b"), before)):
        assert refused(new, old)
        assert not refused(new, old, user="agent")
        assert not refused(new, old, groups=("system:nodes",))
        assert not refused(new, old, groups=("system:masters",))


def test_everything_else_of_a_node_is_written_as_before() -> None:
    before = node(**{REGISTER: "x"})
    assert not refused({**node(**{REGISTER: "x", "theirs": "y"}), "spec": {"unschedulable": True}}, before)
    assert not refused(node(**{"hami.io/device-cordon": "GPU-1"}))
    assert not refused(node())


def test_each_record_is_listed_once() -> None:
    found = records(REGISTRY)
    assert len(found) == len(set(found))
    assert all(found)


def test_nodes_and_their_status_are_covered_and_the_policy_fails_closed() -> None:
    document, binding = policy(REGISTRY, users=(), remedy="list it", name="mine")
    rules = document["spec"]["matchConstraints"]["resourceRules"]
    covered = {(each, operation) for rule in rules for each in rule["resources"] for operation in rule["operations"]}
    assert covered == {("nodes", "CREATE"), ("nodes", "UPDATE"), ("nodes/status", "UPDATE")}
    assert document["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": "mine", "validationActions": ["Deny"]}
    assert policy(REGISTRY, users=(), remedy="x")[0]["metadata"]["name"] == "hami-plugins-node-records"
