"""Paths to what they mean: ``/api/v1/namespaces/a/pods/b/status`` is the status of pod ``b`` in namespace ``a``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_plugins.sandbox.apiserver.answers import no_such_method, no_such_resource
from hami_plugins.sandbox.apiserver.kinds import ResourceKind, ResourceKinds
from hami_plugins.sandbox.apiserver.review import OPEN, AdmissionChain


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One parsed HTTP request; header names are lower case. Its writes have to pass its ``gate``."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    gate: AdmissionChain = OPEN

    @property
    def accept(self) -> str:
        """The representation that the client accepts."""
        return self.headers.get("accept", "")

    @property
    def dry(self) -> bool:
        """Whether nothing is to be written."""
        return self.query.get("dryRun") == "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """The target of a request. Without ``kind`` it is not a resource (health, discovery) and ``path`` identifies it."""

    verb: str
    kind: ResourceKind | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The resource as request counts name it."""
        return self.kind.qualified if self.kind is not None else ""


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def target_of(request: HttpRequest, kinds: ResourceKinds) -> RequestTarget:
    """What is asked for. Raises ``ApiError`` 404 for resources that are not served in a version that is."""
    verb = _VERBS.get(request.method, request.method.lower())
    parts = [part for part in request.path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, rest = "", parts[1:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, rest = parts[1], parts[2:]
    else:
        return RequestTarget(verb=verb)
    version, rest = rest[0], rest[1:]
    if version not in kinds.versions().get(group, ()):
        if not group:
            raise no_such_resource()
        return RequestTarget(verb=verb)
    return _resource(verb, request.query, kinds, (group, version), rest)


def _resource(
    verb: str, query: Mapping[str, Any], kinds: ResourceKinds, api: tuple[str, str], rest: list[str]
) -> RequestTarget:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    if len(rest) > 3:
        raise no_such_resource()
    if (api, plural, name) == (("", "v1"), "bindings", "") and namespace:
        kind, subresource = kinds.find("", "v1", "pods"), "binding"
        return RequestTarget(verb=verb, kind=kind, namespace=namespace, subresource=subresource)
    kind = kinds.find(*api, plural)
    if kind is None or (namespace and not kind.namespaced) or (name and kind.namespaced and not namespace):
        raise no_such_resource()
    return RequestTarget(
        verb=_refined(verb, query, name), kind=kind, namespace=namespace, name=name, subresource=subresource
    )


def _refined(verb: str, query: Mapping[str, Any], name: str) -> str:
    """GET of a collection is a list or a watch, DELETE of one is its own verb."""
    if verb == "get" and query.get("watch") in ("true", "1"):
        return "watch"
    if name:
        if verb == "create":
            return verb
        return verb
    return {"get": "list", "delete": "deletecollection"}.get(verb, verb)


def allowed(target: RequestTarget) -> None:
    """Raise ``ApiError`` 405 for a verb that the path does not take."""
    posted = target.subresource in ("binding", "eviction")
    kind = target.kind
    fits = {
        "create": posted or not (target.name or target.subresource),
        "update": bool(target.name) and not posted,
        "patch": bool(target.name) and not posted,
    }.get(target.verb, target.verb in ("get", "list", "watch", "delete", "deletecollection") and not posted)
    if target.subresource and target.verb in ("delete", "watch"):
        fits = False
    if kind is not None and kind.namespaced and not target.namespace and target.verb in ("create", "deletecollection"):
        fits = False
    if not fits:
        raise no_such_method()
