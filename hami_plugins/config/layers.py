"""Settings from several sources laid over each other: files, then the environment, member by member.

A name may be written as in our files (``deviceSplitCount``) or as in variables (``DEVICE_SPLIT_COUNT``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


class Layer(NamedTuple):
    """Where values come from, and the values."""

    source: str
    values: dict[str, Any]


def of_environment(env: Mapping[str, str], prefix: str, known: Mapping[str, tuple[str, ...]] | None = None) -> Layer:
    """What variables set: those that begin with ``prefix`` by their path (``<prefix>SCHEDULER__VERSION``), ``known``
    ones by the path that stands there. Raises ``ConfigError`` for a list or an object that is no JSON."""
    values: dict[str, Any] = {}
    for name, path in (known or {}).items():
        if env.get(name):
            _put(values, path, env[name])
    for name in sorted(env):
        if name.startswith(prefix):
            path = tuple(to_camel(part.lower()) for part in name.removeprefix(prefix).split("__"))
            _put(values, path, _value(name, env[name]))
    return Layer("environment", values)


def merged(layers: Iterable[Layer]) -> dict[str, Any]:
    """All values, later layers over earlier ones."""
    found: dict[str, Any] = {}
    for layer in layers:
        _merge(found, layer.values)
    return found


def made(model: type[Model], layers: Sequence[Layer]) -> Model:
    """The settings. Raises ``ConfigError`` with the source, the path, the value and what is allowed."""
    try:
        return model.model_validate(merged(layers))
    except ValidationError as error:
        raise ConfigError("\n".join(complaints(error, model, layers))) from error


def complaints(error: ValidationError, model: type[BaseModel], layers: Sequence[Layer]) -> list[str]:
    """A line for each value that is refused, with the source that it came from."""
    lines: list[str] = []
    for each in error.errors(include_url=False):
        source = next((layer.source for layer in reversed(layers) if _says(layer.values, each["loc"])), "settings")
        where = ".".join(str(part) for part in each["loc"]) or "(top)"
        lines.append(f"{source}: {where}: {texts.said(each, model, listed=texts.LISTED)}")
    return lines


def _value(name: str, text: str) -> Any:
    """A variable's value: JSON where it begins like a list or an object, the text itself otherwise."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"environment: {name}: not JSON: {error} (found {texts.short(text)})") from error


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *folders, last = path
    for folder in folders:
        inner = values.setdefault(folder, {})
        values = inner if isinstance(inner, dict) else {}
    values[last] = value


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Lays values over others, objects member by member. Everything is brought to one spelling, that of the files."""
    for name, value in values.items():
        key = to_camel(name) if "_" in name else name
        held = into.get(key)
        if isinstance(held, dict) and isinstance(value, dict) and key != "labels":
            _merge(held, value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


def _says(values: Mapping[str, Any], path: tuple[int | str, ...]) -> bool:
    """Whether a layer has a value at a path, or at the list that the path leads into."""
    held: Any = values
    for part in path:
        if not isinstance(held, dict):
            return True
        found = [value for name, value in held.items() if part in (name, to_camel(name))]
        if not found:
            return False
        held = found[0]
    return True
