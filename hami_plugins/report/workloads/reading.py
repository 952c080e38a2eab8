"""Documents to workloads: the pods that each would make, with their gangs and queues, and what else a plan honours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.model.cluster import NamespaceQuota, PodGroup, Queue
from hami_plugins.report.manifests import Document
from hami_plugins.report.manifests.fields import Field
from hami_plugins.report.workloads import cluster_objects, gangs, pods, vcjobs
from hami_plugins.report.workloads.gangs import Gang
from hami_plugins.report.workloads.pods import MAX_PODS, PodCopy, Template


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Something that runs pods, as one document asks for it.

    ``pods`` are the pods it would make; with ``per_node`` (a DaemonSet) it is one pod that every eligible node gets.
    ``gang`` says which of them have to start together, ``queue`` is the Volcano queue (empty outside Volcano).
    """

    kind: str
    namespace: str
    name: str
    document: Document
    pods: tuple[PodCopy, ...]
    gang: Gang | None = None
    queue: str = ""
    priority_class: str = ""
    per_node: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_volcano_job(self) -> bool:
        """Whether Volcano's own controller makes the pods, which it does only when the gang is let in."""
        return str(self.document.raw.get("apiVersion", "")).startswith("batch.volcano.sh/")


class Ignored(NamedTuple):
    """A document that makes no difference to a plan, and why; with ``has_pods`` it would run some all the same."""

    document: Document
    kind: str
    name: str
    why: str
    has_pods: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Submission:
    """Everything that a set of documents asks for, in the order of the documents.

    ``pod_groups`` go by full name (``namespace/name``), ``queues`` by name, ``quotas`` by namespace; ``priorities`` are
    the values of priority classes by name.
    """

    workloads: tuple[Workload, ...] = ()
    pod_groups: Mapping[str, PodGroup] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    quotas: Mapping[str, NamespaceQuota] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()


class _Object(NamedTuple):
    """A document with what identifies it; ``group`` is the API group, ``namespace`` the default where none is named."""

    field: Field
    group: str
    kind: str
    namespace: str
    name: str


class _Run(NamedTuple):
    """What a kind of workload comes to; ``group`` is the PodGroup that its pods name themselves."""

    pods: tuple[PodCopy, ...]
    gang: Gang | None = None
    queue: str = ""
    priority_class: str = ""
    per_node: bool = False
    group: str = ""


_Expand = Callable[[_Object], _Run]


def read(
    documents: Iterable[Document], *, namespace: str = "default", pod_groups: Mapping[str, PodGroup] | None = None
) -> Submission:
    """The workloads of some documents, and the pod groups, queues and quotas among them; other kinds are ignored.

    ``namespace`` is where objects go that do not say; ``pod_groups`` are groups that exist already, by full name. An
    object that stands there twice counts as written last. Raises ``ManifestError`` with the place of what is wrong.
    """
    objects, replaced = _latest(_identified(documents, namespace))
    groups = {
        f"{it.namespace}/{it.name}": cluster_objects.pod_group(it.field, it.namespace, it.name)
        for it in objects
        if (it.group, it.kind) in _POD_GROUPS
    }
    known = {**(pod_groups or {}), **groups}
    queues = {it.name: cluster_objects.queue(it.field, it.name) for it in objects if (it.group, it.kind) == _QUEUE}
    ignored = [_ignored(it, "written again further down") for it in replaced]
    ignored += [_not_understood(it) for it in objects if (it.group, it.kind) not in _UNDERSTOOD]
    return Submission(
        workloads=tuple(_workloads(objects, known)),
        pod_groups=groups,
        queues=queues,
        quotas=_quotas(objects),
        priorities=dict(
            cluster_objects.priority_class(it.field, it.name)
            for it in objects
            if (it.group, it.kind) == _PRIORITY_CLASS
        ),
        ignored=tuple(ignored),
    )


def _identified(documents: Iterable[Document], namespace: str) -> list[_Object]:
    generated: dict[str, int] = {}
    found = []
    for document in documents:
        top = Field.top(document)
        metadata, version = top.inner("metadata"), top.text("apiVersion")
        name, prefix = metadata.text("name"), metadata.text("generateName")
        if not name and prefix:
            at = generated[prefix] = generated.get(prefix, -1) + 1
            name = f"{prefix}{at}"
        if not name:
            raise top.fault("metadata.name is missing")
        group = version.rpartition("/")[0]
        found.append(_Object(top, group, top.text("kind"), metadata.text("namespace") or namespace, name))
    return found


def _latest(objects: list[_Object]) -> tuple[list[_Object], list[_Object]]:
    """The objects without those that a later document writes again, and the latter."""
    last = {it[1:]: at for at, it in enumerate(objects)}
    keep = [last[it[1:]] == at for at, it in enumerate(objects)]
    return (
        [it for it, kept in zip(objects, keep, strict=True) if kept],
        [it for it, kept in zip(objects, keep, strict=True) if not kept],
    )


def _ignored(it: _Object, why: str) -> Ignored:
    return Ignored(it.field.document, it.kind, it.name, why)


def _not_understood(it: _Object) -> Ignored:
    """Why a kind is left out: others than those known here may have templates of pods, too."""
    if not _has_containers(it.field.document.raw):
        return _ignored(it, "runs no pods")
    why = "its kind is not known here; give the pods that its controller makes"
    return _ignored(it, why)._replace(has_pods=True)


def _has_containers(value: object) -> bool:
    if isinstance(value, Mapping):
        return isinstance(value.get("containers"), list) or any(map(_has_containers, value.values()))
    return isinstance(value, list) and any(map(_has_containers, value))


def _quotas(objects: Iterable[_Object]) -> Mapping[str, NamespaceQuota]:
    quotas: dict[str, NamespaceQuota] = {}
    for it in objects:
        if (it.group, it.kind) == _QUOTA:
            quota = cluster_objects.quota(it.field, it.namespace, it.name)
            before = quotas.get(it.namespace)
            quotas[it.namespace] = quota if before is None else before.together_with(quota)
    return quotas


def _workloads(objects: Iterable[_Object], groups: Mapping[str, PodGroup]) -> Iterable[Workload]:
    total = 0
    for it in objects:
        expand = _KINDS.get((it.group, it.kind))
        if expand is None:
            continue
        run = expand(it)
        total += len(run.pods)
        if total > MAX_PODS:
            raise it.field.fault(f"the documents up to here ask for {total} pods, more than {MAX_PODS}")
        if run.group:
            full_name = f"{it.namespace}/{run.group}"
            described = run.gang if run.gang is not None and run.gang.group == full_name else None
            gang = described if described and full_name not in groups else None
            gang = gang or gangs.of_group(full_name, groups.get(full_name))
            run = run._replace(gang=gang, queue=gang.queue)
        yield Workload(
            kind=it.kind,
            namespace=it.namespace,
            name=it.name,
            document=it.field.document,
            pods=run.pods,
            gang=run.gang,
            queue=run.queue,
            priority_class=run.priority_class,
            per_node=run.per_node,
        )


def _pod(it: _Object) -> _Run:
    of = pods.template(it.field, it.namespace)
    given = it.field.inner("metadata").members
    texts = {key: words for key, words in (("labels", of.labels), ("annotations", of.annotations)) if key in given}
    metadata = {**given, **texts, "name": it.name, "namespace": it.namespace}
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": of.spec}
    return _controlled(it, of, ())._replace(pods=(pods.checked(PodCopy(it.name, raw), it.field),))


def _replicated(it: _Object) -> _Run:
    spec = it.field.needed("spec")
    of = pods.template(spec.needed("template"), it.namespace)
    return _controlled(it, of, pods.copies(of, it.name, spec.count("replicas", 1, most=MAX_PODS)))


def _stateful_set(it: _Object) -> _Run:
    run = _replicated(it)
    first = it.field.needed("spec").inner("ordinals").count("start", 0)
    if not first:
        return run
    of = pods.template(it.field.needed("spec").needed("template"), it.namespace)
    return run._replace(pods=tuple(of.pod(f"{it.name}-{first + at}") for at in range(len(run.pods))))


def _daemon_set(it: _Object) -> _Run:
    of = pods.template(it.field.needed("spec").needed("template"), it.namespace)
    return _controlled(it, of, (of.pod(it.name),))._replace(per_node=True)


def _job(it: _Object) -> _Run:
    return _runs_of(it, it.field.needed("spec"))


def _cron_job(it: _Object) -> _Run:
    return _runs_of(it, it.field.needed("spec").needed("jobTemplate").needed("spec"))


def _runs_of(it: _Object, spec: Field) -> _Run:
    """The pods of a Job that run at the same time."""
    of = pods.template(spec.needed("template"), it.namespace)
    parallelism = spec.count("parallelism", 1, most=MAX_PODS)
    at_once = min(parallelism, spec.count("completions", parallelism))
    return _controlled(it, of, pods.copies(of, it.name, at_once))


def _controlled(it: _Object, of: Template, made: tuple[PodCopy, ...]) -> _Run:
    gang = gangs.of_controller(it.field, of, it.name) if it.kind != "Pod" else None
    gang = gang or gangs.of_annotations(it.field, of)
    queue = gangs.queue_of(of, it.field.inner("metadata").texts("annotations"))
    return _Run(made, gang, queue, of.priority_class, group=gangs.named_group(of))


def _volcano_job(it: _Object) -> _Run:
    made, gang, priority_class = vcjobs.expand(it.field, it.namespace, it.name)
    return _Run(made, gang, gang.queue, priority_class)


_KINDS: Final[Mapping[tuple[str, str], _Expand]] = {
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replicated,
    ("apps", "Deployment"): _replicated,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("batch.volcano.sh", "Job"): _volcano_job,
}
_POD_GROUPS: Final = frozenset(
    (group, "PodGroup") for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
)
_QUEUE: Final = ("scheduling.volcano.sh", "Queue")
_QUOTA: Final = ("", "ResourceQuota")
_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
_UNDERSTOOD: Final = frozenset({*_KINDS, *_POD_GROUPS, _QUEUE, _QUOTA, _PRIORITY_CLASS})
