"""Match conditions of webhooks, evaluated by the ``cel`` library.

The variables are ``object``, ``oldObject`` and ``request``. Types are those of JSON and not checked beforehand: what
the API server refuses to compile for its types is an error when the condition is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hami_plugins.errors import HamiPluginsError

if TYPE_CHECKING:
    import cel

Variables = Mapping[str, Any]

_VARIABLES: Final = frozenset({"object", "oldObject", "request"})
_FUNCTIONS: Final = frozenset({"contains", "endsWith", "matches", "startsWith"})
"""Besides operators and macros. Not ``size``, for which the library counts bytes, and nothing that Kubernetes adds."""

_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")


class NoConditionError(HamiPluginsError):
    """The expression does not compile, or uses what is not evaluated here."""


class UndecidedError(HamiPluginsError):
    """The condition is neither true nor false; the text is that of the API server."""


class MatchCondition(NamedTuple):
    """One condition, ready to be evaluated."""

    program: cel.Program

    def holds(self, variables: Variables) -> bool:
        """Raises ``UndecidedError`` where a member is missing, or has another type than its place needs."""
        try:
            value = self.program.execute(dict(variables))
        except KeyError as error:
            why = f"no such key: {error.args[0]}"
        except IndexError as error:
            why = str(error)
        except TypeError:
            why = "no such overload"
        except (ArithmeticError, RuntimeError, ValueError) as error:
            why = " ".join(str(error).split())
        else:
            if isinstance(value, bool):
                return value
            why = "no such overload"
        raise UndecidedError(f"expression '{self.program.source}' resulted in error: {why}")


@lru_cache(maxsize=256)
def compiled(expression: str) -> MatchCondition:
    """Raises ``NoConditionError`` for what does not compile, and for names that are not known here."""
    import cel  # noqa: PLC0415 - takes as long as a third of the API server, and most clusters have no condition

    try:
        program = cel.compile(expression)
    except ValueError as error:
        _, _, why = str(error).partition(": ")
        raise NoConditionError(f"compilation failed: {' '.join(why.split())}") from error
    unknown = {*program.variables()} - _VARIABLES - {*_BOUND.findall(expression)}
    unknown |= {name for name in program.functions() if name[0].isalpha()} - _FUNCTIONS
    if unknown:
        raise NoConditionError(
            f"the embedded API server does not know {', '.join(sorted(unknown))}; its match conditions have the "
            f"variables {', '.join(sorted(_VARIABLES))} and the functions {', '.join(sorted(_FUNCTIONS))}"
        )
    return MatchCondition(program)
