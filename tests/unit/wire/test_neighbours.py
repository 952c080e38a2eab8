"""What pods say about other pods."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.pods import EVERYWHERE, NOBODY, PodTerm, Requirement, TopologySpread
from hami_plugins.wire import neighbours, pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
IS_WEB = Requirement("app", "In", ("web",))


def decoded(spec: dict[str, Any], labels: dict[str, str] | None = None) -> Any:
    return neighbours.decode(spec, labels or {}, "team", "pod team/p: spec")


def apart(term: dict[str, Any], labels: dict[str, str] | None = None) -> tuple[PodTerm, ...]:
    found = decoded({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}, labels)
    assert not found.near
    return tuple(found.apart)


def test_a_pod_that_says_nothing_has_no_neighbours() -> None:
    assert decoded({}) is NOBODY
    assert decoded({"affinity": {"nodeAffinity": {}}}) is NOBODY


def test_terms_are_about_the_pods_own_namespace_unless_they_say_another() -> None:
    assert apart(WEB) == (PodTerm("zone", (IS_WEB,), frozenset({"team"})),)
    assert apart({**WEB, "namespaces": ["a", "b"]})[0].namespaces == {"a", "b"}


@pytest.mark.parametrize(
    ("selector", "namespaces"),
    [
        ({}, {EVERYWHERE}),
        ({"matchLabels": {"kubernetes.io/metadata.name": "x"}}, {"x"}),
        ({"matchLabels": {"tier": "gold"}}, {"team"}),
    ],
    ids=["all", "by name", "by what nobody knows"],
)
def test_a_selector_of_namespaces_says_what_it_can(selector: dict[str, Any], namespaces: set[str]) -> None:
    assert apart({**WEB, "namespaceSelector": selector})[0].namespaces == namespaces


def test_expressions_and_keys_of_the_pods_own_labels_are_requirements_too() -> None:
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "matchLabelKeys": ["hash", "none"],
        "topologyKey": "zone",
    }
    assert apart(term, {"hash": "1"})[0].requirements == (
        Requirement("app", "Exists"),
        Requirement("hash", "In", ("1",)),
    )


def test_a_term_without_a_selector_means_no_pod() -> None:
    assert apart({"topologyKey": "zone"}) == ()


def test_affinity_is_read_from_whole_pods() -> None:
    raw = {"metadata": {"name": "p"}, "spec": {"affinity": {"podAffinity": {REQUIRED: [WEB]}}}}
    assert pods.pod(raw).neighbours.near == (PodTerm("zone", (IS_WEB,), frozenset({"default"})),)


def test_only_binding_spread_constraints_count() -> None:
    binding = {**WEB, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
    loose = {**WEB, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    blind = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    found = decoded({"topologySpreadConstraints": [binding, loose, blind]})
    assert found.spread == (TopologySpread("zone", 2, (IS_WEB,), 3),)


def test_unknown_operators_are_refused() -> None:
    term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Gt"}]}, "topologyKey": "zone"}
    with pytest.raises(WireError, match="operator"):
        apart(term)
