"""``neuron submit`` at a terminal: from what TorchX asks for to a job in a cluster that can take it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.errors import ConfigError
from hami_plugins.kube.client import connect_to
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer, Fault, Refuse
from hami_plugins.vendors import awsneuron, volcano
from neuron_topology.core.names import ZONE_LABEL
from neuron_topology.torchx import driver
from tests.integration.neuron_topology.submit.objects import FOUR_DEVICES, NAME, TWO_MACHINES, a_queue, jobs
from tests.integration.neuron_topology.submit.typing_in import Typing
from tests.unit.neuron_topology.torchx import stand_in
from tests.unit.neuron_topology.typing_in import type_in
from tests.unit.vet import clusters


def test_a_job_that_fits_is_created_patched_and_named_as_torchx_names_it(server: ApiServer, neuron: Typing) -> None:
    said = neuron("--queue", "test", "-n", "default")
    assert (said.code, said.out) == (0, f"kubernetes://torchx/default:{NAME}\n")
    (job,) = jobs(server)
    assert job["spec"]["minAvailable"] == 2
    assert job["spec"]["networkTopology"] == {"mode": "hard", "highestTierName": "zone"}
    requests = job["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests["aws.amazon.com/neuron"] == "16"
    assert "it has to wait" not in said.err


def test_a_tier_that_no_hypernode_is_of_is_told(server: ApiServer, neuron: Typing) -> None:
    assert "the nodes' labels make no HyperNode of tier zone" in neuron("--queue", "test", "--dry-run").err
    assert "tiers: cluster" in neuron("--queue", "test", "--dry-run").err
    assert "HyperNode" not in neuron("--queue", "test", "--dry-run", "--tier", "none").err
    for name in ("n0", "n1"):
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE_LABEL: "z"}}})
    said = neuron("--queue", "test", "--dry-run").err
    assert "no HyperNode is of tier zone: Volcano ignores the limit; run hami-plugins neuron hypernodes apply" in said
    server.put(a_hypernode("all", 6, "zone"))
    assert "HyperNode" not in neuron("--queue", "test", "--dry-run").err


def test_hypernodes_that_may_not_be_listed_are_said_not_to_be_looked_at(server: ApiServer, neuron: Typing) -> None:
    for name in ("n0", "n1"):
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE_LABEL: "z"}}})
    server.faults.add(Fault(action=Refuse(403), verb="list", resource="hypernodes.topology.volcano.sh", times=None))
    said = neuron("--queue", "test", "--dry-run")
    assert said.code == 0
    assert "HyperNodes are not looked at: " in said.err
    assert "no HyperNode is of tier zone" not in said.err


@pytest.mark.parametrize(
    ("served", "advised"), [((), True), ((volcano.SPEC,), True), ((volcano.SPEC, awsneuron.SPEC), False)]
)
def test_the_allocator_is_advised_where_it_serves_no_neuron_devices(
    server: ApiServer, neuron: Typing, runner: stand_in.Runner, served: tuple[VendorSpec, ...], advised: bool
) -> None:
    runner.answer = FOUR_DEVICES
    if served:
        server.put(clusters.the_webhooks(*served))
    assert ("run the allocator (hami-plugins allocator run) for AWSNeuron" in neuron("--queue", "test").err) is advised
    assert len(jobs(server)) == 1


def test_webhooks_that_may_not_be_listed_are_as_if_there_were_none(
    server: ApiServer, neuron: Typing, runner: stand_in.Runner
) -> None:
    runner.answer = FOUR_DEVICES
    server.put(clusters.the_webhooks(awsneuron.SPEC))
    hidden = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
    server.faults.add(Fault(action=Refuse(403), verb="list", resource=hidden, times=None))
    said = neuron("--queue", "test")
    assert said.code == 0
    assert "run the allocator" in said.err


def a_hypernode(name: str, tier: int, tier_name: str = "") -> dict[str, Any]:
    spec = {"tier": tier, "members": [], **({"tierName": tier_name} if tier_name else {})}
    labels = {"app.kubernetes.io/managed-by": "hami-plugins-neuron"}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def a_definition_of_jobs(*members: str) -> dict[str, Any]:
    """Volcano's, as far as jobs say something of the network."""
    topology = {"type": "object", "properties": {each: {"type": "string"} for each in members}}
    spec = {"type": "object", "properties": {"networkTopology": topology}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "jobs", "kind": "Job"}
    versions = [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.batch.volcano.sh"},
        "spec": {"group": "batch.volcano.sh", "names": names, "scope": "Namespaced", "versions": versions},
    }


@pytest.mark.parametrize("kinds", [tuple(kind for kind in VOLCANO if kind.plural != "jobs")], ids=["without the Job"])
def test_a_volcano_without_names_of_tiers_gets_a_number_or_nothing(server: ApiServer, neuron: Typing) -> None:
    for name in ("n0", "n1"):
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE_LABEL: "z"}}})
    server.put(a_definition_of_jobs("mode", "highestTierAllowed"))
    said = neuron("--queue", "test", "--dry-run")
    assert "networkTopology" not in yaml.safe_load(said.out)["spec"]
    assert "this cluster's Volcano knows no tiers by name (1.14 or newer does)" in said.err
    server.put(a_hypernode("all", 6))
    job = yaml.safe_load(neuron("--queue", "test", "--dry-run").out)
    assert job["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 6}


def test_the_image_of_a_workspace_is_pushed_before_the_job_is_there_and_not_by_a_dry_run(
    server: ApiServer, neuron: Typing, runner: stand_in.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.images = {"sha256:1": ("repo", "1")}
    pushed: list[tuple[Any, int]] = []
    monkeypatch.setattr(driver, "push", lambda images: pushed.append((images, len(jobs(server)))))
    arguments = ("--queue", "test", "--workspace", "file://code", "--cfg", "image_repo=repo")
    assert neuron(*arguments, "--dry-run").code == 0
    assert not pushed
    assert neuron(*arguments).code == 0
    assert pushed == [(runner.images, 0)]
    assert [asked[-1] for asked in runner.asked] == [("workspace", "file://code")] * 2


def test_a_missing_queue_is_told_with_those_there_are(server: ApiServer, neuron: Typing) -> None:
    with pytest.raises(ConfigError, match="queue tset does not exist; there are default, test"):
        neuron("--queue", "tset")
    assert jobs(server) == []


def test_a_closed_queue_is_told(server: ApiServer, neuron: Typing) -> None:
    server.put(a_queue("shut", state="Closed"))
    with pytest.raises(ConfigError, match="queue shut is not open"):
        neuron("--queue", "shut")


def test_a_queue_that_is_too_small_for_ever_is_told_in_numbers(server: ApiServer, neuron: Typing) -> None:
    server.put(a_queue("blueprint", capability={"cpu": "2"}))
    said = neuron("--queue", "blueprint")
    assert said.code == 1
    assert "even an idle cluster cannot run it" in said.err
    assert "cpu: asks 254220m, queue blueprint has 2 of 2 left" in said.err
    assert "not submitted" in said.err
    assert jobs(server) == []


def test_a_job_for_more_machines_than_there_are_is_submitted_by_force_alone(server: ApiServer, neuron: Typing) -> None:
    server.delete("nodes", "n1", grace=0)
    assert neuron("--queue", "test").code == 1
    assert jobs(server) == []
    assert neuron("--queue", "test", "--force").code == 1
    assert len(jobs(server)) == 1


def test_a_job_that_has_to_wait_is_submitted_with_the_reason(server: ApiServer, neuron: Typing) -> None:
    limits = {"aws.amazon.com/neuron": "16"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    spec = {"nodeName": "n1", "containers": [container]}
    ids = ",".join(str(at) for at in range(16))
    annotations = {"AWS_NEURON_IDS": ids, "NEURON_ALLOCATED": "true"}
    metadata = {"name": "busy", "namespace": "default", "annotations": annotations}
    server.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    said = neuron("--queue", "test")
    assert said.code == 0
    assert "it has to wait" in said.err
    assert len(jobs(server)) == 1


def test_a_job_that_outlives_the_capacity_block_of_every_machine_is_not_submitted(
    server: ApiServer, neuron: Typing
) -> None:
    soon = {"metadata": {"annotations": {"hami-plugins.io/capacity-block-end": str(int(time.time()) + 4 * 3600)}}}
    for name in ("n0", "n1"):
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}", soon)
    said = neuron("--queue", "test", "--duration", "20h")
    assert said.code == 1
    assert "even an idle cluster cannot run it" in said.err
    assert "the Capacity Block ends at" in said.err
    assert "declared duration is 20.0 h" in said.err
    assert jobs(server) == []
    assert neuron("--queue", "test", "--duration", "2h").code == 0
    (job,) = jobs(server)
    assert job["metadata"]["annotations"] == {"hami-plugins.io/expected-duration": "2h"}


def test_a_dry_run_prints_the_job_and_creates_none(server: ApiServer, neuron: Typing) -> None:
    said = neuron("--queue", "test", "--dryrun", "-n", "team")
    printed = yaml.safe_load(said.out)
    assert (said.code, printed["metadata"]["namespace"]) == (0, "team")
    assert jobs(server) == []
    as_json = neuron("--queue", "test", "--dry-run", "-o", "json")
    assert json.loads(as_json.out)["kind"] == "Job"


def test_a_dry_run_asks_no_cluster_unless_one_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    runner = stand_in.with_runner(monkeypatch, TWO_MACHINES, "service_account", "priority_class")
    cfg = ("--cfg", "service_account=trainer,priority_class=high")
    said = type_in(capsys, "submit", "--queue", "test", "--dryrun", *cfg, "--", "--image", "i", "--", "--lr", "1")
    assert said.code == 0
    ((_, arguments, _, given),) = runner.asked
    assert arguments == ["--image", "i", "--", "--lr", "1"]
    assert given == {"service_account": "trainer", "priority_class": "high", "queue": "test", "namespace": "default"}


def test_a_name_that_makes_too_long_names_of_pods_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.with_runner(monkeypatch, {**TWO_MACHINES, "metadata": {"name": "x" * 50}})
    with pytest.raises(ConfigError, match="more than 63 characters; take a shorter --name"):
        type_in(capsys, "submit", "--queue", "test", "--dryrun")


def test_an_option_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="'quiet' is not KEY=VALUE"):
        type_in(capsys, "submit", "--queue", "test", "--cfg", "quiet")


def test_where_the_component_is_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    file, _, function = type_in(capsys, "component").out.strip().rpartition(":")
    assert (Path(file).is_file(), function) == (True, "ddp")


def test_a_job_asks_for_no_more_than_the_clusters_own_nodes_leave(server: ApiServer, neuron: Typing) -> None:
    for name in ("n0", "n1"):
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": {"cpu": "90"}}})
    assert neuron("--queue", "test").code == 0
    (job,) = jobs(server)
    requests = [each["template"]["spec"]["containers"][0]["resources"]["requests"] for each in job["spec"]["tasks"]]
    assert [each["cpu"] for each in requests] == ["89500m", "89500m"]
