"""Jobs for machines that an autoscaler adds are submitted, with their number and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.apiserver.kinds import custom
from tests import pool_objects
from tests.integration.neuron_topology.submit.objects import jobs
from tests.integration.neuron_topology.submit.typing_in import Typing
from tests.unit.neuron_topology.hypernodes.nodes import an_idle_node

POOLS = custom("karpenter.sh/v1", "nodepools", "NodePool", namespaced=False, status=True)
pytestmark = pytest.mark.parametrize("kinds", [(*VOLCANO, POOLS)], ids=["with Karpenter"])


@pytest.fixture(autouse=True)
def _one_machine(server: ApiServer) -> None:
    """The job asks for two machines, and one is there."""
    server.delete("nodes", "n1", grace=0)


def test_a_job_for_machines_that_a_pool_can_get_is_submitted_with_their_number(
    server: ApiServer, neuron: Typing
) -> None:
    server.put(pool_objects.a_node_pool(limits={"cpu": "512"}))
    said = neuron("--queue", "test", "--prices", "aws-us-east-1")
    assert (said.code, len(jobs(server))) == (0, 1)
    assert "even an idle cluster cannot run it" in said.err
    assert "-> fits after 1 more trn1.32xlarge of NodePool trn, limit 4, 21.50 USD/h" in said.err
    assert "not submitted" not in said.err


def test_a_job_for_more_machines_than_a_pool_may_get_is_not_submitted(server: ApiServer, neuron: Typing) -> None:
    server.put(pool_objects.a_node_pool(limits={"cpu": "100"}))
    said = neuron("--queue", "test")
    assert (said.code, jobs(server)) == (1, [])
    assert "cure: raise spec.limits.cpu of NodePool trn" in said.err


def test_a_group_of_cluster_autoscaler_is_read_from_the_cluster_and_a_file(
    server: ApiServer, neuron: Typing, tmp_path: Path
) -> None:
    server.put(pool_objects.a_status(pool_objects.a_group()))
    assert neuron("--queue", "test").code == 1
    group = tmp_path / "group.json"
    group.write_text(json.dumps(pool_objects.a_managed_group(taints=[])), encoding="utf-8")
    said = neuron("--queue", "test", "--node-groups", str(group))
    assert said.code == 0
    assert "-> fits after 1 more trn1.32xlarge of node group ng1, limit 4" in said.err
    assert "k8s.io/cluster-autoscaler/node-template/resources/aws.amazon.com/neuron=16" in said.err


def test_a_job_that_fits_is_priced(server: ApiServer, neuron: Typing) -> None:
    """Two whole machines: 2 x 21.50."""
    server.put(an_idle_node("n1"))
    said = neuron("--queue", "test", "--prices", "aws-us-east-1", "--dry-run")
    assert "cost of the job: 43.00 USD/h (us-east-1, 2026-07-20)" in said.err
