"""Snapshots that can be handed to strangers: only published words stay, and answers stay the same.

Every text of an object is either a word of ``published``, or it becomes a pseudonym, the same wherever it is written.
What is not of the expected type is redacted as a whole, so that it stays as unreadable as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.snapshots.pseudonyms import Named, Pseudonyms, SecretCollector
from hami_plugins.inputs.snapshots.published import VARIABLES, Published
from hami_plugins.inputs.snapshots.trimmer import ANNOTATIONS, Trimmer
from hami_plugins.inputs.snapshots.walk import Walk

_AMOUNT: Final = re.compile(
    r"[+-]?(?:\d{1,30}(?:\.\d{0,20})?|\.\d{1,20})(?:[EPTGMK]i|[EPTGMkmun]|[eE][+-]?\d{1,3})?", re.ASCII
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_SCHEDULER_IMAGE: Final = re.compile(
    r"(?:.*/)?vc-scheduler:(v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?:[-+@].*)?", re.DOTALL | re.ASCII
)
_VARIABLE: Final = re.compile(f"(?:{'|'.join(VARIABLES)})(?:_[0-9]{{1,3}})?")
"""The limits of a slice have a variable for each device, with its number at the end."""

Rule: TypeAlias = Callable[[Walk, object], object]
"""What a value of an object becomes."""


class Redactor:
    """Redacts the objects of one cluster, always with the same pseudonyms."""

    def __init__(self, listing: Iterable[object], registry: Registry) -> None:
        self._objects = list(Trimmer(registry).objects(listing))
        published = Published(registry)
        found = SecretCollector()
        collecting = Walk(found, published, registry)
        for raw in self._objects:
            _object(collecting, raw)
        self.names = Pseudonyms(found, published)
        self.walk = Walk(self.names, published, registry)

    def cluster(self) -> tuple[dict[str, object], ...]:
        """The objects of the cluster, in their order."""
        return tuple(_object(self.walk, raw) for raw in self._objects)


def redact(listing: Iterable[object], registry: Registry) -> tuple[dict[str, object], ...]:
    """A cluster's objects under pseudonyms: the same questions get the same answers."""
    return Redactor(listing, registry).cluster()


def _object(walk: Walk, raw: Mapping[str, object]) -> dict[str, object]:
    """A trimmed object of a kind that snapshots hold."""
    kind = str(raw["kind"])
    walk.enter(raw)
    found = _OBJECTS[kind](walk, raw)
    version = _of_text(Walk.version)(walk, raw.get("apiVersion"))
    return {"apiVersion": version, "kind": kind, **(found if isinstance(found, dict) else {})}


def _fields(rules: Mapping[str, Rule]) -> Rule:
    """An object with these members; it has no others after trimming, and any other is left out."""

    def rule(walk: Walk, value: object) -> object:
        if not isinstance(value, Mapping):
            return walk.whole(value)
        return {name: rules[name](walk, inner) for name, inner in value.items() if name in rules}

    return rule


def _each(inner: Rule) -> Rule:
    return lambda walk, value: [inner(walk, each) for each in value] if isinstance(value, list) else walk.whole(value)


def _of_text(make: Callable[[Walk, str], str]) -> Rule:
    return lambda walk, value: make(walk, value) if isinstance(value, str) else walk.whole(value)


def _name(kind: Named) -> Rule:
    return _of_text(lambda walk, text: walk.names.name(kind, text) if text else text)


def _by_key(key: Callable[[Walk, str], str], value: Callable[[Walk, str, str], str]) -> Rule:
    """A mapping of texts, such as labels."""

    def rule(walk: Walk, raw: object) -> object:
        if not isinstance(raw, Mapping):
            return walk.whole(raw)
        return {
            key(walk, str(name)): value(walk, str(name), inner) if isinstance(inner, str) else walk.whole(inner)
            for name, inner in raw.items()
        }

    return rule


def _requirement(walk: Walk, raw: object) -> object:
    """A requirement of labels (``key``, ``operator``, ``values``), a taint or a toleration (``value``)."""
    if not isinstance(raw, Mapping):
        return walk.whole(raw)
    key = raw.get("key")
    name = key if isinstance(key, str) else ""
    value = _of_text(lambda walk, text: walk.label(name, text))
    return _requirement_of(_of_text(Walk.key), value)(walk, raw)


def _field_requirement(walk: Walk, raw: object) -> object:
    """A requirement of the name of a node."""
    if not isinstance(raw, Mapping):
        return walk.whole(raw)
    if raw.get("key") != "metadata.name":
        return _requirement_of(Walk.whole, Walk.whole)(walk, raw)
    return _requirement_of(lambda _walk, key: key, _name(Named.NODE))(walk, raw)


def _requirement_of(key: Rule, value: Rule) -> Rule:
    plain = dict.fromkeys(("operator", "effect", "tolerationSeconds"), Walk.whole)
    return _fields({"key": key, "value": value, "values": _each(value), **plain})


def _environment(walk: Walk, raw: object) -> object:
    """The variables that rules read, by name; a list that cannot be read is redacted whole."""
    if not isinstance(raw, list):
        return walk.whole(raw)
    kept: list[object] = []
    for each in raw:
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str):
            kept.append(walk.whole(each))
        elif _VARIABLE.fullmatch(name):
            kept.append({"name": name})
    return kept


def _image(_: Walk, text: str) -> str:
    """Only what tells the release of Volcano's scheduler stays."""
    match = _SCHEDULER_IMAGE.fullmatch(text)
    return "image" if match is None else f"vc-scheduler:{match[1]}"


def _time(walk: Walk, text: str) -> str:
    return text if _TIME.fullmatch(text) else walk.secret(text)


def _amount(walk: Walk, _: str, text: str) -> str:
    return text if _AMOUNT.fullmatch(text) else walk.secret(text)


_WORD: Final = _of_text(Walk.word)
_TIME_RULE: Final = _of_text(_time)
_LABELS: Final = _by_key(Walk.key, Walk.label)
_ANNOTATIONS: Final = _by_key(Walk.key, Walk.annotation)
_AMOUNTS: Final = _by_key(Walk.resource, _amount)
_RESOURCES: Final = _fields({"limits": _AMOUNTS, "requests": _AMOUNTS})
_SELECTOR: Final = _fields({"matchLabels": _LABELS, "matchExpressions": _each(_requirement)})
_NAMESPACE: Final = _name(Named.NAMESPACE)
_KEYS: Final = _each(_of_text(Walk.key))


def _metadata(kind: Named, **more: Rule) -> Rule:
    return _fields(
        {
            **more,
            "name": _name(kind),
            "namespace": _NAMESPACE,
            "uid": _of_text(Walk.secret),
            "creationTimestamp": _TIME_RULE,
            "deletionTimestamp": _TIME_RULE,
            "labels": _LABELS,
            ANNOTATIONS: _ANNOTATIONS,
        }
    )


_OWNER: Final = _fields({"kind": _WORD, "controller": Walk.whole})
_CONTAINERS: Final = _each(
    _fields(
        {
            "name": _of_text(Walk.container),
            "image": _of_text(_image),
            "restartPolicy": _WORD,
            "resources": _RESOURCES,
            "securityContext": _fields({"privileged": Walk.whole}),
            "env": _environment,
        }
    )
)
_TERM: Final = _fields(
    {
        "topologyKey": _of_text(Walk.key),
        "labelSelector": _SELECTOR,
        "namespaceSelector": _SELECTOR,
        "namespaces": _each(_NAMESPACE),
        "matchLabelKeys": _KEYS,
        "mismatchLabelKeys": _KEYS,
    }
)
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY: Final = _fields(
    {
        "nodeAffinity": _fields(
            {
                _REQUIRED_TERMS: _fields(
                    {
                        "nodeSelectorTerms": _each(
                            _fields({"matchExpressions": _each(_requirement), "matchFields": _each(_field_requirement)})
                        )
                    }
                )
            }
        ),
        "podAffinity": _fields({_REQUIRED_TERMS: _each(_TERM)}),
        "podAntiAffinity": _fields({_REQUIRED_TERMS: _each(_TERM)}),
    }
)
_SPREAD: Final = _fields(
    {
        "topologyKey": _of_text(Walk.key),
        "maxSkew": Walk.whole,
        "minDomains": Walk.whole,
        "whenUnsatisfiable": _WORD,
        "labelSelector": _SELECTOR,
        "matchLabelKeys": _KEYS,
        "nodeAffinityPolicy": _WORD,
        "nodeTaintsPolicy": _WORD,
    }
)
_POD: Final = _fields(
    {
        "nodeName": _name(Named.NODE),
        "schedulerName": _name(Named.SCHEDULER),
        "priority": Walk.whole,
        "priorityClassName": _name(Named.CLASS),
        "preemptionPolicy": _WORD,
        "runtimeClassName": _name(Named.RUNTIME),
        "schedulingGates": _each(lambda _walk, _raw: {"name": "gate"}),
        "overhead": _AMOUNTS,
        "resources": _RESOURCES,
        "nodeSelector": _LABELS,
        "affinity": _AFFINITY,
        "topologySpreadConstraints": _each(_SPREAD),
        "tolerations": _each(_requirement),
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
    }
)
_OBJECTS: Final[Mapping[str, Rule]] = {
    "Node": _fields(
        {
            "metadata": _metadata(Named.NODE),
            "spec": _fields({"taints": _each(_requirement), "unschedulable": Walk.whole}),
            "status": _fields(
                {
                    "capacity": _AMOUNTS,
                    "allocatable": _AMOUNTS,
                    "conditions": _each(_fields({"type": _WORD, "status": _WORD, "reason": _of_text(Walk.reason)})),
                    "nodeInfo": _fields({"kubeletVersion": _of_text(Walk.kubelet)}),
                }
            ),
        }
    ),
    "Pod": _fields(
        {
            "metadata": _metadata(Named.POD, ownerReferences=_each(_OWNER)),
            "spec": _POD,
            "status": _fields(
                {
                    "phase": _WORD,
                    "nominatedNodeName": _name(Named.NODE),
                    "conditions": _each(_fields({"type": _WORD, "status": _WORD, "reason": _WORD})),
                    "initContainerStatuses": _each(
                        _fields(
                            {
                                "name": _of_text(Walk.container),
                                "state": _fields({"terminated": _fields({"exitCode": Walk.whole})}),
                            }
                        )
                    ),
                }
            ),
        }
    ),
    "ResourceQuota": _fields(
        {
            "metadata": _metadata(Named.QUOTA),
            "spec": _fields(
                {
                    "hard": _AMOUNTS,
                    "scopes": _each(_WORD),
                    "scopeSelector": _fields({"matchExpressions": _each(_fields({"scopeName": _WORD}))}),
                }
            ),
            "status": _fields({"used": _AMOUNTS}),
        }
    ),
    "PodDisruptionBudget": _fields(
        {
            "metadata": _metadata(Named.BUDGET),
            "spec": _fields({"selector": _SELECTOR}),
            "status": _fields({"disruptionsAllowed": Walk.whole}),
        }
    ),
    "Queue": _fields(
        {
            "metadata": _metadata(Named.QUEUE),
            "spec": _fields(
                {
                    "weight": Walk.whole,
                    "capability": _AMOUNTS,
                    "deserved": _AMOUNTS,
                    "guarantee": _fields({"resource": _AMOUNTS}),
                    "parent": _name(Named.QUEUE),
                    "priority": Walk.whole,
                    "reclaimable": Walk.whole,
                }
            ),
            "status": _fields({"state": _WORD, "allocated": _AMOUNTS}),
        }
    ),
    "PodGroup": _fields(
        {
            "metadata": _metadata(Named.GROUP),
            "spec": _fields(
                {
                    "minMember": Walk.whole,
                    "minTaskMember": _by_key(
                        lambda walk, task: walk.names.name(Named.TASK, task), lambda walk, _, text: walk.secret(text)
                    ),
                    "minResources": _AMOUNTS,
                    "queue": _name(Named.QUEUE),
                    "priorityClassName": _name(Named.CLASS),
                }
            ),
            "status": _fields({"phase": _WORD}),
        }
    ),
    "PriorityClass": _fields({"metadata": _metadata(Named.CLASS), "value": Walk.whole, "preemptionPolicy": _WORD}),
    "Device": _fields(
        {
            "metadata": _metadata(Named.NODE),
            "spec": _fields(
                {
                    "devices": _each(
                        _fields(
                            {
                                "type": _WORD,
                                "id": _WORD,
                                "minor": Walk.whole,
                                "health": Walk.whole,
                                "resources": _AMOUNTS,
                                "labels": _by_key(Walk.word, lambda walk, _, text: walk.word(text)),
                                "topology": _fields(
                                    {
                                        "socketID": Walk.whole,
                                        "nodeID": Walk.whole,
                                        "pcieID": _of_text(Walk.text),
                                        "busID": _of_text(Walk.text),
                                    }
                                ),
                            }
                        )
                    )
                }
            ),
        }
    ),
}
