"""Refusals as the API server words them: an HTTP status and a ``Status`` object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from hami_plugins.errors import HamiPluginsError
from hami_plugins.sandbox.apiserver.kinds import ResourceKind

REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The word that goes with each status code."""


class StatusCause(NamedTuple):
    """One thing that is wrong with an object: the field's path, the class of fault and a text."""

    field: str
    reason: str
    message: str


class ApiError(HamiPluginsError):
    """The server refuses. ``body`` is what it answers, ``code`` the HTTP status."""

    http_status: ClassVar[int] = 400

    def __init__(  # noqa: PLR0913 - the members of a Status
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = REASONS.get(code, "") if reason is None else reason
        self.message = message
        self.retry_after = retry_after
        self._details = None if details is None else dict(details)
        self._continue = continue_token

    def body(self) -> dict[str, Any]:
        """The ``Status`` object."""
        details = self._details
        if self.retry_after is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after}
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self._continue} if self._continue else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }
        return {key: value for key, value in status.items() if value not in ("", None)}


def success(code: int, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The ``Status`` object of something that was done and has nothing else to show."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | ({"details": dict(details)} if details else {}) | ({"code": code} if code == 201 else {})


def details_of(kind: ResourceKind, name: str) -> dict[str, str]:
    """Which object is meant, as ``details`` of a Status say it."""
    found = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: text for key, text in found.items() if text}


def not_found(kind: ResourceKind, name: str) -> ApiError:
    """The object does not exist."""
    return ApiError(404, f'{kind.qualified} "{name}" not found', details=details_of(kind, name))


def no_such_resource() -> ApiError:
    """Nothing is served under this path."""
    return ApiError(404, "the server could not find the requested resource", details={})


def no_such_method() -> ApiError:
    """The path is known, and does not take this method."""
    return ApiError(405, "the server does not allow this method on the requested resource", details={})


def internal(message: str) -> ApiError:
    """A rule that the real server breaks off with, instead of refusing in due form."""
    return ApiError(500, message, reason="")


def internal_error(why: str) -> ApiError:
    """Something that the server needs for the request did not work."""
    return ApiError(500, f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


def already_exists(kind: ResourceKind, name: str) -> ApiError:
    """The name is taken."""
    return ApiError(
        409, f'{kind.qualified} "{name}" already exists', reason="AlreadyExists", details=details_of(kind, name)
    )


def conflict(kind: ResourceKind, name: str, why: str, *, resource: str = "") -> ApiError:
    """The object is not in the state that the writer expected; ``resource`` replaces the kind's name in the text."""
    meant = resource or kind.qualified
    details = details_of(kind, name) | {"kind": resource or kind.plural}
    return ApiError(409, f'Operation cannot be fulfilled on {meant} "{name}": {why}', details=details)


MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: ResourceKind, name: str, causes: Sequence[StatusCause]) -> ApiError:
    """The object breaks rules of its kind."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = details_of(kind, name) | {"kind": kind.kind}
    return ApiError(
        422,
        f'{label} "{name}" is invalid: {shown}',
        details={**details, "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]},
    )


def unreadable_patch(text: str, why: str) -> ApiError:
    """The patched object is not a valid object of its kind."""
    message = f'Invalid value: "{text[:1000]}": {why}'
    return ApiError(
        422,
        f' "" is invalid: patch: {message}',
        details={"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]},
    )


def patch_failed() -> ApiError:
    """A JSON patch does not apply: a path is missing or a ``test`` failed. The real text says as little."""
    return ApiError(422, "the server rejected our request due to an error in our request", details={})


def bad_request(message: str) -> ApiError:
    """The request cannot be understood."""
    return ApiError(400, message)


def too_old(asked: int, oldest: int) -> ApiError:
    """A watch from a version that the server has forgotten."""
    return ApiError(410, f"too old resource version: {asked} ({oldest})")


def too_new(asked: int, current: int) -> ApiError:
    """A list at a version that has not happened yet: the server's state is older than what the client saw."""
    return ApiError(
        504,
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        retry_after=1,
    )


_EXPIRED_LIST: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def expired_continue(token: str) -> ApiError:
    """A page of a list whose version is forgotten; ``token`` reads on from now."""
    return ApiError(410, _EXPIRED_LIST, continue_token=token)
