"""Jobs for a Volcano that keeps no names of tiers."""

from __future__ import annotations

from typing import Any

import pytest

from neuron_topology.core.hypernodes import objects
from neuron_topology.core.jobs import patch, served
from tests.unit.neuron_topology.jobs.submitted import a_job

OLD = frozenset({"mode", "highestTierAllowed"})
NEW = OLD | {"highestTierName"}


def an_openapi(*members: str, kind: str = "Job") -> dict[str, Any]:
    topology = {"properties": {each: {"type": "string"} for each in members}}
    schema = {
        "properties": {"spec": {"properties": {"networkTopology": topology}}},
        "x-kubernetes-group-version-kind": [{"group": "batch.volcano.sh", "kind": kind, "version": "v1alpha1"}],
    }
    return {"components": {"schemas": {"x.Status": {"type": "object"}, "x.Job": schema, "x.Odd": 3}}}


def patched(**defaults: Any) -> patch.Patched:
    return patch.patch(a_job(), patch.JobDefaults(**defaults))


def remarks(found: patch.Patched) -> str:
    return "\n".join(map(str, found.remarks))


def test_the_served_definition_says_which_members_stay() -> None:
    assert served.topology_members(an_openapi("mode", "highestTierAllowed")) == OLD
    assert served.topology_members(an_openapi()) == frozenset()


@pytest.mark.parametrize("document", [{}, {"components": {"schemas": {}}}, an_openapi("mode", kind="JobFlow")])
def test_a_document_without_the_job_says_nothing(document: dict[str, Any]) -> None:
    assert served.topology_members(document) is None


@pytest.mark.parametrize("kept", [None, NEW])
def test_a_tier_is_written_by_its_name_where_that_stays_or_nobody_knows(kept: frozenset[str] | None) -> None:
    found = patched(kept=kept)
    assert found.job["spec"]["networkTopology"] == {"mode": "hard", "highestTierName": "zone"}
    assert not found.remarks


def test_an_older_volcano_gets_the_number_of_a_tier_that_has_hypernodes() -> None:
    found = patched(kept=OLD, applied=frozenset({"zone"}), mode="soft")
    assert found.job["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 6}
    assert not found.remarks


@pytest.mark.parametrize(
    ("kept", "applied"),
    [(OLD, None), (OLD, frozenset()), (OLD, frozenset({"cluster"})), (frozenset(), frozenset({"zone"}))],
)
def test_without_such_hypernodes_no_limit_is_written_and_that_is_told(
    kept: frozenset[str], applied: frozenset[str] | None
) -> None:
    found = patched(kept=kept, applied=applied)
    assert "networkTopology" not in found.job["spec"]
    assert "spec.networkTopology: is left out: this cluster's Volcano knows no tiers by name (1.14" in remarks(found)


def test_a_name_in_the_job_that_would_become_tier_1_is_told() -> None:
    job = a_job(networkTopology={"mode": "hard", "highestTierName": "zone"})
    found = patch.patch(job, patch.JobDefaults(kept=OLD))
    assert found.job["spec"]["networkTopology"] == job["spec"]["networkTopology"]
    assert "highestTierName: is dropped by this cluster's Volcano" in remarks(found)


@pytest.mark.parametrize("topology", [{"mode": "hard", "highestTierAllowed": 2}, None])
def test_nothing_is_told_where_nothing_is_lost(topology: dict[str, Any] | None) -> None:
    job = a_job() if topology is None else a_job(networkTopology=topology)
    assert not patch.patch(job, patch.JobDefaults(kept=OLD, tier="")).remarks


def test_a_tier_that_labels_could_make_and_no_hypernode_is_of_is_told() -> None:
    job = a_job(networkTopology={"mode": "hard", "highestTierName": "zone"})
    (told,) = patch.unbounded(job, frozenset({"zone"}), frozenset())
    assert "no HyperNode is of tier zone: Volcano ignores the limit; run hami-plugins neuron hypernodes" in str(told)
    assert not list(patch.unbounded(job, frozenset(), frozenset({"zone"})))
    assert not list(patch.unbounded(job, frozenset({"zone"})))


@pytest.mark.parametrize(
    ("spec", "ours", "tier"),
    [
        ({"tier": 6, "tierName": "zone"}, False, {"zone"}),
        ({"tier": 6}, True, {"zone"}),
        ({"tier": 6}, False, set()),
        ({"tier": 60}, True, set()),
    ],
    ids=["named", "ours, by number", "another's number", "no such number"],
)
def test_the_tier_of_a_hypernode_is_its_name_or_the_number_of_ours(
    spec: dict[str, Any], ours: bool, tier: set[str]
) -> None:
    labels = {"app.kubernetes.io/managed-by": "hami-plugins-neuron"} if ours else {}
    found = objects.decode({"metadata": {"name": "h", "labels": labels}, "spec": {**spec, "members": []}})
    assert objects.tiers_of([found]) == frozenset(tier)
