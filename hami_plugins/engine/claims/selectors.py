"""CEL expressions that choose devices, evaluated by the ``cel`` library with the variables and functions of Kubernetes.

An expression that does not compile is a named error. One that the library cannot evaluate as Kubernetes does is
*unknown*: nothing is guessed. Source: package ``cel`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hami_plugins.errors import HamiPluginsError, WireError
from hami_plugins.model.claims import AttributeValue, SemanticVersion, SliceDevice
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import quantity

if TYPE_CHECKING:
    import cel

_QUANTITY: Final = "@quantity"
_VERSION: Final = "@semver"
_VARIABLES: Final = frozenset({"device"})
_NATIVE: Final = frozenset({"contains", "endsWith", "matches", "startsWith"})
"""Functions of which the library's answers are those of Kubernetes. Not ``size``, which counts bytes there."""

_KNOWN_NAMES: Final = """
    add all asApproximateFloat asInteger base64 bind bool bytes charAt cidr compareTo contains containsIP containsCIDR
    distinct double duration dyn endsWith exists exists_one family find findAll filter first flatten format getDate
    getDayOfMonth getDayOfWeek getDayOfYear getEscapedPath getFullYear getHost getHostname getHours getMilliseconds
    getMinutes getMonth getPort getQuery getScheme getSeconds greatest has hasValue indexOf int ip isCIDR isGreaterThan
    isInteger isIP isLessThan isLinkLocalMulticast isLoopback isMasked isQuantity isSemver isSorted isUnspecified isURL
    join last lastIndexOf least lowerAscii major map masked matches max min minor none of ofNonZeroValue optional or
    orValue patch prefixLength quantity quote range replace reverse semver sets sign size slice sort sortBy split
    startsWith string sub substring sum timestamp transformList transformMap trim type uint upperAscii url validate
    value
    """
OF_KUBERNETES: Final = frozenset(_KNOWN_NAMES.split())
"""Functions that Kubernetes knows; a call of any other one does not compile there."""

_LITERAL: Final = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")
_WHOLE_MAP: Final = re.compile(
    r"\bin\s+device\s*\.\s*(?:attributes|capacity)\b(?!\s*[\[.])|"
    r"device\s*\.\s*(?:attributes|capacity)\b(?!\s*\[)"
)
"""Attributes or capacities of all domains at once: a domain that a device lacks is then no longer an empty one."""

_BIND: Final = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_SEMVER: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class SelectorError(HamiPluginsError):
    """An expression that does not compile, or that ends in an error for a device: no pod is placed with it."""


class NotEvaluatedError(HamiPluginsError):
    """An expression that Kubernetes can evaluate and this program cannot."""


class Selector(NamedTuple):
    """One expression, ready to be evaluated by one thread. ``domains`` are all texts in it, which may name domains."""

    expression: str
    program: cel.Program
    context: cel.Context
    domains: tuple[str, ...]

    def accepts(self, device: SliceDevice, driver: str) -> bool:
        """Whether the expression chooses a device. Raises ``SelectorError`` and ``NotEvaluatedError``."""
        self.context.add_variable("device", variables(device, driver, self.domains))
        try:
            found = self.program.execute(self.context)
        except KeyError as error:
            raise SelectorError(f"no such key: {error.args[0]}") from None
        except TypeError as error:
            raise SelectorError("no such overload") from error
        except (ArithmeticError, IndexError, RuntimeError, ValueError, WireError) as error:
            raise NotEvaluatedError(" ".join(str(error).split())) from error
        if not isinstance(found, bool):
            raise SelectorError(f"the result is {_shown(found)}, and not true or false")
        return found


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Selector:
    """Raises ``SelectorError`` for what does not compile, ``NotEvaluatedError`` for what is not evaluated here."""
    import cel  # noqa: PLC0415 - takes its time, and few plans have claims

    if _WHOLE_MAP.search(_LITERAL.sub('""', expression)):
        raise NotEvaluatedError("it looks at the attributes or capacities of all domains at once")
    try:
        program = cel.compile(_without_bind(expression))
    except ValueError as error:
        why = " ".join(str(error).partition(": ")[2].split())
        if "unsupported syntax" in why:
            raise NotEvaluatedError(why) from error
        raise SelectorError(f"it does not compile: {why}") from error
    names = {name for name in program.functions() if name[0].isalpha()}
    unknown = sorted({*program.variables()} - _VARIABLES - {*_BOUND.findall(program.source)})
    unknown += sorted(names - OF_KUBERNETES)
    if unknown:
        raise SelectorError(f"it does not compile: undeclared reference to {', '.join(unknown)}")
    strange = sorted(names - _NATIVE - _FUNCTIONS.keys())
    if strange:
        raise NotEvaluatedError(f"it calls {', '.join(strange)}")
    texts = tuple(dict.fromkeys(found[1:-1] for found in _LITERAL.findall(expression)))
    used = {name: _FUNCTIONS[name] for name in names & _FUNCTIONS.keys()}
    return Selector(expression, program, cel.Context(functions=used), texts)


def variables(device: SliceDevice, driver: str, domains: tuple[str, ...]) -> dict[str, Any]:
    """The variable ``device``: names without a domain are in that of the driver, and other domains are empty."""
    attributes: dict[str, dict[str, Any]] = {each: {} for each in domains}
    capacity: dict[str, dict[str, Any]] = {each: {} for each in domains}
    for name, value in device.attributes.items():
        domain, key = _qualified(name, driver)
        attributes.setdefault(domain, {})[key] = _of_attribute(value)
    for name, has in device.capacity.items():
        domain, key = _qualified(name, driver)
        capacity.setdefault(domain, {})[key] = {_QUANTITY: str(has.value)}
    return {
        "driver": driver,
        "allowMultipleAllocations": device.shared,
        "attributes": attributes,
        "capacity": capacity,
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _of_attribute(value: AttributeValue) -> object:
    return {_VERSION: value.text} if isinstance(value, SemanticVersion) else value


def _without_bind(expression: str) -> str:
    """``cel.bind(x, value, body)`` as ``[value].map(x, body)[0]``, which is the same and which the library knows."""
    while (found := _BIND.search(_blanked(expression))) is not None:
        parts, end = _arguments(expression, found.end())
        if len(parts) != 3:
            raise SelectorError("it does not compile: cel.bind takes a name, a value and an expression")
        name, value, body = parts
        expression = f"{expression[: found.start()]}[{value}].map({name.strip()}, {body})[0]{expression[end:]}"
    return expression


def _arguments(expression: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call whose list begins at ``start``, and where it ends."""
    blanked, depth, parts, at = _blanked(expression), 0, [start], start
    while at < len(blanked):
        sign = blanked[at]
        if sign in ")]}" and not depth:
            ends = [*(each - 1 for each in parts[1:]), at]
            return [expression[begin:end] for begin, end in zip(parts, ends, strict=True)], at + 1
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append(at + 1)
        at += 1
    raise SelectorError("it does not compile: a parenthesis is not closed")


def _blanked(expression: str) -> str:
    """The expression with all its texts blank, so that what is in them is not taken for syntax."""
    return _LITERAL.sub(lambda found: '"' + "_" * (len(found[0]) - 2) + '"', expression)


def _shown(value: object) -> str:
    return str(value)[:60]


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: str(quantity.parse(text, key="quantity").nano)}


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text, key="quantity")
    except WireError:
        return False
    return True


def _semver(text: str) -> dict[str, str]:
    if _SEMVER.fullmatch(text) is None:
        raise TypeError(f"{text} is not a semantic version")
    return {_VERSION: text}


def _compared(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    mine, theirs = _ordered(one), _ordered(other)
    if type(mine) is not type(theirs):
        raise TypeError("a quantity and a version are not compared")
    return (mine > theirs) - (mine < theirs)  # type: ignore[operator] # both are numbers, or both are tuples


def _ordered(value: object) -> int | tuple[object, ...]:
    """Sort key of quantities and versions (semver 2.0.0, 11)."""
    if isinstance(value, Mapping) and _QUANTITY in value:
        return int(value[_QUANTITY])
    found = _SEMVER.fullmatch(value[_VERSION]) if isinstance(value, Mapping) and _VERSION in value else None
    if found is None:
        raise TypeError("neither a quantity nor a version")
    numbers = tuple(int(found[at]) for at in (1, 2, 3))
    before = found[4]
    if before is None:
        return (*numbers, 1, ())
    parts = tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in before.split("."))
    return (*numbers, 0, parts)


def _nano(value: Mapping[str, str]) -> int:
    found = _ordered(value)
    if not isinstance(found, int):
        raise TypeError("not a quantity")
    return found


def _whole(value: Mapping[str, str]) -> int:
    nano = _nano(value)
    if nano % NANO:
        raise TypeError("not an integer")
    return nano // NANO


def _plus(value: Mapping[str, str], other: object, *, sign: int) -> dict[str, str]:
    more = other * NANO if isinstance(other, int) else _ordered(other)
    if not isinstance(more, int):
        raise TypeError("not a quantity")
    return {_QUANTITY: str(_nano(value) + sign * more)}


def _part(value: Mapping[str, str], at: int) -> int:
    found = _ordered(value)
    part = found[at] if isinstance(found, tuple) else None
    if not isinstance(part, int):
        raise TypeError("not a version")
    return part


_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "semver": _semver,
    "isSemver": lambda text: _SEMVER.fullmatch(text) is not None,
    "compareTo": _compared,
    "isGreaterThan": lambda one, other: _compared(one, other) > 0,
    "isLessThan": lambda one, other: _compared(one, other) < 0,
    "sign": lambda value: (_nano(value) > 0) - (_nano(value) < 0),
    "isInteger": lambda value: _nano(value) % NANO == 0,
    "asInteger": _whole,
    "asApproximateFloat": lambda value: _nano(value) / NANO,
    "add": lambda value, other: _plus(value, other, sign=1),
    "sub": lambda value, other: _plus(value, other, sign=-1),
    "major": lambda value: _part(value, 0),
    "minor": lambda value: _part(value, 1),
    "patch": lambda value: _part(value, 2),
    "lowerAscii": lambda text: "".join(each.lower() if each.isascii() else each for each in text),
    "upperAscii": lambda text: "".join(each.upper() if each.isascii() else each for each in text),
}
