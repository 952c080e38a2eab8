"""Tolerations that the API server adds to pods by the resources that they request, as the settings say."""

from __future__ import annotations

from hami_plugins.config import settings
from hami_plugins.engine.intake import Rules, take_in, with_tolerations
from hami_plugins.model.pods import Container, NodeConstraints, Pod, Toleration
from hami_plugins.vendors import builtin

OWN = Toleration(key="dedicated", operator="Exists")
REQUESTS = (("cpu", 1), ("aws.amazon.com/neuron", 4), ("vpc.amazonaws.com/efa", 0), ("kubernetes.io/x", 1))
POD = Pod(
    namespace="d",
    name="p",
    containers=(Container(name="c"),),
    constraints=NodeConstraints(requests=REQUESTS, tolerations=(OWN,)),
)


def test_where_the_plugin_is_said_to_be_there_each_requested_extended_resource_is_tolerated() -> None:
    added = Toleration(key="aws.amazon.com/neuron", operator="Exists", effect="NoSchedule")
    assert with_tolerations(POD, adds=True).constraints.tolerations == (OWN, added)


def test_where_it_is_said_to_be_missing_nothing_is_added_and_no_node_adds_it() -> None:
    found = with_tolerations(POD, adds=False).constraints
    assert (found.tolerations, found.tolerates_requests) == ((OWN,), False)


def test_where_nobody_says_the_pod_stays_as_it_is() -> None:
    assert with_tolerations(POD, adds=None) is POD
    assert take_in(POD, builtin(), Rules()).pod.constraints == POD.constraints


def test_the_setting_reaches_the_pods_that_are_decided_on() -> None:
    rules = settings.parse("extendedResourceToleration: true").rules()
    assert len(take_in(POD, builtin(), rules).pod.constraints.tolerations) == 2
    assert settings.parse("").rules().adds_tolerations is None
