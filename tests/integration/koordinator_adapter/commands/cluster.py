"""The cluster of a migration on an API server, and what a migration may change of it."""

from __future__ import annotations

import copy
from typing import Any

from hami_plugins.errors import KubeError
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from tests.unit.koordinator_adapter.migration.cluster import a_cluster


def put_all(server: ApiServer) -> None:
    for raw in a_cluster():
        server.put(copy.deepcopy(raw))


PATHS = {
    "serving": "/apis/apps/v1/namespaces/ml/deployments/serving",
    "training": "/apis/apps/v1/namespaces/ml/statefulsets/training",
    "plain": "/apis/apps/v1/namespaces/ml/deployments/plain",
    "job": "/apis/batch/v1/namespaces/ml/jobs/once",
    "pod": "/api/v1/namespaces/ml/pods/serving-1-a",
    "group": "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/ml/podgroups/team",
}


def state(server: ApiServer) -> dict[str, Any]:
    """What a migration may change, without what the server adds."""
    cluster = connect_to(server.url)
    found: dict[str, Any] = {}
    for name, path in PATHS.items():
        try:
            raw = cluster.get(path)
        except KubeError:
            found[name] = None
            continue
        metadata = {key: raw["metadata"].get(key) or {} for key in ("labels", "annotations")}
        found[name] = [metadata, raw["spec"]]
    return found
