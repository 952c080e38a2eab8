"""Match conditions of webhooks: the part of CEL that this product installs, and nothing that looks like more of it.

Members and indexes of ``object``, ``oldObject`` and ``request``; ``has``, ``in``, ``==``, ``!=``, ``&&``, ``||``,
``!``, ``? :``, ``+`` and ``exists``; texts, whole numbers, true, false, null and lists of them. Types are those of JSON
and not checked beforehand: what CEL would refuse to compile is an error when it is asked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hami_plugins.errors import HamiPluginsError

Variables = Mapping[str, Any]
_Value = Callable[[Variables], Any]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*'|\"(?:[^\"\\]|\\.)*\")|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>&&|\|\||==|!=|[!?:+.,()\[\]]))"
)
_NAMES: Final = frozenset({"object", "oldObject", "request"})
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset({"in", "has", *_WORDS})


class NoConditionError(HamiPluginsError):
    """The text is beyond what is understood here."""


class UndecidedError(HamiPluginsError):
    """The condition holds neither way for what it was asked about; the text is CEL's."""


class MatchCondition(NamedTuple):
    """One condition, ready to be asked."""

    expression: str
    value: _Value

    def holds(self, variables: Variables) -> bool:
        """Raises ``UndecidedError`` where a member is missing, or is not what its place needs."""
        try:
            return _truth(self.value(variables))
        except UndecidedError as error:
            raise UndecidedError(f"expression '{self.expression}' resulted in error: {error}") from error


@lru_cache(maxsize=256)
def compiled(expression: str) -> MatchCondition:
    """Raises ``NoConditionError`` for what is not understood."""
    reader = _Reader(expression)
    value = reader.choice()
    reader.end()
    return MatchCondition(expression, value)


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._known = set(_NAMES)
        self._kind, self._word = "", ""
        self._advance()

    def end(self) -> None:
        if self._kind:
            raise self._beyond()

    def choice(self) -> _Value:
        """``a ? b : c`` and all that binds closer."""
        asked = self._either()
        if not self._taken("?"):
            return asked
        if_so = self.choice()
        self._expect(":")
        if_not = self.choice()
        return lambda known: (if_so if _truth(asked(known)) else if_not)(known)

    def _either(self) -> _Value:
        left = self._both()
        while self._taken("||"):
            left = _joined(left, self._both(), decides=True)
        return left

    def _both(self) -> _Value:
        left = self._relation()
        while self._taken("&&"):
            left = _joined(left, self._relation(), decides=False)
        return left

    def _relation(self) -> _Value:
        left = self._sum()
        for mark, compare in _RELATIONS.items():
            if self._taken(mark):
                return _applied(compare, left, self._sum())
        return left

    def _sum(self) -> _Value:
        left = self._negation()
        while self._taken("+"):
            left = _applied(_added, left, self._negation())
        return left

    def _negation(self) -> _Value:
        if self._taken("!"):
            value = self._negation()
            return lambda known: not _truth(value(known))
        return self._member()

    def _member(self) -> _Value:
        value = self._primary()
        while True:
            if self._taken("."):
                name = self._name()
                if name == "exists" and self._taken("("):
                    value = self._exists(value)
                else:
                    value = _applied(_selected, value, _constant(name))
            elif self._taken("["):
                value = _applied(_selected, value, self.choice())
                self._expect("]")
            else:
                return value

    def _exists(self, items: _Value) -> _Value:
        name = self._name()
        if name in self._known or name in _RESERVED:
            raise self._beyond()
        self._expect(",")
        self._known.add(name)
        holds = self.choice()
        self._known.remove(name)
        self._expect(")")
        return lambda known: _any_of(_listed(items(known)), lambda item: holds({**known, name: item}))

    def _primary(self) -> _Value:
        kind, word = self._kind, self._word
        if self._taken("("):
            value = self.choice()
            self._expect(")")
            return value
        if self._taken("["):
            return self._list()
        if kind in ("text", "number"):
            self._advance()
            return _constant(_text(word) if kind == "text" else int(word))
        if kind == "name" and word in _WORDS:
            self._advance()
            return _constant(_WORDS[word])
        if kind == "name" and word == "has":
            return self._has()
        if kind == "name" and word in self._known:
            self._advance()
            return lambda known: known[word]
        raise self._beyond()

    def _list(self) -> _Value:
        items: list[_Value] = []
        while not self._taken("]"):
            if items:
                self._expect(",")
            items.append(self.choice())
        return lambda known: [item(known) for item in items]

    def _has(self) -> _Value:
        """``has(a.b.c)``: whether the last member is there; those before it have to be."""
        self._advance()
        self._expect("(")
        root = self._name()
        if root not in self._known:
            raise self._beyond()
        path: list[str] = []
        while self._taken("."):
            path.append(self._name())
        self._expect(")")
        if not path:
            raise self._beyond()

        def there(known: Variables) -> bool:
            holder = known[root]
            for name in path[:-1]:
                holder = _selected(holder, name)
            return isinstance(holder, Mapping) and path[-1] in holder

        return there

    def _name(self) -> str:
        word = self._word
        if self._kind != "name":
            raise self._beyond()
        self._advance()
        return word

    def _taken(self, word: str) -> bool:
        if self._word != word or self._kind == "text":
            return False
        self._advance()
        return True

    def _expect(self, word: str) -> None:
        if not self._taken(word):
            raise self._beyond()

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        if found:
            self._at = found.end()
            self._kind, self._word = str(found.lastgroup), found[str(found.lastgroup)]
        elif self._text[self._at :].strip():
            raise self._beyond()
        else:
            self._kind, self._word = "", ""

    def _beyond(self) -> NoConditionError:
        read = self._text[: self._at].strip()
        return NoConditionError(
            f"this server is an emulator and knows only a part of CEL (members, has, in, ==, !=, &&, ||, !, ?:, +, "
            f"exists); it got as far as {read!r}"
        )


def _text(word: str) -> str:
    """The value of a literal. Escapes are read in double quotes alone, and are those that CEL and JSON share."""
    try:
        return word[1:-1] if word.startswith("'") else str(json.loads(word, strict=False))
    except ValueError as error:
        raise NoConditionError(f"{word}: this server is an emulator and knows only the escapes of JSON") from error


def _constant(value: Any) -> _Value:
    return lambda _: value


def _applied(act: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    return lambda known: act(left(known), right(known))


def _joined(left: _Value, right: _Value, *, decides: bool) -> _Value:
    """``&&`` and ``||``: a side that decides makes the other's errors not matter, whichever side it is."""
    return lambda known: _any_of((left, right), lambda side: _truth(side(known)) is decides) is decides


def _any_of(items: Any, holds: Callable[[Any], Any]) -> bool:
    undecided: UndecidedError | None = None
    for item in items:
        try:
            if _truth(holds(item)):
                return True
        except UndecidedError as error:
            undecided = undecided or error
    if undecided is not None:
        raise undecided
    return False


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise UndecidedError("no such overload")


def _selected(holder: Any, step: Any) -> Any:
    if isinstance(holder, Mapping):
        if step in holder:
            return holder[step]
        raise UndecidedError(f"no such key: {step}")
    if isinstance(holder, list) and isinstance(step, int):
        if step < len(holder):
            return holder[step]
        raise UndecidedError(f"index out of bounds: {step}")
    raise UndecidedError("no such overload")


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list | Mapping):
        return list(value)
    raise UndecidedError("no such overload")


def _added(left: Any, right: Any) -> Any:
    for kind in (list, str):
        if isinstance(left, kind) and isinstance(right, kind):
            return left + right  # type: ignore[operator]
    raise UndecidedError("no such overload")


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _inside(item: Any, holder: Any) -> bool:
    return any(_equal(item, each) for each in _listed(holder))


_RELATIONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "in": _inside,
}
