"""The settings of the allocator."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.errors import ConfigError
from hami_plugins.vendors.volcano import PERCENTAGE, SPEC
from volcano_vgpu.allocation.settings import SETTINGS, spec_of

PREFIX = "HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__"


def test_without_anything_said_the_defaults_hold() -> None:
    found = SETTINGS.load("", {})
    assert (found.mode, found.policy, found.reservation, found.hold, found.service.host) == (
        AllocatorMode.EXTENDER,
        "binpack",
        90.0,
        15.0,
        "volcano-vgpu-allocator.volcano-system.svc",
    )


def test_the_environment_wins_over_the_file_and_the_file_over_where_the_pod_runs() -> None:
    env = {"POD_NAMESPACE": "here", f"{PREFIX}MODE": "webhook", f"{PREFIX}LEASE__DURATION": "30"}
    found = SETTINGS.load("{mode: extender, weight: 3}", env)
    assert (found.mode, found.weight, found.service.namespace, found.lease.timing.duration) == (
        AllocatorMode.WEBHOOK,
        3.0,
        "here",
        30.0,
    )
    assert SETTINGS.load("service: {namespace: there}", env).service.namespace == "there"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: policy", "settings: mode"),
        ("reservation: 30", "settings: reservation"),
        ("hold: 0", "settings: hold"),
        ("shutdownDelay: -1", "settings: shutdownDelay"),
        ("lease: {duration: 5}", "the duration has to be longer than the deadline"),
        ("schedulers: []", "settings: schedulers"),
        ("webhook: {}", "settings: webhook: no such setting; did you mean webhooks"),
    ],
)
def test_what_is_wrong_is_named_with_its_source_and_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SETTINGS.load(text, {})


def test_the_card_of_a_node_follows_the_policy_as_the_node_does() -> None:
    assert SETTINGS.load("policy: spread", {}).rules.policies.volcano_orders_cards
    assert SETTINGS.load("policy: spread", {}).rules.policies.volcano == "spread"


def test_names_and_geometries_are_volcanos() -> None:
    assert spec_of(None) is SPEC
    found = spec_of("nvidia: {resourceMemoryPercentageName: volcano.sh/percent, resourceCountName: volcano.sh/count}")
    assert (found.resources.count, found.resources.memory_percentage) == ("volcano.sh/count", "volcano.sh/percent")
    assert found.options.flags[PERCENTAGE]
    with pytest.raises(ConfigError, match="device configuration"):
        spec_of("nvidia: {resourceCountName: 3}")
