"""Volcano's configuration where pods are evicted for devices: what is printed is right, each mistake is one finding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hami_plugins.allocations.manifests.allocator_configuration import check, document, notes
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import volcano
from tests import acme

URL = "http://allocator.kube-system.svc:9395/extender"
VENDORS = Registry([volcano.SPEC])
PRINTED = document(AllocatorMode.EXTENDER, URL, VENDORS, evicts=True)
Change = Callable[[dict[str, Any]], object]


def plugin(made: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for tier in made["tiers"] for each in tier["plugins"] if each["name"] == name)
    return found


def found_after(change: Change) -> list[tuple[str, str, str]]:
    """Severity, what and remedy of all findings but the one about budgets, which what is printed has as well."""
    conf = copy.deepcopy(PRINTED)
    change(conf)
    found = check(conf, AllocatorMode.EXTENDER, VENDORS, evicts=True)
    return [(each.severity, f"{each.place}: {each.what}", each.remedy) for each in found if each.place != "pdb"]


def test_what_is_printed_has_one_tier_with_the_extender_last_and_no_enqueue() -> None:
    assert PRINTED["actions"] == "allocate, preempt, reclaim, backfill"
    (tier,) = PRINTED["tiers"]
    names = [each["name"] for each in tier["plugins"]]
    assert names == ["priority", "gang", "conformance", "predicates", "proportion", "nodeorder", "extender"]
    assert plugin(PRINTED, "gang") == {"name": "gang", "enablePreemptable": False, "enableReclaimable": False}
    arguments = plugin(PRINTED, "extender")["arguments"]
    assert {name: arguments[f"extender.{name}"] for name in ("preemptableVerb", "reclaimableVerb")} == {
        "preemptableVerb": "preemptable",
        "reclaimableVerb": "reclaimable",
    }
    assert arguments["extender.onSessionCloseVerb"] == "onSessionClose"
    assert arguments["extender.predicateVerb"] == "predicate"


def test_of_what_is_printed_only_budgets_are_to_be_known() -> None:
    (found,) = check(PRINTED, AllocatorMode.EXTENDER, VENDORS, evicts=True)
    assert (found.severity, found.place) == ("info", "pdb")
    assert "PodDisruptionBudget" in found.what
    (note,) = notes(AllocatorMode.EXTENDER, evicts=True)
    assert "pdb" in note


def test_with_the_plugin_pdb_nothing_is_to_be_known() -> None:
    conf = copy.deepcopy(PRINTED)
    conf["tiers"][0]["plugins"].insert(3, {"name": "pdb"})
    assert check(conf, AllocatorMode.EXTENDER, VENDORS, evicts=True) == ()


@pytest.mark.parametrize("mode", list(AllocatorMode))
def test_where_nobody_is_evicted_all_is_as_without_the_setting(mode: AllocatorMode) -> None:
    made = document(mode, URL, VENDORS, evicts=False)
    assert made["actions"] == "enqueue, allocate, backfill"
    assert notes(mode) == ()
    if mode is not AllocatorMode.EXTENDER:
        assert document(mode, URL, VENDORS, evicts=True) == made
        assert notes(mode, evicts=True) == ()


def test_where_nobody_is_evicted_the_actions_are_found_with_the_setting_as_a_remedy() -> None:
    conf = document(AllocatorMode.EXTENDER, URL, VENDORS) | {"actions": "allocate, preempt"}
    (found,) = check(conf, AllocatorMode.EXTENDER, VENDORS)
    assert (found.severity, found.place) == ("warning", "actions preempt")
    assert "preemption.mode" in found.remedy
    in_webhook = document(AllocatorMode.WEBHOOK, URL, Registry([acme.SPEC])) | {"actions": "allocate, preempt"}
    (found,) = check(in_webhook, AllocatorMode.WEBHOOK, Registry([acme.SPEC]), evicts=True)
    assert found.place == "actions preempt"


def actions(text: str) -> Change:
    return lambda conf: conf.__setitem__("actions", text)


def argument(name: str, value: object) -> Change:
    return lambda conf: plugin(conf, "extender")["arguments"].__setitem__(f"extender.{name}", value)


def without(name: str) -> Change:
    return lambda conf: plugin(conf, "extender")["arguments"].pop(f"extender.{name}")


def option(of: str, name: str, value: object) -> Change:
    return lambda conf: plugin(conf, of).__setitem__(name, value)


def no_option(of: str, name: str) -> Change:
    return lambda conf: plugin(conf, of).pop(name)


def topology(value: object) -> Change:
    arguments = {"enableTopologyAwarePreemption": value}
    return lambda conf: conf.__setitem__("configurations", [{"name": "preempt", "arguments": arguments}])


def split(conf: dict[str, Any]) -> None:
    """As Volcano's own default has it: two tiers."""
    plugins = conf["tiers"][0]["plugins"]
    conf["tiers"] = [{"plugins": plugins[:3]}, {"plugins": plugins[3:]}]


def extender_before(name: str) -> Change:
    def moved(conf: dict[str, Any]) -> None:
        plugins = conf["tiers"][0]["plugins"]
        plugins.insert(next(at for at, each in enumerate(plugins) if each["name"] == name), plugins.pop())

    return moved


@pytest.mark.parametrize(
    ("change", "severity", "said", "remedy"),
    [
        (
            actions("enqueue, allocate, preempt, reclaim, backfill"),
            "warning",
            "actions enqueue: it keeps PodGroups out while the sums of the cluster are full",
            "remove enqueue",
        ),
        (
            actions("allocate, gangpreempt, preempt, reclaim"),
            "error",
            "actions gangpreempt: it evicts pods again in each session",
            "use preempt instead",
        ),
        (
            actions("allocate, preempt, gangreclaim, reclaim"),
            "error",
            "actions gangreclaim: it evicts pods again in each session",
            "use reclaim instead",
        ),
        (actions("allocate, reclaim"), "info", "actions preempt: is missing", "write actions: allocate, preempt,"),
        (actions("allocate, preempt"), "info", "actions reclaim: is missing", "write actions: allocate, preempt,"),
        (
            topology(True),
            "error",
            "configurations[0] (preempt) enableTopologyAwarePreemption: Volcano's dry run asks no extender",
            "remove enableTopologyAwarePreemption",
        ),
        (split, "error", "is in another tier than priority, conformance:", "into one tier, extender last"),
        (
            extender_before("proportion"),
            "error",
            "is listed before proportion: it is asked about pods that they protect",
            "move it to the end of its tier",
        ),
        (without("preemptableVerb"), "info", "preemptableVerb: is missing: no pod is evicted for devices", "write"),
        (without("reclaimableVerb"), "info", "reclaimableVerb: is missing: no pod is evicted for devices", "write"),
        (
            without("onSessionCloseVerb"),
            "info",
            "onSessionCloseVerb: is missing: no pod is evicted where sums suffice and no device has room",
            "write extender.onSessionCloseVerb: onSessionClose",
        ),
        (
            argument("reclaimableVerb", "reclaim"),
            "error",
            "reclaimableVerb: 'reclaim' is not answered",
            "write extender.reclaimableVerb: reclaimable",
        ),
        (
            option("extender", "enablePreemptable", False),
            "error",
            "enablePreemptable: the plugin's calls are not made",
            "remove enablePreemptable: false",
        ),
        (
            option("extender", "enableReclaimable", False),
            "error",
            "enableReclaimable: the plugin's calls are not made",
            "remove enableReclaimable: false",
        ),
        (
            no_option("gang", "enablePreemptable"),
            "info",
            "(gang) enablePreemptable: the plugin protects every pod without a gang",
            "write enablePreemptable: false",
        ),
        (
            option("gang", "enableReclaimable", True),
            "info",
            "(gang) enableReclaimable: the plugin protects every pod without a gang",
            "write enableReclaimable: false",
        ),
    ],
)
def test_each_mistake_is_one_finding_with_its_remedy(change: Change, severity: str, said: str, remedy: str) -> None:
    ((found, what, how),) = found_after(change)
    assert found == severity
    assert said in what
    assert remedy in how


@pytest.mark.parametrize(
    "change",
    [
        extender_before("nodeorder"),
        topology(False),
        lambda conf: conf.__setitem__("configurations", [3, {"name": "preempt"}]),
        lambda conf: conf.__setitem__("configurations", "preempt"),
        lambda conf: conf["tiers"].insert(0, {"plugins": [plugin(conf, "gang"), {"name": "nodeorder"}]}),
    ],
)
def test_what_decides_about_no_victim_is_no_mistake(change: Change) -> None:
    """A plugin without a say about victims may be anywhere, and so may a gang plugin that has none by configuration."""
    assert found_after(change) == []


def test_without_the_extender_no_order_is_looked_at() -> None:
    found = found_after(lambda conf: conf["tiers"][0]["plugins"].pop())
    assert [what.partition(":")[0] for _, what, _ in found] == ["extender"]
