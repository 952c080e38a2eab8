"""Answers of Prometheus: numbers as they were written, and refusals in its own words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import prometheus
from hami_plugins.wire.prometheus import Series


def answer(*results: Any, kind: str = "vector") -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(results)}}


def test_values_are_exact() -> None:
    found = prometheus.decode(answer({"metric": {"queue": "q"}, "value": [1790000000.5, "0.1"]}), "Prometheus:")
    assert found == (Series({"queue": "q"}, Fraction(1, 10)),)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"status": "error", "error": "parse error: x"}, "the query failed: parse error: x"),
        ({"status": "error"}, "the query failed: no error is given"),
        (answer(kind="matrix"), "expected vector, as /api/v1/query answers"),
        (answer({"metric": {}, "value": [1]}), "expected a time and a number as text"),
        (answer({"metric": {}, "value": [1, 2]}), "expected a time and a number as text"),
        (answer({"metric": {}, "value": [1, "NaN"]}), "expected a finite number"),
        (answer({"metric": {}, "value": [1, "1/0"]}), "expected a finite number"),
        ([], "expected an object"),
    ],
)
def test_what_is_no_answer_is_refused(document: Any, words: str) -> None:
    with pytest.raises(WireError, match=words):
        prometheus.decode(document, "Prometheus:")
