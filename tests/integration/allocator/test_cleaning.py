"""``allocator clean``: what it removes from a cluster, what it leaves there, and what blocks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.allocator.cleanup import ServerObjects, cleaned
from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths, removal
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.removal import Release
from hami_plugins.sandbox.apiserver import VOLCANO
from hami_plugins.sandbox.apiserver.kinds import ResourceKind, custom
from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.commands.hypernode_writer import COLLECTION
from neuron_topology.core.names import INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL, HEALTH_KEY
from tests.integration.allocator.sites import MARK, Site, site
from tests.integration.neuron_topology.server.servers import a_node, a_pod
from tests.integration.volcano_vgpu.allocation import servers as vgpu

CONFIGURATION = paths.webhook_configuration("mutating", "hami-plugins-allocator")
LEASE = paths.lease("kube-system", "hami-plugins-allocator")
SECRET = paths.secret("kube-system", "hami-plugins-allocator-tls")
MINE = {"tls.crt": "eA==", "tls.key": "eA=="}
OURS = {**MINE, "ca.crt": "eA==", "ca.key": "eA=="}

Run = Callable[..., tuple[int, list[str]]]


GROUP = "/apis/admissionregistration.k8s.io"


def policies(mutating: str) -> tuple[ResourceKind, ...]:
    """The kinds of admission policies; those that change objects in version ``mutating``."""
    return tuple(
        custom(f"admissionregistration.k8s.io/{version}", f"{kind.lower()}{plural}", f"{kind}{end}", namespaced=False)
        for kind, version in (("MutatingAdmissionPolic", mutating), ("ValidatingAdmissionPolic", "v1"))
        for plural, end in (("ies", "y"), ("ybindings", "yBinding"))
    )


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """With the policies of Kubernetes 1.34, or in the version that the test names."""
    kinds = policies(getattr(request, "param", "v1beta1"))
    with site(tmp_path, a_node("n1"), vgpu.a_node("cards"), kinds=(*VOLCANO, *kinds)) as place:
        yield place


@pytest.fixture
def api(cluster: Site) -> Iterator[KubeClient]:
    client = connect_to(cluster.server.url)
    yield client
    client.close()


@pytest.fixture
def run(cluster: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command of ours on the cluster: exit code, and the lines that it printed."""
    config = str(cluster.server.kubeconfig(tmp_path / "kubeconfig"))

    def ran(*arguments: str) -> tuple[int, list[str]]:
        code = edge.run([*arguments, "--kubeconfig", config])
        told = capsys.readouterr()
        return code, (told.out + told.err).splitlines()

    return ran


def a_secret(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def is_there(api: KubeClient, path: str) -> bool:
    return removal.find(api, path) is not None


def installed(api: KubeClient, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """What a server and its commands leave that were run by hand."""
    edge.run(["allocator", "webhooks"])
    configuration = yaml.safe_load(capsys.readouterr().out)
    api.create(CONFIGURATION.rpartition("/")[0], configuration)
    lease = {"metadata": {"name": "hami-plugins-allocator"}, "spec": {"holderIdentity": ""}}
    api.create(paths.leases("kube-system"), lease)
    api.create(paths.secrets("kube-system"), a_secret("hami-plugins-allocator-tls", OURS))
    run("neuron", "hypernodes", "apply")


def test_everything_of_ours_goes_and_nothing_else(
    cluster: Site, api: KubeClient, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(api, run, capsys)
    ours = {MARK: "extender", "hami-plugins.io/requeued-at": "2026-11-01T00:00:00.000+00:00"}
    cluster.put(
        a_pod("held", 4, node="n1", annotations={**ours, IDS_KEY: "0,1,2,3", "other": "stays"}),
        a_pod("plain", 4),
    )
    assert api.get(COLLECTION.path)["items"]
    said = [CONFIGURATION, LEASE, SECRET, "HyperNode neuron-cluster", f"pod default/held: {', '.join(ours)}"]
    assert run("allocator", "clean", "--dry-run") == (Exit.FINE, [f"would remove {what}" for what in said])
    assert all(is_there(api, path) for path in (CONFIGURATION, LEASE, SECRET))
    assert run("allocator", "clean") == (Exit.FINE, [f"removed {what}" for what in said])
    assert not any(is_there(api, path) for path in (CONFIGURATION, LEASE, SECRET))
    assert not api.get(COLLECTION.path)["items"]
    assert api.get(paths.pod("default", "held"))["metadata"]["annotations"] == {IDS_KEY: "0,1,2,3", "other": "stays"}
    assert run("allocator", "clean") == (Exit.FINE, ["none of our objects is in the cluster"])


def test_what_operators_wrote_on_nodes_goes_on_request(api: KubeClient, run: Run) -> None:
    api.merge_patch(paths.node("n1"), {"metadata": {"annotations": {HEALTH_KEY: "{}", "other": "stays"}}})
    assert run("allocator", "clean") == (Exit.FINE, ["none of our objects is in the cluster"])
    code, lines = run("allocator", "clean", "--nodes")
    assert (code, lines[0]) == (Exit.FINE, f"removed node n1: {HEALTH_KEY}, {FAMILY_LABEL}")
    metadata = api.get(paths.node("n1"))["metadata"]
    assert metadata["annotations"] == {"other": "stays"}
    assert FAMILY_LABEL not in metadata["labels"]
    assert INSTANCE_LABEL in metadata["labels"]


@pytest.mark.parametrize(
    ("cluster", "command", "policy"),
    [
        ("v1", "stale-policy --version v1", "v1/mutatingadmissionpolicies/volcano-vgpu-stale-allocations"),
        ("v1beta1", "stale-policy", "v1beta1/mutatingadmissionpolicies/volcano-vgpu-stale-allocations"),
        ("v1beta1", "policy", "v1/validatingadmissionpolicies/hami-plugins-allocations"),
        ("v1beta1", "policy --nodes", "v1/validatingadmissionpolicies/hami-plugins-node-records"),
    ],
    indirect=["cluster"],
)
def test_policies_are_removed_after_their_bindings(
    api: KubeClient, run: Run, capsys: pytest.CaptureFixture[str], command: str, policy: str
) -> None:
    edge.run(["allocator", *command.split()])
    binding = policy.replace("policies", "policybindings")
    for path, document in zip((policy, binding), yaml.safe_load_all(capsys.readouterr().out), strict=True):
        api.create(f"{GROUP}/{path.rpartition('/')[0]}", document)
    assert run("allocator", "clean") == (Exit.FINE, [f"removed {GROUP}/{path}" for path in (binding, policy)])


def test_what_mode_webhook_writes_on_nodes_goes(api: KubeClient, run: Run) -> None:
    touched = {"volcano.sh/vgpu-touched": "2026-01-01T00:00:00 allocated"}
    api.merge_patch(paths.node("cards"), {"metadata": {"annotations": touched}})
    assert run("allocator", "clean") == (Exit.FINE, ["removed node cards: volcano.sh/vgpu-touched"])
    assert "volcano.sh/vgpu-touched" not in api.get(paths.node("cards"))["metadata"]["annotations"]


def test_a_certificate_of_somebody_else_stays(api: KubeClient, run: Run) -> None:
    api.create(paths.secrets("kube-system"), a_secret("hami-plugins-allocator-tls", MINE))
    assert run("allocator", "clean") == (Exit.FINE, ["none of our objects is in the cluster"])
    assert is_there(api, SECRET)


def test_hypernodes_of_others_stay(api: KubeClient, run: Run) -> None:
    body = {"metadata": {"name": "theirs"}, "spec": {"tier": 1, "members": []}}
    api.create(COLLECTION.path, {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", **body})
    assert run("allocator", "clean") == (Exit.FINE, ["none of our objects is in the cluster"])


def test_nothing_is_removed_under_a_server_that_runs(
    cluster: Site, api: KubeClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__ALLOCATOR__SERVICE__NAMESPACE", "default")
    cluster.start()
    lease = paths.lease("default", "hami-plugins-allocator")
    code, lines = run("allocator", "clean")
    assert code == Exit.UNABLE
    assert f"has the lease {lease}: end the server first" in lines[-1]
    assert is_there(api, lease)
    assert run("allocator", "clean", "--dry-run")[0] == Exit.FINE


def test_the_server_of_a_release_is_ended_before_its_lease_goes(api: KubeClient, run: Run) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": "neuron"}})
    objects = ServerObjects.of_release(Release("neuron", "one"))
    deployment = {
        "metadata": {"name": "one-allocator"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {}},
    }
    api.create("/apis/apps/v1/namespaces/neuron/deployments", deployment)
    api.create(paths.leases("neuron"), {"metadata": {"name": "one-allocator"}, "spec": {"holderIdentity": "a"}})
    api.create(paths.secrets("neuron"), a_secret("one-allocator-tls", OURS))
    code, lines = run("allocator", "clean", "--release", "neuron/one")
    assert (code, lines) == (
        Exit.FINE,
        [f"removed {path}" for path in (objects.deployment, objects.lease, objects.secret)],
    )
    assert run("allocator", "clean", "--release", "neuron/one") == (
        Exit.FINE,
        ["none of our objects is in the cluster"],
    )


def test_a_server_that_does_not_end_is_told_and_its_lease_stays(
    api: KubeClient,
) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": "neuron"}})
    stuck = {"name": "one-allocator", "finalizers": ["somebody.example/waits"]}
    body = {"metadata": stuck, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {}}}
    api.create("/apis/apps/v1/namespaces/neuron/deployments", body)
    api.create(paths.leases("neuron"), {"metadata": {"name": "one-allocator"}})
    objects = ServerObjects.of_release(Release("neuron", "one"))
    naps: list[float] = []
    with pytest.raises(KubeError, match="its pods have not ended within 120 s"):
        list(cleaned(api, objects, (), nodes=False, dry_run=False, sleep=naps.append))
    assert sum(naps) == removal.PATIENCE
    assert is_there(api, objects.lease)


def test_a_release_is_named_with_its_namespace(run: Run) -> None:
    code, lines = run("allocator", "clean", "--release", "one")
    assert code == Exit.UNABLE
    assert "write NAMESPACE/NAME" in lines[0]
