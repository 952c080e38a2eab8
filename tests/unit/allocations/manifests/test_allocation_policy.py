"""The requests that the policy covers, the keys it protects, and the users it trusts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.allocations.manifests.allocation_policy import Allocations, account, policy, rules, served, systems
from hami_plugins.engine.registry import Registry
from hami_plugins.sandbox.apiserver.conditions import compiled
from hami_plugins.vendors import BUILTIN

REGISTRY = Registry(BUILTIN)
KEY, MARK, LABEL = "a.b/allocated", "a.b/mark", "a.b/limits"
ALLOCATIONS = Allocations(keys=(KEY, "a.b/time"), marks=(MARK,), labels={LABEL: "on"}, users=("scheduler",))


def pod(labels: Any = None, **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p"} | ({"annotations": annotations} if annotations else {})
    return {"metadata": metadata | ({"labels": labels} if labels else {})}


MAY_BIND = "authorizer.group('').resource('pods').subresource('binding').check('create').allowed()"
"""What the API server answers for each account by itself."""


def concerned(
    new: Any,
    old: Any = None,
    *,
    user: str = "jane",
    groups: tuple[str, ...] = (),
    spec: Any = None,
    may_bind: bool = False,
) -> bool:
    """Whether the policy refuses the request: its conditions hold. ``may_bind`` is a right in all namespaces."""
    request = {"userInfo": {"username": user, **({"groups": list(groups)} if groups else {})}}
    variables = {"object": new, "oldObject": old, "request": request}
    found = spec or policy(ALLOCATIONS, remedy="list it")[0]["spec"]
    expressions = (each["expression"].replace(MAY_BIND, str(may_bind).lower()) for each in found["matchConditions"])
    return all(compiled(each).holds(variables) for each in expressions)


ALLOCATED = pod(**{KEY: "x", "theirs": "x"})


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        (pod(), None, False),
        (pod(theirs="x"), None, False),
        (ALLOCATED, None, True),
        (pod(**{KEY: ""}), None, True),
        (pod(**{"a.b/time": "1"}), None, True),
        (pod(**{KEY: "x", "theirs": "y"}), ALLOCATED, False),
        (ALLOCATED, pod(), True),
        (ALLOCATED, pod(theirs="x"), True),
        (pod(), ALLOCATED, True),
        (pod(theirs="x"), ALLOCATED, True),
        (pod(**{KEY: "y", "theirs": "x"}), ALLOCATED, True),
        (pod(**{KEY: "", "theirs": "x"}), ALLOCATED, True),
        (pod(**{MARK: "1"}), None, False),
        (pod(**{MARK: "1"}), pod(**{MARK: "1"}), False),
        (pod(**{MARK: "1"}), pod(), True),
        (pod(), pod(**{MARK: "1"}), True),
        (pod({LABEL: "on"}), None, False),
        (pod({LABEL: "on"}), pod(), False),
        (pod({LABEL: "on", "x": "y"}), pod({LABEL: "on"}), False),
        (pod(), pod({LABEL: "on"}), True),
        (pod({LABEL: "off"}), pod({LABEL: "on"}), True),
        (pod(), pod({LABEL: "off"}), False),
    ],
)
def test_a_request_that_changes_an_allocation_is_refused_and_no_other(new: Any, old: Any, refused: bool) -> None:
    assert concerned(new, old) is refused


def test_listed_users_and_groups_are_trusted() -> None:
    assert not concerned(ALLOCATED, user="scheduler")
    assert not concerned(ALLOCATED, groups=("system:authenticated", "system:masters"))
    assert not concerned(ALLOCATED, groups=("system:nodes",))
    assert concerned(ALLOCATED, groups=("system:authenticated", "system:serviceaccounts:kube-system"))
    only = policy(ALLOCATIONS, remedy="list it", groups=("operators",))[0]["spec"]
    assert not concerned(ALLOCATED, groups=("operators",), spec=only)
    assert concerned(ALLOCATED, groups=("system:masters",), spec=only)


@pytest.mark.parametrize("system", ["koordinator", "volcano", "hami"])
def test_a_scheduler_in_another_namespace_is_trusted_if_it_may_bind_all_pods(system: str) -> None:
    """Or no pod with devices would be bound there until an operator lists the account."""
    found = systems(REGISTRY)[system]
    spec = policy(found, remedy="list it")[0]["spec"]
    name = {"koordinator": "koord-scheduler", "volcano": "volcano-scheduler", "hami": "hami-scheduler"}[system]
    allocated = pod(**{found.keys[0]: "x"})
    assert not concerned(allocated, pod(), user=account("batch", name), spec=spec, may_bind=True)
    assert concerned(allocated, pod(), user=account("batch", name), spec=spec)
    for other in (f"my-{name}", "deployer", f"{name}-2"):
        assert concerned(allocated, pod(), user=account("batch", other), spec=spec, may_bind=True), other
    for other in (name, f"oidc:{name}"):
        assert concerned(allocated, pod(), user=other, spec=spec, may_bind=True), other


@pytest.mark.parametrize(
    "name", ["o'brien", 'a "quoted" one', "back\\slash", "' in ['x'] || true || 'y", "<ops&co>", "ü"]
)
def test_a_name_with_quotes_is_a_name_and_nothing_else(name: str) -> None:
    spec = policy(Allocations(keys=(KEY,), users=(name,)), remedy='say "please"', groups=(name,))[0]["spec"]
    assert not concerned(ALLOCATED, user=name, spec=spec)
    assert not concerned(ALLOCATED, groups=(name,), spec=spec)
    assert concerned(ALLOCATED, user="jane", spec=spec)


def debugged(*containers: Any, **annotations: str) -> dict[str, Any]:
    return {**pod(**annotations), "spec": {"ephemeralContainers": list(containers)}}


def debugs(new: Any, old: Any, *, subresource: str = "ephemeralcontainers") -> bool:
    """Whether the policy refuses the ephemeral containers of a request."""
    spec = policy(ALLOCATIONS, remedy="list it")[0]["spec"]
    request = {"userInfo": {"username": "jane"}, "subResource": subresource}
    variables = {"object": new, "oldObject": old, "request": request}
    return all(compiled(each["expression"]).holds(variables) for each in spec["matchConditions"])


PLAIN = {"name": "debug", "image": "i"}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({}, False),
        ({"env": []}, False),
        ({"env": [{"name": "A", "value": "all"}]}, False),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, True),
        ({"env": [{"name": "A"}, {"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]}, True),
        ({"env": [{"name": "AWS_NEURON_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {}}}]}, True),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]}, False),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}, False),
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, True),
        ({"envFrom": []}, False),
        ({"securityContext": {"privileged": True}}, True),
        ({"securityContext": {"privileged": False}}, False),
        ({"securityContext": {}}, False),
    ],
)
def test_an_ephemeral_container_sees_no_more_than_the_slice_of_its_pod(more: Any, refused: bool) -> None:
    new = {**PLAIN, "name": "second", **more}
    for key in (KEY, MARK):
        mark = {key: "x"}
        assert debugs(debugged(PLAIN, new, **mark), debugged(PLAIN, **mark)) is refused
        assert debugs(debugged(new, **mark), {**pod(**mark), "spec": {}}) is refused


def test_an_ephemeral_container_of_another_pod_or_an_older_one_is_left_alone() -> None:
    wide = {**PLAIN, "securityContext": {"privileged": True}}
    assert not debugs(debugged(wide), debugged())
    assert not debugs(debugged(wide, theirs="x"), debugged(theirs="x"))
    assert not debugs(debugged(wide, {**PLAIN, "name": "b"}, **{KEY: "x"}), debugged(wide, **{KEY: "x"}))
    assert not debugs({**pod(**{KEY: "x"}), "spec": {}}, {**pod(**{KEY: "x"}), "spec": {}})
    assert not debugs(debugged(wide, **{KEY: "x"}), debugged(**{KEY: "x"}), subresource="status")


def test_four_ways_to_write_annotations_and_one_to_add_a_container_are_covered() -> None:
    spec = policy(ALLOCATIONS, remedy="list it")[0]["spec"]
    covered = {
        (resource, operation)
        for rule in spec["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    assert covered == {
        ("pods", "CREATE"), ("pods", "UPDATE"), ("pods/status", "UPDATE"), ("pods/binding", "CREATE"),
        ("bindings", "CREATE"), ("pods/ephemeralcontainers", "UPDATE"),
    }  # fmt: skip
    assert spec["failurePolicy"] == "Fail"


def test_the_binding_denies_by_the_policys_name() -> None:
    one, binding = policy(ALLOCATIONS, remedy="list it", name="mine")
    assert one["metadata"]["name"] == binding["metadata"]["name"] == binding["spec"]["policyName"] == "mine"
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert policy(ALLOCATIONS, remedy="list it")[0]["metadata"]["name"] == "hami-plugins-allocations"


def test_the_rules_are_the_policy_without_the_accounts() -> None:
    whole = policy(ALLOCATIONS, remedy="list it")[0]["spec"]
    found = rules(ALLOCATIONS, remedy="list it")
    assert len(found["matchConditions"]) == 1
    assert "scheduler" not in json.dumps(found["matchConditions"])
    assert {**whole, "matchConditions": whole["matchConditions"][:1]} == found


@pytest.mark.parametrize(
    ("system", "keys"),
    [
        (
            "hami",
            "hami.io/vgpu-node hami.io/vgpu-time hami.io/bind-phase hami.io/bind-time hami.io/vgpu-devices-allocated "
            "hami.io/vgpu-devices-to-allocate hami.io/Ascend910B2-devices-allocated huawei.com/Ascend910B2 "
            "predicate-time hami.io/vgpu-mig-allocations AWS_NEURON_IDS CAMBRICON_DSMLU_PROFILE",
        ),
        (
            "volcano",
            "volcano.sh/vgpu-ids-new volcano.sh/devices-to-allocate volcano.sh/vgpu-node volcano.sh/vgpu-time "
            "volcano.sh/bind-phase volcano.sh/bind-time hami-plugins.io/vgpu-more-ids",
        ),
        (
            "neuron",
            "hami.io/aws-neuron-devices-allocated AWS_NEURON_IDS NEURON_RESOURCE_TYPE NEURON_ALLOC_TIME "
            "NEURON_ALLOCATED aws.amazon.com/predicate-node",
        ),
        (
            "koordinator",
            "scheduling.koordinator.sh/device-allocated scheduling.koordinator.sh/gpu-minors huawei.com/npu-core "
            "hami-plugins.io/visible-devices hami-plugins.io/memory-limit-0 hami-plugins.io/memory-limit-15",
        ),
    ],
)
def test_each_system_protects_what_it_records(system: str, keys: str) -> None:
    assert set(keys.split()) <= set(systems(REGISTRY)[system].keys)


def test_every_vendors_lists_are_protected() -> None:
    """The registry says them, those of a vendor of another package included."""
    protected = {key for each in systems(REGISTRY).values() for key in each.keys}
    for spec in BUILTIN:
        for key in (spec.keys.allocated, spec.keys.to_allocate, spec.keys.more, *spec.keys.extra):
            assert not key or key in protected, (spec.name, key)


def test_what_users_ask_with_is_in_no_list() -> None:
    protected = {key for each in systems(REGISTRY).values() for key in (*each.keys, *each.marks)}
    for spec in BUILTIN:
        keys = spec.keys
        asked = {*keys.use_ids, *keys.avoid_ids, keys.use_models, keys.avoid_models, keys.mode, *keys.inputs}
        assert not asked & protected, spec.name
    assert not protected & {"hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy", "nvidia.com/numa-bind"}


def test_a_key_that_hami_writes_as_well_is_hamis_to_protect() -> None:
    """Or Koordinator's part would refuse what HAMi's scheduler writes."""
    found = systems(REGISTRY)
    assert not set(found["koordinator"].keys) & set(found["hami"].keys)


def test_no_account_is_trusted_that_makes_pods_of_users_templates() -> None:
    trusted = {user for each in systems(REGISTRY).values() for user in each.users}
    assert not [user for user in trusted if "controller" in user]
    assert all(user.count(":") == 3 or user == "system:kube-scheduler" for user in trusted)


def test_systems_together_protect_and_trust_what_each_does() -> None:
    found = systems(REGISTRY)
    both = found["volcano"] | found["koordinator"]
    assert set(both.keys) == {*found["volcano"].keys, *found["koordinator"].keys}
    assert set(both.users) == {*found["volcano"].users, *found["koordinator"].users}
    assert len(both.users) == len(set(both.users))
    assert both.schedulers == ("volcano-scheduler", "koord-scheduler")
    assert both.marks == ("hami-plugins.io/allocator", "hami-plugins.io/limits")
    assert both.labels == {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}


def test_an_allocator_protects_the_keys_of_its_vendors_and_is_trusted_itself() -> None:
    own = account("gpu", "allocator")
    assert own == "system:serviceaccount:gpu:allocator"
    nvidia = served(Registry(each for each in BUILTIN if each.name == "NVIDIA"), own)
    assert {"hami.io/vgpu-devices-allocated", "hami.io/bind-phase", "hami.io/vgpu-mig-allocations"} <= set(nvidia.keys)
    assert nvidia.marks == ("hami-plugins.io/allocator",)
    assert {own, "system:kube-scheduler", "system:serviceaccount:kube-system:hami-device-plugin"} <= set(nvidia.users)
    assert not [key for key in nvidia.keys if "Ascend" in key or "volcano" in key or "NEURON" in key]
    both = served(Registry(each for each in BUILTIN if each.name in ("Volcano-vGPU", "AWSNeuron")), own)
    assert {"volcano.sh/vgpu-ids-new", "AWS_NEURON_IDS", "hami.io/bind-phase"} <= set(both.keys)
    assert "hami-plugins.io/allocator" in both.marks
    assert {
        "system:serviceaccount:volcano-system:volcano-scheduler",
        "system:serviceaccount:kube-system:neuron-device-plugin",
    } <= set(both.users)


@pytest.mark.parametrize("spec", BUILTIN, ids=lambda spec: spec.name)
def test_every_key_of_a_served_vendor_is_refused_to_users_and_left_to_the_allocator(spec: Any) -> None:
    own = account("gpu", "allocator")
    found = policy(served(Registry([spec]), own), remedy="list it")[0]["spec"]
    for key in (*spec.keys.written(), "hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-node"):
        assert concerned(pod(**{key: "x"}), spec=found), key
        assert concerned(pod(**{key: "y"}), pod(**{key: "x"}), spec=found), key
        assert concerned(pod(), pod(**{key: "x"}), spec=found), key
        assert not concerned(pod(**{key: "x"}), user=own, spec=found), key
