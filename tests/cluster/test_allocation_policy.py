"""Only schedulers, the allocator, and node agents write allocation keys on pods: the policy in the real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.cluster.api import Api, ApiError, Object
from tests.cluster.kubernetes import NODE, RBAC, ControlPlane
from tests.cluster.waiting import wait_until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
QUOTED = 'o\'brien "the\\ops" <admin>'
OURS = "system:serviceaccount:gpu:volcano-vgpu-agent"

VOLCANO = {
    "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,10:",
    "volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,1000,10:",
    "volcano.sh/vgpu-node": "n1",
    "volcano.sh/vgpu-time": "1700000000",
    "volcano.sh/bind-phase": "allocating",
    "volcano.sh/bind-time": "1700000000",
}
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
ISOLATION = "koordinator.sh/gpu-isolation-provider"
MARK = "hami-plugins.io/volcano-vgpu-grant"

FORGED_KEYS = (
    *VOLCANO,
    "hami-plugins.io/vgpu-more-ids",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-phase",
    "hami.io/bind-time",
    "hami.io/vgpu-mig-allocations",
    "hami.io/Ascend910B2-devices-allocated",
    "huawei.com/Ascend910B2",
    "hami.io/kunlun-allocated",
    "enflame.com/gcu-assigned-id",
    "hami.io/aws-neuron-devices-allocated",
    "AWS_NEURON_IDS",
    "NEURON_ALLOCATED",
    KOORDINATOR,
    "scheduling.koordinator.sh/gpu-minors",
    "hami-plugins.io/visible-devices",
    "hami-plugins.io/memory-limit-15",
)

REQUESTED = {
    "volcano.sh/vgpu-use-gpuuuid": "GPU-0",
    "volcano.sh/vgpu-nouse-gpuuuid": "GPU-1",
    "nvidia.com/use-gpuuuid": "GPU-0",
    "nvidia.com/nouse-gputype": "A100",
    "hami.io/node-scheduler-policy": "binpack",
    "hami.io/gpu-scheduler-policy": "spread",
    "volcano.sh/vgpu-mode": "hami-core",
    "scheduling.koordinator.sh/device-allocate-hint": "{}",
    "hami-plugins.io/no-core-limit": "10",
    "scheduling.k8s.io/group-name": "gang",
}
"""Annotations with which a user asks for devices."""


@dataclass(frozen=True)
class Site:
    """A namespace, and the clients that a test acts as."""

    plane: ControlPlane
    namespace: str

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def acting(self, user: str, *groups: str) -> Api:
        plane = self.plane
        return Api(plane.url, ca=plane.pki.ca, token=plane.admin_token, user=user, groups=groups)

    @property
    def editor(self) -> Api:
        """May what the built-in ClusterRole ``edit`` allows in this namespace."""
        return self.acting("jane")

    @property
    def owner(self) -> Api:
        """May everything in this namespace."""
        return self.acting("olga")

    def pod(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """A pod that the administrator creates."""
        return self.plane.api.create(self.pods, a_pod(name, annotations, **spec))

    def annotations(self, name: str) -> Mapping[str, str]:
        held: Mapping[str, str] = self.plane.api.get(f"{self.pods}/{name}")["metadata"].get("annotations") or {}
        return held


def a_pod(name: str, annotations: Mapping[str, str] | None = None, labels: Any = None, **spec: Any) -> Object:
    """A pod that no scheduler of this cluster places."""
    container = {"name": "main", "image": "none"}
    metadata = {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})}
    spec = {"containers": [container], "schedulerName": "none", "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def a_binding(name: str, annotations: Mapping[str, str] | None = None) -> Object:
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}


def annotated(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


def printed(*arguments: str) -> list[Object]:
    """What the command prints."""
    whole = [sys.executable, "-m", "hami_plugins.cli", "allocation-policy", *arguments]
    return list(yaml.safe_load_all(subprocess.run(whole, check=True, capture_output=True, text=True).stdout))


@contextmanager
def installed(site: Site, documents: list[Object]) -> Iterator[None]:
    """The policy in force for the length of the ``with``."""
    api = site.plane.api
    created = [(f"{ADMISSION}/{PLURALS[each['kind']]}", each) for each in documents]
    for path, each in created:
        api.create(path, each)

    def in_force() -> bool:
        with suppress(ApiError):
            site.editor.request("POST", site.pods, a_pod("probe", VOLCANO), query={"dryRun": "All"})
            return False
        return True

    try:
        wait_until(in_force, "the policy is in force", 30)
        yield
    finally:
        for path, each in created:
            api.delete(f"{path}/{each['metadata']['name']}")
        wait_until(lambda: not in_force(), "the policy is gone", 30)


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """The policy as the command prints it, and users with the built-in role ``edit`` and with ``*``."""
    name = "allocations"
    control_plane.create_namespace(name)
    found = Site(control_plane, name)
    rbac = f"{RBAC}/namespaces/{name}"
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    control_plane.apply(f"{rbac}/roles", {"metadata": {"name": "all"}, "rules": everything})
    writers = "system:serviceaccounts"
    bound = (
        ("edit", "ClusterRole", "User", "jane"),
        *(("all", "Role", "User", name) for name in ("olga", QUOTED, "system:kube-scheduler")),
        ("all", "Role", "Group", writers),
    )
    for at, (role, kind, subject, who) in enumerate(bound):
        body = {
            "metadata": {"name": f"bound-{at}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject, "name": who}],
        }
        control_plane.apply(f"{rbac}/rolebindings", body)
    with installed(found, printed("--user", OURS, "--user", QUOTED)):
        yield found
    control_plane.clear_namespace(name)
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


def refused(key: str, act: Callable[..., object], *arguments: object) -> None:
    """The API server refuses with a reason that names the key, the user and a remedy."""
    with pytest.raises(ApiError) as caught:
        act(*arguments)
    assert caught.value.status == 403, caught.value
    said = json.loads(caught.value.body)["message"]
    assert key in said
    assert "only schedulers, the allocator, and node agents write" in said
    assert any(remedy in said for remedy in ("Leave it as it is", "Remove it from the pod", "Send the Binding without"))


@pytest.mark.parametrize("key", FORGED_KEYS)
def test_a_user_with_edit_forges_no_key_on_a_new_pod_and_none_on_an_old_one(site: Site, key: str) -> None:
    refused(key, site.editor.create, site.pods, a_pod("forged", {key: "x"}))
    refused(key, site.editor.create, site.pods, a_pod("forged", {key: ""}))
    name = f"p-{FORGED_KEYS.index(key)}"
    site.pod(name, {"theirs": "x"})
    for body in (annotated(**{key: "x"}), annotated(**{key: "", "theirs": "y"})):
        refused(key, site.editor.merge_patch, f"{site.pods}/{name}", body)
    site.plane.api.merge_patch(f"{site.pods}/{name}", annotated(**{key: "x"}))
    for value in ("y", "", None):
        change = annotated(**{key: value})
        refused(key, site.editor.merge_patch, f"{site.pods}/{name}", change)
    assert site.annotations(name) == {"theirs": "x", key: "x"}


def test_a_new_pod_that_brings_its_node_and_an_allocation_is_refused(site: Site) -> None:
    for scheduler in ("volcano", "default-scheduler", "none"):
        pod = a_pod("bound", VOLCANO, nodeName="n1", schedulerName=scheduler)
        refused("volcano.sh/vgpu-ids-new", site.owner.create, site.pods, pod)
    for account in ("kube-system:replicaset-controller", "volcano-system:volcano-controllers"):
        controller = site.acting(f"system:serviceaccount:{account}")
        refused("from the template", controller.create, site.pods, a_pod("made", VOLCANO))


IDS = "volcano.sh/vgpu-ids-new"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
POINTER = f"/metadata/annotations/{IDS.replace('/', '~1')}"


def _json_patch(client: Api, path: str, *operations: Object) -> None:
    client.request("PATCH", path, operations, content_type=JSON_PATCH)  # type: ignore[arg-type]


WAYS: Mapping[str, Callable[[Site, Api, str], object]] = {
    "json patch adds": lambda site, who, path: _json_patch(who, path, {"op": "add", "path": POINTER, "value": "mine"}),
    "json patch replaces": lambda site, who, path: _json_patch(
        who, path, {"op": "replace", "path": POINTER, "value": "mine"}
    ),
    "json patch removes": lambda site, who, path: _json_patch(who, path, {"op": "remove", "path": POINTER}),
    "json patch removes all": lambda site, who, path: _json_patch(
        who, path, {"op": "remove", "path": "/metadata/annotations"}
    ),
    "strategic patch": lambda site, who, path: who.request(
        "PATCH", path, annotated(**{IDS: "mine"}), content_type=STRATEGIC
    ),
    "strategic patch replaces all": lambda site, who, path: who.request(
        "PATCH", path, {"metadata": {"annotations": {"$patch": "replace", "mine": "x"}}}, content_type=STRATEGIC
    ),
    "apply": lambda site, who, path: who.request(
        "PATCH",
        path,
        {"apiVersion": "v1", "kind": "Pod", **annotated(**{IDS: "mine"})},
        content_type=APPLY,
        query={"fieldManager": "mine", "force": "true"},
    ),
    "replace": lambda site, who, path: who.replace(path, _changed(site, path, {IDS: "mine"})),
    "replace without": lambda site, who, path: who.replace(path, _changed(site, path, {})),
    "another key beside it": lambda site, who, path: who.merge_patch(
        path, annotated(**{"volcano.sh/bind-time": "99999999999"})
    ),
}


def _changed(site: Site, path: str, annotations: Mapping[str, str]) -> Object:
    found = site.plane.api.get(path.removesuffix("/status"))
    return {**found, "metadata": {**found["metadata"], "annotations": dict(annotations)}}


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_the_annotations_of_a_pod_is_closed(site: Site, way: str, part: str) -> None:
    who = site.owner if part else site.editor
    name = f"way-{list(WAYS).index(way)}{part.replace('/', '-')}"
    site.pod(name, {IDS: "granted", "theirs": "x"})
    refused("volcano.sh/", WAYS[way], site, who, f"{site.pods}/{name}{part}")
    assert site.annotations(name) == {IDS: "granted", "theirs": "x"}


@pytest.mark.parametrize("key", [IDS, KOORDINATOR, "AWS_NEURON_IDS", "hami.io/vgpu-devices-allocated"])
def test_a_binding_brings_no_allocation_but_a_schedulers(site: Site, key: str) -> None:
    name = f"bound-{FORGED_KEYS.index(key)}"
    site.pod(name)
    body = a_binding(name, {key: "mine"})
    refused(key, site.owner.create, f"{site.pods}/{name}/binding", body)
    refused(key, site.owner.create, f"/api/v1/namespaces/{site.namespace}/bindings", body)
    assert site.annotations(name) == {}
    site.acting("system:kube-scheduler").create(f"{site.pods}/{name}/binding", body)
    assert site.annotations(name) == {key: "mine"}


def test_subresources_that_take_no_annotations_write_none(site: Site) -> None:
    site.pod("spec-only")
    path = f"{site.pods}/spec-only"
    ephemeral = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "none"}]}, **annotated(**{IDS: "mine"})}
    site.owner.request("PATCH", f"{path}/ephemeralcontainers", ephemeral, content_type=STRATEGIC)
    resized = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}]}}
    with suppress(ApiError):
        site.owner.request("PATCH", f"{path}/resize", resized | annotated(**{IDS: "mine"}), content_type=STRATEGIC)
    metadata = {"name": "spec-only", "annotations": {IDS: "mine"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    site.owner.request("POST", f"{path}/eviction", eviction, query={"dryRun": "All"})
    assert site.annotations("spec-only") == {}


def test_the_marks_of_the_webhooks_come_with_a_new_pod_and_stay(site: Site) -> None:
    marks = {MARK: "ledger", "hami-plugins.io/neuron-grant": "ledger", "hami-plugins.io/limits": "1"}
    site.editor.create(site.pods, a_pod("marked", marks))
    for key in marks:
        for value in ("other", None):
            change = annotated(**{key: value})
            refused(key, site.editor.merge_patch, f"{site.pods}/marked", change)
    assert site.annotations("marked") == marks
    site.owner.create(f"{site.pods}/marked/binding", a_binding("marked", {MARK: "ledger"}))


def test_a_pod_with_limits_keeps_the_label_that_promises_them(site: Site) -> None:
    site.editor.create(site.pods, a_pod("limited", labels={ISOLATION: "HAMi-core"}))
    for path in (f"{site.pods}/limited", f"{site.pods}/limited/status"):
        for value in (None, "", "MPS"):
            change = {"metadata": {"labels": {ISOLATION: value}}}
            refused(ISOLATION, site.owner.merge_patch, path, change)
    site.editor.merge_patch(f"{site.pods}/limited", {"metadata": {"labels": {"mine": "x"}}})
    site.editor.create(site.pods, a_pod("unlimited"))
    site.editor.merge_patch(f"{site.pods}/unlimited", {"metadata": {"labels": {ISOLATION: "HAMi-core"}}})


WRITERS = {
    "volcano": ("system:serviceaccount:volcano-system:volcano-scheduler", VOLCANO),
    "volcano's plugin": (
        "system:serviceaccount:kube-system:volcano-device-plugin",
        {"volcano.sh/bind-phase": "success"},
    ),
    "our agent": (OURS, {"volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ""}),
    "hami": ("system:serviceaccount:kube-system:hami-scheduler", {"hami.io/vgpu-devices-allocated": "x"}),
    "hami's plugin": ("system:serviceaccount:kube-system:hami-device-plugin", {"hami.io/bind-phase": "success"}),
    "koordinator": (
        "system:serviceaccount:koordinator-system:koord-scheduler",
        {KOORDINATOR: "{}", "hami-plugins.io/visible-devices": "GPU-0", "hami-plugins.io/memory-limit-0": "1"},
    ),
    "aws's plugin": ("system:serviceaccount:kube-system:neuron-device-plugin", {"NEURON_ALLOCATED": "true"}),
    "a user with quotes": (QUOTED, {IDS: "x"}),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_those_that_allocate_write_what_they_write(site: Site, writer: str) -> None:
    user, written = WRITERS[writer]
    who = site.acting(user)
    name = f"writer-{list(WRITERS).index(writer)}"
    site.editor.create(site.pods, a_pod(name, {"theirs": "x"}))
    who.merge_patch(f"{site.pods}/{name}", annotated(**written))
    who.merge_patch(f"{site.pods}/{name}/status", annotated(**{**written, next(iter(written)): "changed"}))
    who.create(f"{site.pods}/{name}/binding", a_binding(name, {"theirs": "x", **written}))
    assert site.annotations(name) == {"theirs": "x", **written}
    for key in written:
        who.merge_patch(f"{site.pods}/{name}", annotated(**{key: None}))
    assert site.annotations(name) == {"theirs": "x"}


def test_what_carries_an_allocation_is_written_by_others_as_before(site: Site) -> None:
    """Users, controllers, and the kubelet change everything but the allocation."""
    kept = {**VOLCANO, KOORDINATOR: "{}", MARK: "ledger", "theirs": "x"}
    site.pod("busy", kept, labels={ISOLATION: "HAMi-core"}, nodeName=NODE)
    path = f"{site.pods}/busy"
    tracked = {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}
    for user in ("jane", "olga", "system:serviceaccount:kube-system:job-controller"):
        who = site.acting(user)
        who.merge_patch(path, {"metadata": {"labels": {"touched": "yes"}, "annotations": {"theirs": user}}})
        who.merge_patch(path, {"metadata": {"annotations": {IDS: VOLCANO[IDS]}}})
    controller = site.acting("system:serviceaccount:kube-system:job-controller")
    controller.merge_patch(path, tracked)
    controller.merge_patch(path, {"metadata": {"finalizers": None}})
    kubelet = site.plane.client(site.plane.kubelet_token)
    condition = {"type": "Ready", "status": "False", "reason": "test"}
    kubelet.request("PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, content_type=STRATEGIC)
    found = site.plane.api.get(path)
    assert {each["type"] for each in found["status"]["conditions"]} >= {"Ready"}
    assert found["metadata"]["annotations"] == {**kept, "theirs": "system:serviceaccount:kube-system:job-controller"}
    replaced = {**found, "metadata": {**found["metadata"], "labels": {**found["metadata"]["labels"], "more": "yes"}}}
    site.editor.replace(path, replaced)
    site.editor.delete(path, grace=0)


def test_what_users_ask_with_is_theirs_to_write(site: Site) -> None:
    site.editor.create(site.pods, a_pod("asks", REQUESTED))
    site.editor.merge_patch(f"{site.pods}/asks", annotated(**dict.fromkeys(REQUESTED, "other")))
    site.editor.merge_patch(f"{site.pods}/asks", annotated(**dict.fromkeys(REQUESTED)))
    site.editor.create(site.pods, a_pod("plain"))
    site.owner.create(f"{site.pods}/plain/binding", a_binding("plain"))


def test_what_a_condition_costs_does_not_grow_with_the_pod(site: Site) -> None:
    """The API server stops an expression that costs too much; then it would refuse the pod."""
    many = {f"a{at}": "x" for at in range(20_000)}
    site.editor.create(site.pods, a_pod("many", many))
    site.editor.merge_patch(f"{site.pods}/many", annotated(a0="y"))
    large = {IDS: "x" * 200_000}
    site.pod("large", large)
    site.editor.merge_patch(f"{site.pods}/large", annotated(mine="y"))
    refused(IDS, site.editor.merge_patch, f"{site.pods}/large", annotated(**{IDS: f"{large[IDS][:-1]}y"}))
    refused(IDS, site.editor.create, site.pods, a_pod("both", {**many, IDS: "x"}))


def test_the_api_server_finds_nothing_wrong_with_the_types(site: Site) -> None:
    path = f"{ADMISSION}/validatingadmissionpolicies/hami-plugins-allocations"
    found = wait_until(
        lambda: (site.plane.api.get(path).get("status") or {}).get("typeChecking") is not None,
        "the types are checked",
        30,
    )
    assert found
    assert site.plane.api.get(path)["status"]["typeChecking"] == {}
