"""The server without sockets: a request in, an answer or an open watch out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError
from hami_plugins.sandbox.apiserver import discovery, lists, patches, strategic, tables
from hami_plugins.sandbox.apiserver.answers import (
    ApiError,
    StatusCause,
    bad_request,
    conflict,
    details_of,
    invalid,
    no_such_method,
    no_such_resource,
    not_found,
    patch_failed,
    success,
    unreadable_patch,
)
from hami_plugins.sandbox.apiserver.binding import bind
from hami_plugins.sandbox.apiserver.decoder import DecodeError, decoded
from hami_plugins.sandbox.apiserver.kinds import BINDINGS, EVICTIONS, NAMESPACES, PODS, ResourceKind
from hami_plugins.sandbox.apiserver.review import WebhookAdmission
from hami_plugins.sandbox.apiserver.routes import HttpRequest, RequestTarget, allowed
from hami_plugins.sandbox.apiserver.selectors import parse
from hami_plugins.sandbox.apiserver.store import Key, Stored
from hami_plugins.sandbox.apiserver.watches import Hub, Render, Watch
from hami_plugins.sandbox.apiserver.webhooks import STORAGES
from hami_plugins.sandbox.apiserver.writer import DeleteOptions, Preconditions, Writer, decode

MAX_BODY: Final = 3 * 1024 * 1024
"""Most bytes of a request body."""

JSON: Final = "application/json"

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_MERGE: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP answer."""

    code: int
    body: bytes
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(error: ApiError) -> HttpResponse:
    """The answer to a request that is refused."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return HttpResponse(error.code, orjson.dumps(error.body()), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """The cluster state that the server needs.

    ``logs`` gives the log of a container of a pod, or nothing where it has not started. ``unattended`` are collections
    (group and plural) for which no controller runs, with what a client is warned of that creates an object there.
    """

    logs: Callable[[Mapping[str, Any], str], str | None] | None = None
    unattended: Mapping[tuple[str, str], str] = field(default_factory=dict)


class Api:
    """Everything that the server does, one request at a time."""

    def __init__(self, writer: Writer, hub: Hub, *, around: ClusterParts | None = None) -> None:
        self._around = around or ClusterParts()
        self.writer = writer
        self.store = writer.store
        self.kinds = writer.kinds
        self.hub = hub

    def handle(self, request: HttpRequest, target: RequestTarget) -> HttpResponse | Watch:
        """Do what is asked. Raises ``ApiError`` for what is refused."""
        kind = target.kind
        if kind is None:
            return self._no_resource(request)
        if kind == PODS and target.subresource in _IN_PROCESSES:
            raise bad_request(f"{target.subresource}: containers of the embedded cluster run no processes")
        allowed(target)
        if len(request.body) > MAX_BODY:
            raise ApiError(413, f"Request entity too large: limit is {MAX_BODY}")
        if target.subresource and target.subresource not in _subresources(kind):
            raise no_such_resource()
        with self.store.lock:
            return self._VERBS[target.verb](self, request, target, kind)

    def gate(self, request: HttpRequest, target: RequestTarget, user: str) -> WebhookAdmission | None:
        """The admission chain of the request; ``None`` if no webhook is configured."""
        if target.kind is None or not any(self.store.collection(storage).objects for storage in STORAGES):
            return None
        old_way = target.subresource == "binding" and not target.name
        return WebhookAdmission(
            store=self.store,
            group=target.kind.group,
            version=target.kind.version,
            resource=BINDINGS.plural if old_way else target.kind.plural,
            subresource="" if old_way else target.subresource,
            dry=request.dry,
            user=user,
        )

    def _no_resource(self, request: HttpRequest) -> HttpResponse:
        if request.path.rstrip("/") in _HEALTH or request.path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return HttpResponse(200, b"ok", media="text/plain; charset=utf-8")
        described = discovery.describe(request.path, self.kinds)
        if described is None:
            return HttpResponse(404, b"404 page not found\n", media="text/plain; charset=utf-8")
        if request.method not in ("GET", "HEAD"):
            raise no_such_method()
        return HttpResponse(200, orjson.dumps(described))

    def _get(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        stored = self.store.get(kind, _key(target, kind))
        if stored is None:
            raise not_found(kind, target.name)
        if target.subresource == _LOG:
            return self._log(request, target, stored)
        return HttpResponse(200, self._render(request)(kind, stored))

    def _list(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        page = lists.page(self.store, kind, target.namespace, request.query)
        if not tables.wanted(request.accept):
            return HttpResponse(200, page.text(kind))
        return HttpResponse(200, self._table(request, kind, page.found, page.metadata))

    def _watch(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> Watch:
        return self.hub.open(kind, target.namespace, target.name, request.query, render=self._render(request))

    def _render(self, request: HttpRequest) -> Render:
        """How the client wants to see an object."""
        if not tables.wanted(request.accept):
            return lists.rendered

        def as_table(kind: ResourceKind, stored: Stored) -> bytes:
            version = stored.raw["metadata"]["resourceVersion"]
            return self._table(request, kind, [stored], {"resourceVersion": version})

        return as_table

    def _table(
        self, request: HttpRequest, kind: ResourceKind, found: Iterable[Stored], metadata: Mapping[str, Any]
    ) -> bytes:
        shown = [lists.shown(kind, stored.raw) for stored in found]
        include = request.query.get("includeObject", "")
        return orjson.dumps(tables.table(kind, shown, metadata, include=include, now=self.writer.clock()))

    def _log(self, request: HttpRequest, target: RequestTarget, pod: Stored) -> HttpResponse:
        """What the container was given stands in for its output: nothing runs here."""
        named = [str(each["name"]) for each in pod.raw["spec"]["containers"]]
        container = request.query.get("container") or named[0]
        if container not in named:
            raise bad_request(f"container {container} is not valid for pod {target.name}")
        logs = self._around.logs
        if logs is None:
            raise bad_request("no logs: containers of the embedded cluster run no processes")
        text = logs(lists.shown(PODS, pod.raw), container)
        if text is None:
            raise bad_request(f'container "{container}" in pod "{target.name}" is waiting to start')
        return HttpResponse(200, text.encode(), media="text/plain; charset=utf-8")

    def _create(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        body = _body(request)
        if target.subresource == "binding":
            return self._bind(request, target, body)
        if target.subresource == "eviction":
            return self._evict(request, target, body)
        obj = decode(kind, lists.stored_form(kind, body))
        _same_place(target, kind, obj)
        stored = self.writer.create(kind, target.namespace, obj, dry=request.dry, gate=request.gate)
        warning = self._around.unattended.get(kind.storage)
        headers = {} if warning is None else {"Warning": f"299 - {orjson.dumps(warning).decode()}"}
        return HttpResponse(201, lists.rendered(kind, stored), headers=headers)

    def _bind(self, request: HttpRequest, target: RequestTarget, body: Mapping[str, Any]) -> HttpResponse:
        name = target.name or str((body.get("metadata") or {}).get("name", ""))
        obj = decode(BINDINGS, body)
        bind(self.writer, Key(target.namespace, name), obj, dry=request.dry, gate=request.gate)
        return HttpResponse(201, orjson.dumps(success(201)))

    def _evict(self, request: HttpRequest, target: RequestTarget, body: Mapping[str, Any]) -> HttpResponse:
        options = _delete_options(request.query, body.get("deleteOptions") or {})
        key = Key(target.namespace, target.name)
        eviction = request.gate.mutated("CREATE", EVICTIONS, key, decode(EVICTIONS, body), None)
        request.gate.validated("CREATE", EVICTIONS, key, eviction, None)
        self.writer.delete(PODS, key, options, dry=request.dry or options.dry)
        return HttpResponse(201, orjson.dumps(success(201)))

    def _update(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        obj = decode(kind, lists.stored_form(kind, _body(request)))
        _same_place(target, kind, obj)
        if obj["metadata"].get("name") != target.name:
            raise _other_name(obj, target.name)
        if kind.storage in _MADE_BY_PUT and self.store.get(kind, _key(target, kind)) is None:
            return self._made_by_put(request, target, kind, obj)
        return self._changed(request, target, kind, lambda _: obj)

    def _made_by_put(
        self, request: HttpRequest, target: RequestTarget, kind: ResourceKind, obj: Mapping[str, Any]
    ) -> HttpResponse:
        """A few kinds are created by a PUT, unless that means one object in particular."""
        metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
        if "uid" in metadata:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
            raise conflict(kind, target.name, why)
        made = {**obj, "metadata": metadata}
        stored = self.writer.create(kind, target.namespace, made, dry=request.dry, gate=request.gate)
        return HttpResponse(201, lists.rendered(kind, stored))

    def _patch(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        media = request.headers.get("content-type", "").split(";")[0].strip()
        apply = _patch_type(kind, media)
        patch = _parsed(request.body)

        def patched(old: Stored) -> Mapping[str, Any]:
            whole = apply(orjson.loads(lists.rendered(kind, old)), patch)
            if not isinstance(whole, Mapping):
                raise patch_failed()
            return _patched(kind, old, lists.stored_form(kind, whole))

        return self._changed(request, target, kind, patched)

    def _changed(
        self,
        request: HttpRequest,
        target: RequestTarget,
        kind: ResourceKind,
        change: Callable[[Stored], Mapping[str, Any]],
    ) -> HttpResponse:
        key = _key(target, kind)
        status = target.subresource == "status"
        stored = self.writer.change(kind, key, change, status=status, dry=request.dry, gate=request.gate)
        return HttpResponse(200, lists.rendered(kind, stored))

    def _delete(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        options = _delete_options(request.query, _body(request) if request.body else {})
        dry = request.dry or options.dry
        deleted = self.writer.delete(kind, _key(target, kind), options, dry=dry, gate=request.gate)
        if not deleted.gone or kind.storage in _SHOWN_WHEN_DELETED:
            return HttpResponse(200, lists.rendered(kind, deleted.stored))
        uid = deleted.stored.raw["metadata"]["uid"]
        return HttpResponse(200, orjson.dumps(success(200, {**details_of(kind, target.name), "uid": uid})))

    def _delete_all(self, request: HttpRequest, target: RequestTarget, kind: ResourceKind) -> HttpResponse:
        selector = parse(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        options = _delete_options(request.query, _body(request) if request.body else {})
        found = self.store.select(kind, target.namespace, selector)
        for stored in found:
            self.writer.delete(kind, stored.key, options, dry=True, gate=request.gate)
        dry = request.dry or options.dry
        deleted = [self.writer.delete(kind, stored.key, options, dry=dry).stored for stored in found]
        metadata = {"resourceVersion": str(self.store.version)}
        head = orjson.dumps({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
        return HttpResponse(
            200, b'%s,"items":[%s]}' % (head[:-1], b",".join(lists.item(kind, each) for each in deleted))
        )

    _VERBS: Final[Mapping[str, Callable[[Api, HttpRequest, RequestTarget, ResourceKind], HttpResponse | Watch]]] = {
        "get": _get,
        "list": _list,
        "watch": _watch,
        "create": _create,
        "update": _update,
        "patch": _patch,
        "delete": _delete,
        "deletecollection": _delete_all,
    }


_SHOWN_WHEN_DELETED: Final = frozenset(
    {
        PODS.storage,
        NAMESPACES.storage,
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
    }
)
"""Kinds whose deletion answers with the object instead of a Status."""

_RBAC: Final = "rbac.authorization.k8s.io"
_MADE_BY_PUT: Final = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("", "services"),
        ("coordination.k8s.io", "leases"),
        *((_RBAC, plural) for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")),
    }
)
"""Kinds that a PUT creates where there is none of the name."""


_LOG: Final = "log"
_IN_PROCESSES: Final = frozenset({"attach", "exec", "portforward"})
"""Subresources of pods that need a process."""


def _subresources(kind: ResourceKind) -> tuple[str, ...]:
    found = ("status",) if kind.status else ()
    return (*found, "binding", "eviction", _LOG) if kind == PODS else found


def _key(target: RequestTarget, kind: ResourceKind) -> Key:
    return Key(target.namespace if kind.namespaced else "", target.name)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is no JSON: {error}") from error


def _body(request: HttpRequest) -> Mapping[str, Any]:
    media = request.headers.get("content-type", JSON).split(";")[0].strip()
    if media == _YAML:
        try:
            body = texts.document(request.body.decode(), "the body")
        except (ConfigError, UnicodeDecodeError) as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from error
    elif media in (JSON, ""):
        body = _parsed(request.body)
    elif media == _PROTOBUF:
        raise ApiError(415, "the embedded API server reads JSON and YAML, no protobuf: write a manifest and apply it")
    else:
        raise ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    if not isinstance(body, Mapping):
        raise bad_request("couldn't get version/kind; the body has to be an object")
    return body


def _patch_type(kind: ResourceKind, media: str) -> Callable[[Any, Any], Any]:
    known: dict[str, Callable[[Any, Any], Any]] = {_JSON_PATCH: patches.json_patch, _MERGE: _merge}
    if kind.typed:
        known[_STRATEGIC] = strategic.strategic_merge
    if media in known:
        return known[media]
    if kind.typed:
        raise ApiError(415, "415: Unsupported Media Type", details={})
    taken = ", ".join((*known, "application/apply-patch+yaml"))  # the real server's list, although we do not take that
    raise ApiError(415, f"the body of the request was in an unknown format - accepted media types include: {taken}")


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        raise bad_request("error decoding patch: a merge patch of an object is an object")
    return patches.merge(old, patch)


def _patched(kind: ResourceKind, old: Stored, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a patch made, as an object of the same kind and name."""
    try:
        obj = decoded(kind, whole)
    except DecodeError as error:
        raise unreadable_patch(orjson.dumps(whole).decode(), str(error)) from error
    for member, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if whole.get(member) != wanted:
            text = f'Invalid value: "{whole.get(member)}": must be {wanted}'
            raise invalid(kind, old.key.name, [StatusCause(member, "FieldValueInvalid", text)])
    before = old.raw["metadata"]
    if obj["metadata"].get("name") != old.key.name:
        raise _other_name(obj, old.key.name)
    if obj["metadata"].get("namespace", "") not in ("", old.key.namespace):
        raise bad_request("the namespace of the object does not match the namespace on the URL")
    if (uid := obj["metadata"].get("uid", before["uid"])) != before["uid"]:
        text = f'Invalid value: "{uid}": field is immutable'
        raise invalid(kind, old.key.name, [StatusCause("metadata.uid", "FieldValueInvalid", text)])
    return obj


def _other_name(obj: Mapping[str, Any], name: str) -> ApiError:
    found = obj["metadata"].get("name", "")
    return bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def _same_place(target: RequestTarget, kind: ResourceKind, obj: Mapping[str, Any]) -> None:
    namespace = obj["metadata"].get("namespace", "")
    if kind.namespaced and namespace not in ("", target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _delete_options(query: Mapping[str, str], body: Mapping[str, Any]) -> DeleteOptions:
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    if grace is not None and not (isinstance(grace, int) or grace.lstrip("-").isdigit()):
        raise bad_request(f'gracePeriodSeconds: Invalid value: "{grace}": has to be a whole number')
    wanted = body.get("preconditions") or {}
    return DeleteOptions(
        grace=None if grace is None else int(grace),
        preconditions=Preconditions(uid=wanted.get("uid"), version=wanted.get("resourceVersion")),
        dry=body.get("dryRun") == ["All"],
    )
