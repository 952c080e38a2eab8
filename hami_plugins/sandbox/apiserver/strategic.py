"""Strategic merge patch: lists of Kubernetes' own kinds merge by key instead of being replaced.

The keys are the ``patchMergeKey`` tags of ``k8s.io/api``; a list that is not in the table is replaced as a whole, which
is what happens to taints, tolerations, container statuses and rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.sandbox.apiserver.answers import bad_request

_MERGE_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
_UNIONS: Final = frozenset({"finalizers", "podCIDRs"})
_ORDER: Final = "$setElementOrder/"
_DELETED: Final = "$deleteFromPrimitiveList/"


def strategic_merge(old: Any, patch: Any) -> Any:
    """The object after the patch. Raises ``ApiError`` 400 for directives that mean nothing."""
    if not isinstance(patch, Mapping):
        raise bad_request("error decoding patch: a strategic merge patch is an object")
    return _merged(old if isinstance(old, Mapping) else {}, patch)


def _merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any] | None:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return None
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type: {directive}")
    merged = dict(old)
    retained = patch.get("$retainKeys")
    if retained is not None:
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        _member(merged, key, value, patch)
    return merged


def _member(merged: dict[str, Any], key: str, value: Any, patch: Mapping[str, Any]) -> None:
    """Merge one member of the patch into the new object."""
    if key.startswith(_DELETED):
        name = key.removeprefix(_DELETED)
        merged[name] = [item for item in merged.get(name) or [] if item not in value]
    elif key.startswith("$"):
        return
    elif value is None:
        merged.pop(key, None)
    elif isinstance(value, Mapping):
        old = merged.get(key)
        found = _merged(old if isinstance(old, Mapping) else {}, value)
        if found is None:
            merged.pop(key, None)
        else:
            merged[key] = found
    elif isinstance(value, list):
        merged[key] = _list(key, merged.get(key) or [], value, patch.get(_ORDER + key))
    else:
        merged[key] = value


def _list(name: str, old: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    if name in _UNIONS:
        return [*old, *(item for item in patch if item not in old)]
    key = _merge_key(name, [*old, *patch])
    if key is None or any(not isinstance(item, Mapping) for item in [*old, *patch]):
        return [_without_directives(item) for item in patch]
    if any(item.get("$patch") == "replace" and key not in item for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = {item.get(key): item for item in old}
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {dict(item)} does not contain declared merge key: {key}")
        found = _merged(merged.get(item[key]) or {}, item)
        if found is None:
            merged.pop(item[key], None)
        else:
            merged[item[key]] = found
    if order:
        places = {item.get(key): at for at, item in enumerate(order)}
        return sorted(merged.values(), key=lambda item: places.get(item.get(key), len(places)))
    return list(merged.values())


def _merge_key(name: str, items: list[Any]) -> str | None:
    """A container's ports merge by ``containerPort``, a service's by ``port``."""
    if name == "ports":
        container = any(isinstance(item, Mapping) and "containerPort" in item for item in items)
        return "containerPort" if container else "port"
    return _MERGE_KEYS.get(name)


def _without_directives(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    return {key: value for key, value in item.items() if not key.startswith("$")}
