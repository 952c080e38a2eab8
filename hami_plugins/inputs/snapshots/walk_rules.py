"""What the values of an object become in a walk, by what they are: the parts of the rules of whole kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from hami_plugins.inputs.snapshots.pseudonyms import Named
from hami_plugins.inputs.snapshots.trimmer import ANNOTATIONS
from hami_plugins.inputs.snapshots.walk import Walk

_AMOUNT: Final = re.compile(
    r"[+-]?(?:\d{1,30}(?:\.\d{0,20})?|\.\d{1,20})(?:[EPTGMK]i|[EPTGMkmun]|[eE][+-]?\d{1,3})?", re.ASCII
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

Rule: TypeAlias = Callable[[Walk, object], object]
"""What a value of an object becomes."""


def members(rules: Mapping[str, Rule]) -> Rule:
    """An object with these members; it has no others after trimming, and any other is left out."""

    def rule(walk: Walk, value: object) -> object:
        if not isinstance(value, Mapping):
            return walk.whole(value)
        return {name: rules[name](walk, inner) for name, inner in value.items() if name in rules}

    return rule


def each_of(inner: Rule) -> Rule:
    return lambda walk, value: [inner(walk, each) for each in value] if isinstance(value, list) else walk.whole(value)


def of_text(make: Callable[[Walk, str], str]) -> Rule:
    return lambda walk, value: make(walk, value) if isinstance(value, str) else walk.whole(value)


def name_of(kind: Named) -> Rule:
    return of_text(lambda walk, text: walk.names.name(kind, text) if text else text)


def by_key(key: Callable[[Walk, str], str], value: Callable[[Walk, str, str], str]) -> Rule:
    """A mapping of texts, such as labels."""

    def rule(walk: Walk, raw: object) -> object:
        if not isinstance(raw, Mapping):
            return walk.whole(raw)
        return {
            key(walk, str(name)): value(walk, str(name), inner) if isinstance(inner, str) else walk.whole(inner)
            for name, inner in raw.items()
        }

    return rule


def requirement(walk: Walk, raw: object) -> object:
    """A requirement of labels (``key``, ``operator``, ``values``), a taint or a toleration (``value``)."""
    if not isinstance(raw, Mapping):
        return walk.whole(raw)
    key = raw.get("key")
    name = key if isinstance(key, str) else ""
    value = of_text(lambda walk, text: walk.label(name, text))
    return requirement_of(of_text(Walk.key), value)(walk, raw)


def field_requirement(walk: Walk, raw: object) -> object:
    """A requirement of the name of a node."""
    if not isinstance(raw, Mapping):
        return walk.whole(raw)
    if raw.get("key") != "metadata.name":
        return requirement_of(Walk.whole, Walk.whole)(walk, raw)
    return requirement_of(lambda _walk, key: key, name_of(Named.NODE))(walk, raw)


def requirement_of(key: Rule, value: Rule) -> Rule:
    plain = dict.fromkeys(("operator", "effect", "tolerationSeconds"), Walk.whole)
    return members({"key": key, "value": value, "values": each_of(value), **plain})


def time(walk: Walk, text: str) -> str:
    return text if _TIME.fullmatch(text) else walk.secret(text)


def amount(walk: Walk, _: str, text: str) -> str:
    return text if _AMOUNT.fullmatch(text) else walk.secret(text)


WORD: Final = of_text(Walk.word)
TIME: Final = of_text(time)
LABELS: Final = by_key(Walk.key, Walk.label)
ANNOTATION_RULE: Final = by_key(Walk.key, Walk.annotation)
AMOUNTS: Final = by_key(Walk.resource, amount)
OF_RESOURCES: Final[Mapping[str, Rule]] = {"limits": AMOUNTS, "requests": AMOUNTS}
RESOURCES: Final = members(OF_RESOURCES)
SELECTOR: Final = members({"matchLabels": LABELS, "matchExpressions": each_of(requirement)})
NAMESPACE: Final = name_of(Named.NAMESPACE)
CONDITIONS: Final = each_of(members({"type": WORD, "status": WORD, "reason": of_text(Walk.reason)}))
KEYS: Final = each_of(of_text(Walk.key))


def metadata(kind: Named, **more: Rule) -> Rule:
    return members(
        {
            **more,
            "name": name_of(kind),
            "namespace": NAMESPACE,
            "uid": of_text(Walk.secret),
            "creationTimestamp": TIME,
            "deletionTimestamp": TIME,
            "labels": LABELS,
            ANNOTATIONS: ANNOTATION_RULE,
        }
    )
