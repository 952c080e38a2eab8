"""YAML texts of settings, and values for messages about them: for every file that an operator writes."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hami_plugins.errors import ConfigError

MOST_SHOWN: Final = 100
"""Characters of a refused value that are shown."""

_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")


def mapping(text: str, source: str) -> dict[str, Any]:
    """The mapping that a text holds, empty for an empty text.

    Raises ``ConfigError`` with ``source`` and the place for what is no YAML, no mapping, or has a key that is no text.
    """
    try:
        raw = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not YAML{_place(error)}") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: not a mapping but {type(raw).__name__}")
    for key in raw:
        if not isinstance(key, str):
            raise ConfigError(f"{source}: {key!r}: no setting has this name")
    return raw


def short(value: object) -> str:
    """A value for a message: a file of another kind may stand where a word should."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def complaints(error: ValidationError) -> list[str]:
    """A line for each value that a model refuses: its path, what is allowed, and what was found."""
    lines: list[str] = []
    for each in error.errors(include_url=False):
        where = ".".join(str(part) for part in each["loc"]) or "(top)"
        lines.append(f"{where}: {said(each)} (found {short(each['input'])})")
    return lines


def said(complaint: ErrorDetails) -> str:
    """What is allowed, in words of the file: pydantic spells the members of an enumeration as Python does."""
    return _MEMBER.sub(r"\1", complaint["msg"]).removeprefix("Value error, ")


def _place(error: yaml.YAMLError) -> str:
    """Where a text stops being YAML, and why."""
    mark, why = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = "" if mark is None else f": line {mark.line + 1}, column {mark.column + 1}"
    return f"{where}: {why or str(error).splitlines()[0]}"
