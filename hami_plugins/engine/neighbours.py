"""Which nodes other pods keep a pod from: required affinity and anti-affinity, and topology spread.

The scheduler's own rules, worked out on the whole cluster at once; decisions then treat them like a node selector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.engine.eligibility import met, selected
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import EVERYWHERE, Pod, PodRecord, PodTerm, Requirement, TopologySpread
from hami_plugins.model.units import NodeName

FAR: Final = "node(s) didn't match pod affinity rules"
NEAR: Final = "node(s) didn't match pod anti-affinity rules"
UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
REASONS: Final = frozenset({FAR, NEAR, UNWELCOME, SKEWED, UNLABELLED})
"""Every reason for which other pods keep a pod from nodes."""


def matter(snapshot: ClusterSnapshot) -> bool:
    """Whether any pod of the cluster keeps others at a distance, so that every pod has to be asked about."""
    return any(record.apart for entry in snapshot.nodes for record in entry.pods)


def barred(snapshot: ClusterSnapshot, pod: Pod) -> tuple[tuple[str, frozenset[NodeName]], ...]:
    """The nodes that other pods keep a pod from, by the reason in kube-scheduler's words; first reasons first."""
    found: list[tuple[str, frozenset[NodeName]]] = []
    for words, nodes in (
        (UNWELCOME, _unwelcome(snapshot, pod)),
        (NEAR, _too_near(snapshot, pod)),
        (FAR, _too_far(snapshot, pod)),
        *_skewed(snapshot, pod),
    ):
        names = frozenset(nodes)
        if names:
            found.append((words, names))
    return tuple(found)


def meets(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement."""
    return all(met(requirement, "", labels) for requirement in requirements)


def _meant(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    return (namespace in term.namespaces or EVERYWHERE in term.namespaces) and meets(term.requirements, labels)


def _unwelcome(snapshot: ClusterSnapshot, pod: Pod) -> Iterator[NodeName]:
    domains: set[tuple[str, str]] = set()
    for entry in snapshot.nodes:
        for record in entry.pods:
            for term in record.apart:
                if _meant(term, pod.namespace, pod.labels) and term.topology in entry.facts.labels:
                    domains.add((term.topology, entry.facts.labels[term.topology]))
    for entry in snapshot.nodes:
        if any(entry.facts.labels.get(key) == value for key, value in domains):
            yield entry.name


def _too_near(snapshot: ClusterSnapshot, pod: Pod) -> Iterator[NodeName]:
    for term in pod.neighbours.apart:
        taken = _domains(snapshot, term)
        yield from (entry.name for entry in snapshot.nodes if entry.facts.labels.get(term.topology) in taken)


def _too_far(snapshot: ClusterSnapshot, pod: Pod) -> Iterator[NodeName]:
    """Nodes without the pods that a pod wants near. The first of pods that want each other near may go anywhere."""
    for term in pod.neighbours.near:
        taken = _domains(snapshot, term)
        first = not taken and _meant(term, pod.namespace, pod.labels)
        for entry in snapshot.nodes:
            value = entry.facts.labels.get(term.topology)
            if value is None or not (first or value in taken):
                yield entry.name


def _domains(snapshot: ClusterSnapshot, term: PodTerm) -> set[str]:
    """The parts of a topology that hold pods of a term."""
    return {
        entry.facts.labels[term.topology]
        for entry in snapshot.nodes
        if term.topology in entry.facts.labels
        for record in entry.pods
        if _meant(term, record.namespace, record.labels)
    }


def _skewed(snapshot: ClusterSnapshot, pod: Pod) -> Iterator[tuple[str, frozenset[NodeName]]]:
    rules = pod.neighbours.spread
    for rule in rules:
        lacking = frozenset(entry.name for entry in snapshot.nodes if rule.topology not in entry.facts.labels)
        yield UNLABELLED, lacking
        eligible = [entry for entry in snapshot.nodes if _counts(entry, pod)]
        here = _counted(eligible, rule, pod)
        least = min(here.values(), default=0) if len(here) >= rule.min_domains else 0
        more = 1 if meets(rule.requirements, pod.labels) else 0
        yield (
            SKEWED,
            frozenset(
                entry.name
                for entry in snapshot.nodes
                if entry.name not in lacking
                and here.get(entry.facts.labels[rule.topology], 0) + more - least > rule.max_skew
            ),
        )


def _counts(entry: NodeEntry, pod: Pod) -> bool:
    """Whether a node is a place for the pod at all: it is selected, and has every key that the pod is spread over."""
    labels = entry.facts.labels
    return selected(entry.name, labels, pod.constraints) and all(
        rule.topology in labels for rule in pod.neighbours.spread
    )


def _counted(eligible: Iterable[NodeEntry], rule: TopologySpread, pod: Pod) -> Counter[str]:
    """How many pods that the rule is about each part of the topology holds."""
    here: Counter[str] = Counter()
    for entry in eligible:
        here[entry.facts.labels[rule.topology]] += sum(1 for record in entry.pods if _is_like(record, rule, pod))
    return here


def _is_like(record: PodRecord, rule: TopologySpread, pod: Pod) -> bool:
    return record.namespace == pod.namespace and not record.terminating and meets(rule.requirements, record.labels)
