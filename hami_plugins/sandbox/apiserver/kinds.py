"""Which kinds the server serves: Kubernetes' own, and those that CustomResourceDefinitions add."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hami_plugins.errors import ConfigError
from hami_plugins.wire.fields import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """One kind in one version of its API.

    ``status`` says that it has a status subresource, ``generation`` that changes of its spec are counted, ``typed``
    that it is Kubernetes' own: such kinds take strategic merge patches, and lists leave ``kind`` out of their items.
    ``renames`` spells members of the stored form as this version has them, ``storage`` is the collection it lives in.
    ``schema`` is what OpenAPI shows of a kind whose definition has one.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    generation: bool = False
    typed: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    list_kind: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    storage: tuple[str, str] = ("", "")
    schema: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        defaults = {
            "singular": self.kind.lower(),
            "list_kind": f"{self.kind}List",
            "storage": (self.group, self.plural),
        }
        for name, value in defaults.items():
            if getattr(self, name) in ("", ("", "")):
                object.__setattr__(self, name, value)

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The resource as error texts name it: ``pods``, ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _core(plural: str, kind: str, **more: Any) -> ResourceKind:
    return ResourceKind(group="", version="v1", plural=plural, kind=kind, **more)


def _kind(api: str, plural: str, kind: str, **more: Any) -> ResourceKind:
    group, version = api.split("/")
    return ResourceKind(group=group, version=version, plural=plural, kind=kind, **more)


def custom(
    api: str, plural: str, kind: str, *, namespaced: bool = True, status: bool = False, **more: Any
) -> ResourceKind:
    """A custom resource, as its definition would declare it. Generations are counted with and without ``status``."""
    return _kind(api, plural, kind, namespaced=namespaced, status=status, generation=True, typed=False, **more)


_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_EVENT_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}

DEFINITIONS: Final = _kind(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    status=True,
    generation=True,
    short_names=("crd", "crds"),
)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False, status=True, short_names=("ns",))
NODES: Final = _core("nodes", "Node", namespaced=False, status=True, short_names=("no",))
PODS: Final = _core("pods", "Pod", status=True, generation=True, short_names=("po",))

BINDINGS: Final = _core("bindings", "Binding")
"""What is posted to bind a pod; never stored."""

EVICTIONS: Final = _kind("policy/v1", "evictions", "Eviction")
"""What is posted to evict a pod; never stored."""

BUILTIN: Final = (
    NAMESPACES,
    NODES,
    PODS,
    DEFINITIONS,
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("endpoints", "Endpoints", singular="endpoints", short_names=("ep",)),
    _core("events", "Event", short_names=("ev",)),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", status=True, short_names=("pvc",)),
    _core("persistentvolumes", "PersistentVolume", namespaced=False, status=True, short_names=("pv",)),
    _core("replicationcontrollers", "ReplicationController", status=True, generation=True, short_names=("rc",)),
    _core("resourcequotas", "ResourceQuota", status=True, short_names=("quota",)),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",)),
    _core("services", "Service", status=True, short_names=("svc",)),
    _kind("apps/v1", "daemonsets", "DaemonSet", status=True, generation=True, short_names=("ds",)),
    _kind("apps/v1", "deployments", "Deployment", status=True, generation=True, short_names=("deploy",)),
    _kind("apps/v1", "replicasets", "ReplicaSet", status=True, generation=True, short_names=("rs",)),
    _kind("apps/v1", "statefulsets", "StatefulSet", status=True, generation=True, short_names=("sts",)),
    _kind("batch/v1", "cronjobs", "CronJob", status=True, generation=True, short_names=("cj",)),
    _kind("batch/v1", "jobs", "Job", status=True, generation=True),
    _kind("coordination.k8s.io/v1", "leases", "Lease"),
    _kind("events.k8s.io/v1", "events", "Event", short_names=("ev",), renames=_EVENT_NAMES, storage=("", "events")),
    _kind(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        status=True,
        generation=True,
        short_names=("pdb",),
    ),
    _kind("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    _kind("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False),
    _kind("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False),
    _kind("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _kind("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)),
    _kind("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", namespaced=False, status=True),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "rolebindings", "RoleBinding"),
    _kind(_RBAC, "roles", "Role"),
    _kind(
        _ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False, generation=True
    ),
    _kind(
        _ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        generation=True,
    ),
)
"""Kubernetes' own kinds, as far as they are served."""

VOLCANO: Final = (
    custom("batch.volcano.sh/v1alpha1", "jobs", "Job", status=True, short_names=("vcjob", "vj")),
    custom("bus.volcano.sh/v1alpha1", "commands", "Command"),
    custom(
        "nodeinfo.volcano.sh/v1alpha1", "numatopologies", "Numatopology", namespaced=False, short_names=("numatopo",)
    ),
    custom("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup", short_names=("pg", "podgroup-v1beta1")),
    custom(
        "scheduling.volcano.sh/v1beta1",
        "queues",
        "Queue",
        namespaced=False,
        status=True,
        short_names=("q", "queue-v1beta1"),
    ),
    custom(
        "topology.volcano.sh/v1alpha1", "hypernodes", "HyperNode", namespaced=False, status=True, short_names=("hn",)
    ),
)
"""Volcano's kinds. PodGroup has no status subresource (Volcano 1.14.1
``staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go``)."""

KOORDINATOR: Final = (
    custom("scheduling.koordinator.sh/v1alpha1", "devices", "Device", namespaced=False),
    custom("scheduling.sigs.k8s.io/v1alpha1", "elasticquotas", "ElasticQuota", status=True),
    custom("scheduling.sigs.k8s.io/v1alpha1", "podgroups", "PodGroup", status=True),
    custom("scheduling.koordinator.sh/v1alpha1", "reservations", "Reservation", namespaced=False, status=True),
    custom("slo.koordinator.sh/v1alpha1", "nodemetrics", "NodeMetric", namespaced=False, status=True),
    custom("slo.koordinator.sh/v1alpha1", "nodeslos", "NodeSLO", namespaced=False, status=True),
)
"""Koordinator's kinds. Device has no status subresource (Koordinator 1.7.0
``apis/scheduling/v1alpha1/device_types.go``)."""


class ResourceKinds:
    """What is served now, found by path or by what an object says of itself."""

    def __init__(self, kinds: Iterable[ResourceKind]) -> None:
        self._by_plural: dict[tuple[str, str, str], ResourceKind] = {}
        self._by_name: dict[tuple[str, str], ResourceKind] = {}
        self._versions: dict[str, tuple[str, ...]] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[ResourceKind]:
        return iter(self._by_plural.values())

    def add(self, kind: ResourceKind) -> None:
        """Serve a kind from now on; raises ``ConfigError`` when its place is taken by another."""
        place = (kind.group, kind.version, kind.plural)
        if place in self._by_plural:
            raise ConfigError(f"{kind.qualified} in version {kind.version} is served already")
        self._by_plural[place] = kind
        self._by_name[kind.api_version, kind.kind] = kind
        self._count()

    def remove(self, storage: tuple[str, str]) -> None:
        """Stop serving every version of a collection."""
        for place, kind in list(self._by_plural.items()):
            if kind.storage == storage:
                del self._by_plural[place]
                del self._by_name[kind.api_version, kind.kind]
        self._count()

    def find(self, group: str, version: str, plural: str) -> ResourceKind | None:
        """The kind behind a path, if it is served."""
        return self._by_plural.get((group, version, plural))

    def of(self, obj: Json) -> ResourceKind:
        """The kind that an object names; raises ``ConfigError`` when it is not served."""
        kind = self._by_name.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
        if kind is None:
            raise ConfigError(f"kind {obj.get('kind')} of {obj.get('apiVersion')} is not served here")
        return kind

    def named(self, resource: str) -> ResourceKind:
        """The kind of ``pods`` or ``jobs.batch.volcano.sh``; raises ``ConfigError`` when there is none."""
        for kind in self:
            if resource in (kind.plural, kind.qualified) and not kind.renames:
                return kind
        raise ConfigError(f"no resource {resource} is served here")

    def versions(self) -> Mapping[str, tuple[str, ...]]:
        """The versions of each group, in the order in which they came."""
        return self._versions

    def _count(self) -> None:
        found: dict[str, tuple[str, ...]] = {}
        for group, version, _ in self._by_plural:
            versions = found.get(group, ())
            found[group] = versions if version in versions else (*versions, version)
        self._versions = found


def declared(definition: Json) -> tuple[ResourceKind, ...]:
    """The kinds that a CustomResourceDefinition asks to serve, one for each served version."""
    spec = definition["spec"]
    names = spec["names"]
    return tuple(
        custom(
            f"{spec['group']}/{version['name']}",
            names["plural"],
            names["kind"],
            namespaced=spec.get("scope") == "Namespaced",
            status="status" in (version.get("subresources") or {}),
            singular=names.get("singular") or "",
            short_names=tuple(names.get("shortNames") or ()),
            list_kind=names.get("listKind") or "",
            schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        )
        for version in spec["versions"]
        if version.get("served", True)
    )
