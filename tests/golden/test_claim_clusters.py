"""Pods with claims are placed and held back as the real kube-scheduler 1.34.4 did, cluster by cluster."""

import pytest

from hami_plugins.engine.claims.rules import KUBERNETES_1_34
from tests.claim_objects import places
from tests.golden.claim_clusters import CLUSTERS, ClaimCluster, recorded


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda each: each.name)
def test_the_same_pods_are_placed(cluster: ClaimCluster) -> None:
    """Which node it is, is left to scores."""
    planned = places(cluster.objects, KUBERNETES_1_34)
    assert {pod: stage not in {"nodes", "unknown"} for pod, stage in planned.items()} == recorded()[cluster.name]


def test_there_is_an_answer_for_each_cluster() -> None:
    """And none for a cluster that is gone."""
    assert list(recorded()) == [each.name for each in CLUSTERS]
    assert len(CLUSTERS) >= 30
