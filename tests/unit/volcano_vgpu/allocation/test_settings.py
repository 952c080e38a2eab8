"""The settings of the allocator."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.settings import SETTINGS
from hami_plugins.errors import ConfigError
from hami_plugins.vendors.volcano import PERCENTAGE, SPEC
from tests.unit.allocator.products import settings, vendors_of

PREFIX = "HAMI_PLUGINS__ALLOCATOR__"


def test_without_anything_said_the_defaults_hold() -> None:
    found = SETTINGS.load("", {})
    assert (found.volcano.mode, found.volcano.schedule_policy, found.reservation, found.hold, found.service.host) == (
        AllocatorMode.EXTENDER,
        "binpack",
        90.0,
        15.0,
        "hami-plugins-allocator.kube-system.svc",
    )


def test_the_environment_wins_over_the_file_and_the_file_over_where_the_pod_runs() -> None:
    env = {"POD_NAMESPACE": "here", f"{PREFIX}VOLCANO__MODE": "webhook", f"{PREFIX}LEASE__DURATION": "30"}
    found = SETTINGS.load("{volcano: {mode: extender}, weight: 3}", env)
    assert (found.volcano.mode, found.weight, found.service.namespace, found.lease.timing.duration) == (
        AllocatorMode.WEBHOOK,
        3.0,
        "here",
        30.0,
    )
    assert SETTINGS.load("service: {namespace: there}", env).service.namespace == "there"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("volcano: {mode: policy}", "settings: volcano.mode"),
        ("reservation: 30", "settings: reservation"),
        ("hold: 0", "settings: hold"),
        ("shutdownDelay: -1", "settings: shutdownDelay"),
        ("lease: {duration: 5}", "the duration has to be longer than the deadline"),
        ("volcano: {schedulers: []}", "settings: volcano.schedulers"),
        ("vendors: []", "settings: vendors"),
        (
            "scheduler: {nodeSchedulerPolicy: fill}",
            "settings: scheduler.nodeSchedulerPolicy: Input should be 'binpack' or",
        ),
        ("webhook: {}", "settings: webhook: no such setting; did you mean webhooks"),
    ],
)
def test_what_is_wrong_is_named_with_its_source_and_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SETTINGS.load(text, {})


def test_the_card_of_a_node_follows_the_policy_as_the_node_does() -> None:
    found = SETTINGS.load("volcano: {schedulePolicy: spread}", {}).rules().policies
    assert found.volcano_orders_cards
    assert found.volcano == "spread"


def test_names_and_geometries_are_volcanos() -> None:
    assert vendors_of(settings())[SPEC.name].resources == SPEC.resources
    names = {"resourceMemoryPercentageName": "volcano.sh/percent", "resourceCountName": "volcano.sh/count"}
    found = vendors_of(settings(volcano={"deviceConfig": {"nvidia": names}}))[SPEC.name]
    assert (found.resources.count, found.resources.memory_percentage) == ("volcano.sh/count", "volcano.sh/percent")
    assert found.options.flags[PERCENTAGE]
    with pytest.raises(ConfigError, match=r"settings: volcano\.deviceConfig"):
        SETTINGS.load("volcano: {deviceConfig: {nvidia: {resourceCountName: 3}}}", {})
