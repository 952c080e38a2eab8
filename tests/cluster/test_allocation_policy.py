"""Only schedulers, the allocator, and node agents write allocation keys on pods: the policy in the real API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
import yaml

from tests.cluster.allocating import ADMISSION, VOLCANO, Site, a_binding, a_pod, a_site, annotated, installed, refused
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.kubernetes import NODE, RBAC, ControlPlane
from tests.cluster.waiting import wait_until

QUOTED = 'o\'brien "the\\ops" <admin>'
OURS = "system:serviceaccount:gpu:volcano-vgpu-agent"

KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
ISOLATION = "koordinator.sh/gpu-isolation-provider"
MARK = "hami-plugins.io/allocator"

FORGED_KEYS = (
    *VOLCANO,
    "hami-plugins.io/vgpu-more-ids",
    "hami-plugins.io/requeued-at",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-phase",
    "hami.io/bind-time",
    "hami.io/vgpu-mig-allocations",
    "hami.io/Ascend910B2-devices-allocated",
    "huawei.com/Ascend910B2",
    "hami.io/Ascend910B2-devices-to-allocate",
    "predicate-time",
    "hami.io/cambricon-mlu-devices-to-allocate",
    "CAMBRICON_DSMLU_PROFILE",
    "CAMBRICON_DSMLU_ASSIGNED",
    "hami.io/dcu-devices-allocated",
    "hami.io/MR-V100-devices-to-allocate",
    "hami.io/mthreads-vgpu-devices-allocated",
    "mthreads.com/gpu-index",
    "hami.io/metax-sgpu-devices-to-allocate",
    "metax-tech.com/gpu-devices-allocated",
    "hami.io/amd-devices-allocated",
    "hami.io/Biren-devices-to-allocate",
    "hami.io/Vastai-devices-allocated",
    "hami.io/xpu-devices-allocated",
    "BAIDU_COM_DEVICE_IDX",
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


def printed(*arguments: str) -> list[Object]:
    """What the command prints."""
    whole = [sys.executable, "-m", "hami_plugins.cli", "allocation-policy", *arguments]
    return list(yaml.safe_load_all(subprocess.run(whole, check=True, capture_output=True, text=True).stdout))


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """The policy as the command prints it, and users with the built-in role ``edit`` and with ``*``."""
    documents = printed("--user", OURS, "--user", QUOTED)
    with a_site(control_plane, "allocations", QUOTED) as found, installed(found, documents, *VOLCANO):
        yield found


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
    "another key as well": lambda site, who, path: who.merge_patch(
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
    site.pod(name, {IDS: "allocated", "theirs": "x"})
    refused("volcano.sh/", WAYS[way], site, who, f"{site.pods}/{name}{part}")
    assert site.annotations(name) == {IDS: "allocated", "theirs": "x"}


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


@pytest.fixture
def binders(site: Site) -> Iterator[None]:
    """The accounts of the namespace ``binders`` may bind pods of all namespaces."""
    rights = [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]
    subject = {"kind": "Group", "name": "system:serviceaccounts:binders", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "binders", "apiGroup": "rbac.authorization.k8s.io"}
    bound = {"metadata": {"name": "binders"}, "roleRef": role, "subjects": [subject]}
    site.plane.apply(f"{RBAC}/clusterroles", {"metadata": {"name": "binders"}, "rules": rights})
    site.plane.apply(f"{RBAC}/clusterrolebindings", bound)
    yield
    site.plane.api.delete(f"{RBAC}/clusterrolebindings/binders")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("koord-scheduler", KOORDINATOR),
        ("volcano-scheduler", IDS),
        ("hami-scheduler", "hami.io/vgpu-devices-allocated"),
    ],
)
def test_a_scheduler_in_another_namespace_writes_records_if_it_may_bind_all_pods(
    site: Site, binders: None, name: str, key: str
) -> None:
    """Every ServiceAccount may bind the pods of this one namespace here, which is not enough."""
    site.pod(name)
    change = annotated(**{key: "x"})

    def acting(namespace: str, account: str) -> Api:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return site.acting(f"system:serviceaccount:{namespace}:{account}", *groups)

    scheduler = acting("binders", name)
    wait_until(lambda: scheduler.merge_patch(f"{site.pods}/{name}", change), "its right is known", 30)
    for other in (acting("elsewhere", name), acting("binders", f"my-{name}"), acting("binders", "deployer")):
        refused(key, other.merge_patch, f"{site.pods}/{name}", annotated(**{key: "y"}))
    scheduler.create(f"{site.pods}/{name}/binding", a_binding(name, {key: "z"}))
    assert site.annotations(name) == {key: "z"}


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


def debugging(name: str, **container: Any) -> Object:
    return {"spec": {"ephemeralContainers": [{"name": name, "image": "none", **container}]}}


@pytest.mark.parametrize("key", [IDS, "hami.io/vgpu-devices-allocated", MARK])
def test_an_ephemeral_container_sees_no_more_than_the_slice_of_its_pod(site: Site, key: str) -> None:
    name = f"debugged-{key.rpartition('/')[2]}"
    site.pod(name, {key: "x"})
    path = f"{site.pods}/{name}/ephemeralcontainers"
    wide = (
        {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
        {"env": [{"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}]},
        {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"envFrom": [{"configMapRef": {"name": "x"}}]},
        {"securityContext": {"privileged": True}},
    )
    for more in wide:
        with pytest.raises(ApiError, match="an ephemeral container of a pod with devices") as refused_:
            site.owner.request("PATCH", path, debugging("wide", **more), content_type=STRATEGIC)
        assert refused_.value.status == 403
        assert "Drop them from the container" in refused_.value.body
    resources = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    with pytest.raises(ApiError, match="cannot be set for an Ephemeral Container"):
        site.owner.request("PATCH", path, debugging("asks", **resources), content_type=STRATEGIC)
    none = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]}
    site.owner.request("PATCH", path, debugging("narrow", **none), content_type=STRATEGIC)
    site.plane.api.request("PATCH", path, debugging("admin", **wide[0]), content_type=STRATEGIC)
    site.owner.request("PATCH", path, debugging("plain"), content_type=STRATEGIC)


def test_an_ephemeral_container_of_a_pod_without_devices_is_left_alone(site: Site) -> None:
    site.pod("debugged-plain", {"theirs": "x"})
    more = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    path = f"{site.pods}/debugged-plain/ephemeralcontainers"
    site.owner.request("PATCH", path, debugging("debug", **more), content_type=STRATEGIC)


def test_the_marks_of_the_webhooks_come_with_a_new_pod_and_stay(site: Site) -> None:
    marks = {MARK: "extender", "hami-plugins.io/limits": "1"}
    site.editor.create(site.pods, a_pod("marked", marks))
    for key in marks:
        for value in ("other", None):
            change = annotated(**{key: value})
            refused(key, site.editor.merge_patch, f"{site.pods}/marked", change)
    assert site.annotations("marked") == marks
    site.owner.create(f"{site.pods}/marked/binding", a_binding("marked", {MARK: "extender"}))


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
    kept = {**VOLCANO, KOORDINATOR: "{}", MARK: "extender", "theirs": "x"}
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
