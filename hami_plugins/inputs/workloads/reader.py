"""Documents to workloads: the pods that each would make, with their gangs and queues, and what else a plan honours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.inputs.claim_objects import KINDS
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import cluster_objects, gangs, pods, templates, vcjobs, virtual_machines
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, PodCopy, PodTemplate
from hami_plugins.model.claims import NO_RESOURCES, DynamicResources
from hami_plugins.model.cluster import NamespaceQuota, PodGroup, Queue
from hami_plugins.wire.resource_slices import GROUP


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
    """A document that makes no difference to a plan, and why; with ``has_pods`` it would run some all the same.

    ``silent`` is one of a kind that runs no pods: it needs no remark.
    """

    document: Document
    kind: str
    name: str
    why: str
    has_pods: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Submission:
    """Everything that a set of documents asks for, in the order of the documents.

    ``pod_groups`` go by full name (``namespace/name``), ``queues`` by name, ``quotas`` by namespace; ``priorities`` are
    the values of priority classes by name, ``never_preempting`` the names of those for whose pods no other is evicted.
    """

    workloads: tuple[Workload, ...] = ()
    pod_groups: Mapping[str, PodGroup] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    quotas: Mapping[str, NamespaceQuota] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    never_preempting: frozenset[str] = frozenset()
    dynamic: DynamicResources = NO_RESOURCES
    ignored: tuple[Ignored, ...] = ()

    @property
    def skipped(self) -> tuple[Ignored, ...]:
        """The objects whose pods are not known."""
        return tuple(each for each in self.ignored if each.has_pods)

    @property
    def objects(self) -> int:
        """How many objects run pods, skipped ones included."""
        return len({id(each.document) for each in self.workloads}) + len(self.skipped)


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
    made = tuple(_workloads(objects, known))
    documents_with_pods = {id(each.document) for each in made}
    ignored += [
        _not_understood(it)
        for it in objects
        if (it.group, it.kind) not in _UNDERSTOOD and id(it.field.document) not in documents_with_pods
    ]
    classes = [
        cluster_objects.priority_class(it.field, it.name) for it in objects if (it.group, it.kind) == _PRIORITY_CLASS
    ]
    return Submission(
        workloads=made,
        pod_groups=groups,
        queues=queues,
        quotas=_quotas(objects),
        priorities={each.name: each.value for each in classes},
        never_preempting=frozenset(each.name for each in classes if not each.preempts),
        dynamic=cluster_objects.dynamic_resources(
            (it.field, it.kind, it.namespace, it.name) for it in objects if (it.group, it.kind) in _CLAIMS
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
    """Why an object without a pod template is left out: its controller may create pods all the same."""
    if virtual_machines.asks_for_devices(it.group, it.field.document.raw):
        return _ignored(it, virtual_machines.WHY)._replace(has_pods=True)
    if (it.group, it.kind) in templates.TEMPLATES_ONLY or not _runs_pods(it):
        return _ignored(it, "runs no pods")._replace(silent=True)
    why = "the pods that its controller creates are not written in it; add them as manifests"
    return _ignored(it, why)._replace(has_pods=True)


def _runs_pods(it: _Object) -> bool:
    return (it.group, it.kind) == _TRAIN_JOB or templates.runs_containers(it.field.document.raw)


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
        for run in _runs(it):
            total += len(run.pods)
            if total > MAX_PODS:
                raise it.field.fault(f"the documents up to here ask for {total} pods, more than {MAX_PODS}")
            yield _workload(it, _with_group(it, run, groups))


def _runs(it: _Object) -> Iterable[_Run]:
    """What an object comes to; several for a kind whose object holds several pod templates."""
    kind = (it.group, it.kind)
    expand = _KINDS.get(kind)
    if expand is not None:
        return (expand(it),)
    if kind in _UNDERSTOOD or kind in templates.TEMPLATES_ONLY:
        return ()
    return _train_job(it) if kind == _TRAIN_JOB else _any_kind(it)


def _with_group(it: _Object, run: _Run, groups: Mapping[str, PodGroup]) -> _Run:
    """The run with the gang of the PodGroup that its pods name."""
    if not run.group:
        return run
    full_name = f"{it.namespace}/{run.group}"
    described = run.gang if run.gang is not None and run.gang.group == full_name else None
    gang = described if described and full_name not in groups else None
    gang = gang or gangs.of_group(full_name, groups.get(full_name))
    return run._replace(gang=gang, queue=gang.queue)


def _workload(it: _Object, run: _Run) -> Workload:
    return Workload(
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


def _controlled(it: _Object, of: PodTemplate, made: tuple[PodCopy, ...]) -> _Run:
    gang = gangs.of_controller(it.field, of, it.name) if it.kind != "Pod" else None
    gang = gang or gangs.of_annotations(it.field, of)
    queue = gangs.queue_of(of, it.field.inner("metadata").texts("annotations"))
    return _Run(made, gang, queue, of.priority_class, group=gangs.named_group(of))


def _volcano_job(it: _Object) -> _Run:
    return _of_volcano_job(it, it.field)


def _volcano_cron_job(it: _Object) -> _Run:
    return _of_volcano_job(it, it.field.needed("spec").needed("jobTemplate"))


def _of_volcano_job(it: _Object, job: Field) -> _Run:
    made, gang, priority_class = vcjobs.expand(job, it.namespace, it.name)
    return _Run(made, gang, gang.queue, priority_class)


def _any_kind(it: _Object) -> Iterator[_Run]:
    """The pods of every template inside the object; those of one role are numbered through."""
    seen: Counter[str] = Counter()
    for found in templates.found_in(it.field):
        of = pods.template(found.field, it.namespace)
        if found.pods > MAX_PODS:
            raise found.field.fault(f"{found.pods} pods are more than {MAX_PODS}, the most that is read")
        name = f"{it.name}-{found.role}" if found.role else it.name
        yield _controlled(it, of, pods.copies(of, name, found.pods, first=seen[name]))
        seen[name] += found.pods


def _train_job(it: _Object) -> Iterator[_Run]:
    """The nodes of a Kubeflow TrainJob (``trainer.kubeflow.org/v1alpha1``) that names their resources itself.

    Its runtime holds the pod template; a plan needs the resources, and where the overrides let the pods run.
    """
    trainer = it.field.needed("spec").inner("trainer")
    if not trainer.has("resourcesPerNode"):
        return
    container = {"name": "node", "resources": trainer.inner("resourcesPerNode").members}
    overrides = [
        each.inner("spec").members
        for each in it.field.inner("spec").items("podTemplateOverrides")
        if any(job.text("name") == "node" for job in each.items("targetJobs"))
    ]
    spec: dict[str, object] = {key: value for each in overrides for key, value in each.items()}
    written = Field(it.field.document, trainer.path, {"spec": {**spec, "containers": [container]}})
    of = pods.template(written, it.namespace)
    made = pods.copies(of, f"{it.name}-node", trainer.count("numNodes", 1, most=MAX_PODS))
    yield _controlled(it, of, made)


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
    ("batch.volcano.sh", "CronJob"): _volcano_cron_job,
    ("apps.kruise.io", "DaemonSet"): _daemon_set,
}
_TRAIN_JOB: Final = ("trainer.kubeflow.org", "TrainJob")
_POD_GROUPS: Final = frozenset(
    (group, "PodGroup") for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
)
_QUEUE: Final = ("scheduling.volcano.sh", "Queue")
_QUOTA: Final = ("", "ResourceQuota")
_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
_CLAIMS: Final = frozenset((GROUP, kind) for kind in KINDS)
_UNDERSTOOD: Final = frozenset({*_KINDS, *_POD_GROUPS, *_CLAIMS, _QUEUE, _QUOTA, _PRIORITY_CLASS})
