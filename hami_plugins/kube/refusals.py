"""Answers of the API server that say no, as errors that say what to do."""

from __future__ import annotations

from typing import Final

from hami_plugins.errors import AlreadyExistsError, ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.wire.lenient import mapping

RETRYABLE: Final = frozenset({429, 500, 502, 503, 504})
"""The server is busy or ill; the same request may pass later."""

EXPIRED: Final = 410
"""The version asked for is gone from the server's memory: list again."""

_UNAUTHORIZED: Final = '" cannot '
"""In the text for a missing right (``forbiddenMessage`` of kube-apiserver); admission and quotas answer 403 as well."""

_LONGEST_PAUSE: Final = 30.0
"""Seconds. A server may ask for more, but no request waits longer for one answer."""


def refusal(verb: str, path: str, status: int, body: object, *, retry_after: str | None = None) -> KubeError:
    """The error for an answer other than success.

    ``body`` is the Status that the server sent (anything else is tolerated), ``retry_after`` the header of that name.
    """
    told = mapping(body)
    reason = str(told.get("reason") or "")
    message = f"{verb} {path.partition('?')[0]}: {status} {told.get('message') or reason or 'without a message'}"
    if remedy := _remedy(verb, path, status, str(told.get("message") or "")):
        message = f"{message}; {remedy}"
    metadata = mapping(told.get("metadata"))
    return _type_of(status, reason)(
        message,
        status=status,
        reason=reason,
        retryable=status in RETRYABLE,
        retry_after=_pause(retry_after, mapping(told.get("details")).get("retryAfterSeconds")),
        continue_token=str(metadata.get("continue") or ""),
    )


def _type_of(status: int, reason: str) -> type[KubeError]:
    if status != 409:
        return KubeError
    return AlreadyExistsError if reason == "AlreadyExists" else ContentionError


def _remedy(verb: str, path: str, status: int, message: str) -> str:
    target = paths.target(path)
    match status:
        case 401:
            return (
                "the server does not recognize the caller: the token is expired, revoked or of another cluster; "
                "check the pod's service account or the user in the kubeconfig"
            )
        case 403 if message and _UNAUTHORIZED not in message:
            return ""
        case 403 if target.namespace:
            role = f'a Role in namespace {target.namespace} (or a ClusterRole) with verb "{verb}"'
        case 403:
            role = f'a ClusterRole with verb "{verb}"'
        case _:
            return ""
    return f'this process may not {verb} {target.rule}: it needs {role} on "{target.rule}" in apiGroup "{target.group}"'


def _pause(header: str | None, detail: object) -> float | None:
    """Seconds to wait; of both places that may name them, the header has the word. A date is not understood."""
    for told in (header, detail):
        try:
            seconds = float(str(told))
        except ValueError:
            continue
        if seconds >= 0:
            return min(seconds, _LONGEST_PAUSE)
    return None
