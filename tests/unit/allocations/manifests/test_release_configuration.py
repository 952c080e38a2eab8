"""What does not go together with a release of Volcano is named with its object, key, value and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.manifests.allocator_configuration import check, document
from hami_plugins.allocations.manifests.volcano_configuration import ConfigurationFinding
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.queueing.releases import release_of
from hami_plugins.vendors import BUILTIN, volcano

URL = "http://allocator.kube-system.svc:9395/extender"
CARDS = Registry([volcano.SPEC])
EXTENDER, WEBHOOK, POLICY = AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK, AllocatorMode.POLICY


def found(
    conf: dict[str, Any], mode: AllocatorMode, release: str = "", vendors: Registry = CARDS
) -> dict[str, ConfigurationFinding]:
    version = release_of(f"volcano-{release}") if release else None
    return {each.place: each for each in check(conf, mode, vendors, release=version)}


def sharing(mode: AllocatorMode = POLICY, /, **arguments: Any) -> dict[str, Any]:
    """What is printed for the mode, with further arguments of deviceshare."""
    conf = document(POLICY if mode is EXTENDER else mode, URL, CARDS)
    for plugin in conf["tiers"][-1]["plugins"]:
        if plugin["name"] == "deviceshare":
            plugin["arguments"] |= {f"deviceshare.{name}": value for name, value in arguments.items()}
    return conf


def of_key(findings: dict[str, ConfigurationFinding], key: str) -> list[ConfigurationFinding]:
    return [each for place, each in findings.items() if place.endswith(key)]


@pytest.mark.parametrize("release", ["1.14.1", "1.15.1", "1.16"])
@pytest.mark.parametrize("mode", [EXTENDER, WEBHOOK])
def test_what_is_printed_has_no_defect_with_any_release(mode: AllocatorMode, release: str) -> None:
    assert {each.severity for each in found(document(mode, URL, CARDS), mode, release).values()} <= {"info"}


@pytest.mark.parametrize(("release", "severity"), [("1.14.1", None), ("1.15.1", None), ("1.16", "error"), ("", None)])
def test_the_policy_does_not_go_with_allocations_in_the_binding(release: str, severity: str | None) -> None:
    finding = found(sharing(), POLICY, release).get("mode policy")
    assert (finding and finding.severity) == severity
    if release == "1.16":
        assert finding is not None
        assert finding.what == (
            "Volcano 1.16.0-alpha.1 writes the allocation into the Binding alone, and the policy of this mode removes "
            "it: pods are bound without cards"
        )
        assert "delete the MutatingAdmissionPolicy volcano-vgpu-stale-allocations" in finding.remedy


@pytest.mark.parametrize(
    ("mode", "release", "severities"),
    [
        (EXTENDER, "1.15.1", {"error"}),
        (EXTENDER, "1.16", {"error"}),
        (WEBHOOK, "1.15.1", set()),
        (WEBHOOK, "1.16", {"info"}),
        (POLICY, "1.16", set()),
    ],
)
def test_two_writers_of_one_binding_are_named(mode: AllocatorMode, release: str, severities: set[str]) -> None:
    findings = of_key(found(sharing(mode), mode, release), "deviceshare.VGPUEnable")
    assert {each.severity for each in findings} == severities
    said = any("each Binding" in each.what or "the same Binding" in each.what for each in findings)
    assert said is (release == "1.16" and mode is not POLICY)
    off = of_key(found(sharing(mode, VGPUEnable=False), mode, release), "deviceshare.VGPUEnable")
    assert not any("Binding" in each.what for each in off)


def test_a_scheduler_that_shares_no_vgpus_writes_no_allocation_into_a_binding() -> None:
    findings = found(sharing(WEBHOOK, VGPUEnable=False), WEBHOOK, "1.16")
    assert not any("the same Binding" in each.what for each in findings.values())


@pytest.mark.parametrize("mode", [EXTENDER, WEBHOOK, POLICY])
@pytest.mark.parametrize(("release", "refused"), [("1.14.4", True), ("1.15.0", False), ("1.16", False), ("", False)])
def test_actions_that_a_release_does_not_know(mode: AllocatorMode, release: str, refused: bool) -> None:
    conf = {**sharing(mode), "actions": "enqueue, allocate, gangpreempt, gangreclaim"}
    findings = found(conf, mode, release)
    assert {place for place, each in findings.items() if "refuses the whole configuration" in each.what} == (
        {"actions gangpreempt", "actions gangreclaim"} if refused else set()
    )
    if refused:
        assert findings["actions gangreclaim"].severity == "error"
        assert findings["actions gangreclaim"].remedy == "use reclaim instead"


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("1.14.1", {"evicts pods of several cards"}),
        ("1.14.4", {"evicts pods of several cards", "takes the allocation off running pods"}),
        ("1.15.0", {"binds gangs that preempt with cards of other nodes"}),
        ("1.15.1", {"binds gangs that preempt with cards of other nodes", "takes the allocation off running pods"}),
        ("1.16", set()),
    ],
)
def test_evictions_of_volcano_alone_are_warned_of_by_release(release: str, words: set[str]) -> None:
    conf = {**sharing(), "actions": "allocate, preempt"}
    findings = [
        each
        for each in check(conf, POLICY, CARDS, release=release_of(f"volcano-{release}"))
        if each.place == "actions preempt"
    ]
    assert len(findings) == len(words)
    assert all(any(word in each.what for each in findings) for word in words)
    assert {each.severity for each in findings} <= {"warning"}


@pytest.mark.parametrize(
    ("mode", "release", "what"),
    [
        (POLICY, "1.14.1", "Volcano 1.14.1 looks at the sums of a node there, and at no card"),
        (WEBHOOK, "1.14.4", "Volcano 1.14.4 looks at the sums of a node there, and at no card"),
        (POLICY, "1.15.1", "Volcano 1.15.1 binds pods while their victims still run: cards are allocated twice"),
        (WEBHOOK, "1.15.1", ""),
        (POLICY, "", ""),
    ],
)
def test_topology_aware_preemption_by_release(mode: AllocatorMode, release: str, what: str) -> None:
    turned_on = {"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}
    conf = {**sharing(mode), "configurations": [turned_on]}
    place = "configurations[0] (preempt) enableTopologyAwarePreemption"
    finding = found(conf, mode, release).get(place)
    assert (finding.what if finding else "") == what
    off = {**conf, "configurations": [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": False}}]}
    assert place not in found(off, mode, release)


@pytest.mark.parametrize("argument", ["GPUSharingEnable", "GPUNumberEnable"])
def test_ways_of_sharing_that_end_the_scheduler(argument: str) -> None:
    (finding,) = of_key(found(sharing(**{argument: True}), POLICY), f"deviceshare.{argument}")
    assert finding.severity == "error"
    assert "the scheduler ends at its start" in finding.what
    assert not of_key(found(sharing(**{argument: True, "VGPUEnable": False}), POLICY), f"deviceshare.{argument}")


@pytest.mark.parametrize(
    ("mode", "release", "severity", "what"),
    [
        (POLICY, "1.14.4", "warning", "Volcano 1.14.4 does not read it"),
        (POLICY, "1.15.0", "", ""),
        (POLICY, "", "info", "Volcano before 1.15.0 does not read it"),
        (WEBHOOK, "1.15.0", "warning", "the server chooses the cards"),
        (EXTENDER, "1.16", "warning", "the server chooses the cards"),
    ],
)
def test_rules_for_exclusive_cards(mode: AllocatorMode, release: str, severity: str, what: str) -> None:
    conf = sharing(mode, GPUExclusiveRules=[{"team": "a"}])
    findings = of_key(found(conf, mode, release), "deviceshare.GPUExclusiveRules")
    assert [each.severity for each in findings] == ([severity] if severity else [])
    assert all(each.what.startswith(what) for each in findings)


@pytest.mark.parametrize("rules", ["team=a", [["team", "a"]]])
def test_rules_for_exclusive_cards_that_are_no_list_of_labels(rules: Any) -> None:
    (finding,) = of_key(found(sharing(GPUExclusiveRules=rules), POLICY, "1.15.1"), "deviceshare.GPUExclusiveRules")
    assert finding.severity == "error"
    assert repr(rules) in finding.what


@pytest.mark.parametrize(
    ("mode", "release", "said"),
    [(POLICY, "1.14.1", True), (POLICY, "1.15.0", False), (WEBHOOK, "1.14.1", False), (POLICY, "", False)],
)
def test_a_policy_that_orders_no_cards(mode: AllocatorMode, release: str, said: bool) -> None:
    findings = of_key(found(sharing(mode), mode, release), "deviceshare.SchedulePolicy")
    assert [each.severity for each in findings] == (["info"] if said else [])
    assert not of_key(found(sharing(mode, SchedulePolicy=""), mode, release), "deviceshare.SchedulePolicy")


def test_two_caches_of_ascend_devices() -> None:
    npus = Registry([each for each in BUILTIN if each.name in {"Ascend310P", volcano.SPEC.name}])
    conf = document(WEBHOOK, URL, npus)
    shares = next(each for each in conf["tiers"][-1]["plugins"] if each["name"] == "deviceshare")
    shares["arguments"]["deviceshare.AscendHAMiVNPUEnable"] = True
    (finding,) = of_key(found(conf, WEBHOOK, vendors=npus), "deviceshare.AscendHAMiVNPUEnable")
    assert finding.severity == "error"
    assert "huawei.com/Ascend310P" in finding.what
    assert not of_key(found(conf, WEBHOOK), "deviceshare.AscendHAMiVNPUEnable")
    del shares["arguments"]["deviceshare.AscendHAMiVNPUEnable"]
    assert not of_key(found(conf, WEBHOOK, vendors=npus), "deviceshare.AscendHAMiVNPUEnable")
