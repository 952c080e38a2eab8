"""From objects of a cluster, live or dumped, to the evidence of the checks; unreadable objects are reported as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.inputs.snapshots.trimmer import one_by_one
from hami_plugins.kube.port import SNAPSHOT_COLLECTIONS, Collection
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import NodeName
from hami_plugins.vendors import builtin
from hami_plugins.wire import fields, koordinator_devices, objects
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator_devices import DeviceObject
from koordinator_adapter.core.devices.cards import cards_of
from koordinator_adapter.core.doctor.components import OWN_PROGRAM
from koordinator_adapter.core.doctor.evidence import (
    ClusterProgram,
    Evidence,
    Hook,
    NodeEvidence,
    ProgramContainer,
    UnfinishedPod,
)

COLLECTIONS: Final = (
    *(each for each in SNAPSHOT_COLLECTIONS if each.kind in {"Node", "Pod", "Device"}),
    Collection("/apis/apps/v1/daemonsets", "DaemonSet", optional=True),
    Collection("/apis/apps/v1/deployments", "Deployment", optional=True),
    Collection("/api/v1/configmaps", "ConfigMap", optional=True),
    Collection("/api/v1/namespaces", "Namespace", optional=True),
    Collection(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        optional=True,
    ),
    Collection(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        optional=True,
    ),
)
"""Everything that checks look at."""

DUMP: Final = (
    "kubectl get nodes,pods,devices.scheduling.koordinator.sh,daemonsets,deployments,configmaps,namespaces,"
    "mutatingwebhookconfigurations,validatingadmissionpolicies -A -o json"
)
"""The command that writes all of it into a file."""

_UNSERVED: Final = "control-plane"
_SCHEDULER: Final = "KubeSchedulerConfiguration"
_OWN_SETTINGS: Final = "settings.yaml"
"""The key under which the adapter's own ConfigMaps hold its settings."""


class Reader:
    """Collects objects in any order."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._machines: dict[NodeName, NodeEvidence] = {}
        self._devices: dict[NodeName, DeviceObject] = {}
        self._pods: list[UnfinishedPod] = []
        self._programs: list[ClusterProgram] = []
        self._hooks: list[Hook] = []
        self._policies: dict[str, str] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self._schedulers: list[tuple[str, Json]] = []
        self._injections: dict[str, str] = {}
        self._unserved: set[str] = set()
        self._unreadable: list[tuple[str, str]] = []

    def feed(self, raw: object) -> None:
        """Take an object, or a list of them."""
        for each in one_by_one(raw):
            kind = str(each.get("kind", ""))
            self._kinds.add(kind)
            try:
                self._take(kind, dict(each))
            except WireError as error:
                self._unreadable.append((kind.lower() or "object", str(error)))

    def looked_at(self, kind: str) -> None:
        """Everything of that kind has come, even if there is nothing."""
        self._kinds.add(kind)

    def finish(self) -> Evidence:
        """The evidence of everything taken so far."""
        return Evidence(
            kinds=frozenset(self._kinds),
            machines=self._machines,
            devices=self._devices,
            pods=tuple(self._pods),
            programs=tuple(sorted(self._programs, key=lambda each: each.full_name)),
            hooks=tuple(self._hooks),
            policies=self._policies,
            settings=self._settings,
            schedulers=tuple(self._schedulers),
            injections=self._injections,
            unserved=frozenset(self._unserved),
            unreadable=tuple(self._unreadable),
        )

    def _take(self, kind: str, raw: Json) -> None:
        match kind:
            case "Node":
                machine = _machine(raw)
                self._machines[machine.name] = machine
            case "Device" if koordinator_devices.is_one(raw):
                published = koordinator_devices.decode(raw)
                self._devices[published.node] = published
            case "Pod":
                self._pods.extend(_seen(raw))
            case "DaemonSet" | "Deployment":
                self._programs.append(_program(raw, kind))
            case "MutatingWebhookConfiguration":
                self._hooks.extend(_hooks(raw))
            case "ValidatingAdmissionPolicy":
                name, _ = _named(raw, "validatingadmissionpolicy")
                spec = fields.member(raw, "spec", f"validatingadmissionpolicy {name}:")
                conditions = fields.items(spec, "matchConditions", f"validatingadmissionpolicy {name}: spec")
                self._policies[name] = " ".join(str(each) for each in conditions)
            case "ConfigMap":
                self._take_settings(raw)
            case "Namespace":
                name, metadata = _named(raw, "namespace")
                if _UNSERVED in fields.text_map(metadata, "labels", f"namespace {name}: metadata"):
                    self._unserved.add(name)

    def _take_settings(self, raw: Json) -> None:
        name, metadata = _named(raw, "configmap")
        place = f"{fields.text(metadata, 'namespace', f'configmap {name}: metadata')}/{name}"
        data = fields.text_map(raw, "data", f"configmap {place}:")
        self._settings[place] = data
        for key, text in data.items():
            if _SCHEDULER not in text and not (key == _OWN_SETTINGS and OWN_PROGRAM in name):
                continue
            try:
                found = texts.mapping(text, f"configmap {place} {key}")
            except ConfigError as error:
                self._unreadable.append((f"configmap/{place}", str(error)))
                continue
            if key == _OWN_SETTINGS:
                mode = fields.text(fields.member(found, "injection", place), "mode", f"{place} injection")
                self._injections[place] = mode or "never"
                continue
            profiles = fields.items(found, "profiles", key)
            self._schedulers.extend((place, each) for each in profiles if isinstance(each, dict))


def _named(raw: Json, kind: str) -> tuple[str, Json]:
    metadata = fields.member(raw, "metadata", f"{kind} ?:")
    return fields.text(metadata, "name", f"{kind} ?: metadata"), metadata


def _machine(raw: Json) -> NodeEvidence:
    node = objects.node_object(raw)
    place = f"node {node.name}: status"
    info = fields.member(fields.member(raw, "status", f"node {node.name}:"), "nodeInfo", place)
    return NodeEvidence(
        name=node.name,
        labels=node.labels,
        allocatable=node.allocatable,
        runtime=fields.text(info, "containerRuntimeVersion", f"{place}.nodeInfo"),
        places=cards_of(node, builtin()).places,
    )


def _seen(raw: Json) -> Iterator[UnfinishedPod]:
    pod = objects.pod(raw)
    if pod.phase in FINISHED:
        return
    place = f"pod {pod.full_name}:"
    status, spec = fields.member(raw, "status", place), fields.member(raw, "spec", place)
    waits = [
        fields.text(each, "message", f"{place} status.conditions")
        for each in fields.items(status, "conditions", f"{place} status")
        if isinstance(each, dict) and each.get("type") == "PodScheduled" and each.get("status") == "False"
    ]
    images = (each.get("image") for each in fields.items(spec, "containers", f"{place} spec") if isinstance(each, dict))
    yield UnfinishedPod(
        pod=pod,
        waits=waits[0] if waits else "",
        owner=_owner(raw, pod.labels),
        images=tuple(str(image) for image in images if image),
    )


def _owner(raw: Json, labels: Mapping[str, str]) -> str:
    """The workload whose template a pod is made of, as kubectl takes it; the Deployment behind a ReplicaSet."""
    metadata = fields.member(raw, "metadata", "pod:")
    owners = [each for each in fields.items(metadata, "ownerReferences", "pod:") if isinstance(each, dict)]
    if not owners:
        return ""
    kind, name = str(owners[0].get("kind", "")), str(owners[0].get("name", ""))
    hashed = labels.get("pod-template-hash")
    if kind == "ReplicaSet" and hashed and name.endswith(f"-{hashed}"):
        return f"deployment/{name.removesuffix(f'-{hashed}')}"
    return f"{kind.lower()}/{name}"


def _program(raw: Json, kind: str) -> ClusterProgram:
    name, metadata = _named(raw, kind.lower())
    place = f"{kind.lower()} {name}:"
    template = fields.member(fields.member(raw, "spec", place), "template", f"{place} spec")
    spec = fields.member(template, "spec", f"{place} spec.template")
    parts = []
    for at, each in enumerate(fields.items(spec, "containers", f"{place} spec.template.spec")):
        inside = f"{place} spec.template.spec.containers[{at}]"
        body = fields.whole(each, inside)
        parts.append(
            ProgramContainer(
                at=at,
                name=fields.text(body, "name", inside),
                image=fields.text(body, "image", inside),
                command=tuple(fields.texts(body, "command", inside)),
                args=tuple(fields.texts(body, "args", inside)),
            )
        )
    namespace = fields.text(metadata, "namespace", f"{place} metadata") or "default"
    user = fields.text(spec, "serviceAccountName", f"{place} spec.template.spec") or "default"
    return ClusterProgram(kind=kind, namespace=namespace, name=name, parts=tuple(parts), account=user)


def _hooks(raw: Json) -> Iterable[Hook]:
    name, _ = _named(raw, "mutatingwebhookconfiguration")
    place = f"mutatingwebhookconfiguration {name}:"
    for at, each in enumerate(fields.items(raw, "webhooks", place)):
        inside = f"{place} webhooks[{at}]"
        body = fields.whole(each, inside)
        fails = fields.text(body, "failurePolicy", inside) != "Ignore"
        yield Hook(name, fields.text(body, "name", inside), fails)
