"""The control plane: etcd, kube-apiserver, kube-controller-manager, and kube-scheduler when asked for."""

from __future__ import annotations

import base64
import datetime as dt
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster import pki
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.etcd import etcd
from tests.cluster.machine import Machine
from tests.cluster.peers import KUBERNETES, chosen
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

NODE: Final = "node-1"  # the machine's /etc/hosts knows it, so the API server reaches the kubelet by it
CLAIM_GATES: Final = ",".join(
    f"{gate}=true"
    for gate in ("DRAConsumableCapacity", "DRADeviceTaints", "DRAExtendedResource", "DRAPartitionableDevices")
)
"""Features of claims that are off in 1.34 by default; it changes nothing for objects without such members."""

OPT_INS: Final[Mapping[str, Sequence[str]]] = {
    "1.34": (
        f"--feature-gates=MutatingAdmissionPolicy=true,{CLAIM_GATES}",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true",
    ),
    "1.36": (),
}
"""What the API server has to be told, by release: for claims and for mode ``policy``, with no effect on all else. From
1.36 on all of it is there by default."""

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"

EVERYTHING: Final = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)
"""The rules of a role that allows all of it."""


class ControlPlane:
    """Starts on creation. ``api`` may do everything; ``account`` makes users that may do little.

    ``followers`` start those anew that watch the API server, where they run.
    """

    def __init__(self, machine: Machine, programs: Mapping[str, Path]) -> None:
        self.machine = machine
        self.programs = programs
        self.release = chosen("KUBERNETES", KUBERNETES)
        self.pki = pki.make(machine.root / "pki", names=[NODE, "kubernetes"], now=dt.datetime.now(dt.UTC))
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.admin_token, self.kubelet_token = secrets.token_hex(16), secrets.token_hex(16)
        self.api = self.client(self.admin_token)
        self.admin_kubeconfig = self.kubeconfig("admin", self.admin_token)
        self.etcd, store = etcd(machine, programs["etcd"])
        self.api_server = self._api_server(store)
        self.controller_manager = self._controller_manager()
        self.followers: list[Callable[[], object]] = [self.controller_manager.renew]
        self.etcd.start()
        self.api_server.start()
        self.controller_manager.start()
        self._followed = self.api_server.pid

    def reunite(self) -> None:
        """Where the API server was away, starts its followers anew.

        By themselves they look for it only after a pause, which grows with every time that it was away, to more than a
        minute, each of a process' watches after its own. A Volcano of which one watch is back and another is not may
        even forget a job: its controllers make the pods when they see a PodGroup change, and do not look at one that
        has changed before they saw it.
        """
        if self.api_server.pid == self._followed:
            return
        self._followed = self.api_server.pid
        for renew in self.followers:
            renew()

    def client(self, token: str) -> Api:
        """A client for the token's owner."""
        return Api(self.url, ca=self.pki.ca, token=token)

    def kubeconfig(self, name: str, token: str) -> Path:
        """A kubeconfig file for the token's owner; JSON, which is also YAML."""
        authority = base64.b64encode(self.pki.ca.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": name}}],
            "current-context": "c",
        }
        path = self.machine.root / f"{name}.kubeconfig"
        path.write_text(json.dumps(content, indent=1))
        return path

    def account(self, name: str, rules: Sequence[Object], *, namespace: str = "kube-system") -> str:
        """The token of a ServiceAccount that may do what ``rules``, those of a ClusterRole, allow.

        Asked again for the same name it lays the new rules over the old ones.
        """
        meta = {"name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        self.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": meta})
        self.apply(f"{RBAC}/clusterroles", {"metadata": meta, "rules": list(rules)})
        self.apply(f"{RBAC}/clusterrolebindings", {"metadata": meta, "roleRef": role, "subjects": [subject]})
        asked = self.api.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": {"expirationSeconds": 86_400}}
        )
        token: str = asked["status"]["token"]
        return token

    def program(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        rules: Sequence[Object],
        ready: Callable[[], object],
        environment: Mapping[str, str] | None = None,
    ) -> Component:
        """A program under test, not started yet, that finds what a pod finds: API server and ServiceAccount.

        It may do what ``rules`` allow, sees the node's paths, and gets nothing of this process' environment.
        """
        account = self.account_folder(name, self.account(name, rules))
        return Component(
            self.machine,
            name,
            self.machine.in_cluster(arguments, account),
            ready=ready,
            environment={**self.in_cluster_environment(), **(environment or {})},
        )

    def account_folder(self, name: str, token: str, *, namespace: str = "kube-system") -> Path:
        """A folder with the files of a pod's service account, for ``Machine.in_cluster``."""
        folder = self.machine.root / "accounts" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(token)
        (folder / "namespace").write_text(namespace)
        (folder / "ca.crt").write_bytes(self.pki.ca.read_bytes())
        return folder

    def in_cluster_environment(self) -> dict[str, str]:
        """The kubelet's variables for every pod about the API server."""
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    def apply(self, collection: str, body: Object) -> Object:
        """Create the object, or lay it over the one of that name."""
        try:
            return self.api.create(collection, body)
        except ApiError as error:
            if error.status != 409:
                raise
        return self.api.merge_patch(f"{collection}/{body['metadata']['name']}", body)

    def touch_node(self, name: str = NODE) -> None:
        """Change an annotation that means nothing: Volcano 1.14.1 looks at cards only when their node changes."""
        stamp = {"metadata": {"annotations": {"test/touched": secrets.token_hex(4)}}}
        self.api.merge_patch(f"/api/v1/nodes/{name}", stamp)

    def wait_for_pod(self, namespace: str, name: str, phase: str, timeout: float = 60.0) -> Object:
        """The pod once it is in ``phase``; the failure shows its status and its events."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"

        def reached() -> Object | None:
            pod = self.api.get(path)
            return pod if pod["status"].get("phase") == phase else None

        def story() -> str:
            pod = self.api.find(path) or {}
            return json.dumps(pod.get("status"), indent=1) + "".join(self.events(namespace, name))

        found = wait_until(reached, f"pod {namespace}/{name} is {phase}", timeout, show=story)
        assert found is not None
        return found

    def events(self, namespace: str, name: str) -> list[str]:
        """The events about one object, a line each."""
        found = self.api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.name={name}")
        return [f"\n{each.get('type')} {each.get('reason')}: {each.get('message')}" for each in found]

    def pod_log(self, namespace: str, name: str, container: str = "main") -> str:
        """What a container printed, read through the API server."""
        return self.api.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log", container=container)

    def clear_namespace(self, namespace: str, timeout: float = 60.0) -> None:
        """Delete all Volcano jobs and all pods of a namespace and wait until the pods are gone."""
        self.api.delete(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs")
        pods = f"/api/v1/namespaces/{namespace}/pods"

        def gone() -> bool:
            self.api.delete(pods)
            return not self.api.items(pods)

        wait_until(gone, f"all pods of {namespace} are gone", timeout, interval=0.2)

    def create_namespace(self, name: str) -> None:
        """A namespace that is ready for pods: its default service account is there.

        Controllers look for an API server that was away for some time only every half a minute.
        """
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        wait_until(
            lambda: self.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"),
            f"namespace {name} has its default service account",
            90,
        )

    def scheduler(self, name: str = "kube-scheduler", *flags: str) -> Component:
        """kube-scheduler, not started yet; ``name`` is that of the process."""
        port = free_port()
        arguments = [*self._follower("kube-scheduler", port), *flags]
        found = Component(self.machine, name, arguments, ready=lambda: self._healthy(port))
        self.followers.append(found.renew)
        return found

    def _api_server(self, store: str) -> Component:
        tokens = self.machine.root / "tokens.csv"
        tokens.write_text(
            f'{self.admin_token},admin,admin,"system:masters"\n'
            f'{self.kubelet_token},system:node:{NODE},kubelet,"system:nodes"\n'
        )
        arguments = [
            str(self.programs["kube-apiserver"]),
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",  # the loopback address is not an endpoint
            f"--cert-dir={self.machine.root / 'pki'}",
            f"--tls-cert-file={self.pki.server_certificate}",
            f"--tls-private-key-file={self.pki.server_key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki.account_public_key}",
            f"--service-account-signing-key-file={self.pki.account_key}",
            *OPT_INS[self.release],
        ]
        return Component(self.machine, "kube-apiserver", arguments, ready=lambda: self.api.text("/readyz") == "ok")

    def _controller_manager(self) -> Component:
        port = free_port()
        arguments = [
            *self._follower("kube-controller-manager", port),
            f"--service-account-private-key-file={self.pki.account_key}",
            f"--root-ca-file={self.pki.ca}",
            "--node-monitor-grace-period=24h",  # nodes without a kubelet stay as they are
        ]
        return Component(self.machine, "kube-controller-manager", arguments, ready=lambda: self._healthy(port))

    def _follower(self, name: str, port: int) -> list[str]:
        return [
            str(self.programs[name]),
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.pki.server_certificate}",
            f"--tls-private-key-file={self.pki.server_key}",
        ]

    def _healthy(self, port: int) -> bool:
        probe = Api(f"https://127.0.0.1:{port}", ca=self.pki.ca, token="")
        try:
            return probe.text("/healthz") == "ok"
        finally:
            probe.close()

    def state(self) -> dict[str, Any]:
        """The objects worth keeping when a test failed, by what they are; a list that cannot be had says why."""
        found: dict[str, Any] = {}
        for kind in ("nodes", "pods", "events"):
            try:
                found[kind] = self.api.items(f"/api/v1/{kind}")
            except ApiError as error:
                found[kind] = str(error)
        return found

    def close(self) -> None:
        self.api.close()
