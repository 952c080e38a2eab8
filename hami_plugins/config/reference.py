"""Every setting of a program with its variable, values, default and meaning, read from the model that parses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from hami_plugins.config import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsProgram:
    """What reads a file of settings: its name, its model, what its variables begin with.

    ``option`` gives the file, to the ``commands``.
    """

    name: str
    model: type[BaseModel]
    prefix: str
    option: str
    commands: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. ``key`` is its path in the file; ``variable`` is empty for a member of a list."""

    key: str
    variable: str
    values: str
    default: str
    meaning: str


def settings_of(program: SettingsProgram) -> tuple[Setting, ...]:
    """All settings of a program, in the order of its model."""
    return tuple(_settings(program.model, "", program.prefix))


def _settings(model: type[BaseModel], folder: str, prefix: str) -> Iterator[Setting]:
    """The settings below a folder; members of lists have no prefix, as a variable sets the whole list."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    for name, field in model.model_fields.items():
        spelled = _spelled(name, field)
        key, variable = f"{folder}{spelled}", f"{prefix}{name.upper()}" if prefix else ""
        inner, listed = next(texts.models(field.annotation), None), _listed(field.annotation)
        if inner is None or listed:
            found = schema["properties"][spelled]
            yield Setting(
                key=key,
                variable=variable,
                values=_values(found, schema.get("$defs", {})),
                default="required" if field.is_required() else _default(found.get("default")),
                meaning=_meaning(model, name),
            )
        if inner is not None:
            below = f"{variable}__" if variable and not listed else ""
            yield from _settings(inner, f"{key}[]." if listed else f"{key}.", below)


def _spelled(name: str, field: FieldInfo) -> str:
    """The name in files; of several the first, which HAMi's own documents have."""
    if isinstance(field.validation_alias, AliasChoices):
        return str(field.validation_alias.choices[0])
    return field.alias or name


def _listed(annotation: object) -> bool:
    """Whether there is a list in a type, such as that in ``tuple[Settings, ...] | None``."""
    return get_origin(annotation) in (tuple, list, frozenset) or any(_listed(each) for each in get_args(annotation))


def _meaning(model: type[BaseModel], name: str) -> str:
    """The description of a field, or that of the class whose field it gives another default."""
    known = (base.model_fields.get(name) for base in model.__mro__ if issubclass(base, BaseModel))
    return next((field.description for field in known if field is not None and field.description), "")


def _values(schema: dict[str, Any], definitions: dict[str, Any]) -> str:  # noqa: PLR0911 - one case a type
    """What a JSON schema allows, in words."""
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return " or ".join(_values(each, definitions) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema or "const" in schema:
        return ", ".join(shown(each) for each in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "boolean":
            return "true, false"
        case "integer" | "number" as kind:
            return ", ".join([kind, *_bounds(schema)])
        case "string" if schema.get("pattern") == "^/":
            return "absolute path"
        case "string":
            return "text"
        case "array":
            return f"list of {_values(schema['items'], definitions)}"
        case _:
            return "mapping"


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    if "minimum" in schema and "maximum" in schema:
        yield f"{shown(schema['minimum'])} to {shown(schema['maximum'])}"
        return
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    yield from (f"{word} {shown(schema[bound])}" for bound, word in words.items() if bound in schema)


def _default(value: object) -> str:
    return "not set" if value is None else shown(value)


def shown(value: object) -> str:
    """A value as files may spell it."""
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)
