"""What jobs that stay within one UltraServer are told of it, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.wire.fields import Json
from neuron_topology.jobs.patching import Wishes, patch


def a_job(tier: str, *, devices: int = 16, mode: str = "hard", env: list[Json] | None = None) -> Json:
    container: Json = {"name": "main", "resources": {"limits": {"aws.amazon.com/neuron": devices}}}
    if env is not None:
        container["env"] = env
    beside = {"name": "log", "resources": {}}
    template = {"spec": {"containers": [container, beside]}}
    topology = {"mode": mode, "highestTierName": tier}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [{"name": "w", "replicas": 4, "template": template}], "networkTopology": topology},
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
    assert told(a_job("ultraserver-2")) == {
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


def test_a_tier_that_is_wished_for_counts_as_one_that_is_written() -> None:
    job = a_job("")
    del job["spec"]["networkTopology"]
    found = patch(job, Wishes(tier="ultraserver-4"))
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
