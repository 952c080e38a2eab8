"""Argo Workflows (``argoproj.io/v1alpha1``): the pods that run at the same time, by templates, steps and tasks.

Followed from ``entrypoint`` through ``steps`` and ``dag`` to templates that run a pod (``container``, ``script``,
``containerSet``). ``withItems`` and ``withSequence`` multiply, ``parallelism`` caps; ``withParam`` and ``when`` are
known only when the workflow runs. Source: ``pkg/apis/workflow/v1alpha1/workflow_types.go`` of Argo Workflows 3.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

import orjson

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import at_once, pods
from hami_plugins.inputs.workloads.at_once import Moments
from hami_plugins.inputs.workloads.pods import PodTemplate
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, UnresolvedReferenceError, numbered

_MOST_CALLS: Final = 10_000
_DEEPEST: Final = 32
_COPIED: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulerName",
    "priorityClassName",
    "initContainers",
)


def _workflow(it: SubmittedObject) -> Iterator[Run]:
    yield from _WorkflowReader(it, it.spec).runs()


def _cron_workflow(it: SubmittedObject) -> Iterator[Run]:
    yield from _WorkflowReader(it, it.spec.needed("workflowSpec")).runs()


class _WorkflowReader:
    """Follows one workflow; ``notes`` say what cannot be counted."""

    def __init__(self, it: SubmittedObject, spec: Field) -> None:
        self._it = it
        self._spec = spec
        self._calls = 0
        self._shapes: dict[Hashable, tuple[PodTemplate, str]] = {}
        self._notes: dict[str, None] = {}
        self._sources: dict[tuple[int, str], Field] = {}

    def runs(self) -> Iterator[Run]:
        """The pods of every shape, as many as run at once at most."""
        source = self._source()
        entry = self._spec.text("entrypoint") or source.text("entrypoint")
        if not entry:
            raise self._spec.fault("entrypoint is missing; name the template that the workflow starts with")
        moments = self._of_template(source, entry, self._spec, ("entrypoint",), 0)
        limit = self._spec.count("parallelism", source.count("parallelism", 0)) or None
        if limit is not None:
            moments = at_once.capped(moments, limit)
        found = at_once.largest(moments)
        most = max((sum(moment.values()) for moment in moments), default=0)
        if limit is not None:
            most = min(most, limit)
        if sum(found.values()) > most:
            self._note(f"at most {most:,} of these pods run at once; steps that run later are planned at the same time")
        pods.product(self._spec, sum(found.values()))
        for shape, count in found.items():
            of, role = self._shapes[shape]
            run = numbered(self._it, of, role, count)
            yield run._replace(notes=(*run.notes, *self._notes))

    def _note(self, words: str) -> None:
        self._notes[words] = None

    def _source(self) -> Field:
        """The spec that holds the templates: the workflow's own, or that of the template that it refers to."""
        if not self._spec.has("workflowTemplateRef"):
            return self._spec
        return self._referred(self._spec.inner("workflowTemplateRef"), "name")

    def _referred(self, reference: Field, key: str) -> Field:
        name = reference.text(key)
        wide = reference.flag("clusterScope")
        kind = "ClusterWorkflowTemplate" if wide else "WorkflowTemplate"
        found = self._it.others.find("argoproj.io", kind, "" if wide else self._it.namespace, name)
        if found is None:
            place = ".".join(map(str, reference.path))
            raise UnresolvedReferenceError(f"{place}: {kind} {name} is not among these manifests; add it with -f")
        return found.needed("spec")

    def _of_template(self, source: Field, name: str, at: Field, steps: tuple[str | int, ...], depth: int) -> Moments:
        self._calls += 1
        if depth > _DEEPEST or self._calls > _MOST_CALLS:
            self._note("its templates call each other without end; what they start later is not counted")
            return []
        template = self._named(source, name)
        if template is None:
            raise at.fault(f"no template {name[:80]!r} among spec.templates", *steps)
        if template.has("steps"):
            moments = at_once.one_after_another(self._steps(source, template, depth))
        elif template.has("dag"):
            moments = self._dag(source, template.inner("dag"), depth)
        else:
            moments = self._leaf(source, template, name)
        limit = template.count("parallelism", 0)
        return at_once.capped(moments, limit) if limit else moments

    def _named(self, source: Field, name: str) -> Field | None:
        key = (id(source.members), name)
        if key not in self._sources:
            for each in source.items("templates"):
                self._sources.setdefault((id(source.members), each.text("name")), each)
        return self._sources.get(key)

    def _steps(self, source: Field, template: Field, depth: int) -> Iterator[Moments]:
        """The groups of steps, which run one after another; the steps of a group run side by side."""
        groups = template.members["steps"]
        if not isinstance(groups, list):
            raise template.fault("has to be a list of lists of steps", "steps")
        for at, group in enumerate(groups):
            # The API takes a single step in the place of a list of them.
            listed = group if isinstance(group, list) else [group]
            holder = Field(template.document, (*template.path, "steps"), {"group": listed})
            yield at_once.side_by_side(
                self._called(source, Field(step.document, (*template.path, "steps", at, number), step.members), depth)
                for number, step in enumerate(holder.items("group"))
            )

    def _dag(self, source: Field, dag: Field, depth: int) -> Moments:
        parts: dict[str, Moments] = {}
        needs: dict[str, list[str]] = {}
        for task in dag.items("tasks"):
            name = task.text("name")
            parts[name] = self._called(source, task, depth)
            needs[name] = _needed_by(task)
        for task in dag.items("tasks"):
            for other in needs[task.text("name")]:
                if other not in parts:
                    raise task.fault(f"no task {other[:80]!r} in this dag", "dependencies")
        return at_once.by_dependencies(parts, needs)

    def _called(self, source: Field, step: Field, depth: int) -> Moments:
        """What a step or task calls, as often as it does."""
        if step.has("when"):
            self._note("steps with a condition (when) count as if they ran")
        if step.has("templateRef"):
            reference = step.inner("templateRef")
            where = self._referred(reference, "name")
            moments = self._of_template(where, reference.text("template"), reference, ("template",), depth + 1)
        elif step.has("inline"):
            moments = self._leaf(source, step.inner("inline"), step.text("name"))
        else:
            moments = self._of_template(source, step.text("template"), step, ("template",), depth + 1)
        return at_once.times(moments, self._copies(step))

    def _copies(self, step: Field) -> int:
        if step.has("withItems"):
            items = step.members["withItems"]
            if not isinstance(items, list):
                self._note("withItems that an argument fills count as one")
                return 1
            return len(items)
        if step.has("withSequence"):
            return self._sequence(step.inner("withSequence"))
        if step.has("withParam"):
            self._note("withParam is known only when the workflow runs; counted as one")
        return 1

    def _sequence(self, sequence: Field) -> int:
        """The length of a sequence: ``count``, or from ``start`` to ``end``; all are texts or numbers."""
        numbers = {key: _whole(sequence, key) for key in ("count", "start", "end") if sequence.has(key)}
        if any(value is None for value in numbers.values()):
            self._note("withSequence that an argument fills counts as one")
            return 1
        if "count" in numbers:
            return pods.product(sequence, numbers["count"] or 0)
        return pods.product(sequence, abs((numbers.get("end") or 0) - (numbers.get("start") or 0)) + 1)

    def _leaf(self, source: Field, template: Field, name: str) -> Moments:
        """The one pod of a template; none of one that runs none."""
        if template.has("container"):
            containers = [{"name": "main", **template.inner("container").members}]
        elif template.has("script"):
            containers = [{"name": "main", **template.inner("script").members}]
        elif template.has("containerSet"):
            containers = [dict(each.members) for each in template.inner("containerSet").items("containers")]
        else:
            if template.has("resource"):
                self._note(f"template {name} creates an object of its own, which is not read; add it with -f")
            return []
        if template.has("podSpecPatch") or source.has("podSpecPatch"):
            self._note("podSpecPatch is not applied")
        spec: dict[str, object] = {key: source.members[key] for key in _COPIED if source.has(key)}
        spec |= {key: template.members[key] for key in _COPIED if template.has(key)}
        spec["containers"] = [*containers, *(each.members for each in template.items("sidecars"))]
        of = pods.template(
            Field(template.document, template.path, {"metadata": template.inner("metadata").members, "spec": spec}),
            self._it.namespace,
        )
        shape = _shape(of)
        self._shapes.setdefault(shape, (of, name))
        return [Counter({shape: 1})]


def _shape(of: PodTemplate) -> Hashable:
    """What two templates have in common if their pods get the same decision."""
    asked = [
        {key: each.get(key) for key in ("resources", "restartPolicy")}
        for key in ("initContainers", "containers")
        for each in _mappings(of.spec.get(key))
    ]
    where = {key: of.spec.get(key) for key in _COPIED if key != "initContainers"}
    return orjson.dumps([asked, where, dict(of.annotations)], option=orjson.OPT_SORT_KEYS)


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _needed_by(task: Field) -> list[str]:
    """The tasks that a task waits for: ``dependencies``, or the names in ``depends``."""
    listed = task.members.get("dependencies")
    if isinstance(listed, list):
        return [str(each) for each in listed]
    words = task.text("depends").replace("(", " ").replace(")", " ").replace("!", " ")
    return [word.partition(".")[0] for word in words.split() if word not in {"&&", "||"}]


def _whole(sequence: Field, key: str) -> int | None:
    """A number that may be written as text; ``None`` where an argument fills it."""
    value = sequence.members[key]
    if isinstance(value, str) and "{{" in value:
        return None
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or len(text) > 9:
        raise sequence.fault("has to be a whole number", key)
    return int(text)


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("argoproj.io", "Workflow"): _workflow,
    ("argoproj.io", "CronWorkflow"): _cron_workflow,
}
