"""Volcano's scheduler configuration: what is printed is right, and what is wrong is named with its remedy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hami_plugins.allocations.manifests import allocator_configuration
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors.volcano import SPEC

VENDORS = Registry([SPEC])
URL = "http://allocator.volcano-system.svc:9395/extender"
Change = Callable[[dict[str, Any]], object]


def printed() -> dict[str, Any]:
    return allocator_configuration.document(AllocatorMode.EXTENDER, URL, VENDORS)


def plugin(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for tier in document["tiers"] for each in tier["plugins"] if each["name"] == name)
    return found


def found_after(change: Change, mode: AllocatorMode = AllocatorMode.EXTENDER) -> list[tuple[str, str]]:
    document = copy.deepcopy(allocator_configuration.document(mode, URL, VENDORS))
    change(document)
    return [(each.severity, each.place) for each in allocator_configuration.check(document, mode, VENDORS)]


@pytest.mark.parametrize("mode", list(AllocatorMode))
def test_nothing_is_wrong_with_what_is_printed(mode: AllocatorMode) -> None:
    assert allocator_configuration.check(allocator_configuration.document(mode, URL, VENDORS), mode, VENDORS) == ()


def test_in_mode_extender_deviceshare_is_out_and_the_extender_is_asked_about_every_name() -> None:
    document = printed()
    names = [each["name"] for tier in document["tiers"] for each in tier["plugins"]]
    assert "deviceshare" not in names
    assert plugin(document, "extender")["arguments"]["extender.managedResources"] == [
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
    ]


def test_names_that_never_stand_alone_need_not_be_managed() -> None:
    names = ["volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"]
    assert found_after(argument("managedResources", names)) == []


@pytest.mark.parametrize(
    ("actions", "found"),
    [
        (
            "enqueue, allocate, preempt, reclaim, backfill",
            [("warning", "actions preempt"), ("warning", "actions reclaim")],
        ),
        ("enqueue, allocate", []),
        (3, []),
    ],
)
def test_actions_that_evict_pods_are_named_where_nobody_is_evicted_for_cards(
    actions: object, found: list[tuple[str, str]]
) -> None:
    assert found_after(lambda document: document.__setitem__("actions", actions)) == found
    assert found_after(lambda document: document.__setitem__("actions", actions), AllocatorMode.WEBHOOK) == []


def argument(name: str, value: object) -> Change:
    return lambda document: plugin(document, "extender")["arguments"].__setitem__(f"extender.{name}", value)


def without(name: str) -> Change:
    return lambda document: plugin(document, "extender")["arguments"].pop(f"extender.{name}")


@pytest.mark.parametrize(
    ("change", "severity", "what"),
    [
        (argument("managedResources", "volcano.sh/vgpu-number,volcano.sh/vgpu-memory"), "error", "managedResources"),
        (argument("managedResources", [1]), "error", "managedResources"),
        (argument("managedResources", ["volcano.sh/vgpu-number"]), "error", "managedResources"),
        (without("managedResources"), "error", "managedResources"),
        (argument("ignorable", True), "error", "ignorable"),
        (argument("ignorable", "false"), "warning", "ignorable"),
        (argument("urlPrefix", "allocations:9395"), "error", "urlPrefix"),
        (without("urlPrefix"), "error", "urlPrefix"),
        (argument("urlPrefix", "https://allocator:9395"), "warning", "urlPrefix"),
        (without("httpTimeout"), "warning", "httpTimeout"),
        (argument("httpTimeout", "100ms"), "warning", "httpTimeout"),
        (argument("httpTimeout", "five seconds"), "warning", "httpTimeout"),
        (argument("httpTimeout", "5s later"), "warning", "httpTimeout"),
        (argument("httpTimeout", "about 5s"), "warning", "httpTimeout"),
        (argument("predicateVerb", "filter"), "error", "predicateVerb"),
        (without("allocateFuncVerb"), "error", "allocateFuncVerb"),
        (without("prioritizeVerb"), "warning", "prioritizeVerb"),
        (argument("prioritizeVerb", "rank"), "error", "prioritizeVerb"),
        (lambda document: plugin(document, "extender").update(enablePredicate=False), "error", "enablePredicate"),
    ],
)
def test_each_argument_that_is_wrong_is_one_finding(change: Change, severity: str, what: str) -> None:
    ((found, place),) = found_after(change)
    assert found == severity
    assert what in place
    assert place.startswith("tiers[1].plugins[3] (extender)")


@pytest.mark.parametrize("timeout", ["2s", "1m30s", "2500ms", "0.5h", ".1m"])
def test_durations_are_read_as_go_writes_them(timeout: str) -> None:
    assert found_after(argument("httpTimeout", timeout)) == []


def test_an_extender_may_leave_out_what_has_the_right_default() -> None:
    assert found_after(without("ignorable")) == []


def test_without_the_extender_pods_are_placed_blindly() -> None:
    assert found_after(lambda document: document["tiers"].pop()) == [("error", "extender")]


def test_two_extenders_are_one_too_many() -> None:
    found = found_after(
        lambda document: document["tiers"][0]["plugins"].append(copy.deepcopy(plugin(document, "extender")))
    )
    assert [severity for severity, _ in found] == ["error"]


def test_an_extender_before_predicates_is_asked_too_often() -> None:
    found = found_after(lambda document: document["tiers"].reverse() or document["tiers"][0]["plugins"].reverse())
    assert found == [("warning", "tiers[0].plugins[0] (extender)")]


def test_deviceshare_beside_the_extender_counts_cards_twice() -> None:
    share = {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}
    found = found_after(lambda document: document["tiers"][1]["plugins"].append(share))
    assert found == [("error", "tiers[1].plugins[4] (deviceshare) deviceshare.VGPUEnable")]
    share["arguments"] = {"deviceshare.AscendHAMiVNPUEnable": True}
    assert found_after(lambda document: document["tiers"][1]["plugins"].append(share)) == []


@pytest.mark.parametrize("mode", [AllocatorMode.WEBHOOK, AllocatorMode.POLICY])
def test_without_deviceshare_there_are_no_cards_to_guard(mode: AllocatorMode) -> None:
    def unplug(document: dict[str, Any]) -> None:
        document["tiers"][1]["plugins"].pop()

    assert found_after(unplug, mode) == [("error", "deviceshare")]


def test_in_mode_webhook_the_switch_of_deviceshare_has_to_be_on_and_the_lock_off() -> None:
    def locked(document: dict[str, Any]) -> None:
        plugin(document, "deviceshare")["arguments"] = {"deviceshare.NodeLockEnable": True}

    assert found_after(locked, AllocatorMode.WEBHOOK) == [
        ("error", "tiers[1].plugins[3] (deviceshare) deviceshare.VGPUEnable"),
        ("warning", "tiers[1].plugins[3] (deviceshare) deviceshare.NodeLockEnable"),
    ]


def test_in_mode_webhook_predicates_write_the_allocation() -> None:
    assert found_after(lambda document: document["tiers"][1]["plugins"].pop(0), AllocatorMode.WEBHOOK) == [
        ("error", "predicates")
    ]


def test_in_mode_webhook_an_extender_for_other_devices_is_none_of_our_business() -> None:
    other = {"name": "extender", "arguments": {"extender.managedResources": ["aws.amazon.com/neuron"]}}
    assert found_after(lambda document: document["tiers"][1]["plugins"].append(other), AllocatorMode.WEBHOOK) == []
    other["arguments"] = {"extender.managedResources": ["volcano.sh/vgpu-number"]}
    found = found_after(lambda document: document["tiers"][1]["plugins"].append(other), AllocatorMode.WEBHOOK)
    assert found == [("warning", "tiers[1].plugins[4] (extender)")]


@pytest.mark.parametrize("broken", [{}, {"tiers": None}, {"tiers": []}, {"tiers": "all"}])
def test_what_is_no_configuration_is_said_to_be_none(broken: dict[str, Any]) -> None:
    (found,) = allocator_configuration.check(broken, AllocatorMode.EXTENDER, VENDORS)
    assert (found.severity, found.place) == ("error", "tiers")


def test_a_plugin_without_a_name_is_pointed_out() -> None:
    found = allocator_configuration.check(
        {"tiers": [{"plugins": ["gang"]}, {}, {"plugins": [{"name": "gang"}]}]}, AllocatorMode.EXTENDER, VENDORS
    )
    assert [each.place for each in found] == ["tiers[0].plugins[0]"]


def test_arguments_that_are_no_mapping_are_none() -> None:
    document = {"tiers": [{"plugins": [{"name": "extender", "arguments": "all of them"}]}]}
    assert {each.severity for each in allocator_configuration.check(document, AllocatorMode.EXTENDER, VENDORS)} == {
        "error",
        "warning",
    }
