"""Users, accounts, and requests that write allocations on pods, before the real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests import raw_objects
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.kubernetes import EVERYTHING, RBAC, ControlPlane
from tests.cluster.waiting import wait_until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
VOLCANO = {
    "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,10:",
    "volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,1000,10:",
    "volcano.sh/vgpu-node": "n1",
    "volcano.sh/vgpu-time": "1700000000",
    "volcano.sh/bind-phase": "allocating",
    "volcano.sh/bind-time": "1700000000",
}


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
    metadata = {"annotations": dict(annotations or {}), "labels": dict(labels or {})}
    usual = {"schedulerName": "none", "automountServiceAccountToken": False}
    return raw_objects.pod(name, raw_objects.container(image="none"), metadata=metadata, **{**usual, **spec})


def a_binding(name: str, annotations: Mapping[str, str] | None = None) -> Object:
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}


def annotated(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


@contextmanager
def installed(site: Site, documents: Sequence[Object], *keys: str) -> Iterator[None]:
    """Policies in force for the length of the ``with``: each of ``keys`` is refused."""
    api = site.plane.api
    created = [(f"{ADMISSION}/{PLURALS[each['kind']]}", each) for each in documents]
    for path, each in created:
        api.create(path, each)

    def passes(key: str) -> bool:
        with suppress(ApiError):
            site.editor.request("POST", site.pods, a_pod("probe", {key: "x"}), query={"dryRun": "All"})
            return True
        return False

    try:
        wait_until(lambda: not any(map(passes, keys)), "the policies are in force", 30)
        yield
    finally:
        for path, each in created:
            api.delete(f"{path}/{each['metadata']['name']}")
        wait_until(lambda: all(map(passes, keys)), "the policies are gone", 30)


@contextmanager
def a_site(plane: ControlPlane, name: str, *users: str) -> Iterator[Site]:
    """A namespace with an editor, and with an owner and further users who may do everything in it."""
    plane.create_namespace(name)
    rbac = f"{RBAC}/namespaces/{name}"
    plane.apply(f"{rbac}/roles", {"metadata": {"name": "all"}, "rules": list(EVERYTHING)})
    bound = (
        ("edit", "ClusterRole", "User", "jane"),
        *(("all", "Role", "User", user) for user in ("olga", "system:kube-scheduler", *users)),
        ("all", "Role", "Group", "system:serviceaccounts"),
    )
    for at, (role, kind, subject, who) in enumerate(bound):
        body = {
            "metadata": {"name": f"bound-{at}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject, "name": who}],
        }
        plane.apply(f"{rbac}/rolebindings", body)
    try:
        yield Site(plane, name)
    finally:
        plane.clear_namespace(name)
        plane.api.delete(f"/api/v1/namespaces/{name}")


def refused(key: str, act: Callable[..., object], *arguments: object) -> None:
    """The API server refuses with a reason that names the key, the user and a remedy."""
    with pytest.raises(ApiError) as caught:
        act(*arguments)
    assert caught.value.status == 403, caught.value
    said = json.loads(caught.value.body)["message"]
    assert key in said
    assert "only schedulers, the allocator, and node agents write" in said
    assert any(remedy in said for remedy in ("Leave it as it is", "Remove it from the pod", "Send the Binding without"))
