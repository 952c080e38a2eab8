"""AdmissionReview ``admission.k8s.io/v1``: what the API server asks a webhook, and what it takes for an answer."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hami_plugins.errors import WireError
from hami_plugins.wire import documents, fields
from hami_plugins.wire.fields import Json

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

SENSELESS: Final = 400
FORBIDDEN: Final = 403
UNREADABLE: Final = 422
"""HTTP codes of refusals: the object means nothing, this user may not, the object cannot be read."""

_KEY: Final = "AdmissionReview"
_BODY: Final = "AdmissionReview:"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks the API server for the change."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A change that waits for an answer.

    ``uid`` is that of the request, not of the object. ``name`` is empty where the server is still to make one,
    ``object`` is what is to be written, raw, and ``None`` for a deletion. On a dry run nothing may be kept.
    """

    uid: str
    operation: str
    group: str
    version: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    user: User = User("")
    object: Json | None = None
    old_object: Json | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may be done, with the ``operations`` (RFC 6902) laid over it; ``warnings`` reach the client."""

    operations: Sequence[Json] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """It may not be done. The API server returns ``reason`` to the client, under the HTTP status ``code``."""

    reason: str
    code: int = 403
    warnings: Sequence[str] = ()


Answer = Allowed | Denied


def decode(data: bytes) -> AdmissionRequest:
    """The request in a review. Raises ``WireError`` that names what is wrong with it."""
    review = fields.whole(documents.load(_KEY, data), _KEY)
    _of_this_version(review)
    if review.get("request") is None:
        raise WireError("AdmissionReview: request", "", "is missing")
    place = "AdmissionReview: request"
    request = fields.member(review, "request", _BODY)
    resource = fields.member(request, "resource", place)
    return AdmissionRequest(
        uid=fields.needed(request, "uid", place),
        operation=fields.needed(request, "operation", place),
        group=fields.text(resource, "group", f"{place}.resource"),
        version=fields.text(resource, "version", f"{place}.resource"),
        resource=fields.needed(resource, "resource", f"{place}.resource"),
        subresource=fields.text(request, "subResource", place),
        namespace=fields.text(request, "namespace", place),
        name=fields.text(request, "name", place),
        dry_run=fields.flag(request, "dryRun", place),
        user=_user(fields.member(request, "userInfo", place), f"{place}.userInfo"),
        object=_object(request, "object", place),
        old_object=_object(request, "oldObject", place),
    )


def encode(uid: str, answer: Answer) -> bytes:
    """The review that answers the request of this ``uid``."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(answer, Allowed)}
    if isinstance(answer, Denied):
        response["status"] = {"code": answer.code, "message": answer.reason}
    elif answer.operations:
        patch = base64.b64encode(orjson.dumps(list(answer.operations))).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _of_this_version(review: Json) -> None:
    version, kind = (fields.text(review, name, _BODY) for name in ("apiVersion", "kind"))
    if kind != KIND:
        raise WireError("AdmissionReview: kind", kind, f"expected {KIND}")
    if version != API_VERSION:
        why = f'only {API_VERSION} is answered; the webhook needs admissionReviewVersions: ["v1"]'
        raise WireError("AdmissionReview: apiVersion", version, why)


def _object(holder: Json, name: str, place: str) -> Json | None:
    return None if holder.get(name) is None else fields.member(holder, name, place)


def _user(user: Json, place: str) -> User:
    return User(fields.text(user, "username", place), tuple(fields.texts(user, "groups", place)))
