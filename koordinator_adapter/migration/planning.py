"""From a cluster's objects to the steps of a migration: first what running pods hold, then groups, then workloads."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hami_plugins.engine import annotate
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.pods import FINISHED, Pod
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.report import manifests
from hami_plugins.report.manifests import Document
from hami_plugins.report.vet.subjects import subject_of
from hami_plugins.vendors import koordinator as cards
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import documents, objects, pod_devices
from hami_plugins.wire import koordinator as wire
from hami_plugins.wire import volcano as volcano_wire
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL, GROUP_KEY
from hami_plugins.wire.koordinator_devices import DeviceObject
from hami_plugins.wire.pod_devices import AssignedDevice
from koordinator_adapter import allocations
from koordinator_adapter.allocations import Card
from koordinator_adapter.manifests import File, translated
from koordinator_adapter.migration.steps import Change, Kind, Step, differences, holds
from koordinator_adapter.translation.model import Fidelity, Finding, Settings, Words, refused
from koordinator_adapter.translation.objects import GROUPS, KOORDINATOR_GROUP, VOLCANO_GROUP, source_of
from koordinator_adapter.translation.submission import submission
from koordinator_adapter.translation.vocabulary import GROUP


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
    ("batch/v1", "CronJob"): Served("/apis/batch/v1", "cronjobs"),
    ("batch/v1", "Job"): Served("/apis/batch/v1", "jobs", _FIXED),
    ("batch.volcano.sh/v1alpha1", "Job"): Served("/apis/batch.volcano.sh/v1alpha1", "jobs", _FIXED),
    ("v1", "Pod"): Served("/api/v1", "pods", _FIXED),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): Served("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"): Served("/apis/scheduling.sigs.k8s.io/v1alpha1", "podgroups"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): Served("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
}
"""The kinds that a migration looks at, by API version and kind."""


class Quotas(NamedTuple):
    """How the quotas or queues of a scheduler are called and reached."""

    version: str
    kind: str
    path: str


QUOTAS: Final[Mapping[Words, Quotas]] = {
    Words.KOORDINATOR: Quotas(KOORDINATOR_GROUP, "ElasticQuota", "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"),
    Words.VOLCANO: Quotas(VOLCANO_GROUP, "Queue", "/apis/scheduling.volcano.sh/v1beta1/queues"),
}
"""HAMi has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that a migration leaves as it is, or changes with a loss: which object, and what there is to know."""

    name: str
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps in their order, and everything to know beside them."""

    target: Words
    steps: tuple[Step, ...]
    left: tuple[Left, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether anything cannot come along."""
        return any(each.finding.fidelity is Fidelity.REFUSED for each in self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a migration starts from: workloads and groups, pods, and what is published of nodes' cards.

    ``groups`` are all PodGroups, those that are another object's part, too; ``quotas`` the quotas or queues of the
    target's scheduler in the whole cluster.
    """

    workloads: tuple[Json, ...] = ()
    groups: tuple[Json, ...] = ()
    quotas: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    devices: Mapping[NodeName, DeviceObject] | None = None


def planned(found: Found, target: Words, registry: Registry, settings: Settings, *, records_only: bool = False) -> Plan:
    """The plan. ``registry`` is one of ``reading.complete``."""
    steps, left = _records(found, target)
    if records_only:
        return Plan(target=target, steps=tuple(steps), left=tuple(left))
    sources = [
        each for raw in found.workloads for each in manifests.read(documents.dump(submission(raw)), source=_name(raw))
    ]
    known = replace(
        settings,
        groups=frozenset(_name(raw).partition("/")[2] for raw in found.groups if source_of(raw) is target),
        quotas=frozenset(_name(raw).rpartition("/")[2] for raw in found.quotas),
    )
    files = translated(sources, target, registry, known, namespace="default")
    live = {_name(raw): raw for raw in found.workloads}
    groups: list[Step] = []
    workloads: list[tuple[Step, frozenset[str]]] = []
    for file in files:
        raw = live[file.source]
        left += _told(file)
        if file.refused or not file.changed:
            continue
        fixed = SERVED[_kind(raw)].fixed
        if fixed:
            left.append(
                Left(name=file.source, finding=refused(str(raw["kind"]), fixed, _by_hand(raw, target, settings)))
            )
            continue
        for step, of_groups in _of_file(raw, file):
            if step.kind is Kind.WORKLOAD:
                workloads.append((step, of_groups))
            else:
                groups.append(step)
    missing, conflicts = _missing(groups, found.groups)
    left += conflicts.values()
    steps += missing
    for step, of_groups in workloads:
        if waiting := sorted(of_groups & conflicts.keys()):
            words = f"is not changed: its gang {waiting[0].rpartition('/')[2]} would be another one"
            left.append(Left(name=step.name, finding=refused("gang", words, "settle what is said of that gang first")))
        else:
            steps.append(step)
    return Plan(target=target, steps=tuple(steps), left=tuple(left))


def _missing(groups: Iterable[Step], there: Iterable[Json]) -> tuple[list[Step], Mapping[str, Left]]:
    """The groups that have to be made, each once, and by path those that are there, or wanted, with another spec."""
    known = {_path(raw): raw.get("spec") for raw in there}
    found: list[Step] = []
    conflicts: dict[str, Left] = {}
    for step in groups:
        wanted = (step.made or {}).get("spec")
        if step.at not in known:
            known[step.at] = wanted
            found.append(step)
        elif not holds(known[step.at], wanted):
            words = (
                f"there is one with {documents.dump(known[step.at])} already, and {documents.dump(wanted)} is wanted"
            )
            conflicts[step.at] = Left(
                name=step.name, finding=refused("PodGroup", words, "make the two say the same, or delete one of them")
            )
    return [step for step in found if step.at not in conflicts], conflicts


def is_group(raw: Mapping[str, object]) -> bool:
    """Whether an object is a PodGroup of anybody's."""
    return raw.get("kind") == "PodGroup" and _kind(raw) in SERVED


def is_quota(raw: Mapping[str, object], target: Words) -> bool:
    """Whether an object is a quota or queue by which the target's scheduler limits pods."""
    return target in QUOTAS and _kind(raw) == (QUOTAS[target].version, QUOTAS[target].kind)


def served(raw: Mapping[str, object]) -> bool:
    """Whether an object is one that a migration looks at: of a known kind, and nobody else's part."""
    metadata = raw.get("metadata")
    owned = isinstance(metadata, Mapping) and any(
        isinstance(each, Mapping) and each.get("controller") for each in metadata.get("ownerReferences") or ()
    )
    return _kind(raw) in SERVED and not owned


def _of_file(raw: Json, file: File) -> Iterator[tuple[Step, frozenset[str]]]:
    """The steps of one object, and the PodGroups (their paths) that its pods are of."""
    for document in manifests.read(file.text, source=file.source):
        becomes = dict(document.raw)
        if _name(becomes) == file.source and _kind(becomes) == _kind(raw):
            found = tuple(differences(submission(raw), becomes))
            if found:
                words = "is told in other words; its pods are made anew, one after another, as its strategy says"
                step = Step(kind=Kind.WORKLOAD, name=file.source, at=_path(raw), words=words, changes=found)
                yield step, _groups_of(document)
        elif _kind(becomes) in SERVED:
            words = "is created; the one of the other scheduler stays"
            yield Step(kind=Kind.GROUP, name=_name(becomes), at=_path(becomes), words=words, made=becomes), frozenset()


def _groups_of(document: Document) -> frozenset[str]:
    """The paths of the PodGroups that the pods of an object are of, whoever places them."""
    subject = subject_of(document, namespace="default")
    keys = {GROUPS[Words.KOORDINATOR]: GROUP, GROUPS[Words.HAMI]: COSCHEDULING_LABEL, GROUPS[Words.VOLCANO]: GROUP_KEY}
    return frozenset(
        _path({"apiVersion": version, "kind": "PodGroup", "metadata": {"namespace": subject.namespace, "name": name}})
        for view in subject.pods
        for version, key in keys.items()
        if (name := view.labels.get(key) or view.annotations.get(key))
    )


def _told(file: File) -> Iterator[Left]:
    for each in file.told:
        for finding in each.findings:
            if finding.fidelity is not Fidelity.LOSSLESS:
                yield Left(name=file.source, finding=finding)


def _records(found: Found, target: Words) -> tuple[list[Step], list[Left]]:
    """What running pods hold, in the words of the target's scheduler, so that it does not give it away again."""
    steps: list[Step] = []
    left: list[Left] = []
    for raw in found.pods:
        name = _name(raw)
        try:
            pod = objects.pod(raw)
            written = _record(pod, found.devices or {}, target)
        except WireError as error:
            left.append(
                Left(name=name, finding=refused(error.key, error.why, "delete the pod, so that it is placed anew"))
            )
            continue
        if written:
            before = pod.annotations
            changes = tuple(
                Change(
                    ("metadata", "annotations", key),
                    (before[key],) if key in before else (),
                    (value,),
                )
                for key, value in sorted(written.items())
            )
            words = f"holds cards of {pod.node}, and {target}'s scheduler is told so"
            step = Step(kind=Kind.RECORD, name=name, at=_path(raw), words=words, changes=changes, uid=pod.uid)
            steps.append(step)
    return steps, left


def _record(pod: Pod, devices: Mapping[NodeName, DeviceObject], target: Words) -> Mapping[str, str]:
    """The annotations that say to the target's scheduler what a running pod holds; none where they are there."""
    if pod.node is None or pod.phase in FINISHED:
        return {}
    own = {
        Words.HAMI: nvidia.SPEC.keys.allocated,
        Words.VOLCANO: volcano.SPEC.keys.allocated,
        Words.KOORDINATOR: wire.ALLOCATED_KEY,
    }
    if pod.annotations.get(own[target]):
        return {}
    published = devices.get(pod.node)
    known = _cards(published)
    held = _held(pod, own, known)
    if not held:
        return {}
    if target is Words.KOORDINATOR:
        if published is None:
            raise WireError(
                own[target], pod.full_name, f"node {pod.node} has no Device object; publish its cards first"
            )
        return {own[target]: wire.encode(allocations.synthesised(held, known))}
    at, count = cards.holder(pod), len(pod.containers)
    if target is Words.HAMI:
        text = allocations.hami_record(held, containers=count, at=at)
        return {own[target]: text, annotate.NODE_KEY: str(pod.node)}
    text = allocations.volcano_record(held, containers=count, at=at)
    return {own[target]: text, volcano.NODE_KEY: str(pod.node)}


def _held(pod: Pod, own: Mapping[Words, str], known: Iterable[Card]) -> tuple[AssignedDevice, ...]:
    """The cards that a record of any scheduler names, whichever container has them."""
    for words, key in own.items():
        text = pod.annotations.get(key)
        if not text:
            continue
        if words is Words.KOORDINATOR:
            return allocations.assigned(wire.decode(text), known)
        decode = volcano_wire.decode_assignment if words is Words.VOLCANO else pod_devices.decode
        return tuple(each for container in decode(key, text) for each in container)
    return ()


def _cards(published: DeviceObject | None) -> tuple[Card, ...]:
    if published is None:
        return ()
    return tuple(
        Card(each.minor, DeviceId(each.id), memory.ceiling if (memory := each.resources.get(wire.MEMORY)) else 0)
        for each in published.cards
    )


def _kind(raw: Mapping[str, object]) -> tuple[str, str]:
    return str(raw.get("apiVersion", "v1")), str(raw.get("kind", ""))


def _name(raw: Mapping[str, object]) -> str:
    """How an object is called: what it is, where, and its name."""
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    group = str(raw.get("apiVersion", "")).partition("/")[0]
    kind = str(raw.get("kind", "")).lower()
    kind = f"{kind}.{group}" if "." in group else kind
    return f"{kind}/{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"


def _path(raw: Mapping[str, object]) -> str:
    found = SERVED[_kind(raw)]
    _, namespace, name = _name(raw).split("/")
    return f"{found.prefix}/namespaces/{namespace}/{found.plural}/{name}"


def _by_hand(raw: Json, target: Words, settings: Settings) -> str:
    """The command that makes an object anew in other words."""
    _, namespace, name = _name(raw).split("/")
    kind = str(raw["kind"]).lower()
    kind = "vcjob" if "volcano" in str(raw.get("apiVersion")) else kind
    options = [f"--to {target}", "--submission", "--accept-loss"]
    options += [f"--model {shlex.quote(each)}" for each in settings.models]
    options += ["--device-labels"] if settings.device_labels else []
    file = f"{kind}-{name}.yaml"
    return (
        f"kubectl -n {namespace} get {kind} {name} -o yaml | hami-plugins koordinator translate -f - "
        f"{' '.join(options)} > {file} && kubectl -n {namespace} delete {kind} {name} && kubectl create -f {file}"
    )
