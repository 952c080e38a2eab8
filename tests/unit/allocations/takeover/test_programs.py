"""What the check of a takeover finds about the programs that change, place and bind new pods."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.manifests import allocator_configuration
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.takeover.programs import stage_of
from hami_plugins.allocations.takeover.values import TakeoverObjects
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import nvidia, volcano
from tests.unit.allocations.takeover.situations import component, configuration, found, hamis, only, ours, told

URL = "http://hami-plugins-allocator.kube-system.svc:9395/scheduler"
HAMI = "https://127.0.0.1:443"


@pytest.mark.parametrize(
    ("objects", "stage"),
    [
        ({}, "neither"),
        ({"webhooks": [hamis()]}, "before"),
        ({"pods": [component("s")]}, "before"),
        ({"pods": [component("s")], "webhooks": [hamis(), ours()]}, "during"),
        ({"webhooks": [ours()]}, "after"),
    ],
)
def test_the_stage_is_who_changes_new_pods(objects: dict[str, Any], stage: str) -> None:
    assert stage_of(TakeoverObjects(**objects)) == stage


def test_webhooks_that_are_not_listed_are_not_known() -> None:
    assert told(webhooks=None) == [("info", "webhooks")]


def test_without_the_allocators_webhooks_new_pods_are_not_marked() -> None:
    other = {"metadata": {"name": "other"}, "webhooks": [{"name": "pods.x.io", "clientConfig": {"url": "https://x/y"}}]}
    each = only(webhooks=[other])
    assert (each.severity, "not marked" in each.what) == ("warning", True)


def test_webhooks_by_address_are_the_allocators_as_well() -> None:
    raw = ours()
    raw["webhooks"][0]["clientConfig"] = {"url": "https://10.0.0.1:9443/webhooks/pods"}
    assert found(webhooks=[raw]) == ()


def test_two_configurations_of_the_allocator_change_a_pod_twice() -> None:
    each = only(webhooks=[ours("a"), ours("b")])
    assert (each.severity, each.object, "also by a" in each.what) == ("error", "webhooks b", True)


@pytest.mark.parametrize(("name", "order"), [("a-hami", "a-hami before o"), ("z-hami", "o before z-hami")])
def test_of_both_webhooks_the_first_by_name_sets_the_scheduler(name: str, order: str) -> None:
    both, scheduler = found(webhooks=[hamis(name), ours("o")], pods=[component("s")])
    assert (both.severity, order in both.what) == ("info", True)
    assert scheduler.object == "HAMi's scheduler"


def test_hamis_webhook_without_its_scheduler_is_a_warning() -> None:
    done = component("s")
    done["status"]["phase"] = "Failed"
    assert told(webhooks=[hamis(), ours()], pods=[done])[0] == ("warning", "webhooks hami-webhook")


def test_hamis_plugins_are_kept() -> None:
    each = only(pods=[component("a", "hami-device-plugin"), component("b", "hami-device-plugin")])
    assert (each.severity, each.what) == ("info", "runs on 2 nodes")


def test_a_scheduler_that_asks_both_extenders_is_an_error() -> None:
    each = only(configurations={"ConfigMap hami/s": configuration("hami-scheduler", extenders=[f"{HAMI}/", URL])})
    assert (each.severity, each.object) == ("error", "ConfigMap hami/s")
    alone = {"ConfigMap hami/s": configuration("hami-scheduler", extenders=[URL])}
    assert found(configurations=alone) == ()


def test_two_schedulers_with_one_profile_are_an_error() -> None:
    both = {"a": configuration("hami-scheduler", ""), "b": configuration("hami-scheduler", "")}
    each = only(configurations=both)
    assert (each.severity, each.object, "(a, b)" in each.what) == ("error", "profile hami-scheduler", True)


def test_a_profile_that_no_scheduler_has_is_a_warning() -> None:
    each = only(configurations={"a": configuration("mine")})
    assert (each.severity, each.object) == ("warning", "profile hami-scheduler")
    assert found(configurations={}) == found(configurations=None) == ()


def test_volcanos_configuration_is_checked_as_by_conf() -> None:
    place = "ConfigMap volcano-system/volcano-scheduler-configmap volcano-scheduler.conf"
    alone = {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}
    first = found(volcano={place: alone})[0]
    assert (first.severity, first.object, "extender" in first.what + first.remedy) == ("error", place, True)
    asked = allocator_configuration.document(AllocatorMode.EXTENDER, URL, Registry([nvidia.SPEC]))
    assert found(volcano={place: asked}) == ()
    twice = {**asked, "tiers": [*asked["tiers"], {"plugins": [asked["tiers"][-1]["plugins"][-1]]}]}
    assert found(volcano={place: twice}) != ()


@pytest.mark.parametrize(
    ("version", "old"), [("v1.29.9-eks", True), ("v1.30.0", False), ("v2.0", False), ("1.9.1", True), ("", False)]
)
def test_an_old_api_server_knows_no_conditions_of_webhooks(version: str, old: bool) -> None:
    assert told(version=version) == ([("error", "API server")] if old else [])


def test_rights_that_are_missing_are_named() -> None:
    each = only(account="kube-system/allocator", missing=["create pods/binding", "list nodes"])
    assert (each.object, each.what) == ("account kube-system/allocator", "may not create pods/binding, list nodes")
    assert found(missing=[]) == ()


def test_podgroups_matter_where_volcanos_devices_are_served() -> None:
    each = only(vendors=[nvidia.SPEC, volcano.SPEC], pod_groups=False)
    assert (each.severity, "PodGroups" in each.what) == ("info", True)
    assert found(pod_groups=False) == ()
    assert found(vendors=[nvidia.SPEC, volcano.SPEC], pod_groups=True) == ()
