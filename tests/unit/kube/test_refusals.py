"""What the errors of an API server become."""

from __future__ import annotations

import pytest

from hami_plugins.errors import AlreadyExistsError, ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.refusals import refusal

NODE = paths.node("n1")


@pytest.mark.parametrize(
    ("status", "reason", "kind", "again"),
    [
        (400, "BadRequest", KubeError, False),
        (404, "NotFound", KubeError, False),
        (409, "Conflict", ContentionError, False),
        (409, "AlreadyExists", AlreadyExistsError, False),
        (410, "Expired", KubeError, False),
        (422, "Invalid", KubeError, False),
        (429, "TooManyRequests", KubeError, True),
        (500, "InternalError", KubeError, True),
        (503, "", KubeError, True),
    ],
)
def test_a_status_says_what_kind_of_error_it_is(status: int, reason: str, kind: type, again: bool) -> None:
    error = refusal("get", NODE, status, {"reason": reason, "message": "m"})
    assert (type(error), error.status, error.reason, error.may_retry) == (kind, status, reason, again)


@pytest.mark.parametrize("body", [None, [], "text", {"metadata": 5, "details": []}, {"reason": None}])
def test_an_answer_of_any_shape_is_an_error_all_the_same(body: object) -> None:
    assert str(refusal("get", NODE, 418, body)) == "get /api/v1/nodes/n1: 418 without a message"


@pytest.mark.parametrize(
    ("header", "detail", "seconds"),
    [
        ("3", None, 3.0),
        (None, 2, 2.0),
        ("5", 2, 5.0),
        ("3600", None, 30.0),
        ("-1", None, None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, None),
        ("nan", 1, 1.0),
        (None, None, None),
    ],
)
def test_the_pause_that_is_asked_for_is_bounded(header: str | None, detail: int | None, seconds: float | None) -> None:
    body = {"details": {"retryAfterSeconds": detail}}
    assert refusal("get", NODE, 429, body, retry_after=header).retry_after == seconds
