"""Answers of Prometheus to instant queries (``/api/v1/query``): a vector of series with one value each."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.wire import fields
from hami_plugins.wire.fields import wrong
from hami_plugins.wire.scalars import shown


class Series(NamedTuple):
    """One series: its labels, and its value as it was written."""

    labels: Mapping[str, str]
    value: Fraction


def decode(document: object, place: str) -> tuple[Series, ...]:
    """The series of an answer. Raises ``WireError``, with what Prometheus says where it refuses."""
    body = fields.whole(document, place)
    if (status := fields.text(body, "status", place)) != "success":
        refusal = fields.text(body, "error", place) or "no error is given"
        raise WireError(fields.path(place, "status"), status, f"the query failed: {refusal}")
    data = fields.member(body, "data", place)
    kind = fields.text(data, "resultType", f"{place} data")
    if kind != "vector":
        raise wrong(f"{place} data.resultType", kind, "vector, as /api/v1/query answers")
    listed = fields.items(data, "result", f"{place} data")
    return tuple(_series(each, f"{place} data.result[{at}]") for at, each in enumerate(listed))


def _series(raw: object, place: str) -> Series:
    body = fields.whole(raw, place)
    pair = fields.items(body, "value", place)
    if len(pair) != 2 or not isinstance(pair[1], str):
        raise wrong(f"{place}.value", pair, "a time and a number as text")
    try:
        value = Fraction(pair[1])
    except (ValueError, ZeroDivisionError):
        raise WireError(f"{place}.value[1]", shown(pair[1]), "expected a finite number") from None
    return Series(fields.text_map(body, "metric", place), value)
