"""Documents to workloads: the pods that each would make, with their gangs and queues, and what else a plan honours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from hami_plugins.errors import ManifestError
from hami_plugins.inputs.claim_objects import KINDS as CLAIM_KINDS
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import cluster_objects, gangs, held, kinds, templates, virtual_machines
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pod_copies import PodCopies
from hami_plugins.inputs.workloads.pods import MAX_PODS
from hami_plugins.inputs.workloads.runs import NO_NOTES, OtherObjects, Run, SubmittedObject, UnresolvedReferenceError
from hami_plugins.model.claims import NO_RESOURCES, DynamicResources
from hami_plugins.model.cluster import NamespaceQuota, PodGroup, PriorityClass, Queue
from hami_plugins.wire import kubernetes_gangs
from hami_plugins.wire.resource_slices import GROUP as CLAIM_GROUP

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Something that runs pods, as one document asks for it.

    ``pods`` are the pods it would make; with ``per_node`` (a DaemonSet) it is one pod that every eligible node gets.
    ``gang`` says which of them have to start together, ``queue`` is the Volcano queue (empty outside Volcano).
    ``notes`` are what has to be known about its number of pods, its gang, or what holds it back. ``is_volcano_job``
    says that Volcano's own controller makes the pods, which it does only when the gang is let in.
    """

    kind: str
    namespace: str
    name: str
    document: Document
    pods: PodCopies
    gang: Gang | None = None
    queue: str = ""
    priority_class: str = ""
    per_node: bool = False
    notes: tuple[str, ...] = NO_NOTES
    is_volcano_job: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Ignored(NamedTuple):
    """A document that makes no difference to a plan, and why; with ``has_pods`` it would run some all the same.

    ``silent`` is one of a kind that runs no pods: it needs no remark. ``error`` is what is wrong with it, for one that
    the API server would refuse.
    """

    document: Document
    kind: str
    name: str
    why: str
    has_pods: bool = False
    silent: bool = False
    error: ManifestError | None = None


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
    def faulty(self) -> tuple[Ignored, ...]:
        """The objects that the API server would refuse."""
        return tuple(each for each in self.ignored if each.error is not None)

    @property
    def objects(self) -> int:
        """How many objects run pods, skipped ones included."""
        return len({id(each.document) for each in self.workloads}) + len(self.skipped)


def read(
    documents: Iterable[Document],
    *,
    namespace: str = "default",
    pod_groups: Mapping[str, PodGroup] | None = None,
    skip_faulty: bool = False,
) -> Submission:
    """The workloads of some documents, and the pod groups, queues and quotas among them; other kinds are ignored.

    ``namespace`` is where objects go that do not say; ``pod_groups`` are groups that exist already, by full name. An
    object that is listed twice counts as written last. Raises ``ManifestError`` with the place of what is wrong; with
    ``skip_faulty`` such an object is skipped with its error, and the error is raised only where no other object runs
    pods.
    """
    return _Reading(namespace, dict(pod_groups or {}), skip_faulty=skip_faulty).submission(documents)


class _Reading:
    """One reading of a submission: what has been skipped so far, the gangs that controllers make, and the pods."""

    def __init__(self, namespace: str, known: dict[str, PodGroup], *, skip_faulty: bool) -> None:
        self._namespace = namespace
        self._known = known
        self._skip_faulty = skip_faulty
        self._skipped: list[Ignored] = []
        self._made: dict[str, PodGroup] = {}
        self._total = 0

    def submission(self, documents: Iterable[Document]) -> Submission:
        """Everything that the documents ask for."""
        objects, replaced = _latest(self._identified(documents))
        groups = {group.full_name: group for it in objects for group in self._read(it, _pod_groups)}
        self._known |= groups
        queues = {
            queue.name: queue for it in objects if (it.group, it.kind) == _QUEUE for queue in self._read(it, _queue)
        }
        quotas = self._quotas(objects)
        classes = [
            found
            for it in objects
            if (it.group, it.kind) == _PRIORITY_CLASS
            for found in self._read(it, _priority_class)
        ]
        claims = [one for it in objects if (it.group, it.kind) in _CLAIMS for one in self._read(it, _claim)]
        made = tuple(workload for it in objects for workload in self._workloads(it))
        if not made and (first := next((each.error for each in self._skipped if each.error), None)) is not None:
            raise first
        told = {id(each.document) for each in made} | {id(each.document) for each in self._skipped}
        others = [
            _not_understood(it)
            for it in objects
            if (it.group, it.kind) not in _UNDERSTOOD and id(it.field.document) not in told
        ]
        return Submission(
            workloads=made,
            pod_groups=self._made | groups,
            queues=queues,
            quotas=quotas,
            priorities={each.name: each.value for each in classes},
            never_preempting=frozenset(each.name for each in classes if not each.preempts),
            dynamic=cluster_objects.dynamic_resources(claims),
            ignored=(*(_ignored(it, "written again further down") for it in replaced), *self._skipped, *others),
        )

    def _identified(self, documents: Iterable[Document]) -> list[SubmittedObject]:
        generated: dict[str, int] = {}
        found = []
        for document in documents:
            try:
                found.append(_identified(document, self._namespace, generated))
            except ManifestError as error:
                if not self._skip_faulty:
                    raise
                kind, name = str(document.raw.get("kind", "")), "?"
                self._skipped.append(_of_error(document, kind, name, error, has_pods=True))
        return _with_others(found)

    def _read(self, it: SubmittedObject, reader: Callable[[SubmittedObject], tuple[T, ...]]) -> tuple[T, ...]:
        """What a reader makes of an object; of a faulty one nothing, where those are skipped."""
        try:
            return reader(it)
        except ManifestError as error:
            if not self._skip_faulty:
                raise
            has_pods = (it.group, it.kind) not in _WITHOUT_PODS
            self._skipped.append(_of_error(it.field.document, it.kind, it.name, error, has_pods=has_pods))
        except UnresolvedReferenceError as error:
            self._skipped.append(_ignored(it, error.why)._replace(has_pods=True))
        return ()

    def _workloads(self, it: SubmittedObject) -> tuple[Workload, ...]:
        """The workloads of one object, all or none."""
        return self._read(it, self._expanded)

    def _expanded(self, it: SubmittedObject) -> tuple[Workload, ...]:
        made: list[Workload] = []
        total = self._total
        for run in _runs(it):
            total += len(run.pods)
            if total > MAX_PODS:
                raise it.field.fault(
                    f"the documents up to here ask for {total} pods, more than {MAX_PODS}; plan them in several runs"
                )
            made.append(_workload(it, self._with_group(it, run)))
        self._total = total
        return tuple(made)

    def _with_group(self, it: SubmittedObject, run: Run) -> Run:
        """The run with the gang of the PodGroup that its pods name."""
        if not run.group:
            return run
        full_name = f"{it.namespace}/{run.group}"
        described = run.gang if run.gang is not None and run.gang.group == full_name else None
        known = gangs.known_group(full_name, self._known)
        gang = described if described and known is None else None
        if gang is not None and kubernetes_gangs.of_record(run.group):
            self._made[full_name] = PodGroup(
                namespace=it.namespace, name=run.group, min_member=gang.min_member, queue=gang.queue
            )
        gang = gang or gangs.of_group(full_name, known)
        return run._replace(gang=gang, queue=gang.queue)

    def _quotas(self, objects: Iterable[SubmittedObject]) -> Mapping[str, NamespaceQuota]:
        quotas: dict[str, NamespaceQuota] = {}
        for it in objects:
            if (it.group, it.kind) == _QUOTA:
                for quota in self._read(it, _quota):
                    before = quotas.get(it.namespace)
                    quotas[it.namespace] = quota if before is None else before.together_with(quota)
        return quotas


def _identified(document: Document, namespace: str, generated: dict[str, int]) -> SubmittedObject:
    top = Field.top(document)
    metadata, version = top.inner("metadata"), top.text("apiVersion")
    name, prefix = metadata.text("name"), metadata.text("generateName")
    if not name and prefix:
        at = generated[prefix] = generated.get(prefix, -1) + 1
        name = f"{prefix}{at}"
    if not name:
        raise top.fault("metadata.name is missing")
    group = version.rpartition("/")[0]
    return SubmittedObject(top, group, top.text("kind"), metadata.text("namespace") or namespace, name)


def _with_others(objects: list[SubmittedObject]) -> list[SubmittedObject]:
    """The objects, each with all of them for its references; cluster-wide kinds are also found without a namespace."""
    found = {(it.group, it.kind, where, it.name): it.field for it in objects for where in (it.namespace, "")}
    others = OtherObjects(found)
    return [it._replace(others=others) for it in objects]


def _latest(objects: list[SubmittedObject]) -> tuple[list[SubmittedObject], list[SubmittedObject]]:
    """The objects without those that a later document writes again, and the latter."""
    last = {_identity(it): at for at, it in enumerate(objects)}
    keep = [last[_identity(it)] == at for at, it in enumerate(objects)]
    return (
        [it for it, kept in zip(objects, keep, strict=True) if kept],
        [it for it, kept in zip(objects, keep, strict=True) if not kept],
    )


def _identity(it: SubmittedObject) -> tuple[str, str, str, str]:
    return it.group, it.kind, it.namespace, it.name


def _ignored(it: SubmittedObject, why: str) -> Ignored:
    return Ignored(it.field.document, it.kind, it.name, why)


def _of_error(document: Document, kind: str, name: str, error: ManifestError, *, has_pods: bool) -> Ignored:
    return Ignored(document, kind, name, error.why, has_pods=has_pods, error=error)


def _not_understood(it: SubmittedObject) -> Ignored:
    """Why an object without a pod template is left out: its controller may create pods all the same."""
    if virtual_machines.asks_for_devices(it.group, it.field.document.raw):
        return _ignored(it, virtual_machines.WHY)._replace(has_pods=True)
    if (it.group, it.kind) in templates.TEMPLATES_ONLY or not templates.runs_containers(it.field.document.raw):
        return _ignored(it, "runs no pods")._replace(silent=True)
    why = "the pods that its controller creates are not written in it; add them as manifests"
    return _ignored(it, why)._replace(has_pods=True)


def _pod_groups(it: SubmittedObject) -> tuple[PodGroup, ...]:
    """The gangs that a document of the cluster describes."""
    if (it.group, it.kind) in _POD_GROUPS:
        return (cluster_objects.pod_group(it.field, it.namespace, it.name),)
    return cluster_objects.native_pod_groups(it.field, it.namespace, it.name) if _is_native(it) else ()


def _queue(it: SubmittedObject) -> tuple[Queue, ...]:
    return (cluster_objects.queue(it.field, it.name),)


def _quota(it: SubmittedObject) -> tuple[NamespaceQuota, ...]:
    return (cluster_objects.quota(it.field, it.namespace, it.name),)


def _claim(it: SubmittedObject) -> tuple[tuple[Field, str, str, str], ...]:
    """A claim, template, class or slice that can be read; all of them are put together later."""
    one = (it.field, it.kind, it.namespace, it.name)
    cluster_objects.dynamic_resources((one,))
    return (one,)


def _priority_class(it: SubmittedObject) -> tuple[PriorityClass, ...]:
    return (cluster_objects.priority_class(it.field, it.name),)


def _is_native(it: SubmittedObject) -> bool:
    return (it.group, it.kind) in _NATIVE_GROUPS


def _runs(it: SubmittedObject) -> Iterator[Run]:
    """What an object comes to; several for a kind whose object holds several pod templates."""
    kind = (it.group, it.kind)
    expand = kinds.KINDS.get(kind)
    if expand is None and (kind in _UNDERSTOOD or kind in templates.TEMPLATES_ONLY):
        return
    waits = held.notes(it)
    for run in (expand or kinds.any_kind)(it):
        yield run._replace(notes=(*waits, *run.notes)) if waits else run


def _workload(it: SubmittedObject, run: Run) -> Workload:
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
        notes=run.notes,
        is_volcano_job=run.made_late,
    )


_POD_GROUPS: Final = frozenset(
    (group, "PodGroup") for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
)
_NATIVE_GROUPS: Final = frozenset((kubernetes_gangs.API_GROUP, kind) for kind in ("PodGroup", "Workload"))
_QUEUE: Final = ("scheduling.volcano.sh", "Queue")
_QUOTA: Final = ("", "ResourceQuota")
_PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")
_CLAIMS: Final = frozenset((CLAIM_GROUP, kind) for kind in CLAIM_KINDS)
_WITHOUT_PODS: Final = frozenset({*_POD_GROUPS, *_NATIVE_GROUPS, *_CLAIMS, _QUEUE, _QUOTA, _PRIORITY_CLASS})
_UNDERSTOOD: Final = frozenset({*kinds.KINDS, *_WITHOUT_PODS})
