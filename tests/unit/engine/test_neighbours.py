"""Which nodes other pods keep a pod from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine import neighbours
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import (
    EVERYWHERE,
    Neighbours,
    NodeConstraints,
    Pod,
    PodRecord,
    PodTerm,
    Requirement,
    TopologySpread,
)
from tests.builders import a_node, a_pod, a_record

NEAR = "node(s) didn't match pod anti-affinity rules"
FAR = "node(s) didn't match pod affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"
WEB = (Requirement("app", "In", ("web",)),)
HERE = frozenset({"default"})


def web(namespace: str = "default", *, apart: tuple[PodTerm, ...] = (), terminating: bool = False) -> PodRecord:
    return replace(a_record(), namespace=namespace, labels={"app": "web"}, apart=apart, terminating=terminating)


def a_zone(name: str, zone: str | None, *records: PodRecord) -> NodeEntry:
    labels = {"host": name} if zone is None else {"host": name, "zone": zone}
    return replace(a_node(name), facts=NodeFacts(labels=labels), pods=records)


def cluster(*nodes: NodeEntry) -> ClusterSnapshot:
    return ClusterSnapshot(nodes=nodes)


def asking(labels: Mapping[str, str] | None = None, **rules: object) -> Pod:
    return replace(a_pod(), labels=labels or {"app": "web"}, neighbours=Neighbours(**rules))  # type: ignore[arg-type]


def barred(snapshot: ClusterSnapshot, pod: Pod) -> dict[str, set[str]]:
    return {words: set(nodes) for words, nodes in neighbours.barred(snapshot, pod)}


def test_a_pod_keeps_away_from_the_pods_it_names() -> None:
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "a"), a_zone("n3", "b"), a_zone("n4", None))
    assert barred(found, asking(apart=(PodTerm("zone", WEB, HERE),))) == {NEAR: {"n1", "n2"}}
    assert barred(found, asking(apart=(PodTerm("host", WEB, HERE),))) == {NEAR: {"n1"}}


def test_only_the_namespaces_of_a_term_are_looked_at() -> None:
    found = cluster(a_zone("n1", "a", web("other")))
    assert barred(found, asking(apart=(PodTerm("zone", WEB, HERE),))) == {}
    assert barred(found, asking(apart=(PodTerm("zone", WEB, frozenset({EVERYWHERE})),))) == {NEAR: {"n1"}}


def test_running_pods_keep_others_away_too() -> None:
    alone = web(apart=(PodTerm("zone", WEB, HERE), PodTerm("rack", WEB, HERE)))
    found = cluster(a_zone("n1", "a", alone), a_zone("n2", "a"), a_zone("n3", "b"))
    assert neighbours.matter(found)
    assert not neighbours.matter(cluster(a_zone("n1", "a", web())))
    assert barred(found, asking()) == {UNWELCOME: {"n1", "n2"}}
    assert barred(found, asking({"app": "db"})) == {}


def test_a_pod_goes_where_the_pods_are_that_it_wants_near() -> None:
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "b"), a_zone("n3", None))
    assert barred(found, asking(near=(PodTerm("zone", WEB, HERE),))) == {FAR: {"n2", "n3"}}


def test_the_first_of_pods_that_want_each_other_near_may_go_anywhere() -> None:
    found = cluster(a_zone("n1", "a"), a_zone("n3", None))
    assert barred(found, asking(near=(PodTerm("zone", WEB, HERE),))) == {FAR: {"n3"}}
    assert barred(found, asking({"app": "db"}, near=(PodTerm("zone", WEB, HERE),))) == {FAR: {"n1", "n3"}}


def test_pods_are_spread_evenly_over_the_parts_of_a_topology() -> None:
    rule = TopologySpread("zone", 1, WEB)
    leaving = web(terminating=True)
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "b", leaving, web("other")), a_zone("n3", None))
    assert barred(found, asking(spread=(rule,))) == {UNLABELLED: {"n3"}, SKEWED: {"n1"}}
    assert barred(found, asking(spread=(rule._replace(max_skew=2),))) == {UNLABELLED: {"n3"}}


def test_a_pod_that_the_rule_is_not_about_does_not_add_to_the_skew() -> None:
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "b"))
    assert barred(found, asking({"app": "db"}, spread=(TopologySpread("zone", 1, WEB),))) == {}


def test_parts_that_the_pod_may_not_go_to_do_not_count() -> None:
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "b"))
    pinned = NodeConstraints(selector=(("zone", "a"),))
    assert barred(found, replace(asking(spread=(TopologySpread("zone", 1, WEB),)), constraints=pinned)) == {}


def test_too_few_parts_count_as_an_empty_one() -> None:
    found = cluster(a_zone("n1", "a", web()), a_zone("n2", "b", web()))
    assert barred(found, asking(spread=(TopologySpread("zone", 1, WEB),))) == {}
    assert barred(found, asking(spread=(TopologySpread("zone", 1, WEB, 3),))) == {SKEWED: {"n1", "n2"}}
    assert barred(cluster(), asking(spread=(TopologySpread("zone", 1, WEB),))) == {}
