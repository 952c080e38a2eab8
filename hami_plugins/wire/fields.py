"""Typed reads from loosely typed JSON objects. ``null`` is the same as absent, as in the API server.

A wrong type is a ``WireError`` whose key is the path of the member, such as ``pod default/x: spec.containers[0].env``.
A place that ends in a colon is an object as a whole; anything else is a path inside one.
"""

from collections.abc import Mapping
from typing import Any

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, DeviceId
from hami_plugins.wire import scalars
from hami_plugins.wire.scalars import INT64_MAX, shown

Json = Mapping[str, Any]
"""A JSON object, such as a Kubernetes object, to be read. One that is being built is a ``dict``."""


def wrong(place: str, value: object, expected: str) -> WireError:
    """The error for a value that is not what its place wants."""
    return WireError(place, shown(value), f"expected {expected}")


def path(place: str, name: str) -> str:
    """The place of a member."""
    return f"{place} {name}" if place.endswith(":") else f"{place}.{name}"


def whole(value: object, place: str) -> Json:
    """The value itself as an object; ``null`` is refused here."""
    if isinstance(value, dict):
        return value
    raise wrong(place, value, "an object")


def member(holder: Json, name: str, place: str) -> dict[str, Any]:
    """An object, empty when absent."""
    value = holder.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise wrong(path(place, name), value, "an object")


def items(holder: Json, name: str, place: str) -> list[Any]:
    """A list, empty when absent."""
    value = holder.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise wrong(path(place, name), value, "a list")


def text(holder: Json, name: str, place: str) -> str:
    """A text, empty when absent."""
    value = holder.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise wrong(path(place, name), value, "text")


def needed(holder: Json, name: str, place: str) -> str:
    """A text that must be there and not be empty."""
    if found := text(holder, name, place):
        return found
    raise WireError(path(place, name), "", "is missing")


def number(holder: Json, name: str, place: str, *, default: int = 0) -> int:
    """An integer."""
    value = holder.get(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and -INT64_MAX <= value <= INT64_MAX:
        return value
    raise wrong(path(place, name), value, "an integer")


def device(holder: Json, name: str, place: str) -> DeviceId:
    """A device id; it must be there."""
    try:
        return scalars.device_id(text(holder, name, place))
    except ValueError as error:
        raise WireError(path(place, name), shown(holder.get(name)), str(error)) from None


def natural(holder: Json, name: str, place: str) -> int:
    """An int32 that is not negative, 0 when absent."""
    value = holder.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX:
        return value
    raise wrong(path(place, name), value, f"an integer from 0 to {INT32_MAX}")


def flag(holder: Json, name: str, place: str) -> bool:
    """A truth value, false when absent."""
    value = holder.get(name)
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    raise wrong(path(place, name), value, "true or false")


def texts(holder: Json, name: str, place: str) -> list[str]:
    """A list of texts, empty when absent."""
    found = items(holder, name, place)
    if {*map(type, found)} <= {str}:
        return found
    at = next(at for at, value in enumerate(found) if not isinstance(value, str))
    raise wrong(f"{path(place, name)}[{at}]", found[at], "text")


def text_map(holder: Json, name: str, place: str) -> dict[str, str]:
    """A map of texts (labels, annotations), empty when absent. It is handed on as it is, not copied."""
    found = member(holder, name, place)
    for key, value in found.items():
        if not isinstance(value, str) or not isinstance(key, str):
            raise wrong(f"{path(place, name)}[{shown(key)}]", value, "text under a text")
    return found


def number_map(holder: Json, name: str, place: str) -> dict[str, int]:
    """A map of integers, empty when absent."""
    found = member(holder, name, place)
    for key, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool) or not isinstance(key, str):
            raise wrong(f"{path(place, name)}[{shown(key)}]", value, "an integer under a text")
    return found
