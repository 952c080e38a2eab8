"""Evictions by the Eviction API (``policy/v1``), which holds to PodDisruptionBudgets. Each names the pod's UID."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.model.pods import PodRecord

NOT_FOUND: Final = 404
CONFLICT: Final = 409
"""Of an eviction: another pod has the name by now."""


def evict(api: Writing, record: PodRecord, *, dry: bool = False) -> KubeError | None:
    """Has a pod deleted, or with ``dry`` only asks whether that may be; why not, ``None`` also where it has gone."""
    try:
        api.create(paths.pod_eviction(record.namespace, record.name), _eviction(record, dry=dry))
    except KubeError as error:
        return None if error.status in (NOT_FOUND, CONFLICT) else error
    return None


def _eviction(record: PodRecord, *, dry: bool) -> Mapping[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": record.uid}}
    if dry:
        options["dryRun"] = ["All"]
    metadata = {"name": record.name, "namespace": record.namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
