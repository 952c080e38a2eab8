"""The source and the result of a kind: an object among the others of a submission, and runs of equal pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import gangs, pod_copies
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pod_copies import PodCopies
from hami_plugins.inputs.workloads.pods import PodTemplate

NO_NOTES: Final[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class OtherObjects:
    """The objects of a submission by API group, kind, namespace (empty for cluster-wide kinds) and name."""

    by_name: Mapping[tuple[str, str, str, str], Field] = field(default_factory=dict)

    def find(self, group: str, kind: str, namespace: str, name: str) -> Field | None:
        """An object that another one refers to; ``None`` where it is not among the manifests."""
        return self.by_name.get((group, kind, namespace, name))


class SubmittedObject(NamedTuple):
    """A document with what identifies it; ``group`` is the API group, ``namespace`` the default where none is named.

    ``others`` are the objects it may refer to.
    """

    field: Field
    group: str
    kind: str
    namespace: str
    name: str
    others: OtherObjects = OtherObjects()

    @property
    def spec(self) -> Field:
        """Its ``spec``, which has to be there."""
        return self.field.needed("spec")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object itself."""
        return self.field.inner("metadata").texts("annotations")

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the object itself."""
        return self.field.inner("metadata").texts("labels")


class Run(NamedTuple):
    """Pods of one template; ``group`` is the PodGroup that its pods name themselves.

    ``notes`` are what has to be known about the number of pods or about who honours the gang. ``made_late`` says that
    the pods are made only when the gang has been let in.
    """

    pods: PodCopies
    gang: Gang | None = None
    queue: str = ""
    priority_class: str = ""
    per_node: bool = False
    group: str = ""
    notes: tuple[str, ...] = NO_NOTES
    made_late: bool = False


Expand: TypeAlias = Callable[[SubmittedObject], Iterable[Run]]
"""How a kind comes to pods."""


def controlled(it: SubmittedObject, of: PodTemplate, made: PodCopies) -> Run:
    """Pods of a controller, with the gang and the queue that they and their owner name themselves."""
    gang = gangs.of_controller(it.field, of, it.name) if it.kind != "Pod" else None
    gang = gang or gangs.of_annotations(it.field, of)
    queue = gangs.queue_of(of, it.annotations)
    return Run(made, gang, queue, of.priority_class, group=gangs.named_group(of))


def together(runs: Iterable[Run], gang: Gang | None, *notes: str, priority_class: str = "") -> Iterator[Run]:
    """The runs of one object as one gang, with notes; without a gang as they are, with the notes."""
    for run in runs:
        noted = run._replace(notes=(*run.notes, *notes))
        if gang is None:
            yield noted
        else:
            yield noted._replace(
                gang=gang, queue=gang.queue, group="", priority_class=priority_class or noted.priority_class
            )


def numbered(it: SubmittedObject, of: PodTemplate, role: str, count: int, *, first: int = 0) -> Run:
    """``count`` pods of one role of an object, called ``name-role-0`` and so on."""
    name = f"{it.name}-{role}" if role else it.name
    return controlled(it, of, pod_copies.copies(of, name, count, first=first))


class UnresolvedReferenceError(Exception):
    """An object refers to another one that is not among the manifests, so that its pods are not known.

    No API server refuses that, so it is no ``ManifestError``: the object is skipped with the reason.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
