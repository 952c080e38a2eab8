"""HyperNodes (``topology.volcano.sh/v1alpha1``) as JSON, both ways.

Source: Volcano 1.14.1 ``staging/src/volcano.sh/apis/pkg/apis/topology/v1alpha1/hypernode_types.go`` and the definition
of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.engine.eligibility import met
from hami_plugins.model.pods import Requirement
from hami_plugins.wire import fields, lenient, neighbours
from hami_plugins.wire.fields import Json
from neuron_topology.core.hypernodes.generator import HyperNode
from neuron_topology.core.hypernodes.tiers import BY_NUMBER, TIERS

API_VERSION: Final = "topology.volcano.sh/v1alpha1"
KIND: Final = "HyperNode"

MANAGED_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "hami-plugins-neuron"
"""Marks the HyperNodes that are made, changed and removed here; all others are let alone."""

FAMILY_LABEL: Final = "hami-plugins.io/neuron-family"
SOURCE_LABEL: Final = "volcano.sh/network-topology-source"
"""On HyperNodes that Volcano's own discovery has made."""

OUR_LABELS: Final = frozenset({MANAGED_LABEL, FAMILY_LABEL, *(tier.label for tier in TIERS)})
"""All labels that are written here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingHyperNode:
    """A HyperNode of the cluster, as far as it matters here. ``raw`` is the object itself."""

    name: str
    ours: bool
    discovered: bool
    tier: int = 0
    tier_name: str = ""
    nodes: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()
    selectors: tuple[tuple[Requirement, ...], ...] = ()
    raw: Json

    def holds(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and with these labels is a member."""
        return (
            node in self.nodes
            or any(pattern.search(node) for pattern in self.patterns)
            or any(all(met(each, node, labels) for each in wanted) for wanted in self.selectors)
        )


def encode(hypernode: HyperNode) -> Json:
    """The object to be written."""
    labels = {MANAGED_LABEL: MANAGED_BY}
    if hypernode.family:
        labels[FAMILY_LABEL] = hypernode.family
    if hypernode.part:
        labels[hypernode.tier.label] = hypernode.part
    kind, held = ("Node", hypernode.nodes) if hypernode.nodes else (KIND, hypernode.children)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": hypernode.name, "labels": labels},
        "spec": {
            "tier": hypernode.tier.number,
            "tierName": hypernode.tier.name,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in held],
        },
    }


def decode(raw: Json) -> ExistingHyperNode:
    """A HyperNode as it is. Raises ``WireError`` for one that Volcano itself cannot read."""
    metadata = fields.member(raw, "metadata", "hypernode:")
    name = fields.text(metadata, "name", "hypernode: metadata")
    place = f"hypernode {name or '?'}:"
    labels = fields.text_map(metadata, "labels", fields.path(place, "metadata"))
    spec = fields.member(raw, "spec", place)
    members = list(_members(spec, fields.path(place, "spec")))
    return ExistingHyperNode(
        name=name,
        ours=labels.get(MANAGED_LABEL) == MANAGED_BY,
        discovered=SOURCE_LABEL in labels,
        tier=fields.number(spec, "tier", fields.path(place, "spec")),
        tier_name=fields.text(spec, "tierName", fields.path(place, "spec")),
        nodes=frozenset(held for kind, held in members if kind == "Node" and isinstance(held, str)),
        children=frozenset(held for kind, held in members if kind == KIND and isinstance(held, str)),
        patterns=tuple(held for _, held in members if isinstance(held, re.Pattern)),
        selectors=tuple(held for _, held in members if isinstance(held, tuple)),
        raw=raw,
    )


def tiers_of(found: Iterable[ExistingHyperNode]) -> frozenset[str]:
    """The tiers that HyperNodes are of, by name. Volcano before 1.14 keeps no names: ours are known by their number."""
    known = (each for each in found if each.tier_name or (each.ours and each.tier in BY_NUMBER))
    return frozenset(each.tier_name or BY_NUMBER[each.tier].name for each in known)


def _members(spec: Json, place: str) -> Iterator[tuple[str, str | re.Pattern[str] | tuple[Requirement, ...]]]:
    """Each member's type and how it is chosen: by name, by a pattern, or by labels."""
    for at, each in enumerate(fields.items(spec, "members", place)):
        where = f"{place}.members[{at}]"
        kind = fields.text(fields.whole(each, where), "type", where)
        selector = fields.member(each, "selector", where)
        inside = f"{where}.selector"
        if exact := fields.text(fields.member(selector, "exactMatch", inside), "name", f"{inside}.exactMatch"):
            yield kind, exact
        elif pattern := fields.text(fields.member(selector, "regexMatch", inside), "pattern", f"{inside}.regexMatch"):
            yield kind, _pattern(pattern, f"{inside}.regexMatch.pattern")
        elif wanted := tuple(
            neighbours.requirements(fields.member(selector, "labelMatch", inside), f"{inside}.labelMatch")
        ):
            yield kind, wanted


def _pattern(text: str, place: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise fields.wrong(place, text, f"a regular expression ({error})") from None


def spec_of(raw: Json) -> dict[str, Any]:
    """What of a HyperNode is compared: members in no order, and only labels that are written here."""
    spec = raw.get("spec") or {}
    labels = lenient.inside(raw, "metadata", "labels")
    ours = {key: value for key, value in labels.items() if key in OUR_LABELS}
    members = sorted(str(sorted(each.items())) for each in spec.get("members") or ())
    return {"tier": spec.get("tier"), "tierName": spec.get("tierName"), "members": members, "labels": ours}
