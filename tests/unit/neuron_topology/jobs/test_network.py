"""A job's settings and requests for the network between its pods."""

from __future__ import annotations

from typing import Any

import pytest

from neuron_topology.core.jobs import patch
from tests.unit.neuron_topology.jobs.submitted import EFA, NEURON, a_container, a_job, a_task

FOR_EFA = [
    {"name": "FI_PROVIDER", "value": "efa"},
    {"name": "FI_EFA_USE_DEVICE_RDMA", "value": "1"},
    {"name": "FI_EFA_FORK_SAFE", "value": "1"},
]


def env(*containers: dict[str, Any]) -> Any:
    job = patch.patch(a_job(a_task(*containers))).job
    return [each.get("env") for each in job["spec"]["tasks"][0]["template"]["spec"]["containers"]]


def remarks(limits: dict[str, Any], kind: str = "trn1.32xlarge", replicas: int = 2) -> list[str]:
    selector = {"node.kubernetes.io/instance-type": kind, "hami-plugins.io/neuron-sets": "linked"}
    task = a_task(a_container(limits), spec={"nodeSelector": selector}, replicas=replicas)
    return [each.what for each in patch.patch(a_job(task)).remarks]


def test_a_container_with_interfaces_is_told_to_use_them() -> None:
    assert env(a_container()) == [FOR_EFA]


def test_a_container_without_interfaces_is_told_nothing() -> None:
    assert env(a_container({NEURON: 16})) == [None]
    assert env(a_container(), a_container({})) == [FOR_EFA, None]


def test_what_a_container_says_itself_stays() -> None:
    own = [{"name": "FI_PROVIDER", "value": "sockets"}, {"name": "A", "value": "b"}]
    assert env(a_container(env=own)) == [[*own, *FOR_EFA[1:]]]


def test_a_container_whose_variables_are_not_known_here_is_told_nothing() -> None:
    assert env(a_container(envFrom=[{"configMapRef": {"name": "network"}}])) == [None]


def test_a_told_container_is_not_told_again() -> None:
    once = patch.patch(a_job())
    assert "FI_PROVIDER, FI_EFA_USE_DEVICE_RDMA, FI_EFA_FORK_SAFE, so that EFA is used" in {
        change.what for change in once.changes
    }
    assert not patch.patch(once.job).changes


@pytest.mark.parametrize(
    ("kind", "devices", "share"),
    [("trn1.32xlarge", 16, 8), ("trn1.32xlarge", 2, 1), ("trn1n.32xlarge", 4, 4), ("trn2.48xlarge", 8, 8)],
)
def test_the_share_of_the_machine_is_right(kind: str, devices: int, share: int) -> None:
    assert remarks({NEURON: devices, EFA: share}, kind) == []
    assert len(remarks({NEURON: devices, EFA: share + 1 if devices < 16 else share - 1}, kind)) == 1
    assert len(remarks({NEURON: devices}, kind)) == 1


def test_too_few_interfaces_slow_the_network_between_pods() -> None:
    assert remarks({NEURON: 16, EFA: 2}) == [
        "a pod asks for 2 EFA interfaces with 16 of the 16 devices of trn1.32xlarge; ask for its share of 8, "
        "or the network between its pods is slower than it could be"
    ]


def test_a_job_of_one_pod_needs_no_network() -> None:
    assert remarks({NEURON: 16}, replicas=1) == []


def test_interfaces_of_others_are_missing_to_them_also_beside_a_single_pod() -> None:
    assert remarks({NEURON: 4, EFA: 8}, replicas=1) == [
        "a pod asks for 8 EFA interfaces with 4 of the 16 devices of trn1.32xlarge; its share is 2, "
        "and other pods of the node lack the others"
    ]


def test_a_machine_without_interfaces_is_asked_for_none() -> None:
    assert remarks({NEURON: 12}, "inf2.48xlarge") == []
