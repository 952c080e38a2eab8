"""Volcano's configuration for several vendors: what is printed is right, and what is wrong is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hami_plugins.allocations.manifests.allocator_configuration import check, document, flags
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import volcano
from tests import acme

URL = "http://allocator.kube-system.svc:9395/extender"
CARDS, OTHERS = Registry([volcano.SPEC]), Registry([acme.SPEC])
BOTH = Registry([volcano.SPEC, acme.SPEC])
EXTENDER, WEBHOOK = AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK


def plugins(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each.get("arguments", {}) for tier in made["tiers"] for each in tier["plugins"]}


def places(conf: dict[str, Any], mode: AllocatorMode, vendors: Registry) -> Sequence[str]:
    return [each.place for each in check(conf, mode, vendors)]


@pytest.mark.parametrize("mode", [EXTENDER, WEBHOOK])
@pytest.mark.parametrize("vendors", [CARDS, OTHERS, BOTH])
def test_nothing_is_wrong_with_what_is_printed(mode: AllocatorMode, vendors: Registry) -> None:
    assert check(document(mode, URL, vendors), mode, vendors) == ()


def test_the_extender_is_asked_about_all_vendors() -> None:
    found = plugins(document(EXTENDER, URL, BOTH))
    managed = found["extender"]["extender.managedResources"]
    assert {"volcano.sh/vgpu-number", "acme.example/card"} <= set(managed)
    assert "deviceshare" not in found


def test_in_mode_webhook_volcano_decides_about_cards_and_the_extender_about_the_others() -> None:
    found = plugins(document(WEBHOOK, URL, BOTH))
    assert found["deviceshare"]["deviceshare.VGPUEnable"] is True
    assert found["extender"]["extender.managedResources"] == [
        "acme.example/card",
        "acme.example/memory",
        "acme.example/cores",
    ]


def test_an_extender_for_nothing_is_not_printed() -> None:
    assert "extender" not in plugins(document(WEBHOOK, URL, CARDS))
    assert flags(WEBHOOK, CARDS) == {}
    assert "--schedule-period=200ms" in flags(WEBHOOK, BOTH)


def test_a_second_cache_of_cards_is_found() -> None:
    assert places(document(WEBHOOK, URL, BOTH), EXTENDER, BOTH)[0].endswith("deviceshare.VGPUEnable")


def test_a_second_cache_matters_only_where_cards_are_allocated() -> None:
    assert places(document(WEBHOOK, URL, BOTH), EXTENDER, OTHERS) == []


def test_without_volcanos_own_plugin_mode_webhook_has_no_cards() -> None:
    assert places(document(EXTENDER, URL, OTHERS), WEBHOOK, BOTH) == ["deviceshare"]


def test_a_configuration_without_the_extender_is_told_the_command() -> None:
    (found,) = check(document(WEBHOOK, URL, CARDS), WEBHOOK, BOTH)
    assert (found.place, "`hami-plugins allocator conf`" in found.remedy) == ("extender", True)


def test_evictions_are_told() -> None:
    made = document(EXTENDER, URL, BOTH) | {"actions": "allocate, preempt"}
    assert places(made, EXTENDER, BOTH) == ["actions preempt"]
    assert places(document(WEBHOOK, URL, CARDS) | {"actions": "allocate, preempt"}, WEBHOOK, CARDS) == []


def test_a_text_that_is_no_configuration_is_found() -> None:
    assert places({}, EXTENDER, BOTH) == ["tiers"]
