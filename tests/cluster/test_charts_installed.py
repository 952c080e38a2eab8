"""The chart on a real API server: what it takes, what Helm leaves of it, and what the rights in it allow."""

from __future__ import annotations

import secrets
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hami_plugins.kube.client import connect
from hami_plugins.web.bootstrap import WebhookConfiguration, put_trust
from tests.cluster import agents, koordinator_adapter, pki
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.chart_values import CASES, Case, Values
from tests.cluster.helm import (
    ALLOCATOR,
    CHARTS,
    KOORDINATOR,
    UMBRELLA,
    VERSIONS,
    VOLCANO_VGPU,
    Helm,
    HelmError,
    dry_run,
    everything,
    objects,
    of_kind,
    pod_specs,
    wait_as_before,
)
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.openapi import schemas_of
from tests.cluster.peers import POLICIES_SERVED
from tests.cluster.pki import Pki
from tests.cluster.waiting import wait_until

NOWHERE = {"nodeSelector": {"test/nowhere": "true"}}
PULLED = {"global": {"imageRegistry": "registry.example"}}
AGENT: Values = {"agent": NOWHERE, "uninstall": {"clean": False}}
SCHEDULER: Values = {**NOWHERE, "enabled": True, "image": "registry.example/kube-scheduler:v1.34.4"}


def still(**allocator: Any) -> Values:
    """Agent and allocator, installed and not run: no node is chosen."""
    return {**PULLED, "volcano-vgpu": AGENT, "allocator": {**NOWHERE, **allocator}}


MARKER_KEY = "hami-plugins.io/allocator"

every_set = pytest.mark.parametrize("case", CASES, ids=str)

FOREIGN = frozenset({"PodMonitor", "ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"})
"""Kinds that other products define, which this cluster does not have."""

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(params=VERSIONS)
def helm(control_plane: ControlPlane, programs: Mapping[str, Path], tmp_path: Path, request: Any) -> Helm:
    control_plane.apply("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    return Helm(programs[request.param], tmp_path / "helm", control_plane.admin_kubeconfig, hooks=False)


@pytest.fixture
def place(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace, whose own objects are there."""
    name = f"charts-{secrets.token_hex(3)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


def test_what_is_installed_is_gone_when_it_is_uninstalled(helm: Helm, control_plane: ControlPlane, place: str) -> None:
    before = everything(control_plane.api)
    helm.change("install", "one", place, values=still(), chart=UMBRELLA)
    every = still(mode="webhook", vendors=["Volcano-vGPU", "NVIDIA", "AWSNeuron"], kubeScheduler=SCHEDULER)
    helm.change("upgrade", "one", place, values=every, chart=UMBRELLA)
    helm.run("rollback", "one", "1", "--namespace", place, "--no-hooks")
    helm.change("upgrade", "one", place, values=every, chart=UMBRELLA)
    made = everything(control_plane.api) - before
    kinds = {each.partition(" ")[0].rpartition("/")[2] for each in made}
    assert {"daemonsets", "deployments", "mutatingwebhookconfigurations", "validatingadmissionpolicies"} <= kinds
    helm.run("uninstall", "one", "--namespace", place, "--wait")
    wait_as_before(control_plane.api, before)


@pytest.mark.parametrize("chart", [ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_a_server_is_gone_when_it_is_uninstalled(
    helm: Helm, control_plane: ControlPlane, place: str, chart: Path
) -> None:
    """What it wrote into the Lease that Helm made stays over an upgrade."""
    before = everything(control_plane.api)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{place}/leases"
    helm.change("install", "one", place, values={**PULLED, **NOWHERE}, chart=chart)
    written = {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    (lease,) = control_plane.api.items(leases)
    control_plane.api.merge_patch(f"{leases}/{lease['metadata']['name']}", written)
    helm.change("upgrade", "one", place, values={**PULLED, **NOWHERE, "replicas": 3}, chart=chart)
    assert control_plane.api.items(leases)[0]["spec"]["holderIdentity"] == "a"
    helm.run("uninstall", "one", "--namespace", place, "--wait", "--no-hooks")
    wait_as_before(control_plane.api, before)
    assert not control_plane.api.items(leases)


SERVES_NEURON: Values = {**PULLED, **NOWHERE, "vendors": ["AWSNeuron"]}
WITH_AGENTS: Values = {**SERVES_NEURON, "neuronAgent": {**NOWHERE, "enabled": True}}


def cleans_at(helm: Helm, place: str) -> str:
    """When the Job of the release's newest revision that cleans runs; empty where it has none."""
    hooks = of_kind(objects(helm.run("get", "hooks", "one", "--namespace", place)), "Job")
    found = (each["metadata"] for each in hooks if each["metadata"]["name"].endswith("-uninstall"))
    return "".join(each["annotations"]["helm.sh/hook"] for each in found)


def test_an_upgrade_cleans_up_after_neuron_agents_if_it_turns_them_off_and_until_that_is_done(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    changes: Sequence[tuple[str, Values, str]] = (
        ("install", SERVES_NEURON, ""),
        ("upgrade", WITH_AGENTS, "pre-delete"),
        ("upgrade", SERVES_NEURON, "pre-delete,pre-upgrade,pre-rollback"),
        ("upgrade", SERVES_NEURON, ""),
    )
    for at, (verb, values, when) in enumerate(changes):
        helm.change(verb, "one", place, values=values, chart=ALLOCATOR)
        assert cleans_at(helm, place) == when, at
    failed = f"/apis/batch/v1/namespaces/{place}/jobs"
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}
    control_plane.api.create(failed, {"metadata": {"name": "one-allocator-uninstall"}, "spec": spec})
    helm.change("upgrade", "one", place, values=SERVES_NEURON, chart=ALLOCATOR)
    assert cleans_at(helm, place) == "pre-delete,pre-upgrade,pre-rollback"
    control_plane.api.delete(f"{failed}/one-allocator-uninstall")
    helm.run("uninstall", "one", "--namespace", place, "--wait", "--no-hooks")


def test_who_wants_no_job_is_told_to_clean_up_after_neuron_agents_by_hand(helm: Helm, place: str) -> None:
    kept: Values = {"uninstall": {"clean": False}}
    command = "\n  hami-plugins neuron clean\n"
    for verb, values, advised in (
        ("install", {**WITH_AGENTS, **kept}, False),
        ("upgrade", {**SERVES_NEURON, **kept}, True),
        ("upgrade", {**SERVES_NEURON, **kept}, False),
    ):
        said = helm.change(verb, "one", place, values=values, chart=ALLOCATOR)
        assert (command in f"{said}\n") is advised
        assert cleans_at(helm, place) == ""
    helm.run("uninstall", "one", "--namespace", place, "--wait")


def test_two_releases_live_side_by_side(helm: Helm, control_plane: ControlPlane, place: str) -> None:
    before = everything(control_plane.api)
    other = f"{place}-2"
    control_plane.create_namespace(other)
    try:
        for namespace in (place, other):
            helm.change(
                "install", "same", namespace, values=still(vendors=["NVIDIA"], kubeScheduler=SCHEDULER), chart=UMBRELLA
            )
        both = everything(control_plane.api)
        helm.run("uninstall", "same", "--namespace", place, "--wait")
        assert {each for each in both if f"{other}/" in each or f"{other}." in each} <= everything(control_plane.api)
        helm.run("uninstall", "same", "--namespace", other, "--wait")
    finally:
        control_plane.api.delete(f"/api/v1/namespaces/{other}")
    left = {
        each for each in everything(control_plane.api) - before if f" {other}/" not in each and f"/{other}" not in each
    }
    assert not left


def test_a_policy_that_the_cluster_cannot_carry_is_refused_and_leaves_nothing(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    before = everything(control_plane.api)
    values = still(mode="policy", policyVersion="v1alpha1")
    with pytest.raises(HelmError, match='no matches for kind "MutatingAdmissionPolicy"'):
        helm.change("install", "one", place, values=values, chart=UMBRELLA)
    wait_as_before(control_plane.api, before)


def test_a_product_whose_definitions_are_missing_is_refused_and_leaves_nothing(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    before = everything(control_plane.api)
    values = still(monitoring={"podMonitor": {"enabled": True}})
    with pytest.raises(HelmError, match='no matches for kind "PodMonitor"'):
        helm.change("install", "one", place, values=values, chart=UMBRELLA)
    wait_as_before(control_plane.api, before)


def test_what_the_webhooks_trust_outlives_upgrade_and_rollback(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    """A Job writes it into an object that Helm also writes."""
    helm.change("install", "one", place, values=still(), chart=UMBRELLA)
    name = f"{place}.one-allocator"
    client = connect(kubeconfig=str(control_plane.admin_kubeconfig), component="trust")
    authority = control_plane.pki.ca.read_bytes()
    assert put_trust(client, WebhookConfiguration("mutating", name), authority)

    def trusted() -> set[str]:
        return {
            each["clientConfig"].get("caBundle", "") for each in control_plane.api.get(f"{HOOKS}/{name}")["webhooks"]
        }

    held = trusted()
    assert "" not in held
    helm.change("upgrade", "one", place, values=still(webhooks={"exempt": ["infra"]}), chart=UMBRELLA)
    assert trusted() == held
    helm.run("rollback", "one", "1", "--namespace", place, "--no-hooks")
    assert trusted() == held
    helm.run("uninstall", "one", "--namespace", place, "--wait")
    client.close()


def test_an_upgrade_of_two_replicas_ends_although_only_one_is_ever_ready(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    """The real controller must not wait for a replica that is ready only when the old one has gone."""
    api = control_plane.api
    helm.change("install", "one", place, values=still(replicas=2), chart=UMBRELLA)
    collection = f"/api/v1/namespaces/{place}/pods"
    labels = "app.kubernetes.io/component=allocator"

    def both() -> list[Object]:
        found = api.items(collection, labelSelector=labels)
        return found if len(found) == 2 else []

    leader, _standby = wait_until(both, "both pods are made")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.merge_patch(f"{collection}/{leader['metadata']['name']}/status", ready)
    deployment = f"/apis/apps/v1/namespaces/{place}/deployments/one-allocator"
    wait_until(lambda: api.get(deployment)["status"].get("readyReplicas") == 1, "one is ready")
    changed = still(replicas=2, settings={"hold": 20})
    helm.change("upgrade", "one", place, values=changed, chart=UMBRELLA)

    def ended() -> bool:
        found = api.get(deployment)
        status = found["status"]
        seen = status["observedGeneration"] == found["metadata"]["generation"]
        return bool(seen and status.get("updatedReplicas") == status["replicas"] == 2)

    wait_until(ended, "both pods have the new settings", 60)
    helm.run("uninstall", "one", "--namespace", place, "--wait")


PARTS_ON_NODES = ("-agent", "-node")


@pytest.mark.parametrize("chart", [VOLCANO_VGPU, ALLOCATOR, KOORDINATOR], ids=lambda chart: chart.name)
def test_a_namespace_that_enforces_restricted_takes_all_pods_but_those_of_the_parts_on_nodes(
    helm: Helm, control_plane: ControlPlane, place: str, chart: Path
) -> None:
    """Those of the server, of ``helm test`` and of the Job at the end; Helm's own installation first."""
    api = control_plane.api
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    api.merge_patch(f"/api/v1/namespaces/{place}", enforced)
    collection = f"/api/v1/namespaces/{place}/pods"
    if chart != VOLCANO_VGPU:
        helm.change("install", "one", place, values={**PULLED, **NOWHERE}, chart=chart)
        wait_until(lambda: api.items(collection), "a pod of the server is made")
        helm.run("uninstall", "one", "--namespace", place, "--wait", "--no-hooks")
    own: Mapping[Path, Values] = {
        KOORDINATOR: {"node": {"enabled": True}},
        ALLOCATOR: {"vendors": ["NVIDIA"], "kubeScheduler": SCHEDULER},
    }
    with_nodes = own.get(chart, {})
    taken = {}
    for name, spec in pod_specs(objects(helm.template(chart, with_nodes, namespace=place))):
        account = {"metadata": {"name": spec.get("serviceAccountName", "default")}}
        control_plane.apply(f"/api/v1/namespaces/{place}/serviceaccounts", account)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        try:
            dry_run(control_plane, body, place)
            taken[name] = ""
        except ApiError as error:
            taken[name] = str(error)
    assert any("uninstall" in name for name in taken) is (chart != ALLOCATOR)
    for name, refused_as in taken.items():
        assert ("violates PodSecurity" in refused_as) is name.endswith(PARTS_ON_NODES), refused_as
        assert name.endswith(PARTS_ON_NODES) or not refused_as, refused_as


@contextmanager
def answering_with(pki: Pki) -> Iterator[int]:
    """A port with a listener that has that certificate; a client that verifies it gets no further."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_certificate, pki.server_key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Behind(NamedTuple):
    """The endpoints of the webhooks: a Service without endpoints, or a server with a certificate; and the messages."""

    served: bool
    days_old: int
    trusted: bool
    said: str

    def __str__(self) -> str:
        return f"{'server' if self.served else 'nobody'}-{self.days_old}-{self.trusted}"


@pytest.mark.parametrize(
    "behind",
    [
        Behind(served=False, days_old=0, trusted=True, said="failed calling webhook"),
        Behind(served=True, days_old=0, trusted=False, said="certificate signed by unknown authority"),
        Behind(served=True, days_old=30, trusted=True, said="certificate has expired"),
    ],
    ids=str,
)
def test_webhooks_that_nobody_can_answer_hold_back_marked_pods_alone(
    helm: Helm, control_plane: ControlPlane, place: str, tmp_path: Path, behind: Behind
) -> None:
    """The sentence is the API server's, at the Binding; all other pods are made and bound."""
    api = control_plane.api
    made = pki.make(tmp_path / "pki", names=[], now=datetime.now(UTC) - timedelta(days=behind.days_old))
    trusted = (made if behind.trusted else control_plane.pki).ca.read_bytes()
    users, node = f"{place}-users", f"{place}-node"
    control_plane.create_namespace(users)
    api.create("/api/v1/nodes", {"metadata": {"name": node}})
    with answering_with(made) as port:
        where = {"webhooks": {"url": f"https://127.0.0.1:{port}"}} if behind.served else {}
        helm.change("install", "one", place, values=still(**where), chart=UMBRELLA)
        client = connect(kubeconfig=str(control_plane.admin_kubeconfig), component="trust")
        assert put_trust(client, WebhookConfiguration("mutating", f"{place}.one-allocator"), trusted)
        client.close()
        try:
            bind(control_plane, users, "plain", node, {})
            assert api.get(f"/api/v1/namespaces/{users}/pods/plain")["spec"]["nodeName"] == node
            refused_with(partial(bind, control_plane, users, "marked", node, {MARKER_KEY: "true"}), behind.said)
        finally:
            api.delete(f"/api/v1/namespaces/{users}/pods", grace=0)
            api.delete(f"/api/v1/namespaces/{users}")
            api.delete(f"/api/v1/nodes/{node}")
            helm.run("uninstall", "one", "--namespace", place, "--wait")


def bind(plane: ControlPlane, namespace: str, name: str, node: str, annotations: Mapping[str, str]) -> None:
    """A pod of Volcano's with a card, and its Binding, as they come from users and scheduler."""
    asks = {"resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}
    metadata = {"name": name, "annotations": annotations}
    spec = {"schedulerName": "volcano", "containers": [{"name": "a", "image": "a", **asks}]}
    collection = f"/api/v1/namespaces/{namespace}/pods"
    if plane.api.find(f"{collection}/{name}") is None:
        plane.api.create(collection, {"metadata": metadata, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    plane.api.create(f"{collection}/{name}/binding", body)


def refused_with(attempt: Callable[[], None], said: str) -> None:
    """The attempt is refused, and the refusal says so."""
    with pytest.raises(ApiError) as caught:
        attempt()
    assert "marked.allocator.hami-plugins.io" in str(caught.value)
    assert said in str(caught.value)


def served(plane: ControlPlane, case: Case) -> Values:
    """The values of a case, with the admission policies in the version that the API server has."""
    of_policies = {"policyVersion": POLICIES_SERVED[plane.release]} if case.values.get("mode") == "policy" else {}
    return {**case.values, **of_policies}


@every_set
def test_the_api_server_would_take_every_field_of_it(
    programs: Mapping[str, Path],
    control_plane: ControlPlane,
    place: str,
    tmp_path: Path,
    case: Case,
) -> None:
    control_plane.apply("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    helm = Helm(programs["helm3"], tmp_path / "helm")
    for each in sorted(
        objects(helm.template(CHARTS / case.chart, served(control_plane, case), namespace=place)),
        key=lambda each: each["kind"] == "Pod",
    ):
        if each["kind"] == "Pod":  # its account has to be there
            account = {"metadata": {"name": each["spec"].get("serviceAccountName", "default")}}
            control_plane.apply(f"/api/v1/namespaces/{place}/serviceaccounts", account)
        if each["kind"] not in FOREIGN:
            dry_run(control_plane, each, place)


@every_set
def test_every_object_keeps_to_its_schema(
    programs: Mapping[str, Path],
    control_plane: ControlPlane,
    tmp_path: Path,
    case: Case,
) -> None:
    helm = Helm(programs["helm3"], tmp_path / "helm")
    manifest = tmp_path / "rendered.yaml"
    manifest.write_text(helm.template(CHARTS / case.chart, served(control_plane, case)))
    found = {(each["apiVersion"], each["kind"]) for each in objects(manifest.read_text())}
    schemas_of(control_plane.api, [each for each in found if each[1] not in FOREIGN], tmp_path / "schemas")
    place = f"{tmp_path}/schemas/{{{{.ResourceKind}}}}-{{{{.ResourceAPIVersion}}}}.json"
    options = ["-strict", "-summary", "-skip", ",".join(sorted(FOREIGN)), "-schema-location", place]
    done = subprocess.run([programs["kubeconform"], *options, manifest], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Invalid: 0, Errors: 0" in done.stdout


class Rights:
    """A release whose agent could be on the node ``here``, and what its account may write there."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.here, self.there = (f"{namespace}-{side}" for side in ("here", "there"))

    def client(self, component: str) -> Api:
        """The account of that part of the release, with a token as the kubelet of ``here`` requests it."""
        account = {"agent": "one-volcano-vgpu-agent"}.get(component, f"one-{component}")
        body = {
            "metadata": {"name": f"{component}-{secrets.token_hex(3)}"},
            "spec": {"nodeName": self.here, "serviceAccountName": account, "containers": [{"name": "a", "image": "a"}]},
        }
        pod = self.plane.api.create(f"/api/v1/namespaces/{self.namespace}/pods", body)
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        return self.plane.client(self.plane.api.create(path, {"spec": {"boundObjectRef": bound}})["status"]["token"])


@pytest.fixture(scope="module", params=["extender", "webhook"])
def rights(
    programs: Mapping[str, Path],
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Rights]:
    control_plane.apply("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    helm = Helm(programs["helm3"], tmp_path_factory.mktemp("helm"), control_plane.admin_kubeconfig, hooks=False)
    # Webhooks are called in the order of their names: those of a test before these, which have no server either.
    place = f"rights-{secrets.token_hex(3)}"
    control_plane.create_namespace(place)
    found = Rights(control_plane, place)
    helm.change("install", "one", place, values=still(mode=request.param), chart=UMBRELLA)
    for node in (found.here, found.there):
        control_plane.api.create("/api/v1/nodes", {"metadata": {"name": node, "annotations": {"other": "stays"}}})
    agent = found.client("agent")
    wait_until(lambda: refused(agent, f"/api/v1/nodes/{found.there}"), "the API server has heard of the policy")
    yield found
    helm.run("uninstall", "one", "--namespace", place, "--wait")
    control_plane.api.delete(f"/api/v1/namespaces/{place}/pods", grace=0)
    for node in (found.here, found.there):
        control_plane.api.delete(f"/api/v1/nodes/{node}")
    control_plane.api.delete(f"/api/v1/namespaces/{place}")


def refused(api: Api, path: str) -> bool:
    """Whether a write of labels is refused; nothing is written."""
    body = {"metadata": {"labels": {"test/dry": "run"}}}
    try:
        api.request("PATCH", path, body, query={"dryRun": "All"}, content_type="application/merge-patch+json")
    except ApiError:
        return True
    return False


def refusal(api: Api, path: str, body: Object) -> str:
    """Why a merge patch is refused; empty where it is not."""
    try:
        api.merge_patch(path, body)
    except ApiError as error:
        if error.status not in {403, 422}:
            raise
        return str(error)
    return ""


def annotated(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


def test_the_agent_writes_its_own_words_on_its_own_node_and_nothing_else(rights: Rights) -> None:
    agent = rights.client("agent")
    here, there = f"/api/v1/nodes/{rights.here}", f"/api/v1/nodes/{rights.there}"
    ours = {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": "x"}}}
    capacity = {"status": {"capacity": {"volcano.sh/vgpu-memory": "40960"}}}
    assert not refusal(agent, here, ours)
    assert not refusal(agent, f"{here}/status", capacity)
    assert not refusal(agent, here, {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": None}}})
    assert f"the agent on node {rights.here} writes that node and its pods alone" in refusal(agent, there, ours)
    assert "writes that node and its pods alone" in refusal(agent, f"{there}/status", capacity)
    assert "writes no spec and no labels" in refusal(agent, here, {"spec": {"unschedulable": True}})
    assert "writes no spec and no labels" in refusal(agent, here, {"metadata": {"labels": {"a": "b"}}})
    assert "annotations of volcano.sh" in refusal(agent, here, annotated(other="changed"))
    assert "annotations of volcano.sh" in refusal(agent, here, annotated(other=None))
    assert "writes the capacity of" in refusal(agent, f"{here}/status", {"status": {"capacity": {"cpu": "64"}}})
    offered = {"volcano.sh/vgpu-number": "0"}
    assert not refusal(agent, f"{here}/status", {"status": {"capacity": offered, "allocatable": offered}})
    assert "writes the allocatable of" in refusal(agent, f"{here}/status", {"status": {"allocatable": {"cpu": "64"}}})
    for held in (
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"addresses": [{"type": "Hostname", "address": "elsewhere"}]},
        {"images": [{"names": ["a:1"], "sizeBytes": 1}]},
    ):
        assert "nothing of a node's status" in refusal(agent, f"{here}/status", {"status": held})
    assert "no finalizers and no owners" in refusal(agent, here, {"metadata": {"finalizers": ["a.b/c"]}})


def test_the_agent_writes_the_pods_of_its_node_alone(rights: Rights) -> None:
    agent = rights.client("agent")
    collection = f"/api/v1/namespaces/{rights.namespace}/pods"
    spec = {"containers": [{"name": "a", "image": "a"}], "schedulerName": "nobody"}
    for name, node in (("mine", rights.here), ("theirs", rights.there), ("waits", "")):
        where = {"nodeName": node} if node else {}
        rights.plane.api.create(collection, {"metadata": {"name": name}, "spec": {**spec, **where}})
    ours = {"metadata": {"annotations": {"volcano.sh/bind-phase": "success"}}}
    assert not refusal(agent, f"{collection}/mine", ours)
    for name in ("theirs", "waits"):
        assert "writes that node and its pods alone" in refusal(agent, f"{collection}/{name}", ours)
    assert "writes no spec" in refusal(agent, f"{collection}/mine", {"metadata": {"labels": {"a": "b"}}})
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    for held in ({"ownerReferences": [gone]}, {"finalizers": ["a.b/c"]}):
        assert "no finalizers and no owners" in refusal(agent, f"{collection}/mine", {"metadata": held})


def test_the_agents_token_of_no_node_writes_no_node(rights: Rights) -> None:
    """A token that no kubelet asked for says nothing of a node."""
    path = f"/api/v1/namespaces/{rights.namespace}/serviceaccounts/one-volcano-vgpu-agent/token"
    stolen = rights.plane.client(rights.plane.api.create(path, {"spec": {}})["status"]["token"])
    ours = {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": "x"}}}
    assert "writes that node and its pods alone" in refusal(stolen, f"/api/v1/nodes/{rights.here}", ours)


def test_the_server_writes_one_annotation_of_nodes_and_only_in_mode_webhook(
    rights: Rights, request: pytest.FixtureRequest
) -> None:
    server = rights.client("allocator")
    node = f"/api/v1/nodes/{rights.here}"
    touch = {"metadata": {"annotations": {"volcano.sh/vgpu-touched": "now"}}}
    if request.node.callspec.params["rights"] == "extender":
        assert "cannot patch resource" in refusal(server, node, touch)
        return
    assert not refusal(server, node, touch)
    assert "vgpu-touched of nodes alone" in refusal(
        server, node, {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": ""}}}
    )
    assert "no spec of nodes" in refusal(server, node, {"spec": {"unschedulable": True}})
    assert "no labels but that" in refusal(server, node, {"metadata": {"labels": {"hami.io/vgpu-node": "a"}}})


def test_the_server_of_the_adapter_writes_makers_models_and_amounts_of_nodes_and_nothing_else(
    helm: Helm, control_plane: ControlPlane, place: str
) -> None:
    helm.change("install", "one", place, values={**PULLED, **NOWHERE}, chart=KOORDINATOR)
    api, node = control_plane.api, f"/api/v1/nodes/{place}"
    api.create("/api/v1/nodes", {"metadata": {"name": place, "annotations": {"other": "stays"}}})
    account = f"/api/v1/namespaces/{place}/serviceaccounts/one-koordinator-adapter/token"
    server = control_plane.client(api.create(account, {"spec": {}})["status"]["token"])
    try:
        wait_until(lambda: refused(server, node), "the API server has heard of the policy")
        amounts = {"koordinator.sh/gpu": "100", "koordinator.sh/gpu.shared": "100"}
        assert not refusal(server, node, {"metadata": {"labels": {"node.koordinator.sh/gpu-vendor": "nvidia"}}})
        assert not refusal(server, f"{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
        assert not refusal(server, f"{node}/status", {"status": {"capacity": dict.fromkeys(amounts)}})
        for path, body, said in (
            (node, {"metadata": {"labels": {"a": "b"}}}, "labels of nodes that Koordinator has"),
            (node, {"spec": {"unschedulable": True}}, "no spec and no annotations"),
            (node, annotated(other=None), "no spec and no annotations"),
            (node, {"metadata": {"finalizers": ["a.b/c"]}}, "no finalizers and no owners"),
            (f"{node}/status", {"status": {"capacity": {"cpu": "64"}}}, "the capacity of Koordinator's resources"),
            (f"{node}/status", {"status": {"allocatable": {"cpu": "64"}}}, "the allocatable of Koordinator's"),
            (
                f"{node}/status",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                "nothing of a node's status",
            ),
        ):
            assert said in refusal(server, path, body)
    finally:
        helm.run("uninstall", "one", "--namespace", place, "--wait", "--no-hooks")
        api.delete(node)


@pytest.mark.parametrize("rights", ["extender"], indirect=True)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/{ours}/secrets"),
        ("GET", "/api/v1/namespaces/{ours}/secrets/another"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("DELETE", "/api/v1/nodes/{node}"),
        ("GET", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("DELETE", "/api/v1/namespaces/{ours}/pods"),
    ],
)
@pytest.mark.parametrize("component", ["agent", "allocator"])
def test_nobody_may_do_more_than_his_work(rights: Rights, component: str, method: str, path: str) -> None:
    with pytest.raises(ApiError) as caught:
        rights.client(component).request(method, path.format(ours=rights.namespace, node=rights.here))
    assert caught.value.status == 403


def rights_in(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, str]]:
    """Each right by its group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


SERVER_RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch"]},
)
"""What the allocator needs for Volcano's vGPUs and Neuron devices, in both modes and for both schedulers."""

MADE_BY_HELM = {("coordination.k8s.io", "leases"), ("", "secrets")}
"""What a server finds in its release, and otherwise makes itself."""


class Process(NamedTuple):
    """A process of a chart with values, by the end of its roles' names, and what the tests let it do."""

    chart: Path
    values: Values
    role: str
    rules: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        return f"{self.chart.name}{self.role}"


@pytest.mark.parametrize(
    "process",
    [
        Process(VOLCANO_VGPU, {}, "-agent", agents.RULES),
        Process(ALLOCATOR, {"mode": "webhook", "vendors": ["Volcano-vGPU", "AWSNeuron"]}, "-allocator", SERVER_RULES),
        Process(KOORDINATOR, {}, "-adapter", koordinator_adapter.RULES),
        Process(
            KOORDINATOR,
            {"node": {"enabled": True}, "settings": {"injection": {"mode": "always"}}},
            "-node",
            koordinator_adapter.NODE_RULES,
        ),
    ],
    ids=str,
)
def test_the_rights_of_the_processes_are_those_that_the_tests_run_them_with(
    programs: Mapping[str, Path], tmp_path: Path, process: Process
) -> None:
    """No more, and no fewer: one that is missing fails a test of what it is for."""
    found = objects(Helm(programs["helm3"], tmp_path / "helm").template(process.chart, process.values))
    charted = rights_in(
        rule
        for each in found
        if each["kind"] in {"Role", "ClusterRole"} and each["metadata"]["name"].endswith(process.role)
        for rule in each["rules"]
    )
    tried = rights_in(process.rules)
    if process.role != "-agent":
        assert {right for right in charted if right[:2] in MADE_BY_HELM} <= tried
        charted, tried = ({each for each in side if each[:2] not in MADE_BY_HELM} for side in (charted, tried))
    own_end = {("apps", "daemonsets", "get")}
    assert charted - own_end == tried
