"""The kinds of objects that a migration looks at: how they are called and reached, and who their pods belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_plugins.kube import paths
from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json
from koordinator_adapter.core.translation.model import at
from koordinator_adapter.core.translation.objects import KOORDINATOR_GROUP, VOLCANO_GROUP


class Served(NamedTuple):
    """How objects of a kind are reached, and why its pods cannot be changed by it (empty where they can)."""

    prefix: str
    plural: str
    fixed: str = ""


_FIXED: Final = "its pods cannot be changed: delete it and create its translation"

SERVED: Final[Mapping[tuple[str, str], Served]] = {
    ("apps/v1", "Deployment"): Served("/apis/apps/v1", "deployments"),
    ("apps/v1", "StatefulSet"): Served("/apis/apps/v1", "statefulsets"),
    ("apps/v1", "DaemonSet"): Served("/apis/apps/v1", "daemonsets"),
    ("apps/v1", "ReplicaSet"): Served("/apis/apps/v1", "replicasets"),
    ("v1", "ReplicationController"): Served("/api/v1", "replicationcontrollers"),
    ("batch/v1", "CronJob"): Served("/apis/batch/v1", "cronjobs"),
    ("batch/v1", "Job"): Served("/apis/batch/v1", "jobs", _FIXED),
    ("batch.volcano.sh/v1alpha1", "Job"): Served("/apis/batch.volcano.sh/v1alpha1", "jobs", _FIXED),
    ("v1", "Pod"): Served("/api/v1", "pods", _FIXED),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): Served("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"): Served("/apis/scheduling.sigs.k8s.io/v1alpha1", "podgroups"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): Served("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
}
"""The kinds that a migration looks at, by API version and kind."""


_NEVER_REMADE: Final = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds whose controller makes pods from a new template only when pods are missing."""


class Quotas(NamedTuple):
    """How the quotas or queues of a scheduler are called and reached."""

    version: str
    kind: str
    path: str


QUOTAS: Final[Mapping[Dialect, Quotas]] = {
    Dialect.KOORDINATOR: Quotas(KOORDINATOR_GROUP, "ElasticQuota", paths.ELASTIC_QUOTAS),
    Dialect.VOLCANO: Quotas(VOLCANO_GROUP, "Queue", "/apis/scheduling.volcano.sh/v1beta1/queues"),
}
"""HAMi has none."""


def is_group(raw: Mapping[str, object]) -> bool:
    """Whether an object is a PodGroup of anybody's."""
    return raw.get("kind") == "PodGroup" and kind_of(raw) in SERVED


def is_quota(raw: Mapping[str, object], target: Dialect) -> bool:
    """Whether an object is a quota or queue by which the target's scheduler limits pods."""
    return target in QUOTAS and kind_of(raw) == (QUOTAS[target].version, QUOTAS[target].kind)


def owner_of(raw: Mapping[str, object]) -> Mapping[str, object] | None:
    """The owner that creates an object and reverts changes to it, if it has one."""
    return next((each for each in pods.owners(raw) if each.get("controller")), None)


def served(raw: Mapping[str, object]) -> bool:
    """Whether a migration changes the object: of a known kind, and not part of another object."""
    return kind_of(raw) in SERVED and owner_of(raw) is None


def remade(raw: Json) -> str:
    """What becomes of the running pods of a workload when its template changes."""
    kind, namespace = kind_of(raw)[1], name_of(raw).split("/")[1]
    strategies = [at(raw, ("spec", name, "type")) for name in ("strategy", "updateStrategy")]
    if kind == "CronJob":
        return "its next Jobs use the new template"
    if kind in _NEVER_REMADE or "OnDelete" in strategies:
        labels = at(
            raw, ("spec", "selector") if kind == "ReplicationController" else ("spec", "selector", "matchLabels")
        )
        chosen = ",".join(f"{key}={value}" for key, value in labels.items()) if isinstance(labels, Mapping) else ""
        pods = f"pods -l {chosen}" if chosen else "pods ..."
        return f"its pods stay as they are until they are deleted: kubectl -n {namespace} delete {pods}"
    if "Recreate" in strategies:
        return "its pods end and are then recreated"
    return "its pods are recreated one after another, as its strategy says"


def kind_of(raw: Mapping[str, object]) -> tuple[str, str]:
    """The API version and kind, as they stand in a listing too."""
    return str(raw.get("apiVersion", "v1")), str(raw.get("kind", ""))


def name_of(raw: Mapping[str, object]) -> str:
    """How an object is called: what it is, where, and its name."""
    metadata = lenient.inside(raw, "metadata")
    group = str(raw.get("apiVersion", "")).partition("/")[0]
    kind = str(raw.get("kind", "")).lower()
    kind = f"{kind}.{group}" if "." in group else kind
    return f"{kind}/{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"


def is_named(raw: Mapping[str, object]) -> bool:
    """Whether an object has a name and a namespace that an API server can have given it; a dump may hold anything."""
    metadata = lenient.inside(raw, "metadata")
    names = (metadata.get("namespace", "default"), metadata.get("name"))
    return all(isinstance(each, str) and each and "/" not in each for each in names)


def path_of(raw: Mapping[str, object]) -> str:
    """Where the API serves an object of a known kind."""
    found = SERVED[kind_of(raw)]
    _, namespace, name = name_of(raw).split("/", 2)
    return f"{found.prefix}/namespaces/{namespace}/{found.plural}/{name}"
