"""The webhook's changes on the pod as it was submitted, and as RFC 6902 operations.

Works on the raw object, so that unknown members stay as they are.
"""

from collections.abc import Iterable
from typing import Any, Final

from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.vendor import AdmissionChange
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json

_OF_POD: Final = {
    "runtimeClassName": ("spec", "runtimeClassName"),
    "schedulerName": ("spec", "schedulerName"),
}
_OF_CONTAINER: Final = {"limit": "limits", "request": "requests"}


def applied(raw: Json, changes: Iterable[tuple[int | None, AdmissionChange]]) -> Json:
    """The pod with the changes made, in order; the object that was given is left alone.

    The number is the position of the container, init containers first; ``None`` for changes of the pod itself. Raises
    ``WireError`` when the pod is not shaped so that the change has a place.
    """
    for container, change in changes:
        raw = _changed(raw, container, change)
    return raw


def patch(before: Any, after: Any, path: str = "") -> list[Json]:
    """The JSON Patch operations that make ``after`` of ``before``, as few as member by member comparison finds."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _patch_members(before, after, path)
    if isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        same = zip(before, after, strict=False)
        operations = [step for at, (old, new) in enumerate(same) for step in patch(old, new, f"{path}/{at}")]
        return operations + [{"op": "add", "path": f"{path}/-", "value": new} for new in after[len(before) :]]
    # True and 1 are equal in Python, not in JSON.
    if type(before) is type(after) and before == after:
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _changed(raw: Json, container: int | None, change: AdmissionChange) -> Json:
    kind, key, value = change
    if container is None:
        way = ("metadata", "annotations", key) if kind == "annotation" else _OF_POD.get(kind)
        if way is None:
            raise ConfigError(f"no such change of a pod: {kind} {key}={value}")
        return _with(raw, way, value)
    where = _place_of(raw, container)
    if kind == "env":
        held = raw["spec"][where[1]][where[2]]
        variables = fields.items(fields.whole(held, "pod: container"), "env", "pod: container")
        if any(variable == {"name": key, "value": value} for variable in variables):
            return raw
        return _with(raw, (*where, "env"), [*variables, {"name": key, "value": value}])
    if kind not in _OF_CONTAINER:
        raise ConfigError(f"no such change of a container: {kind} {key}={value}")
    amount = quantity.parse(value, key=key).text
    return _with(raw, (*where, "resources", _OF_CONTAINER[kind], key), amount)


def _place_of(raw: Json, container: int) -> tuple[str, str, int]:
    spec = fields.member(raw, "spec", "pod:")
    starting = len(fields.items(spec, "initContainers", "pod: spec"))
    name, at = ("initContainers", container) if container < starting else ("containers", container - starting)
    if not 0 <= at < len(fields.items(spec, name, "pod: spec")):
        raise WireError("pod: spec", str(container), "no container at this position")
    return "spec", name, at


def _with(raw: Json, way: tuple[str | int, ...], value: object) -> Json:
    changed: Json = _put(raw, way, value, "pod:")
    return changed


def _put(holder: Any, way: tuple[str | int, ...], value: object, place: str) -> Any:
    """A copy of the holder in which the value stands at the end of the way; missing objects are made."""
    if not way:
        return value
    step, *rest = way
    if isinstance(step, int):
        changed = list(holder)
        changed[step] = _put(changed[step], tuple(rest), value, f"{place}[{step}]")
        return changed
    body = {} if holder is None else fields.whole(holder, place)
    return {**body, step: _put(body.get(step), tuple(rest), value, fields.path(place, step))}


def _patch_members(before: Json, after: Json, path: str) -> list[Json]:
    operations: list[Json] = []
    for name, old in before.items():
        inside = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        operations += patch(old, after[name], inside) if name in after else [{"op": "remove", "path": inside}]
    for name, new in after.items():
        if name not in before:
            inside = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            operations.append({"op": "add", "path": inside, "value": new})
    return operations
