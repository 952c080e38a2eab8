"""Documents as ``vet`` looks at them: what can be read of an object is there, what cannot does not hide the rest.

Pod templates are found in the kinds that Kubernetes and Volcano know and, by their shape, in any other kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.engine import koordinator
from hami_plugins.errors import WireError
from hami_plugins.inputs.manifests import Document, Path
from hami_plugins.inputs.workloads import ray, templates
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import ContainerKind
from hami_plugins.wire import objects, pods, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import inside, items, mapping, text, texts

_TEMPLATES: Final[Mapping[tuple[str, str], Path]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
_VOLCANO_JOB: Final = ("batch.volcano.sh", "Job")


class ResourceEntry(NamedTuple):
    """One entry of a resource list: as written, and its value; ``None`` if that is not a quantity."""

    resource: str
    text: str
    quantity: Quantity | None
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerView:
    """One container of a template. ``env`` is what is set to plain text, with its place; ``image`` what it runs.

    ``alone`` is a pod that has this container only, as far as it can be read: what vendors are asked about.
    """

    name: str
    kind: ContainerKind
    path: Path
    limits: Mapping[str, ResourceEntry]
    requests: Mapping[str, ResourceEntry]
    env: Mapping[str, tuple[str, Path]]
    privileged: bool
    alone: Pod
    image: str = ""

    def amount(self, resource: str) -> ResourceEntry | None:
        """The limit of a resource, else its request."""
        return self.limits.get(resource) or self.requests.get(resource)

    @property
    def amounts(self) -> Mapping[str, ResourceEntry]:
        """The limit of every resource, else its request, in the order of the document."""
        return {**self.limits, **self.requests, **self.limits}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodView:
    """One pod template, or a Pod. ``path`` leads to it, ``label`` is how messages call it inside its object.

    ``pod`` is its parsed form for decisions, ``None`` if the API server would refuse it. ``placed``: it is a Pod that
    the cluster has placed already, not a submission. ``scheduler`` includes the owner's setting.
    """

    path: Path
    label: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: tuple[ContainerView, ...]
    scheduler: str
    scheduler_path: Path
    node: str
    placed: bool
    pod: Pod | None

    def of(self, *steps: str | int) -> Path:
        """The path of something inside the template."""
        return (*self.path, *steps)

    def annotation(self, key: str) -> Path:
        """The path of one annotation."""
        return self.of("metadata", "annotations", key)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """One object of a manifest."""

    document: Document
    group: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pods: tuple[PodView, ...] = field(default=())

    @property
    def label(self) -> str:
        """``Kind namespace/name``, the way every message names an object."""
        return f"{self.kind} {self.full_name}"

    @property
    def full_name(self) -> str:
        """``namespace/name``, and the name alone of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def owns_templates(self) -> bool:
        """Whether its pods are made from templates, so that its own annotations are not theirs."""
        return bool(self.pods) and self.pods[0].path != ()

    @property
    def node(self) -> NodeObject | None:
        """A Node as everything else reads it; ``None`` for another object and for one that cannot be read."""
        if (self.group, self.kind) != ("", "Node"):
            return None
        try:
            return objects.node_object(self.document.raw)
        except WireError:
            return None

    def inside(self, *steps: str) -> Json:
        """A mapping inside the object, empty when there is none."""
        return inside(self.document.raw, *steps)


_CLUSTER_WIDE: Final = frozenset(
    {
        "Namespace", "Node", "Queue", "PriorityClass", "HyperNode",
        "MutatingWebhookConfiguration", "MutatingAdmissionPolicy",
    }
)  # fmt: skip


def subject_of(document: Document, *, namespace: str) -> Subject:
    """What can be read of one object; ``namespace`` is where it goes if it does not say."""
    raw = document.raw
    metadata = mapping(raw.get("metadata"))
    kind = text(raw.get("kind"))
    group = text(raw.get("apiVersion")).rpartition("/")[0]
    home = "" if kind in _CLUSTER_WIDE else text(metadata.get("namespace")) or namespace
    name = text(metadata.get("name")) or text(metadata.get("generateName")) or "(no name)"
    return Subject(
        document=document,
        group=group,
        kind=kind,
        namespace=home,
        name=name,
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        pods=tuple(_pod_view(raw, place, namespace=home, name=name) for place in _templates(raw, (group, kind))),
    )


class _Place(NamedTuple):
    """Where a template stands, what messages call it, and the scheduler that its owner hands down."""

    path: Path
    label: str = ""
    scheduler: str = ""
    scheduler_path: Path | None = None


def _templates(raw: Json, kind: tuple[str, str]) -> Iterator[_Place]:
    if kind in _TEMPLATES:
        yield _Place(_TEMPLATES[kind])
    elif kind == _VOLCANO_JOB:
        spec = mapping(raw.get("spec"))
        scheduler = text(spec.get("schedulerName")) or VOLCANO
        for at, task in enumerate(items(spec.get("tasks"))):
            label = f"task {text(mapping(task).get('name')) or f'default{at}'}"
            yield _Place(("spec", "tasks", at, "template"), label, scheduler, ("spec", "schedulerName"))
    else:
        yield from (
            _Place(path, ".".join(map(str, path)), *_handed_down(kind[0], raw, path))
            for path in templates.paths_of(raw)
        )


_OF_VOLCANO: Final = frozenset({"batch.volcano.sh", "flow.volcano.sh", "training.volcano.sh"})
"""API groups whose objects hold Volcano Jobs."""


def _handed_down(group: str, raw: Json, path: Path) -> tuple[str, Path | None]:
    """The scheduler that a controller writes into a template that names none, and the place that says so."""
    if group in _OF_VOLCANO and "tasks" in path:
        job = path[: path.index("tasks")]
        return text(mapping(_at(raw, job)).get("schedulerName")) or VOLCANO, (*job, "schedulerName")
    if group == "ray.io" and ray.is_for_volcano(texts(inside(raw, "metadata").get("labels"))):
        return VOLCANO, ("metadata", "labels")
    return "", None


def _at(raw: Json, path: Path) -> object:
    """The value that a path leads to; ``None`` where there is none."""
    found: object = raw
    for step in path:
        if isinstance(step, str):
            found = mapping(found).get(step)
        else:
            listed = items(found)
            found = listed[step] if step < len(listed) else None
    return found


def _pod_view(raw: Json, place: _Place, *, namespace: str, name: str) -> PodView:
    template = _at(raw, place.path)
    metadata = mapping(mapping(template).get("metadata"))
    spec = mapping(mapping(template).get("spec"))
    in_spec = (*place.path, "spec")
    own = text(spec.get("schedulerName"))
    inherited = place.scheduler_path if not own and place.scheduler_path else (*in_spec, "schedulerName")
    node = text(spec.get("nodeName"))
    frame = _Frame(
        namespace,
        name,
        texts(metadata.get("annotations")),
        text(spec.get("runtimeClassName")),
        koordinator.places(own or place.scheduler, texts(metadata.get("labels"))),
    )
    return PodView(
        path=place.path,
        label=place.label,
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        containers=tuple(_containers(spec, in_spec, frame)),
        scheduler=own or place.scheduler,
        scheduler_path=inherited,
        node=node,
        placed=bool(not place.path and node and metadata.get("uid")),
        pod=_model(metadata, spec, namespace=namespace, name=name, scheduler=own or place.scheduler),
    )


def _model(metadata: Json, spec: Json, *, namespace: str, name: str, scheduler: str) -> Pod | None:
    body = {
        "metadata": {**metadata, "namespace": namespace, "name": name},
        "spec": {**spec, "schedulerName": scheduler},
    }
    try:
        return koordinator.read_by_its_scheduler(pods.pod(body))
    except WireError:
        return None


class _Frame(NamedTuple):
    """The parts of a pod that vendors read besides its containers."""

    namespace: str
    name: str
    annotations: Mapping[str, str]
    runtime_class: str
    koordinators: bool


def _containers(spec: Json, path: Path, frame: _Frame) -> Iterator[ContainerView]:
    for key in pods.CONTAINER_LISTS:
        for at, raw in enumerate(items(spec.get(key))):
            yield _container(mapping(raw), key, (*path, key, at), frame)


def _container(body: Json, key: str, path: Path, frame: _Frame) -> ContainerView:
    kind = pods.kind_of(body.get("restartPolicy"), key)
    resources = mapping(body.get("resources"))
    name = text(body.get("name")) or f"{key}[{path[-1]}]"
    limits = _read(amounts_of(resources, "limits", (*path, "resources", "limits")), frame)
    requests = _read(amounts_of(resources, "requests", (*path, "resources", "requests")), frame)
    env = _env(body, path)
    privileged = mapping(body.get("securityContext")).get("privileged") is True
    readable = Container(
        name=name,
        kind=kind,
        limits=_readable(limits),
        requests={**_readable(limits), **_readable(requests)},
        env=frozenset(env),
        privileged=privileged,
    )
    return ContainerView(
        name=name,
        kind=kind,
        path=path,
        limits=limits,
        requests=requests,
        env=env,
        privileged=privileged,
        image=text(body.get("image")),
        alone=Pod(
            namespace=frame.namespace,
            name=frame.name,
            annotations=frame.annotations,
            containers=(readable,),
            runtime_class=frame.runtime_class or None,
        ),
    )


def _read(amounts: Mapping[str, ResourceEntry], frame: _Frame) -> Mapping[str, ResourceEntry]:
    """The amounts by the names under which Koordinator's scheduler reads them, each still with its own name."""
    found: dict[str, ResourceEntry] = {}
    for name, amount in amounts.items():
        quantity_or_none = Quantity(0, "0") if amount.quantity is None else amount.quantity
        read, meant = koordinator.as_read(name, quantity_or_none, amounts, placed_here=frame.koordinators)
        found[read] = amount if amount.quantity is None else amount._replace(quantity=meant)
    return found


def _readable(amounts: Mapping[str, ResourceEntry]) -> Mapping[str, Quantity]:
    return {name: amount.quantity for name, amount in amounts.items() if amount.quantity is not None}


def amounts_of(holder: Json, key: str, path: Path) -> Mapping[str, ResourceEntry]:
    """The entries of a resource list, readable or not; ``path`` leads to the list."""
    return {
        name: ResourceEntry(name, str(value)[:100], _quantity(value), (*path, name))
        for name, value in mapping(holder.get(key)).items()
        if value is not None
    }


def _quantity(value: object) -> Quantity | None:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return None
    try:
        return quantity.parse(value, key="")
    except WireError:
        return None


def _env(body: Json, path: Path) -> Mapping[str, tuple[str, Path]]:
    found: dict[str, tuple[str, Path]] = {}
    for at, raw in enumerate(items(body.get("env"))):
        name = text(mapping(raw).get("name"))
        if name:
            found[name] = (text(mapping(raw).get("value")), (*path, "env", at))
    return found
