"""JSON merge patch (RFC 7396) and JSON patch (RFC 6902): the new object is made, the old one left as it is.

As in the API server's library, and unlike in the RFC, ``replace`` makes a member that is not there, and ``copy`` takes
one as null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hami_plugins.sandbox.apiserver.answers import ApiError, bad_request, patch_failed

MAX_OPERATIONS: Final = 10_000
"""Most operations of one JSON patch."""


def merge(old: Any, patch: Any) -> Any:
    """RFC 7396: objects merge member by member, ``null`` removes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def json_patch(old: Any, operations: Any) -> Any:
    """RFC 6902. Raises ``ApiError`` 400 for operations that are none, 422 where they do not apply."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise ApiError(
            413,
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = old
    for operation in operations:
        if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: an operation needs op and path")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _steps(operation["path"])
    match operation.get("op"):
        case "add":
            return _put(document, path, operation.get("value"), insert=True)
        case "replace":
            return _put(document, path, operation.get("value"), insert=False)
        case "remove":
            return _removed(document, path)
        case "test":
            if not _same(_look(document, path, missing=None), operation.get("value")):
                raise patch_failed()
            return document
        case "copy":
            return _put(document, path, _look(document, _source(operation), missing=None), insert=True)
        case "move":
            value = _look(document, _source(operation))
            return _put(_removed(document, _source(operation)), path, value, insert=True)
        case _:
            raise patch_failed()


def _source(operation: Mapping[str, Any]) -> tuple[str, ...]:
    source = operation.get("from")
    if not isinstance(source, str):
        raise patch_failed()
    return _steps(source)


def _steps(pointer: str) -> tuple[str, ...]:
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise patch_failed()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


_NOTHING: Final = object()


def _look(document: Any, path: Sequence[str], *, missing: Any = _NOTHING) -> Any:
    """What stands at a path. ``missing`` is the answer when only the last member is not there."""
    value = document
    for depth, step in enumerate(path):
        found = _child(value, step)
        if found is _NOTHING:
            if missing is not _NOTHING and depth == len(path) - 1:
                return missing
            raise patch_failed()
        value = found
    return value


def _child(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, _NOTHING)
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return _NOTHING


def _put(document: Any, path: Sequence[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        if rest and step not in document:
            raise patch_failed()
        return {**document, step: _put(document.get(step), rest, value, insert=insert)}
    if isinstance(document, list):
        at = _place(document, step, grow=insert and not rest)
        if rest:
            return [*document[:at], _put(document[at], rest, value, insert=insert), *document[at + 1 :]]
        return [*document[:at], value, *document[at + (not insert) :]]
    raise patch_failed()


def _removed(document: Any, path: Sequence[str]) -> Any:
    _look(document, path)
    if not path:
        return None
    step, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        if rest:
            return {**document, step: _removed(document[step], rest)}
        return {key: value for key, value in document.items() if key != step}
    at = int(step)
    kept = [_removed(document[at], rest)] if rest else []
    return [*document[:at], *kept, *document[at + 1 :]]


def _place(items: list[Any], step: str, *, grow: bool) -> int:
    if step == "-" and grow:
        return len(items)
    if not step.isdigit() or int(step) >= len(items) + grow:
        raise patch_failed()
    return int(step)


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON: unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
