"""Pod templates in objects of any kind, found by their shape: a mapping whose ``spec`` has a list of containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.inputs.manifests import Path
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads.pods import MAX_PODS

TEMPLATES_ONLY: Final = frozenset(
    {
        ("", "PodTemplate"),
        ("argoproj.io", "ClusterWorkflowTemplate"),
        ("argoproj.io", "WorkflowTemplate"),
        ("flow.volcano.sh", "JobTemplate"),
        ("serving.kserve.io", "ClusterServingRuntime"),
        ("serving.kserve.io", "ServingRuntime"),
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org", "TrainingRuntime"),
    }
)
"""Kinds (API group, kind) whose templates run no pods before another object refers to them."""

_PLAIN: Final = frozenset({"template", "podTemplate", "jobTemplate", "leaderWorkerTemplate"})
"""Members that hold a template and whose name says nothing about its role."""


class LocatedTemplate(NamedTuple):
    """One template: where it is, how many pods its controller creates from it, and its role in the object.

    ``role`` is the name of the replica type, group or task (``worker``), empty where the object has one role only.
    """

    field: Field
    pods: int
    role: str


def paths_of(raw: Mapping[str, object]) -> Iterator[Path]:
    """The way to every pod template inside an object, in the order of the document."""
    waiting: list[tuple[Path, object]] = [((), raw)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            if path and _is_template(value):
                yield path
                continue
            waiting.extend(((*path, key), value[key]) for key in reversed(list(value)))
        elif isinstance(value, list):
            waiting.extend(((*path, at), value[at]) for at in reversed(range(len(value))))


def found_in(top: Field) -> Iterator[LocatedTemplate]:
    """Every template inside an object with its number of pods.

    That number is the product of what the mappings around the template name: ``replicas`` (at least ``minReplicas``),
    ``parallelism`` (at most ``completions``), ``numOfHosts`` (Ray) and ``size`` (LeaderWorkerSet, where a group has
    one leader). Raises ``ManifestError`` for a count that is not a whole number.
    """
    for path in paths_of(top.members):
        around = [_inside(top, path[:length]) for length in range(len(path)) if not _is_item_list(top, path[:length])]
        pods = 1
        for field in around:
            pods *= _copies(field, path[len(field.path)])
        yield LocatedTemplate(_inside(top, path), pods, _role(around, path))


def runs_containers(value: object) -> bool:
    """Whether an object runs containers at all: it lists some, has one, or asks for devices."""
    return any(
        isinstance(found.get("containers"), list)
        or isinstance(found.get("container"), Mapping)
        or any(_names_devices(found.get(key)) for key in ("limits", "requests"))
        for found in mappings_in(value)
    )


def mappings_in(value: object) -> Iterator[Mapping[str, object]]:
    """A value itself, if it is a mapping, and every mapping inside it, in no particular order."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _is_template(value: Mapping[str, object]) -> bool:
    spec = value.get("spec")
    return isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)


def _names_devices(amounts: object) -> bool:
    return isinstance(amounts, Mapping) and any("/" in str(name) for name in amounts)


def _is_item_list(top: Field, path: Path) -> bool:
    return isinstance(_value(top, path), list)


def _value(top: Field, path: Path) -> object:
    value: object = top.members
    for step in path:
        value = value[step]  # type: ignore[index] # the path was found in this very object
    return value


def _inside(top: Field, path: Path) -> Field:
    value = _value(top, path)
    return Field(top.document, (*top.path, *path), value if isinstance(value, Mapping) else {})


def _copies(around: Field, towards: str | int) -> int:
    """How often one mapping repeats what is inside its member ``towards``."""
    copies = 1
    least, wanted = _number(around, "minReplicas"), _number(around, "replicas")
    if wanted is not None or least is not None:
        copies *= max(wanted or 0, least or 0)
    parallelism, completions = _number(around, "parallelism"), _number(around, "completions")
    if parallelism is not None:
        copies *= parallelism if completions is None else min(parallelism, completions)
    hosts = _number(around, "numOfHosts")
    copies *= 1 if hosts is None else hosts
    size = _number(around, "size") if towards == "workerTemplate" else None
    if size is not None:
        copies *= max(size - 1, 0) if around.has("leaderTemplate") else size
    return copies


def _number(around: Field, key: str) -> int | None:
    """A count; ``None`` where the member is absent, or holds something else in a kind that is not known here."""
    if not around.has(key) or isinstance(around.members[key], Mapping | list):
        return None
    return around.count(key, 0, most=MAX_PODS)


def _role(around: list[Field], path: Path) -> str:
    words: list[str] = []
    for field in around:
        last, towards = (field.path or ("",))[-1], str(path[len(field.path)])
        if isinstance(last, int):
            words.append(_name_of(field))
        if isinstance(last, str) and last.endswith("ReplicaSpecs"):
            words.append(towards.lower())
        elif towards == "headGroupSpec":
            words.append("head")
        elif towards.endswith("Template") and towards not in _PLAIN:
            words.append(towards.removesuffix("Template").lower())
    return "-".join(filter(None, words))


def _name_of(item: Field) -> str:
    found = item.members.get("name") or item.members.get("groupName")
    return found if isinstance(found, str) else ""
