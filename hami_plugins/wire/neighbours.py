"""What a Pod object says about other pods: required affinity and anti-affinity, and topology spread constraints.

Preferences do not bind, so they are passed over; so is ``namespaceSelector``, except for what it can say of a
namespace's name.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hami_plugins.model.pods import EVERYWHERE, NOBODY, Neighbours, PodTerm, Requirement, TopologySpread
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_BINDING: Final = "DoNotSchedule"
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def decode(spec: Json, labels: Mapping[str, str], namespace: str, place: str) -> Neighbours:
    """The rules of a pod with these labels in this namespace; raises ``WireError`` with the path of what is wrong."""
    if "affinity" not in spec and "topologySpreadConstraints" not in spec:
        return NOBODY  # so it is with nearly every pod of a large cluster
    affinity = fields.member(spec, "affinity", place)
    inside = f"{place}.affinity"
    found = Neighbours(
        near=tuple(_terms(affinity, "podAffinity", inside, labels, namespace)),
        apart=tuple(_terms(affinity, "podAntiAffinity", inside, labels, namespace)),
        spread=tuple(_spreads(spec, labels, place)),
    )
    return found if any(found) else NOBODY


def requirements(selector: Json, place: str) -> Iterable[Requirement]:
    """What a label selector wants of labels; raises ``WireError`` with the path of what is wrong."""
    for key, value in sorted(fields.text_map(selector, "matchLabels", place).items()):
        yield Requirement(key, "In", (value,))
    for at, raw in enumerate(fields.items(selector, "matchExpressions", place)):
        inside = f"{place}.matchExpressions[{at}]"
        body = fields.whole(raw, inside)
        operator = fields.text(body, "operator", inside)
        if operator not in _OPERATORS:
            raise fields.wrong(f"{inside}.operator", operator, f"one of {', '.join(sorted(_OPERATORS))}")
        yield Requirement(fields.text(body, "key", inside), operator, tuple(fields.texts(body, "values", inside)))


def _terms(affinity: Json, name: str, place: str, labels: Mapping[str, str], namespace: str) -> Iterable[PodTerm]:
    holder = fields.member(affinity, name, place)
    for at, raw in enumerate(fields.items(holder, _REQUIRED, f"{place}.{name}")):
        inside = f"{place}.{name}.{_REQUIRED}[{at}]"
        body = fields.whole(raw, inside)
        named = fields.texts(body, "namespaces", inside)
        selector = fields.member(body, "namespaceSelector", inside)
        if body.get("namespaceSelector") is not None:
            wanted = list(requirements(selector, f"{inside}.namespaceSelector"))
            by_name = [each.values for each in wanted if each.key == _NAMESPACE_NAME and each.operator == "In"]
            named = [*named, *(value for values in by_name for value in values)] if wanted else [EVERYWHERE]
        wanted_of_pods = _selector(body, labels, inside)
        if wanted_of_pods is not None:
            yield PodTerm(fields.text(body, "topologyKey", inside), wanted_of_pods, frozenset(named or [namespace]))


def _spreads(spec: Json, labels: Mapping[str, str], place: str) -> Iterable[TopologySpread]:
    for at, raw in enumerate(fields.items(spec, "topologySpreadConstraints", place)):
        inside = f"{place}.topologySpreadConstraints[{at}]"
        body = fields.whole(raw, inside)
        wanted = _selector(body, labels, inside)
        if fields.text(body, "whenUnsatisfiable", inside) == _BINDING and wanted is not None:
            yield TopologySpread(
                topology=fields.text(body, "topologyKey", inside),
                max_skew=fields.number(body, "maxSkew", inside, default=1),
                requirements=wanted,
                min_domains=fields.number(body, "minDomains", inside, default=1),
            )


def _selector(body: Json, labels: Mapping[str, str], place: str) -> tuple[Requirement, ...] | None:
    """The requirements of a label selector, ``None`` for a selector that is not there, which means no pod."""
    if body.get("labelSelector") is None:
        return None
    own = fields.texts(body, "matchLabelKeys", place)
    return (
        *requirements(fields.member(body, "labelSelector", place), f"{place}.labelSelector"),
        *(Requirement(key, "In", (labels[key],)) for key in own if key in labels),
    )
