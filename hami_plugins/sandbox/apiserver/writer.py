"""Creating, changing and deleting objects: the rules of metadata, spec and status around the store.

Every write of the server goes through ``Writer``, so a version is made only where something changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from hami_plugins.sandbox.apiserver import validation
from hami_plugins.sandbox.apiserver.answers import (
    MODIFIED,
    ApiError,
    StatusCause,
    already_exists,
    bad_request,
    conflict,
    details_of,
    internal,
    invalid,
    not_found,
)
from hami_plugins.sandbox.apiserver.decoder import DecodeError, decoded
from hami_plugins.sandbox.apiserver.defaults import GRACE_SECONDS, complete, with_defaults
from hami_plugins.sandbox.apiserver.kinds import DEFINITIONS, NAMESPACES, PODS, ResourceKind, ResourceKinds, declared
from hami_plugins.sandbox.apiserver.review import OPEN, AdmissionChain
from hami_plugins.sandbox.apiserver.store import ApiStore, Key, Stored
from hami_plugins.wire.fields import Json

STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
"""How the server writes times."""

_KEPT: Final = (
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
_NEVER_BLIND: Final = frozenset({("coordination.k8s.io", "leases"), DEFINITIONS.storage})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What a deletion or binding expects of the object; ``None`` expects nothing."""

    uid: str | None = None
    version: str | None = None

    def check(self, kind: ResourceKind, stored: Stored) -> None:
        """Raise ``ApiError`` 409 when the object is another one, or has moved on."""
        metadata = stored.raw["metadata"]
        for label, wanted, found in (
            ("UID", self.uid, metadata["uid"]),
            ("ResourceVersion", self.version, metadata["resourceVersion"]),
        ):
            if wanted is not None and wanted != found:
                why = f"{label} in precondition: {wanted}, {label} in object meta: {found}"
                raise conflict(kind, stored.key.name, f"Precondition failed: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete: ``grace`` in seconds (``None`` is the object's own wish), and what must hold.

    With ``dry`` nothing is deleted.
    """

    grace: int | None = None
    preconditions: Preconditions = Preconditions()
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object as it was left; ``gone`` when it is out of the store."""

    stored: Stored
    gone: bool


class Writer:
    """The only one who writes to the store. ``clock`` gives the time, ``new_uid`` the identity of new objects."""

    def __init__(
        self, store: ApiStore, kinds: ResourceKinds, *, clock: Callable[[], datetime], new_uid: Callable[[], str]
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock
        self._new_uid = new_uid

    def now(self) -> str:
        """The time as objects carry it."""
        return self.clock().astimezone(UTC).strftime(STAMP)

    def create(
        self, kind: ResourceKind, namespace: str, obj: Json, *, dry: bool = False, gate: AdmissionChain = OPEN
    ) -> Stored:
        """A new object. Raises ``ApiError`` 404 without its namespace, 409 for a taken name, 422 for broken rules."""
        if kind.namespaced:
            self._namespace_takes(kind, namespace, str(obj["metadata"].get("name", "")))
        key = Key(namespace if kind.namespaced else "", str(obj["metadata"].get("name") or ""))
        made = self._made(kind, key, gate.mutated("CREATE", kind, key, _placed(kind, obj, namespace), None), gate)
        key = key._replace(name=made["metadata"]["name"])
        if self.store.get(kind, key) is not None:
            raise already_exists(kind, key.name)
        if dry:
            return Stored(key, 0, made)
        if kind == DEFINITIONS:
            self._define(made)
        return self.store.put(kind, key, made)

    def _made(self, kind: ResourceKind, key: Key, obj: Json, gate: AdmissionChain) -> dict[str, Any]:
        """The object as it is to be stored, if its rules and webhooks allow that."""
        metadata = dict(obj["metadata"])
        version = metadata.pop("resourceVersion", "")
        uid, now = gate.birth(self._new_uid, self.now)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName'][:58]}{_suffix(uid)}"
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(name, None)
        metadata |= {"uid": uid, "creationTimestamp": now}
        metadata |= {"namespace": key.namespace} if kind.namespaced else {}
        metadata |= {"generation": 1} if kind.generation else {}
        made = with_defaults(kind, {**obj, "metadata": metadata}, now)
        if broken := validation.violations(kind, made):
            raise invalid(kind, metadata.get("name", ""), broken)
        if version.isdigit() and int(version):
            raise internal("resourceVersion should not be set on objects to be created")
        gate.validated("CREATE", kind, key._replace(name=metadata["name"]), made, None)
        return made

    def change(  # noqa: PLR0913 - how, and under which conditions
        self,
        kind: ResourceKind,
        key: Key,
        change: Callable[[Stored], Json],
        *,
        status: bool = False,
        dry: bool = False,
        gate: AdmissionChain = OPEN,
    ) -> Stored:
        """Replace an object by what ``change`` makes of it, on the main endpoint or on its status.

        Raises ``ApiError`` 404, 409 when the new object names another version or identity, 422. Where nothing changes,
        nothing is written.
        """
        old = self._existing(kind, key)
        wanted = gate.mutated("UPDATE", kind, key, complete(kind, change(old)), old.raw)
        self._same_object(kind, old, wanted)
        new = self._kept_apart(kind, old.raw, complete(kind, wanted), status=status)
        broken = [
            *validation.violations(kind, new),
            *(validation.pod_change_violations(old.raw, new) if kind == PODS and not status else []),
            *validation.finalizer_violations(old.raw, new),
        ]
        if broken:
            raise invalid(kind, key.name, broken)
        gate.validated("UPDATE", kind, key, new, old.raw)
        return self.settle(kind, old, new, dry=dry)

    def settle(self, kind: ResourceKind, old: Stored, new: Json, *, dry: bool = False) -> Stored:
        """Write a version that is known to be good, unless it is the one that is there."""
        if _same_json(old.raw, new):
            return old
        if dry:
            return Stored(old.key, old.version, new)
        metadata = new["metadata"]
        ended = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if ended and not metadata.get("deletionGracePeriodSeconds") and kind != NAMESPACES:
            return self._remove(kind, old.key, new)
        return self.store.put(kind, old.key, new)

    def delete(
        self, kind: ResourceKind, key: Key, options: DeleteOptions, *, dry: bool = False, gate: AdmissionChain = OPEN
    ) -> Deleted:
        """Take an object away, or mark it: a bound pod ends gracefully, finalizers are waited for.

        A pod is always marked first, so its watchers hear of a change and of the end, even where both are at once.
        Raises ``ApiError`` 404, and 409 when the preconditions do not hold.
        """
        old = self._existing(kind, key)
        options.preconditions.check(kind, old)
        gate.mutated("DELETE", kind, key, None, old.raw)
        gate.validated("DELETE", kind, key, None, old.raw)
        if dry:
            return Deleted(old, gone=True)
        if kind == NAMESPACES:
            return self._end_namespace(old)
        grace = _grace(old.raw, options.grace) if kind == PODS else 0
        waits = bool(old.raw["metadata"].get("finalizers"))
        if kind == PODS or waits:
            old = self._mark(kind, old, grace)
        if grace or waits:
            return Deleted(old, gone=False)
        return Deleted(self._remove(kind, key, old.raw), gone=True)

    def _existing(self, kind: ResourceKind, key: Key) -> Stored:
        stored = self.store.get(kind, key)
        if stored is None:
            raise not_found(kind, key.name)
        return stored

    def _namespace_takes(self, kind: ResourceKind, namespace: str, name: str) -> None:
        found = self.store.get(NAMESPACES, Key("", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if found.raw["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {**details_of(kind, name), "causes": [cause]}
            raise ApiError(403, f'{kind.qualified} "{name}" is forbidden: {why}', details=details)

    def _same_object(self, kind: ResourceKind, old: Stored, wanted: Json) -> None:
        """The new version has to be of the object that the writer has seen."""
        before, after = old.raw["metadata"], wanted["metadata"]
        version = after.get("resourceVersion")
        if version in (None, "", "0"):
            if not kind.typed or kind.storage in _NEVER_BLIND:
                text = "Invalid value: 0: must be specified for an update"
                raise invalid(kind, old.key.name, [StatusCause("metadata.resourceVersion", "FieldValueInvalid", text)])
        elif version != before["resourceVersion"]:
            if not version.isdigit():
                raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
            raise conflict(kind, old.key.name, MODIFIED)
        if after.get("uid", before["uid"]) != before["uid"]:
            why = f"UID in precondition: {after['uid']}, UID in object meta: {before['uid']}"
            raise conflict(kind, old.key.name, f"Precondition failed: {why}")

    def _kept_apart(self, kind: ResourceKind, old: Json, wanted: Json, *, status: bool) -> Json:
        """Status changes on its own endpoint alone, everything else on the main one alone."""
        if status and not kind.typed:
            return {**old, **({"status": wanted["status"]} if "status" in wanted else {})}
        metadata = {key: value for key, value in wanted["metadata"].items() if key not in _KEPT}
        metadata |= {key: old["metadata"][key] for key in _KEPT if key in old["metadata"]}
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if status:
            kept = {key: value for key, value in old.items() if key not in ("metadata", "status")}
            return {"metadata": metadata, **kept, **({"status": wanted["status"]} if "status" in wanted else {})}
        new = {**wanted, "metadata": metadata}
        if kind.status:
            new.pop("status", None)
            new |= {"status": old["status"]} if "status" in old else {}
        if kind.generation and not _same_json(_content(kind, old), _content(kind, new)):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        return new

    def _mark(self, kind: ResourceKind, old: Stored, grace: int) -> Stored:
        """Write that an object is being deleted, unless it is, and no later."""
        metadata = old.raw["metadata"]
        if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return old
        return self.store.put(kind, old.key, self._marked(old.raw, grace))

    def _marked(self, old: Json, grace: int) -> Json:
        """The object as one that is being deleted."""
        metadata = dict(old["metadata"])
        end = self.clock().astimezone(UTC) + timedelta(seconds=grace)
        metadata |= {"deletionTimestamp": end.strftime(STAMP), "deletionGracePeriodSeconds": grace}
        if metadata.get("generation") and "deletionTimestamp" not in old["metadata"]:
            metadata["generation"] += 1
        return {**old, "metadata": metadata}

    def _remove(self, kind: ResourceKind, key: Key, last: Json) -> Stored:
        gone = self.store.remove(kind, key, last)
        if kind == DEFINITIONS:
            spec = last["spec"]
            self.kinds.remove((spec["group"], spec["names"]["plural"]))
            self.store.drop((spec["group"], spec["names"]["plural"]))
        if kind.namespaced:
            self._finish_namespace(key.namespace)
        return gone

    def _define(self, definition: Json) -> None:
        for kind in declared(definition):
            self.kinds.add(kind)

    def _end_namespace(self, old: Stored) -> Deleted:
        """The namespace controller: deletes everything in the namespace, and then the namespace."""
        if not old.raw["metadata"].get("deletionTimestamp"):
            marked = self._marked(old.raw, 0)
            metadata = {key: value for key, value in marked["metadata"].items() if key != "deletionGracePeriodSeconds"}
            old = self.store.put(
                NAMESPACES, old.key, {**marked, "metadata": metadata, "status": {"phase": "Terminating"}}
            )
        for kind in self._namespaced():
            for stored in self.store.select(kind, old.key.name):
                self.delete(kind, stored.key, DeleteOptions())
        self._finish_namespace(old.key.name)
        return Deleted(old, gone=False)

    def _finish_namespace(self, name: str) -> None:
        namespace = self.store.get(NAMESPACES, Key("", name))
        if namespace is None or not namespace.raw["metadata"].get("deletionTimestamp"):
            return
        if not any(self.store.select(kind, name) for kind in self._namespaced()):
            self.store.remove(NAMESPACES, namespace.key, namespace.raw)

    def _namespaced(self) -> list[ResourceKind]:
        """Every collection that namespaces divide, once."""
        return list({kind.storage: kind for kind in self.kinds if kind.namespaced}.values())


def decode(kind: ResourceKind, obj: Json) -> dict[str, Any]:
    """The object in a request body. Raises ``ApiError`` 400 when it is none of this kind."""
    for member in ("kind", "apiVersion"):
        if not kind.typed and not obj.get(member):
            raise bad_request(f"Object '{member.title()}' is missing in the request")
    version = str(obj.get("apiVersion") or kind.api_version).rpartition("/")[2]
    found = f'{obj.get("kind") or kind.kind} in version "{version}"'
    if obj.get("kind") not in (None, "", kind.kind) or obj.get("apiVersion") not in (None, "", kind.api_version):
        raise bad_request(f"{found} cannot be handled as a {kind.kind}: that is another kind")
    try:
        return decoded(kind, obj)
    except DecodeError as error:
        raise bad_request(f"{found} cannot be handled as a {kind.kind}: {error}") from error


def _placed(kind: ResourceKind, obj: Json, namespace: str) -> dict[str, Any]:
    """A new object with its namespace and the defaults of its spec, as webhooks see it first."""
    inside = {"namespace": namespace} if kind.namespaced else {}
    return {**complete(kind, obj), "metadata": {**obj["metadata"], **inside}}


def _grace(pod: Json, asked: int | None) -> int:
    """Seconds that a pod has to end. One that runs nowhere, or has ended, needs none."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(spec.get("terminationGracePeriodSeconds", GRACE_SECONDS)) if asked is None else max(asked, 0)


def _content(kind: ResourceKind, obj: Json) -> Json:
    """The part of an object whose changes count as a new generation."""
    ignored = {"metadata", "status"} if kind.status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in ignored}


def _same_json(old: Json, new: Json) -> bool:
    """Equality of JSON. Python's alone would take ``true`` for ``1``."""
    if old != new:
        return False
    return orjson.dumps(old, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS)


_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def _suffix(uid: str) -> str:
    """Five characters for ``generateName``, drawn from the object's new identity."""
    number = int(uid.replace("-", "")[:12], 16)
    letters = []
    for _ in range(5):
        number, at = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[at])
    return "".join(letters)
