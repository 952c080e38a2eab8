"""The rules that objects are refused by: names, labels, annotations, and what a pod must and must not say.

A subset of ``k8s.io/kubernetes/pkg/apis/core/validation`` with its paths and texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_plugins.model.quantity import NANO
from hami_plugins.sandbox.apiserver import webhooks
from hami_plugins.sandbox.apiserver.answers import StatusCause
from hami_plugins.sandbox.apiserver.kinds import DEFINITIONS, ResourceKind
from hami_plugins.wire import quantity
from hami_plugins.wire.fields import Json

ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Most bytes of all annotations of one object, keys and values."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_NAMED: Final = frozenset({("", "namespaces"), ("", "services")})
_FINALIZERS: Final = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
_STRICT_FINALIZERS: Final = frozenset({"", "apps", "batch"})
_FREELY_NAMED: Final = "rbac.authorization.k8s.io"


def violations(kind: ResourceKind, obj: Json) -> list[StatusCause]:
    """Everything that is wrong with a decoded object, metadata first."""
    found = [*_metadata(kind, obj["metadata"])]
    if kind.storage == ("", "pods"):
        found += _pod(obj.get("spec") or {})
    if kind == DEFINITIONS:
        found += _definition(obj)
    if kind.storage in webhooks.STORAGES:
        found += webhooks.violations(obj)
    return found


def _definition(definition: Json) -> Iterator[StatusCause]:
    """What a new kind cannot be served without."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    needed = {"spec.group": spec.get("group"), "spec.versions": spec.get("versions")}
    needed |= {"spec.names.plural": names.get("plural"), "spec.names.kind": names.get("kind")}
    for path, value in needed.items():
        if not value:
            yield StatusCause(path, "FieldValueRequired", "Required value")
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if definition["metadata"].get("name") != expected:
        yield _invalid("metadata.name", definition["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')


def _metadata(kind: ResourceKind, metadata: Mapping[str, Any]) -> Iterator[StatusCause]:
    name = metadata.get("name", "")
    if not name:
        yield StatusCause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    elif (why := _name_fault(kind, name)) is not None:
        yield _invalid("metadata.name", name, why)
    for key, value in (metadata.get("labels") or {}).items():
        if (why := _key_fault(key)) is not None:
            yield _invalid("metadata.labels", key, why)
        if len(value) > 63:
            yield _invalid("metadata.labels", value, "must be no more than 63 bytes")
        elif not _VALUE.fullmatch(value):
            yield _invalid("metadata.labels", value, _VALUE_TEXT)
    yield from _annotations(metadata.get("annotations") or {})
    for at, finalizer in enumerate(metadata.get("finalizers") or []):
        if (why := _key_fault(finalizer)) is not None:
            yield _invalid("metadata.finalizers", finalizer, why)
        elif kind.typed and kind.group in _STRICT_FINALIZERS and "/" not in finalizer and finalizer not in _FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield _invalid(f"metadata.finalizers[{at}]", finalizer, text)


def _annotations(annotations: Mapping[str, str]) -> Iterator[StatusCause]:
    for key in annotations:
        if (why := _key_fault(key.lower())) is not None:
            yield _invalid("metadata.annotations", key, why)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        yield StatusCause(
            "metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"
        )


def _name_fault(kind: ResourceKind, name: str) -> str | None:
    if kind.group == _FREELY_NAMED:
        return "may not contain '/'" if "/" in name or "%" in name or name in (".", "..") else None
    if kind.storage in _LABEL_NAMED:
        if len(name) > 63:
            return "must be no more than 63 bytes"
        return None if _LABEL.fullmatch(name) else _LABEL_TEXT
    if len(name) > 253:
        return "must be no more than 253 bytes"
    return None if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_TEXT


def _key_fault(key: str) -> str | None:
    """What is wrong with a label key, annotation key or finalizer."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {_SUBDOMAIN_TEXT}"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _QUALIFIED.fullmatch(name) else _QUALIFIED_TEXT


def _invalid(path: str, value: Any, why: str) -> StatusCause:
    return StatusCause(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def _pod(spec: Mapping[str, Any]) -> Iterator[StatusCause]:
    if not spec.get("containers"):
        yield StatusCause("spec.containers", "FieldValueRequired", "Required value")
    taken: set[str] = set()
    for member in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(member) or []):
            yield from _container(f"spec.{member}[{at}]", container, taken)


def _container(path: str, container: Mapping[str, Any], taken: set[str]) -> Iterator[StatusCause]:
    name = container.get("name") or ""
    if not name:
        yield StatusCause(f"{path}.name", "FieldValueRequired", "Required value")
    elif not _LABEL.fullmatch(name) or len(name) > 63:
        yield _invalid(f"{path}.name", name, _LABEL_TEXT)
    elif name in taken:
        yield StatusCause(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
    taken.add(name)
    if not container.get("image"):
        yield StatusCause(f"{path}.image", "FieldValueRequired", "Required value")
    yield from _resources(f"{path}.resources", container.get("resources") or {})


def _resources(path: str, resources: Mapping[str, Any]) -> Iterator[StatusCause]:
    """Extended resources come in whole numbers and cannot be overcommitted: what is asked for has to be the limit."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for member, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if extended(name) and quantity.parse(amount, key=name).nano % NANO:
                yield _invalid(f"{path}.{member}[{name}]", amount, "must be an integer")
    for name, amount in requests.items():
        if extended(name) and limits.get(name) != amount:
            if name not in limits:
                yield StatusCause(
                    f"{path}.limits",
                    "FieldValueRequired",
                    "Required value: Limit must be set for non overcommitable resources",
                )
            else:
                yield _invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limits[name]}")


def extended(resource: str) -> bool:
    """Whether a resource is one that Kubernetes itself does not know."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


_MUTABLE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_UPDATE_TEXT: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_change_violations(old: Json, new: Json) -> list[StatusCause]:
    """What an update of a pod may not change: nearly everything that it runs with."""
    gated = bool((old.get("spec") or {}).get("schedulingGates"))
    if _fixed_part(old.get("spec") or {}, gated=gated) != _fixed_part(new.get("spec") or {}, gated=gated):
        return [StatusCause("spec", "FieldValueForbidden", _UPDATE_TEXT)]
    gates = [gate.get("name") for gate in (old.get("spec") or {}).get("schedulingGates") or []]
    added = [g for g in (new.get("spec") or {}).get("schedulingGates") or [] if g.get("name") not in gates]
    if added:
        return [StatusCause("spec.schedulingGates", "FieldValueForbidden", "Forbidden: only deletion is allowed")]
    before, after = ((pod.get("spec") or {}).get("tolerations") or [] for pod in (old, new))
    if any(toleration not in after for toleration in before):
        return [
            StatusCause("spec.tolerations", "FieldValueForbidden", "Forbidden: existing toleration can not be modified")
        ]
    return []


def _fixed_part(spec: Mapping[str, Any], *, gated: bool) -> dict[str, Any]:
    """What may not change; while a pod is gated, where it may run can still be narrowed."""
    fixed = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for member in ("containers", "initContainers"):
        if member in fixed:
            fixed[member] = [{key: value for key, value in item.items() if key != "image"} for item in fixed[member]]
    if gated:
        fixed.pop("nodeSelector", None)
        fixed.pop("affinity", None)
    return fixed


def finalizer_violations(old: Json, new: Json) -> list[StatusCause]:
    """Once an object is being deleted, no client may add finalizers."""
    if not old["metadata"].get("deletionTimestamp"):
        return []
    before = old["metadata"].get("finalizers") or []
    added = [name for name in new["metadata"].get("finalizers") or [] if name not in before]
    if not added:
        return []
    text = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added}"
    return [StatusCause("metadata.finalizers", "FieldValueForbidden", text)]
