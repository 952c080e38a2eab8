"""A command that starts fast: only what is given on the command line is converted."""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand


class LightCommand(TyperCommand):
    """A command whose options keep their defaults as they are.

    To convert a value, also a default, typer loads pydantic, which takes as long as all that a light command does.
    Typer's contexts and parameters are ``Any`` here: their classes moved from click into typer with version 0.20.
    """

    def get_params(self, ctx: Any) -> Any:
        """The options and arguments of the command."""
        found: Any = super().get_params(ctx)
        for each in found:
            each.process_value = partial(_converted, each, type(each).process_value)
        return found


def _converted(parameter: Any, convert: Any, ctx: Any, value: Any) -> Any:
    given = value is not None and value != parameter.default
    return convert(parameter, ctx, value) if given else value
