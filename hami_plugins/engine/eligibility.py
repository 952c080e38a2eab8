"""Whether the scheduler lets a pod onto a node at all, devices aside: pins, selectors, taints, plain resources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.model.decisions import FilterReason
from hami_plugins.model.nodes import NodeEntry, NodeFacts, Taint
from hami_plugins.model.pods import NodeConstraints, Requirement, Toleration
from hami_plugins.model.quantity import NANO

_ORDINARY: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Every real node has these; a listing that leaves them out says nothing about them."""

REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
"""The effects of taints that keep pods away."""

UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Shortage(NamedTuple):
    """A plain resource of which too little is left on a node; amounts in nano units."""

    resource: str
    asked: int
    free: int

    @property
    def words(self) -> str:
        """How kube-scheduler puts it."""
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


def objection(entry: NodeEntry, constraints: NodeConstraints, uncounted: Collection[str] = ()) -> FilterReason | None:
    """Why the scheduler would not look at the node's devices, or ``None``. Words are kube-scheduler's.

    ``uncounted`` are resources that a scheduler extender answers for, so that node sums do not apply to them.
    """
    facts = entry.facts
    if constraints.node is not None and constraints.node != entry.name:
        return FilterReason("node(s) didn't match the requested node name")
    if not selected(entry.name, facts.labels, constraints):
        return FilterReason("node(s) didn't match Pod's node affinity/selector")
    for words, nodes in constraints.barred:
        if entry.name in nodes:
            return FilterReason(words)
    taint = repelling(facts, constraints)
    if taint is not None:
        if taint == UNSCHEDULABLE:
            return FilterReason("node(s) were unschedulable")
        value = f"{taint.key}: {taint.value}" if taint.value else taint.key
        return FilterReason(f"node(s) had untolerated taint {{{value}}}")
    return _shortage(entry, constraints, uncounted)


def selected(name: str, labels: Mapping[str, str], constraints: NodeConstraints) -> bool:
    """Whether a pod's node selector and required node affinity choose a node."""
    if any(labels.get(key) != value for key, value in constraints.selector):
        return False
    terms = constraints.affinity
    return terms is None or any(
        bool(term) and all(met(requirement, name, labels) for requirement in term) for term in terms
    )


def met(requirement: Requirement, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node (or, with an empty name, anything else with labels) meets a requirement."""
    value = (name if requirement.key == "metadata.name" else None) if requirement.on_field else None
    if not requirement.on_field:
        value = labels.get(requirement.key)
    test = _OPERATORS.get(requirement.operator)
    return test is not None and test(value, requirement.values)


def _compares(value: str | None, values: tuple[str, ...], better: Callable[[int, int], bool]) -> bool:
    try:
        return value is not None and len(values) == 1 and better(int(value), int(values[0]))
    except ValueError:
        return False


_OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compares(value, values, int.__gt__),
    "Lt": lambda value, values: _compares(value, values, int.__lt__),
}


def repelling(facts: NodeFacts, constraints: NodeConstraints) -> Taint | None:
    """The first taint that keeps the pod away, or ``None``; a cordoned node has the taint that Kubernetes gives it."""
    taints = (UNSCHEDULABLE, *facts.taints) if facts.unschedulable else facts.taints
    for taint in taints:
        if taint.effect not in REPELLING or any(_tolerates(each, taint) for each in constraints.tolerations):
            continue
        if not _tolerated_by_request(facts, taint, constraints):
            return taint
    return None


def tolerated_by_request(facts: NodeFacts, constraints: NodeConstraints) -> Iterator[Taint]:
    """The taints of a node that the pod tolerates only because it requests the resource of that name."""
    for taint in facts.taints:
        if any(_tolerates(each, taint) for each in constraints.tolerations):
            continue
        if taint.effect in REPELLING and _tolerated_by_request(facts, taint, constraints):
            yield taint


def _tolerated_by_request(facts: NodeFacts, taint: Taint, constraints: NodeConstraints) -> bool:
    """The toleration that the plugin adds is ``operator: Exists, effect: NoSchedule`` (``admission.go`` of Kubernetes
    1.34).
    """
    if not constraints.tolerates_requests or taint.effect != "NoSchedule" or taint.key not in facts.tolerated:
        return False
    return any(resource == taint.key and amount for resource, amount in constraints.requests)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def shortages(entry: NodeEntry, constraints: NodeConstraints, uncounted: Collection[str] = ()) -> Iterator[Shortage]:
    """Every plain resource of which a node has too little left for the pod, the number of pods first."""
    allocatable = entry.facts.allocatable
    pods = allocatable.get("pods")
    if pods is not None and (free := pods.nano - entry.requested.get("pods", 0)) < NANO:
        yield Shortage("pods", NANO, free)
    for resource, amount in constraints.requests:
        if resource in uncounted or not amount:
            continue
        have = allocatable.get(resource)
        if have is None and resource in _ORDINARY:
            continue
        free = (0 if have is None else have.nano) - entry.requested.get(resource, 0)
        if amount > free:
            yield Shortage(resource, amount, free)


def _shortage(entry: NodeEntry, constraints: NodeConstraints, uncounted: Collection[str]) -> FilterReason | None:
    first = next(shortages(entry, constraints, uncounted), None)
    return None if first is None else FilterReason(first.words, first.resource)
