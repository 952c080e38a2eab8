"""The options of a command as one value: each is spelled once, as a field of a class."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class OptionGroup:
    """The base of such values. They are frozen for mypy alone: a real dataclass costs every start a millisecond.

    A field that is a group itself stands for the fields of that one. Modules of groups do not postpone annotations.
    """

    def __init__(self, **given: Any) -> None:
        for name, kind in type(self).__annotations__.items():
            part = kind(**given) if _is_group(kind) else given[name]
            self.__dict__[name] = part


Group = TypeVar("Group", bound=OptionGroup)


def taking(group: type[Group]) -> Callable[[Callable[[Group], None]], Callable[..., None]]:
    """For a command that is given ``group``: typer reads the fields as its options, in their order."""

    def decorated(command: Callable[[Group], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(group(**given))

        run.__signature__ = inspect.Signature(list(_options(group)))  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorated


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, OptionGroup)


def _options(group: type[OptionGroup]) -> Iterator[inspect.Parameter]:
    for name, kind in group.__annotations__.items():
        if _is_group(kind):
            yield from _options(kind)
        else:
            default = getattr(group, name, inspect.Parameter.empty)
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
