"""Values as YAML that reads back as the same values in Kubernetes' reading, in block style and inside braces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hami_plugins.wire.yaml_text import scalars

_STEP: Final = 2
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")


def scalar(value: object) -> str:
    """One value without parts; text is quoted where it would mean something else."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and scalars.plain(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def flow(value: object) -> str:
    """Any value on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{scalar(key)}: {flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(flow(each) for each in value)}]"
    return scalar(value)


def block(value: object, column: int = 0) -> str:
    """Any value on lines of its own, each ended by a line feed."""
    return "".join(f"{' ' * column}{line}\n" for line in _lines(value))


def block_member(name: str, value: object, column: int) -> str:
    """A member on lines of its own, without the last line feed; without a name what comes after one."""
    head = f"{scalar(name)}:" if name else ":"
    return "\n".join(f"{' ' * column}{line}" for line in _member(head, value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _member(f"{scalar(key)}:", inner)
    elif isinstance(value, list) and value:
        for each in value:
            lines = list(_lines(each))
            yield f"- {lines[0]}"
            yield from (f"{' ' * _STEP}{line}" for line in lines[1:])
    else:
        yield flow(value)


def _member(head: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from (f"{' ' * _STEP}{line}" for line in _lines(value))
    elif isinstance(value, list) and value:
        yield head
        yield from _lines(value)
    else:
        yield f"{head} {flow(value)}"
