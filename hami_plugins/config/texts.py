"""YAML texts of settings, and values for messages about them: for every file that an operator writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hami_plugins.errors import ConfigError, ManifestError
from hami_plugins.wire import yaml_text

MOST_SHOWN: Final = 100
"""Characters of a refused value that are shown."""

LISTED: Final = " (`hami-plugins settings` lists all)"
"""Hint that follows the message about an unknown setting of this project's programs."""

_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")


def mapping(text: str, source: str) -> dict[str, Any]:
    """The mapping that a text holds, empty for an empty text. Raises ``ConfigError`` as ``document``."""
    raw = document(text, source)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: not a mapping but {type(raw).__name__}")
    return raw


def unwrapped(document: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    """The document itself, or the one that a ConfigMap's manifest holds under ``key``. Raises ``ConfigError``."""
    data = document.get("data")
    if document.get("kind") == "ConfigMap" and isinstance(data, dict) and key in data:
        return mapping(str(data[key]), f"{source}: {key}")
    return document


def document(text: str, source: str) -> object:
    """The value of a text, ``None`` for an empty one.

    Raises ``ConfigError`` with ``source`` and the place for what ``trees.read`` refuses, and for several documents.
    """
    try:
        found = yaml_text.read(text, source=source, number_keys=True)
    except ManifestError as error:
        where = "" if error.place is None else f"line {error.place.line}, column {error.place.column}: "
        raise ConfigError(f"{source}: not usable YAML: {where}{error.why}") from error
    if len(found) > 1:
        raise ConfigError(f"{source}: one document is expected, this has {len(found)} documents")
    return found[0].value if found else None


def short(value: object) -> str:
    """The start of a value for a message. The value may be as large as its file or, by aliases, far larger."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > MOST_SHOWN:
            return f"{text[:MOST_SHOWN]}..."
    return text


def _pieces(value: object) -> Iterator[str]:
    """What ``repr`` writes, bit by bit; the reader stops when it has enough."""
    if isinstance(value, str):
        yield repr(value[: MOST_SHOWN + 1])
    elif isinstance(value, dict):
        yield "{"
        for at, (key, inner) in enumerate(value.items()):
            yield f", {short(key)}: " if at else f"{short(key)}: "
            yield from _pieces(inner)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for at, inner in enumerate(value):
            yield ", " if at else ""
            yield from _pieces(inner)
        yield "]"
    else:
        yield repr(value)


def complaints(error: ValidationError, model: type[BaseModel], *, listed: str = "") -> list[str]:
    """A line for each value that ``model`` refuses: its path, what is allowed, and what was found.

    ``listed`` says after an unknown name where the known ones are listed.
    """
    lines: list[str] = []
    for each in error.errors(include_url=False):
        where = ".".join(str(part) for part in each["loc"]) or "(top)"
        lines.append(f"{where}: {said(each, model, listed=listed)}")
    return lines


def said(complaint: ErrorDetails, model: type[BaseModel], *, listed: str = "") -> str:
    """The allowed values, as the file spells them: pydantic spells the members of an enumeration as Python does."""
    if complaint["type"] == "extra_forbidden":
        *folders, name = map(str, complaint["loc"])
        return unknown(name, names(model, folders)) + listed
    message = _MEMBER.sub(r"\1", complaint["msg"]).removeprefix("Value error, ")
    return f"{message} (found {short(complaint['input'])})"


def unknown(name: str, known: Sequence[str]) -> str:
    """The message for a name that is not a setting."""
    near = get_close_matches(name.lower(), [each.lower() for each in known], 1, 0.6)
    if near:
        meant = next(each for each in known if each.lower() == near[0])
        return f"no such setting; did you mean {meant}?"
    return f"no such setting; there are {', '.join(known)}" if known else "no such setting"


def names(model: type[BaseModel], folders: Sequence[str]) -> tuple[str, ...]:
    """The settings below a path, as files spell them; none where the path leads to something else than settings."""
    for folder in folders:
        field = next((each for name, each in model.model_fields.items() if folder in (name, each.alias)), None)
        inner = list(models(field.annotation)) if field is not None else []
        if len(inner) != 1:
            return ()
        model = inner[0]
    return tuple(field.alias or name for name, field in model.model_fields.items())


def models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in a type, such as that in ``Settings | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from models(each)
