"""JSON to an object of a kind: what the server's decoder does before any rule is looked at.

Types of metadata are checked for every kind; Kubernetes' own kinds lose ``null`` members, and their quantities come out
in canonical form (``320000`` is stored as ``320k``).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.errors import HamiPluginsError, WireError
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.wire import quantity
from hami_plugins.wire.fields import Json


class DecodeError(HamiPluginsError):
    """The JSON is not an object of the kind; the message names the field with the wrong type."""


def decoded(kind: ResourceKind, obj: Json) -> dict[str, Any]:
    """The object without kind and apiVersion, its metadata checked and tidied. Raises ``DecodeError``."""
    body = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    if kind.typed:
        body = {key: _without_nulls(value, key) for key, value in body.items() if _is_told(kind, key, value)}
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise _wrong("metadata", metadata, "v1.ObjectMeta")
    body = {"metadata": _metadata(metadata), **{key: value for key, value in body.items() if key != "metadata"}}
    for member in ("spec", "status"):
        if kind.typed and not isinstance(body.get(member, {}), Mapping):
            raise _wrong(member, body[member], f"v1.{kind.kind}{member.title()}")
    tidy = _QUANTITIES.get(kind.storage)
    return tidy(body) if tidy else body


_PLAIN: Final = frozenset({"metadata", "spec", "status"})
_MEMBERS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("", "configmaps"): frozenset({"metadata", "data", "binaryData", "immutable"}),
    ("", "secrets"): frozenset({"metadata", "data", "stringData", "immutable", "type"}),
    ("coordination.k8s.io", "leases"): frozenset({"metadata", "spec"}),
}


def _is_told(kind: ResourceKind, name: str, value: Any) -> bool:
    """Whether a member is stored at all: some kinds are known to have no others, and empty data is none."""
    if value is None or (name in ("data", "binaryData") and value == {}):
        return False
    members = _MEMBERS.get(kind.storage, _PLAIN if kind.status else None)
    return members is None or name in members


_TEXT_MAPS: Final = frozenset({"annotations", "data", "labels", "matchLabels", "nodeSelector"})


def _without_nulls(value: Any, name: str) -> Any:
    """Without null members, which mean the same as none; in a map of texts they mean empty text."""
    if isinstance(value, Mapping):
        if name in _TEXT_MAPS:
            return _texts(value)
        return {key: _without_nulls(inner, key) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner, "") for inner in value]
    return value


_TEXTS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAPS: Final = ("labels", "annotations")
_LISTS: Final = ("finalizers", "ownerReferences")


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with the right types, without members that are empty."""
    for name in _TEXTS:
        if not isinstance(metadata.get(name, ""), str | None):
            raise _wrong(f"metadata.{name}", metadata[name], "string")
    for name in _MAPS:
        _check_texts(f"metadata.{name}", metadata.get(name))
    for name in _LISTS:
        if not isinstance(metadata.get(name), list | None):
            raise _wrong(
                f"metadata.{name}", metadata[name], "[]string" if name == "finalizers" else "[]v1.OwnerReference"
            )
    for finalizer in metadata.get("finalizers") or []:
        if not isinstance(finalizer, str | None):
            raise _wrong("metadata.finalizers", finalizer, "string")
    texts: dict[str, Any] = {name: _texts(metadata[name]) for name in _MAPS if metadata.get(name)}
    texts["finalizers"] = [finalizer or "" for finalizer in metadata.get("finalizers") or []]
    dropped = {"managedFields", "selfLink"}
    kept = {**metadata, **texts}
    return {key: value for key, value in kept.items() if key not in dropped and value not in (None, "", {}, [])}


def _texts(texts: Mapping[str, str | None]) -> dict[str, str]:
    """A null among texts is an empty one."""
    return {key: "" if value is None else value for key, value in texts.items()}


def _check_texts(path: str, texts: Any) -> None:
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        raise _wrong(path, texts, "map[string]string")
    for value in texts.values():
        if not isinstance(value, str | None):
            raise _wrong(path, value, "string")


def _wrong(path: str, value: Any, wanted: str) -> DecodeError:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return DecodeError(
        f"json: cannot unmarshal {names.get(type(value), 'null')} into Go struct field "
        f"{'ObjectMeta.' if path.startswith('metadata.') else ''}{path} of type {wanted}"
    )


def _pod(body: dict[str, Any]) -> dict[str, Any]:
    spec, status = body.get("spec"), body.get("status")
    if isinstance(status, Mapping) and isinstance(status.get("conditions"), list):
        conditions = [{"lastProbeTime": None, **_object(each)} for each in status["conditions"]]
        body = {**body, "status": {**status, "conditions": conditions}}
    if not isinstance(spec, Mapping):
        return body
    lists = {
        name: [_container(item) for item in _objects(spec[name], f"spec.{name}")]
        for name in ("initContainers", "containers", "ephemeralContainers")
        if name in spec
    }
    overhead = {"overhead": _amounts(spec["overhead"], "spec.overhead")} if "overhead" in spec else {}
    return {**body, "spec": {**spec, **lists, **overhead}}


def _object(item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise _wrong("status.conditions", item, "v1.PodCondition")
    return item


def _objects(items: Any, path: str) -> list[Mapping[str, Any]]:
    if not isinstance(items, list):
        raise _wrong(path, items, "[]v1.Container")
    for item in items:
        if not isinstance(item, Mapping):
            raise _wrong(path, item, "v1.Container")
    return items


def _container(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return container
    tidied = {
        name: _amounts(resources[name], f"spec.containers.resources.{name}")
        for name in ("limits", "requests")
        if name in resources
    }
    return {**container, "resources": {**resources, **tidied}}


def _node(body: dict[str, Any]) -> dict[str, Any]:
    """A node's allocatable resources default to its capacity; missing status fields are empty."""
    tidied = _amounts_in(body, "status", ("capacity", "allocatable"))
    status = {**_NODE_STATUS, **(tidied.get("status") or {})}
    status["nodeInfo"] = {**_NODE_INFO, **status["nodeInfo"]}
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    return {**tidied, "spec": tidied.get("spec", {}), "status": status}


_NODE_INFO: Final = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)
_NODE_STATUS: Final[Mapping[str, Any]] = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO}


def _secret(body: dict[str, Any]) -> dict[str, Any]:
    """Data is bytes, written as base64."""
    for value in (body.get("data") or {}).values():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise DecodeError(f"illegal base64 data: {error}") from error
    return body


def _quota(body: dict[str, Any]) -> dict[str, Any]:
    return _amounts_in(_amounts_in(body, "spec", ("hard",)), "status", ("hard", "used"))


def _amounts_in(body: dict[str, Any], member: str, names: tuple[str, ...]) -> dict[str, Any]:
    part = body.get(member)
    if not isinstance(part, Mapping):
        return body
    tidied = {name: _amounts(part[name], f"{member}.{name}") for name in names if name in part}
    return {**body, member: {**part, **tidied}} if tidied else body


def _amounts(amounts: Any, path: str) -> dict[str, str]:
    if not isinstance(amounts, Mapping):
        raise _wrong(path, amounts, "v1.ResourceList")
    try:
        return {name: quantity.parse(value, key=path).text for name, value in amounts.items()}
    except (WireError, TypeError) as error:
        raise DecodeError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from error


def _template(body: dict[str, Any], *path: str) -> dict[str, Any]:
    """What makes pods: amounts in its template come out as those of a pod do."""
    holder = body.get(path[0])
    if not isinstance(holder, Mapping):
        return body
    tidied = _template(dict(holder), *path[1:]) if len(path) > 1 else _pod(dict(holder))
    return {**body, path[0]: tidied}


_TEMPLATED: Final = (
    ("", "replicationcontrollers"),
    *(("apps", plural) for plural in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    ("batch", "jobs"),
)
_QUANTITIES: Final[Mapping[tuple[str, str], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "resourcequotas"): _quota,
    ("", "secrets"): _secret,
    **dict.fromkeys(_TEMPLATED, lambda body: _template(body, "spec", "template")),
    ("batch", "cronjobs"): lambda body: _template(body, "spec", "jobTemplate", "spec", "template"),
}
