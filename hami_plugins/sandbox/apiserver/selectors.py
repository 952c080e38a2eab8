"""Label and field selectors: text to predicates.

Grammar and errors of ``k8s.io/apimachinery/pkg/labels`` and ``pkg/fields``; which fields a kind may be selected by is
the server's table (``pkg/registry`` and ``SelectableFields``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.sandbox.apiserver.answers import bad_request
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.wire.fields import Json

_LABEL_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_PART: Final = re.compile(r"[^,(]*(?:\([^)]*\))?[^,(]*")
_SET: Final = re.compile(r"\s*(?P<key>\S+)\s+(?P<verb>in|notin)\s*\((?P<values>[^)]*)\)\s*")
_EQUAL: Final = re.compile(r"\s*(?P<key>[^\s!=<>]+)\s*(?P<verb>==|=|!=|<|>)\s*(?P<value>[^\s=!<>]*)\s*")
_EXISTS: Final = re.compile(r"\s*(?P<no>!?)\s*(?P<key>[^\s!=]+)\s*")

_FIELDS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    ("", "nodes"): frozenset({"spec.unschedulable"}),
    ("", "namespaces"): frozenset({"status.phase"}),
    ("", "secrets"): frozenset({"type"}),
    ("", "services"): frozenset({"spec.clusterIP", "spec.type"}),
    ("", "replicationcontrollers"): frozenset({"status.replicas"}),
    ("", "events"): frozenset(
        {
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    ("apps", "replicasets"): frozenset({"status.replicas"}),
    ("batch", "jobs"): frozenset({"status.successful"}),
}
_EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})

INDEXED: Final = ("spec.nodeName", "metadata.name")
"""Fields whose selectors the server answers without looking at every object."""


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One requirement on a label; ``wanted`` is empty for mere existence."""

    key: str
    wanted: frozenset[str]
    test: Callable[[str | None, frozenset[str]], bool]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets it."""
        return self.test(labels.get(self.key), self.wanted)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One requirement on a field."""

    path: tuple[str, ...]
    value: str
    equal: bool

    def holds(self, obj: Json) -> bool:
        """Whether an object meets it; a field that is not there is empty text."""
        return (field_text(obj, self.path) == self.value) == self.equal


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Both selectors of a list or watch. The empty one matches everything."""

    labels: tuple[LabelTerm, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, obj: Json) -> bool:
        """Whether an object is selected."""
        if not all(term.holds(obj) for term in self.fields):
            return False
        return not self.labels or all(term.holds(obj["metadata"].get("labels") or {}) for term in self.labels)

    def pinned(self, field: str) -> str | None:
        """The one value that an indexed field has in every object that is selected, if there is one."""
        path = tuple(field.split("."))
        return next((term.value for term in self.fields if term.equal and term.path == path), None)


EVERYTHING: Final = ObjectSelector()


def parse(kind: ResourceKind, labels: str, fields: str) -> ObjectSelector:
    """The selectors of a request. Raises ``ApiError`` 400 for text that is none and fields that are not offered."""
    return ObjectSelector(_labels(labels), _fields(kind, fields))


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def written(selector: Json | None) -> ObjectSelector:
    """A ``LabelSelector`` as objects carry it; none, and an empty one, match everything."""
    told = selector or {}
    equal = [LabelTerm(key, frozenset({value}), _is_in) for key, value in (told.get("matchLabels") or {}).items()]
    tests = dict(zip(_OPERATORS, (_is_in, _is_not_in, _is_there, _is_absent), strict=True))
    terms = [
        LabelTerm(each["key"], frozenset(each.get("values") or ()), tests[each["operator"]])
        for each in told.get("matchExpressions") or []
    ]
    return ObjectSelector((*equal, *terms))


def field_text(obj: Json, path: tuple[str, ...]) -> str:
    """A field as selectors compare it: text, lower-case booleans, empty when absent."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if path == ("source",):
        value = (value or {}).get("component") or obj.get("reportingComponent")
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
    return str(value)


def _labels(text: str) -> tuple[LabelTerm, ...]:
    return tuple(_label_term(part, text) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """Requirements, split at the commas outside of parentheses."""
    if not text.strip():
        return []
    parts: list[str] = []
    at = 0
    while at <= len(text):
        found = _PART.match(text, at)
        end = found.end() if found else at
        parts.append(text[at:end])
        if end < len(text) and text[end] != ",":
            raise _unparsable(text, text[end:])
        at = end + 1
    return parts


def _label_term(part: str, text: str) -> LabelTerm:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return LabelTerm(_key(found["key"]), _values(values), _is_in if found["verb"] == "in" else _is_not_in)
    if found := _EQUAL.fullmatch(part):
        wanted = _values(frozenset({found["value"]}))
        if found["verb"] in "<>":
            return LabelTerm(_key(found["key"]), wanted, _more if found["verb"] == ">" else _less)
        return LabelTerm(_key(found["key"]), wanted, _is_not_in if found["verb"] == "!=" else _is_in)
    if found := _EXISTS.fullmatch(part):
        return LabelTerm(_key(found["key"]), frozenset(), _is_absent if found["no"] else _is_there)
    raise _unparsable(text, part)


def _unparsable(text: str, part: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{part.strip()}', in selector '{text}'")


def _key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{text}": name part must be a label key')
    return text


def _values(values: frozenset[str]) -> frozenset[str]:
    for value in values:
        if not _LABEL_VALUE.fullmatch(value):
            raise bad_request(f'unable to parse requirement: values[0]: Invalid value: "{value}": not a label value')
    return values


def _is_in(found: str | None, wanted: frozenset[str]) -> bool:
    return found in wanted


def _is_not_in(found: str | None, wanted: frozenset[str]) -> bool:
    return found not in wanted


def _is_there(found: str | None, _: frozenset[str]) -> bool:
    return found is not None


def _is_absent(found: str | None, _: frozenset[str]) -> bool:
    return found is None


def _more(found: str | None, wanted: frozenset[str]) -> bool:
    return _number(found) is not None and any(int(found or 0) > int(value) for value in wanted if value.isdigit())


def _less(found: str | None, wanted: frozenset[str]) -> bool:
    return _number(found) is not None and any(int(found or 0) < int(value) for value in wanted if value.isdigit())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _fields(kind: ResourceKind, text: str) -> tuple[FieldTerm, ...]:
    terms = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(?P<path>[^=!]+)(?P<verb>!=|==|=)(?P<value>.*)", part)
        if not found:
            raise bad_request(f"invalid field selector: '{part}'; can't understand '{part}'")
        path = _offered(kind, found["path"].strip())
        terms.append(FieldTerm(tuple(path.split(".")), found["value"].strip(), found["verb"] != "!="))
    return tuple(terms)


def _offered(kind: ResourceKind, path: str) -> str:
    known = {kind.renames.get(name.split(".")[0], name.split(".")[0]): name.split(".")[0] for name in _known(kind)}
    first, dot, rest = path.partition(".")
    stored = known.get(first, first) + dot + rest
    if stored not in _known(kind):
        if kind.typed and kind.storage not in _FIELDS:
            offered = 'only "metadata.name", "metadata.namespace"'
            raise bad_request(f'"{path}" is not a known field selector: {offered}')
        raise bad_request(f"field label not supported: {path}")
    return stored


def _known(kind: ResourceKind) -> frozenset[str]:
    return _EVERY_KIND | _FIELDS.get(kind.storage, frozenset())
