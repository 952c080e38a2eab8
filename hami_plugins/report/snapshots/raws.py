"""Looking into raw objects whose parts may be anything: what is not of the type that is asked for is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def members(raw: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def texts(raw: Mapping[str, object], key: str) -> Mapping[str, str]:
    return {name: value for name, value in members(raw, key).items() if isinstance(value, str)}


def values(raw: Mapping[str, object], key: str) -> Sequence[object]:
    value = raw.get(key)
    return value if isinstance(value, list) else ()


def items(raw: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    return [each for each in values(raw, key) if isinstance(each, Mapping)]


def members_called(value: object, name: str) -> Iterator[Mapping[str, object]]:
    """The mappings, however deep, that stand under that name."""
    return (members(holder, name) for holder in holders_of(value, name))


def holders_of(value: object, name: str) -> Iterator[Mapping[str, object]]:
    """The mappings, however deep, that have a member of that name."""
    if isinstance(value, Mapping):
        if name in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from holders_of(each, name)
