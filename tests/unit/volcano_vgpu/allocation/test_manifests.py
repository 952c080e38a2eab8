"""The manifests in the API server: which requests wait while the server is away."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.manifests import stale_allocations
from hami_plugins.allocations.manifests.stale_allocations import KEYS as VOLCANO_KEYS
from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.sandbox.apiserver.conditions import compiled
from tests.unit.allocator.products import MARK, target, webhooks


def test_only_the_bindings_of_marked_pods_wait_for_the_server() -> None:
    hooks = {each["name"].partition(".")[0]: each for each in webhooks(target())["webhooks"]}
    assert {name: hook["failurePolicy"] for name, hook in hooks.items()} == {
        "pods": "Ignore",
        "placed": "Fail",
        "marked": "Fail",
        "unmarked": "Ignore",
    }
    (marked,), (unmarked,) = (hooks[name]["matchConditions"] for name in ("marked", "unmarked"))
    assert marked["expression"] == f"has(object.metadata.annotations) && '{MARK}' in object.metadata.annotations"
    assert unmarked["expression"] == f"!({marked['expression']})"


def test_bindings_of_plain_pods_can_be_left_out() -> None:
    hooks = webhooks(target(), marked_only=True)["webhooks"]
    assert [each["name"].partition(".")[0] for each in hooks] == ["pods", "placed", "marked"]


def test_both_ways_to_bind_a_pod_are_watched() -> None:
    for hook in webhooks(target())["webhooks"][2:]:
        assert [rule["resources"] for rule in hook["rules"]] == [["pods/binding", "bindings"]]
        assert hook["sideEffects"] == "NoneOnDryRun"


def test_nothing_in_the_namespaces_of_the_cluster_is_asked_about_and_who_is_beside_the_server_waits_for_nothing() -> (
    None
):
    pods, *bindings = webhooks(target(namespace="allocations"))["webhooks"]
    for hook, exempt in ((pods, ["kube-system", "allocations"]), *((each, ["kube-system"]) for each in bindings)):
        (expression,) = hook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", exempt)


def test_where_no_namespace_is_exempt_bindings_of_all_are_asked_about() -> None:
    pods, *bindings = webhooks(target(namespace="allocations"), exempt=())["webhooks"]
    assert pods["namespaceSelector"]["matchExpressions"][0]["values"] == ["allocations"]
    assert [each["namespaceSelector"] for each in bindings] == [{}, {}, {}]


def test_no_pod_with_a_node_and_an_allocation_is_created_while_the_server_is_away() -> None:
    """Its scheduler does not matter, and neither does what it requests."""
    (placed,) = (each for each in webhooks(target())["webhooks"] if each["name"].startswith("placed."))
    node, allocation = (compiled(each["expression"]) for each in placed["matchConditions"])
    keys = ["volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"]
    keys += ["volcano.sh/bind-phase", "volcano.sh/bind-time", "hami-plugins.io/vgpu-more-ids"]
    for key in keys:
        pod = {"object": {"metadata": {"annotations": {key: ""}}, "spec": {"nodeName": "n1"}}}
        assert node.holds(pod)
        assert allocation.holds(pod)
    for spec in ({}, {"nodeName": ""}):
        assert not node.holds({"object": {"metadata": {}, "spec": spec}})
    for metadata in ({}, {"annotations": {MARK: "extender"}}):
        assert not allocation.holds({"object": {"metadata": metadata, "spec": {}}})


def test_pods_are_matched_by_the_resources_of_all_vendors_whatever_their_scheduler() -> None:
    (asks,) = (each["expression"] for each in webhooks(target())["webhooks"][0]["matchConditions"])
    assert "'volcano.sh/vgpu-cores'" in asks
    assert "'aws.amazon.com/neuron'" in asks
    (asks,) = (each["expression"] for each in webhooks(target(), vendors=("NVIDIA",))["webhooks"][0]["matchConditions"])
    assert "'nvidia.com/gpumem'" in asks
    assert "volcano.sh" not in asks


def test_two_installations_have_two_configurations() -> None:
    assert webhooks(target(configuration="here.allocator"))["metadata"]["name"] == "here.allocator"


@pytest.mark.parametrize(
    ("where", "client"),
    [
        (
            target(namespace="v", ca="Q0E="),
            {
                "service": {"name": "hami-plugins-allocator", "namespace": "v", "port": 443, "path": "/p"},
                "caBundle": "Q0E=",
            },
        ),
        (target(url="https://127.0.0.1:9443/"), {"url": "https://127.0.0.1:9443/p"}),
    ],
)
def test_the_server_is_reached_by_its_service_or_by_an_address(where: WebhookTarget, client: object) -> None:
    assert where.client("/p") == client


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_the_policy_takes_all_six_keys_off_and_asks_for_annotations_first(version: str) -> None:
    policy, binding = stale_allocations.policy(version)
    assert policy["apiVersion"] == binding["apiVersion"] == f"admissionregistration.k8s.io/{version}"
    (mutation,) = policy["spec"]["mutations"]
    assert len(VOLCANO_KEYS) == 6
    assert all(f"'{key}'" in mutation["jsonPatch"]["expression"] for key in VOLCANO_KEYS)
    assert policy["spec"]["matchConditions"][0]["expression"].startswith("has(object.metadata.annotations) && ")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
