"""JSON as the Go programs around us read and write it (``encoding/json``), without their sentences.

Reading: member names match whatever their case, unknown ones are ignored, ``null`` is the zero value. Writing: members
stay in the order given, and what Go escapes for HTML is escaped, so that equal values give equal text.
"""

from typing import Any, Final

import orjson

from hami_plugins.errors import WireError
from hami_plugins.wire.fields import Json, whole, wrong

Scalar = str | int | float | bool | None

_HTML: Final = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


_SHOWN: Final = 200
"""Bytes of a body that an error message quotes."""


def load(key: str, text: str | bytes) -> Any:
    """The document in a text; raises ``WireError`` when it is not JSON."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        shown = text if isinstance(text, str) else text[:_SHOWN].decode(errors="replace")
        raise WireError(key, shown, f"not JSON: {error}") from None


def load_list(key: str, text: str) -> list[Any]:
    """The document, which must be a list; ``null`` is an empty one."""
    document = load(key, text)
    if document is None:
        return []
    if isinstance(document, list):
        return document
    raise wrong(key, document, "a list")


def dump(value: object) -> str:
    """The text of a value made of dicts, lists and scalars; raises ``WireError`` for what JSON cannot carry."""
    try:
        # These characters only ever stand inside strings.
        return orjson.dumps(value).decode().translate(_HTML)
    except TypeError as error:
        raise WireError("document", "", f"cannot be written as JSON: {error}") from None


def folded(value: object, place: str) -> Json:
    """An object with its member names in lower case, ready for the functions of ``wire.fields``."""
    return {name.lower(): inner for name, inner in whole(value, place).items()}


def filled(members: Json) -> dict[str, Any]:
    """The members that are not empty, zero or false (Go's ``omitempty``)."""
    return {name: value for name, value in members.items() if value}
