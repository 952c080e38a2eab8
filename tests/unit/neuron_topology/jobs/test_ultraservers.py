"""The variables of jobs that stay within one UltraServer, and their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs.patch import JobDefaults, patch


def a_job(
    tier: str,
    *,
    devices: int = 16,
    mode: str = "hard",
    env: Sequence[Json] | None = None,
    pods: int = 4,
    kind: str = "",
) -> Json:
    container: dict[str, Any] = {"name": "main", "resources": {"limits": {"aws.amazon.com/neuron": devices}}}
    if env is not None:
        container["env"] = env
    beside = {"name": "log", "resources": {}}
    selector = {"node.kubernetes.io/instance-type": kind} if kind else {}
    template = {"spec": {"containers": [container, beside], "nodeSelector": selector}}
    topology = {"mode": mode, "highestTierName": tier}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [{"name": "w", "replicas": pods, "template": template}], "networkTopology": topology},
    }


def told(job: Json) -> dict[str, Any]:
    """The variables of the first container, each with its value or with where it comes from."""
    containers = patch(job).job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert "env" not in containers[1]
    return {
        each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in containers[0].get("env", [])
    }


def test_each_machine_of_four_is_told_which_it_is_once_its_pod_has_a_node() -> None:
    assert told(a_job("ultraserver-4")) == {
        "NEURON_ULTRASERVER_NODE_CONFIG": "4",
        "NEURON_RT_ULTRASERVER_MODE": "1",
        "NEURON_RT_ULTRASERVER_SERVER_ID": "metadata.annotations['hami-plugins.io/ultraserver-server-id-4']",
        "NEURON_RT_ULTRASERVER_NODE_ID": "metadata.annotations['hami-plugins.io/ultraserver-node-id-4']",
    }


def test_of_two_machines_no_label_says_in_which_direction_they_are_wired() -> None:
    assert told(a_job("ultraserver-2", pods=2)) == {
        "NEURON_ULTRASERVER_NODE_CONFIG": "2",
        "NEURON_RT_ULTRASERVER_SERVER_ID": "metadata.annotations['hami-plugins.io/ultraserver-server-id-2']",
        "NEURON_RT_ULTRASERVER_NODE_ID": "metadata.annotations['hami-plugins.io/ultraserver-node-id-2']",
    }


@pytest.mark.parametrize(
    "job",
    [a_job("zone"), a_job("ultraserver-4", mode="soft"), a_job("ultraserver-4", devices=4)],
    ids=["wider", "avoided", "part of a machine"],
)
def test_others_are_told_nothing(job: Json) -> None:
    assert told(job) == {}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (a_job("ultraserver-4", kind="trn1.32xlarge"), "trn1.32xlarge is in no UltraServer of 4; name a wider tier"),
        (a_job("ultraserver-2", kind="trn2.48xlarge", devices=4), "trn2.48xlarge is in no UltraServer of 2"),
        (a_job("ultraserver-2", pods=3), "48 devices have to start together, and an UltraServer of 2 has 32"),
        (a_job("ultraserver-4", pods=17, devices=4), "68 devices have to start together"),
    ],
)
def test_a_job_that_no_ultraserver_can_hold_is_refused_with_its_tier(job: Json, why: str) -> None:
    with pytest.raises(WireError, match=why) as error:
        patch(job)
    assert error.value.key == "job: spec.networkTopology.highestTierName"
    job["spec"]["networkTopology"]["mode"] = "soft"
    assert told(job) == {}


def test_a_job_that_fills_an_ultraserver_or_starts_with_a_part_of_itself_is_none_of_these() -> None:
    assert told(a_job("ultraserver-4", kind="trn2u.48xlarge"))
    assert told(a_job("ultraserver-4", pods=16, devices=4, kind="trn2u.48xlarge")) == {}
    elastic = a_job("ultraserver-2", pods=4)
    elastic["spec"]["minAvailable"] = 2
    assert told(elastic)


def test_a_tier_that_is_wished_for_counts_as_one_that_is_written() -> None:
    job = a_job("")
    del job["spec"]["networkTopology"]
    found = patch(job, JobDefaults(tier="ultraserver-4"))
    assert [each.path for each in found.changes if "UltraServer" in each.what] == [
        "job: spec.tasks[0].template.spec.containers[0].env"
    ]


def test_what_the_author_says_stays_and_patching_again_changes_nothing() -> None:
    own = [{"name": "NEURON_RT_ULTRASERVER_MODE", "value": "4"}]
    once = patch(a_job("ultraserver-4", env=own)).job
    assert told(once)["NEURON_RT_ULTRASERVER_MODE"] == "4"
    assert len(told(once)) == 4
    again = patch(once)
    assert (again.job, again.changes) == (once, ())
