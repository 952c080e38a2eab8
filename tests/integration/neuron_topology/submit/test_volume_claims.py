"""The claims that a job mounts are looked at before anything is created."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import ApiServer, Fault, Refuse
from tests.integration.neuron_topology.submit.objects import a_claim, jobs
from tests.integration.neuron_topology.submit.typing_in import Typing

ZONE = "topology.kubernetes.io/zone"


def in_zones(server: ApiServer, **zones: str) -> None:
    """Nodes in these zones."""
    for name, zone in zones.items():
        connect_to(server.url).merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: zone}}})


def on_a_volume(server: ApiServer, **spec: Any) -> None:
    """The claim of the job is bound to such a volume."""
    server.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec})
    server.put(a_claim("fsx-claim", volumeName="pv"))


def of_zone(zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def test_a_job_whose_claim_is_missing_is_not_created_unless_by_force(server: ApiServer, neuron: Typing) -> None:
    server.delete("persistentvolumeclaims", "fsx-claim", "default")
    said = neuron("--queue", "test")
    assert said.code == 1
    assert "claim default/fsx-claim does not exist; create it, or name one of those in the namespace: none" in said.err
    assert "not submitted" in said.err
    assert jobs(server) == []
    assert neuron("--queue", "test", "--dry-run").code == 1
    assert neuron("--queue", "test", "--force").code == 1
    assert len(jobs(server)) == 1


def test_a_claim_for_one_node_is_told_to_a_gang(server: ApiServer, neuron: Typing) -> None:
    server.put(a_claim("fsx-claim", "ReadWriteOnce"))
    said = neuron("--queue", "test")
    assert (said.code, jobs(server)) == (1, [])
    assert "claim default/fsx-claim: accessModes is ReadWriteOnce, and 2 pods mount it" in said.err


def test_a_gang_goes_where_all_of_it_can_mount_the_volume(server: ApiServer, neuron: Typing) -> None:
    in_zones(server, n0="a", n1="b")
    on_a_volume(server, nodeAffinity=of_zone("a"))
    said = neuron("--queue", "test")
    assert (said.code, jobs(server)) == (1, [])
    where = f"claim default/fsx-claim: volume pv: spec.nodeAffinity.required is {ZONE} In a"
    assert f"{where}: 1 of 2 nodes with Neuron devices can mount it" in said.err
    assert "even an idle cluster cannot run it" in said.err
    in_zones(server, n1="a")
    said = neuron("--queue", "test")
    assert (said.code, len(jobs(server))) == (0, 1)
    assert "fsx-claim" not in said.err


def test_a_volume_in_another_zone_than_the_nodes_is_told(server: ApiServer, neuron: Typing) -> None:
    in_zones(server, n0="b", n1="b")
    on_a_volume(server, nodeAffinity=of_zone("a"))
    said = neuron("--queue", "test")
    assert (said.code, jobs(server)) == (1, [])
    assert "0 of 2 nodes with Neuron devices can mount it; name a claim in the zone of the nodes" in said.err


def test_a_pending_claim_waits_for_its_pods_where_its_class_says_so(server: ApiServer, neuron: Typing) -> None:
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}}
    server.put({**storage, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"})
    pending = a_claim("fsx-claim", storageClassName="late")
    server.put({**pending, "status": {"phase": "Pending"}})
    assert neuron("--queue", "test").code == 0


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        ("persistentvolumeclaims", "claims are not looked at: "),
        ("persistentvolumes", "persistentvolumes pv is not looked at: "),
    ],
)
def test_what_may_not_be_read_is_said_and_stops_nothing(
    server: ApiServer, neuron: Typing, resource: str, said: str
) -> None:
    on_a_volume(server, nodeAffinity=of_zone("nowhere"))
    server.faults.add(Fault(action=Refuse(403), resource=resource, times=None))
    answer = neuron("--queue", "test")
    assert (answer.code, len(jobs(server))) == (0, 1)
    assert said in answer.err
