"""What the server says of itself: versions, groups, resources."""

from __future__ import annotations

from typing import Any, Final

from hami_plugins.sandbox.apiserver.kinds import ResourceKind, ResourceKinds

VERSION: Final = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_ALL: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_CHANGED: Final = ["get", "patch", "update"]
_IN_ALL: Final = frozenset(
    {
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("", "services"),
        *(("apps", plural) for plural in ("daemonsets", "deployments", "replicasets", "statefulsets")),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
    }
)
"""What ``kubectl get all`` lists."""


def describe(path: str, kinds: ResourceKinds) -> dict[str, Any] | None:
    """The answer to a discovery path, or ``None`` when it is none."""
    match [part for part in path.split("/") if part]:
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
            }
        case ["api", version] if version in kinds.versions()[""]:
            return _resources("", version, kinds)
        case ["apis", *rest]:
            return _groups(rest, kinds)
        case ["openapi", "v3", *rest]:
            return _openapi(rest, kinds)
        case _:
            return None


def _groups(rest: list[str], kinds: ResourceKinds) -> dict[str, Any] | None:
    versions = kinds.versions()
    match rest:
        case []:
            groups = [_group(group, served) for group, served in versions.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case [group] if group in versions:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions[group])}
        case [group, version] if version in versions.get(group, ()):
            return _resources(group, version, kinds)
        case _:
            return None


def _openapi(rest: list[str], kinds: ResourceKinds) -> dict[str, Any] | None:
    """OpenAPI as far as it is looked at: which objects can be patched, with which parameters, and declared schemas."""
    roots = {
        _root(group, version): (group, version) for group, served in kinds.versions().items() for version in served
    }
    if not rest:
        return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash=1"} for root in roots}}
    place = roots.get("/".join(rest))
    if place is None:
        return None
    found = [kind for kind in kinds if (kind.group, kind.version) == place]
    paths = {f"/{'/'.join(rest)}/{_object_path(kind)}": {"patch": _patch(kind)} for kind in found}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    schemas = {
        f"{kind.group}.{kind.version}.{kind.kind}": {**kind.schema, _MEANT: [_meant(kind)]}
        for kind in found
        if kind.schema
    }
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _object_path(kind: ResourceKind) -> str:
    return f"{'namespaces/{namespace}/' if kind.namespaced else ''}{kind.plural}/{{name}}"


def _patch(kind: ResourceKind) -> dict[str, Any]:
    names = ("dryRun", "fieldManager", "fieldValidation")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    return {"parameters": parameters, _MEANT: _meant(kind), "responses": {}}


_MEANT: Final = "x-kubernetes-group-version-kind"


def _meant(kind: ResourceKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _group(group: str, versions: tuple[str, ...]) -> dict[str, Any]:
    served = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": served, "preferredVersion": served[0]}


def _resources(group: str, version: str, kinds: ResourceKinds) -> dict[str, Any]:
    served = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    resources = [line for kind in sorted(served, key=lambda kind: kind.plural) for line in _lines(kind)]
    if not group:
        resources.insert(0, _line("bindings", "Binding", namespaced=True, verbs=["create"]))
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _lines(kind: ResourceKind) -> list[dict[str, Any]]:
    whole = _line(kind.plural, kind.kind, namespaced=kind.namespaced, verbs=_ALL) | {"singularName": kind.singular}
    if kind.storage in _IN_ALL:
        whole["categories"] = ["all"]
    if kind.short_names:
        whole["shortNames"] = list(kind.short_names)
    lines = [whole]
    if kind.storage == ("", "pods"):
        lines.append(_line("pods/binding", "Binding", namespaced=True, verbs=["create"]))
        eviction = _line("pods/eviction", "Eviction", namespaced=True, verbs=["create"])
        lines.append(eviction | {"group": "policy", "version": "v1"})
    if kind.status:
        lines.append(_line(f"{kind.plural}/status", kind.kind, namespaced=kind.namespaced, verbs=_CHANGED))
    return lines


def _line(name: str, kind: str, *, namespaced: bool, verbs: list[str]) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs}
