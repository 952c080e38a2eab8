"""``neuron hypernodes`` and ``neuron ranks`` at a terminal, against an API server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.errors import ConfigError, KubeError, ManifestError
from hami_plugins.kube.client import connect_to
from hami_plugins.kube.port import Collection
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer, Fault, Refuse
from neuron_topology.commands.hypernode_writer import COLLECTION
from tests.schema import published
from tests.unit.neuron_topology.hypernodes.nodes import a_node
from tests.unit.neuron_topology.typing_in import Said, type_in

Type = Callable[..., Said]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """Three machines: two in one leaf, one in another."""
    with ApiServer(kinds=VOLCANO) as running:
        for name, leaf in (("n0", "l0"), ("n1", "l0"), ("n2", "l1")):
            running.put(a_node(name, network_layer_3=leaf, zone="z"))
        yield running


@pytest.fixture
def neuron(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs a command on that cluster."""
    path = str(server.kubeconfig(tmp_path / "kubeconfig"))

    def typed(*arguments: str) -> Said:
        return type_in(capsys, *arguments, "--kubeconfig", path)

    return typed


def leaves(server: ApiServer) -> dict[str, list[str]]:
    """The nodes of each HyperNode that has nodes, by the part that it stands for."""
    found = {}
    for page in connect_to(server.url).pages(COLLECTION):
        for raw in page:
            spec = raw["spec"]
            if spec["tierName"] == "network-layer-3":
                part = raw["metadata"]["labels"]["topology.k8s.aws/network-node-layer-3"]
                found[part] = [each["selector"]["exactMatch"]["name"] for each in spec["members"]]
    return found


def test_hypernodes_are_made_once(server: ApiServer, neuron: Type) -> None:
    said = neuron("hypernodes", "apply")
    assert said.code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["create"] * 3
    assert leaves(server) == {"l0": ["n0", "n1"], "l1": ["n2"]}
    assert neuron("hypernodes", "apply").out == "the HyperNodes are up to date\n"
    assert neuron("hypernodes", "diff").code == 0


def test_a_dry_run_and_a_diff_write_nothing(server: ApiServer, neuron: Type) -> None:
    assert neuron("hypernodes", "apply", "--dry-run").code == 0
    assert neuron("hypernodes", "diff").code == 1
    assert leaves(server) == {}


def test_a_machine_that_moves_and_a_leaf_that_empties(server: ApiServer, neuron: Type) -> None:
    neuron("hypernodes", "apply")
    labels = {"metadata": {"labels": {"topology.k8s.aws/network-node-layer-3": "l0"}}}
    connect_to(server.url).merge_patch("/api/v1/nodes/n2", labels)
    refused = neuron("hypernodes", "apply")
    assert refused.code == 1
    assert "is no longer needed and holds members that moved elsewhere: prune" in refused.out
    assert leaves(server) == {"l0": ["n0", "n1"], "l1": ["n2"]}
    assert neuron("hypernodes", "apply", "--prune").code == 0
    assert leaves(server) == {"l0": ["n0", "n1", "n2"]}


def test_hypernodes_of_others_are_never_written(server: ApiServer, neuron: Type) -> None:
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-1]$"}}}
    theirs = {"metadata": {"name": "rack"}, "spec": {"tier": 1, "members": [member]}}
    server.put({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", **theirs})
    said = neuron("hypernodes", "apply", "--prune", "-o", "json")
    assert said.code == 1
    assert published(said.out)["conflicts"] == [
        {"name": "rack", "why": "is not ours and holds n0, n1", "remedy": "delete it, or take them out of it"}
    ]
    assert [each["metadata"]["name"] for page in connect_to(server.url).pages(COLLECTION) for each in page] == ["rack"]


def test_what_was_written_before_a_refusal_is_told_and_the_rest_comes_next_time(
    server: ApiServer, neuron: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = itertools.count()
    server.faults.add(
        Fault(
            action=Refuse(403),
            verb="create",
            resource="hypernodes.topology.volcano.sh",
            where=lambda _: next(calls) == 1,
        )
    )
    with pytest.raises(KubeError):
        neuron("hypernodes", "apply")
    assert capsys.readouterr().out.count("written") == 1
    assert neuron("hypernodes", "apply").out.count("written") == 2


def test_the_yaml_that_is_printed_is_what_would_be_written(server: ApiServer, neuron: Type) -> None:
    for body in yaml.safe_load_all(neuron("hypernodes", "print").out):
        server.put(body)
    assert neuron("hypernodes", "diff").out == "the HyperNodes are up to date\n"
    items = json.loads(neuron("hypernodes", "print", "-o", "json").out)["items"]
    assert [item["spec"]["tier"] for item in items] == [3, 3, 6]
    assert "2 HyperNodes" in neuron("hypernodes", "print", "-o", "table").out


def test_hosts_and_pods_are_listed_in_the_order_of_their_places(server: ApiServer, neuron: Type) -> None:
    for name, node in (("train-w-0", "n2"), ("train-w-1", "n0"), ("other-0", "n1")):
        labels = {"volcano.sh/job-name": name.partition("-")[0]}
        spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        server.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert [line.split()[:2] for line in neuron("ranks", "--no-headers").out.splitlines()] == [
        ["0", "n0"],
        ["1", "n1"],
        ["2", "n2"],
    ]
    assert {each["pod"] for each in published(neuron("ranks", "-o", "json").out)["ranks"]} == {None}
    assert neuron("ranks", "n2", "n0", "--env").out == "NEURON_NODE_ORDER=n0,n2\n"
    with pytest.raises(ConfigError, match="leave out --env or -o json"):
        neuron("ranks", "--env", "-o", "json")
    of_job = published(neuron("ranks", "--job", "default/train", "-o", "json").out)["ranks"]
    assert [(each["rank"], each["pod"]) for each in of_job] == [(0, "train-w-1"), (1, "train-w-0")]
    assert neuron("ranks", "--job", "train").out.splitlines()[0].startswith("RANK   POD")
    with pytest.raises(ConfigError, match="no Neuron node is called n9"):
        neuron("ranks", "n9")
    with pytest.raises(ConfigError, match="no pod of it is on a Neuron node"):
        neuron("ranks", "--job", "default/none")


def test_jobs_are_told_the_order_of_the_nodes(neuron: Type) -> None:
    dry_run = Path(__file__).parents[2] / "golden/torchx/2-single-trn1.2xlarge-0.7.0.yaml"
    (task,) = yaml.safe_load(neuron("patch", "--node-order", "-f", str(dry_run)).out)["spec"]["tasks"]
    environment = {each["name"]: each.get("value") for each in task["template"]["spec"]["containers"][0]["env"]}
    assert environment["NEURON_NODE_ORDER"] == "n0,n1,n2"


def test_a_dump_is_as_good_to_look_at_and_is_not_written_to(
    server: ApiServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nodes = [raw for page in connect_to(server.url).pages(Collection("/api/v1/nodes", "Node")) for raw in page]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [*nodes, {"kind": "HyperNode", "metadata": 3}]}))
    said = type_in(capsys, "hypernodes", "diff", "--snapshot", str(dump))
    assert (said.code, said.out.count("create")) == (1, 3)
    assert "hypernode: metadata" in said.err
    assert type_in(capsys, "ranks", "--snapshot", str(dump), "-o", "yaml").code == 0


def test_labels_that_contradict_each_other_are_told(server: ApiServer, neuron: Type) -> None:
    for at in (3, 4):
        server.put(a_node(f"n{at}", "trn2u.48xlarge", ultraserver_4="u", network_layer_3=f"l{at}", zone="z"))
    said = neuron("hypernodes", "print")
    assert said.code == 1
    assert "is in several parts of network-layer-3 (l3, l4)" in said.err


def test_a_cluster_without_neuron_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ApiServer(kinds=VOLCANO) as bare, pytest.raises(ManifestError, match="no node in it has Neuron devices"):
        type_in(capsys, "hypernodes", "apply", "--kubeconfig", str(bare.kubeconfig(tmp_path / "k")))


def test_what_was_made_for_machines_that_are_all_gone_is_pruned(server: ApiServer, neuron: Type) -> None:
    neuron("hypernodes", "apply")
    for name in ("n0", "n1", "n2"):
        server.delete("nodes", name)
    kept = neuron("hypernodes", "diff")
    assert kept.out.count("which is no longer needed (--prune removes it)") == 3
    assert len(leaves(server)) == 2
    assert neuron("hypernodes", "apply", "--prune").out.count("delete") == 3
    assert leaves(server) == {}


def test_a_job_is_patched_for_a_cluster_whose_machines_are_still_to_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run = str(Path(__file__).parents[2] / "golden/torchx/1-bert-ddp-2x-trn1.32xlarge-builtin-0.7.0.yaml")
    with ApiServer(kinds=VOLCANO) as bare:
        cluster = ("--kubeconfig", str(bare.kubeconfig(tmp_path / "k")))
        said = type_in(capsys, "patch", "-f", dry_run, *cluster)
        assert (said.code, yaml.safe_load(said.out)["spec"]["minAvailable"]) == (0, 2)
        assert (
            "the nodes' labels make no HyperNode of tier zone, and Volcano ignores one without; tiers: none" in said.err
        )
        with pytest.raises(ManifestError, match="no node in it has Neuron devices"):
            type_in(capsys, "patch", "-f", dry_run, "--node-order", *cluster)
