"""JSON schemas for kubeconform, made from what an API server says of itself: no schema comes from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import Api

_PREFIX: Final = "#/definitions/"
_EITHER: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def schemas_of(api: Api, kinds: Iterable[tuple[str, str]], folder: Path) -> None:
    """Write ``<kind>-<version>.json`` for each (apiVersion, kind), strict: unknown members are errors."""
    folder.mkdir(parents=True, exist_ok=True)
    definitions = api.get("/openapi/v2")["definitions"]
    named = {
        (_version(each), each["kind"]): name
        for name, found in definitions.items()
        for each in found.get("x-kubernetes-group-version-kind", ())
    }
    for version, kind in kinds:
        first = named[(version, kind)]
        needed = _closure(first, definitions)
        document = {"$ref": f"{_PREFIX}{first}", "definitions": {each: _strict(definitions[each]) for each in needed}}
        target = folder / f"{kind.lower()}-{version.rpartition('/')[2]}.json"
        target.write_text(json.dumps(document))


def _version(found: Any) -> str:
    return f"{found['group']}/{found['version']}" if found["group"] else str(found["version"])


def _closure(first: str, definitions: Any) -> set[str]:
    found: set[str] = set()
    todo = [first]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(_references(definitions[name]))
    return found


def _references(found: Any) -> list[str]:
    if isinstance(found, dict):
        own = [str(found["$ref"]).removeprefix(_PREFIX)] if isinstance(found.get("$ref"), str) else []
        return own + [each for held in found.values() for each in _references(held)]
    return [each for held in found for each in _references(held)] if isinstance(found, list) else []


def _strict(found: Any) -> Any:
    if isinstance(found, list):
        return [_strict(each) for each in found]
    if not isinstance(found, dict):
        return found
    if found.get("format") == "int-or-string":
        return _EITHER
    made = {name: _strict(held) for name, held in found.items() if name not in {"format", "description"}}
    if isinstance(found.get("description"), dict):  # a member of that name
        made["description"] = _strict(found["description"])
    if isinstance(found.get("format"), dict):
        made["format"] = _strict(found["format"])
    if "properties" in found and "additionalProperties" not in found:
        made["additionalProperties"] = False
    return made
