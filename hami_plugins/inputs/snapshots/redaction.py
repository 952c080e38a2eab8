"""Snapshots that can be handed to strangers: only published words stay, and answers stay the same.

Every text of an object is either a word of ``published``, or it becomes a pseudonym, the same wherever it occurs. A
value of an unexpected type is redacted as a whole, so it stays as unreadable as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.snapshots.claim_rules import (
    CLAIM_OBJECTS,
    CLAIMS_OF_PODS,
    MADE_FOR_PODS,
    USED_BY_CONTAINERS,
)
from hami_plugins.inputs.snapshots.pool_rules import POOL_OBJECTS
from hami_plugins.inputs.snapshots.pseudonyms import Named, Pseudonyms, SecretCollector
from hami_plugins.inputs.snapshots.published import VARIABLES, Published
from hami_plugins.inputs.snapshots.trimmer import Trimmer
from hami_plugins.inputs.snapshots.walk import Walk
from hami_plugins.inputs.snapshots.walk_rules import (
    AMOUNTS,
    CONDITIONS,
    KEYS,
    LABELS,
    NAMESPACE,
    OF_RESOURCES,
    RESOURCES,
    SELECTOR,
    WORD,
    Rule,
    by_key,
    each_of,
    field_requirement,
    members,
    metadata,
    name_of,
    of_text,
    requirement,
)
from hami_plugins.wire.scheduling_gates import OF_KUEUE

_SCHEDULER_IMAGE: Final = re.compile(
    r"(?:.*/)?vc-scheduler:(v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?:[-+@].*)?", re.DOTALL | re.ASCII
)
_VARIABLE: Final = re.compile(f"(?:{'|'.join(VARIABLES)})(?:_[0-9]{{1,3}})?")
"""The limits of a slice have a variable for each device, with its number at the end."""


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
    version = of_text(Walk.version)(walk, raw.get("apiVersion"))
    return {"apiVersion": version, "kind": kind, **(found if isinstance(found, dict) else {})}


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
    """Only the release of Volcano's scheduler is kept."""
    match = _SCHEDULER_IMAGE.fullmatch(text)
    return "image" if match is None else f"vc-scheduler:{match[1]}"


_GROUP: Final = name_of(Named.GROUP)
_POLICY: Final = members({"basic": Walk.whole, "gang": members({"minCount": Walk.whole})})
_OWNER: Final = members({"kind": WORD, "controller": Walk.whole})
_CONTAINERS: Final = each_of(
    members(
        {
            "name": of_text(Walk.container),
            "image": of_text(_image),
            "restartPolicy": WORD,
            "resources": members({**OF_RESOURCES, "claims": USED_BY_CONTAINERS}),
            "securityContext": members({"privileged": Walk.whole}),
            "env": _environment,
        }
    )
)
_TERM: Final = members(
    {
        "topologyKey": of_text(Walk.key),
        "labelSelector": SELECTOR,
        "namespaceSelector": SELECTOR,
        "namespaces": each_of(NAMESPACE),
        "matchLabelKeys": KEYS,
        "mismatchLabelKeys": KEYS,
    }
)
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY: Final = members(
    {
        "nodeAffinity": members(
            {
                _REQUIRED_TERMS: members(
                    {
                        "nodeSelectorTerms": each_of(
                            members(
                                {"matchExpressions": each_of(requirement), "matchFields": each_of(field_requirement)}
                            )
                        )
                    }
                )
            }
        ),
        "podAffinity": members({_REQUIRED_TERMS: each_of(_TERM)}),
        "podAntiAffinity": members({_REQUIRED_TERMS: each_of(_TERM)}),
    }
)
_SPREAD: Final = members(
    {
        "topologyKey": of_text(Walk.key),
        "maxSkew": Walk.whole,
        "minDomains": Walk.whole,
        "whenUnsatisfiable": WORD,
        "labelSelector": SELECTOR,
        "matchLabelKeys": KEYS,
        "nodeAffinityPolicy": WORD,
        "nodeTaintsPolicy": WORD,
    }
)


def _gate(_walk: Walk, raw: object) -> dict[str, str]:
    """Those of Kueue, whose names are in its documentation, keep them."""
    name = str(raw.get("name")) if isinstance(raw, Mapping) else ""
    return {"name": name if name in OF_KUEUE else "gate"}


_POD: Final = members(
    {
        "nodeName": name_of(Named.NODE),
        "schedulerName": name_of(Named.SCHEDULER),
        "priority": Walk.whole,
        "priorityClassName": name_of(Named.CLASS),
        "preemptionPolicy": WORD,
        "runtimeClassName": name_of(Named.RUNTIME),
        "schedulingGates": each_of(_gate),
        "schedulingGroup": members({"podGroupName": _GROUP}),
        "workloadRef": members({"name": _GROUP, "podGroup": _GROUP, "podGroupReplicaKey": _GROUP}),
        "overhead": AMOUNTS,
        "resources": RESOURCES,
        "nodeSelector": LABELS,
        "affinity": _AFFINITY,
        "topologySpreadConstraints": each_of(_SPREAD),
        "tolerations": each_of(requirement),
        **CLAIMS_OF_PODS,
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
    }
)
_OBJECTS: Final[Mapping[str, Rule]] = {
    "Node": members(
        {
            "metadata": metadata(Named.NODE),
            "spec": members({"taints": each_of(requirement), "unschedulable": Walk.whole}),
            "status": members(
                {
                    "capacity": AMOUNTS,
                    "allocatable": AMOUNTS,
                    "conditions": CONDITIONS,
                    "nodeInfo": members({"kubeletVersion": of_text(Walk.kubelet)}),
                }
            ),
        }
    ),
    "Pod": members(
        {
            "metadata": metadata(Named.POD, ownerReferences=each_of(_OWNER)),
            "spec": _POD,
            "status": members(
                {
                    "phase": WORD,
                    "nominatedNodeName": name_of(Named.NODE),
                    "conditions": each_of(members({"type": WORD, "status": WORD, "reason": WORD})),
                    "resourceClaimStatuses": MADE_FOR_PODS,
                    "initContainerStatuses": each_of(
                        members(
                            {
                                "name": of_text(Walk.container),
                                "state": members({"terminated": members({"exitCode": Walk.whole})}),
                            }
                        )
                    ),
                }
            ),
        }
    ),
    "ResourceQuota": members(
        {
            "metadata": metadata(Named.QUOTA),
            "spec": members(
                {
                    "hard": AMOUNTS,
                    "scopes": each_of(WORD),
                    "scopeSelector": members({"matchExpressions": each_of(members({"scopeName": WORD}))}),
                }
            ),
            "status": members({"used": AMOUNTS}),
        }
    ),
    "PodDisruptionBudget": members(
        {
            "metadata": metadata(Named.BUDGET),
            "spec": members({"selector": SELECTOR}),
            "status": members({"disruptionsAllowed": Walk.whole}),
        }
    ),
    "Queue": members(
        {
            "metadata": metadata(Named.QUEUE),
            "spec": members(
                {
                    "weight": Walk.whole,
                    "capability": AMOUNTS,
                    "deserved": AMOUNTS,
                    "guarantee": members({"resource": AMOUNTS}),
                    "parent": name_of(Named.QUEUE),
                    "priority": Walk.whole,
                    "reclaimable": Walk.whole,
                }
            ),
            "status": members({"state": WORD, "allocated": AMOUNTS}),
        }
    ),
    "PodGroup": members(
        {
            "metadata": metadata(Named.GROUP),
            "spec": members(
                {
                    "minMember": Walk.whole,
                    "minTaskMember": by_key(
                        lambda walk, task: walk.names.name(Named.TASK, task), lambda walk, _, text: walk.secret(text)
                    ),
                    "minResources": AMOUNTS,
                    "queue": name_of(Named.QUEUE),
                    "priorityClassName": name_of(Named.CLASS),
                    "schedulingPolicy": _POLICY,
                }
            ),
            "status": members({"phase": WORD}),
        }
    ),
    "Workload": members(
        {
            "metadata": metadata(Named.GROUP),
            "spec": members({"podGroups": each_of(members({"name": _GROUP, "policy": _POLICY}))}),
        }
    ),
    **CLAIM_OBJECTS,
    **POOL_OBJECTS,
    "PriorityClass": members({"metadata": metadata(Named.CLASS), "value": Walk.whole, "preemptionPolicy": WORD}),
    "Device": members(
        {
            "metadata": metadata(Named.NODE),
            "spec": members(
                {
                    "devices": each_of(
                        members(
                            {
                                "type": WORD,
                                "id": WORD,
                                "minor": Walk.whole,
                                "health": Walk.whole,
                                "resources": AMOUNTS,
                                "labels": by_key(Walk.word, lambda walk, _, text: walk.word(text)),
                                "topology": members(
                                    {
                                        "socketID": Walk.whole,
                                        "nodeID": Walk.whole,
                                        "pcieID": of_text(Walk.text),
                                        "busID": of_text(Walk.text),
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
