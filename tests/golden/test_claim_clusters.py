"""Pods with claims are placed and held back as the real kube-scheduler of each release did, cluster by cluster."""

from typing import Final

import pytest

from hami_plugins.engine.claims.rules import KUBERNETES_1_34, KUBERNETES_1_36
from tests.claim_objects import places
from tests.golden.claim_clusters import CLUSTERS, ClaimCluster, answers, recorded

RULES: Final = {"1.34": KUBERNETES_1_34, "1.36": KUBERNETES_1_36}


@pytest.mark.parametrize("release", RULES)
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda each: each.name)
def test_the_same_pods_are_placed(cluster: ClaimCluster, release: str) -> None:
    """Which node it is, is left to scores."""
    planned = places(cluster.accepted(release), RULES[release])
    assert {pod: stage not in {"nodes", "unknown"} for pod, stage in planned.items()} == recorded(release)[cluster.name]


def test_there_is_an_answer_of_each_release_for_each_cluster() -> None:
    """And none for a cluster that is gone."""
    assert set(answers()) == set(RULES)
    for release in RULES:
        assert list(recorded(release)) == [each.name for each in CLUSTERS]
    assert len(CLUSTERS) >= 30


def test_the_releases_differ_where_their_rules_do() -> None:
    """Four clusters: models told apart, a full first card, a slice that is missing, a plugin that is gone."""
    assert {each.name for each in CLUSTERS if recorded("1.34")[each.name] != recorded("1.36")[each.name]} == {
        "different-models",
        "first-card-full",
        "slice-missing",
        "plain-resource-of-a-plugin-that-is-gone",
    }
