"""kube-scheduler's configuration: what is printed is right, and what is wrong is named with its remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hami_plugins.allocations.manifests.kube_scheduler_configuration import check, document
from hami_plugins.model.vendor_names import ResourceNames

URL = "http://allocator.kube-system.svc:9395/scheduler"
RESOURCES = (ResourceNames(count="a.example/card", memory="a.example/memory"), ResourceNames(count="b.example/card"))

Change = Callable[[dict[str, Any]], object]


def found_after(change: Change, *, binds: bool = True) -> list[tuple[str, str]]:
    made = document(URL, RESOURCES, binds=binds)
    change(made["extenders"][0])
    return [(each.severity, each.place) for each in check(made, URL, RESOURCES, binds=binds)]


@pytest.mark.parametrize("binds", [True, False])
def test_nothing_is_wrong_with_what_is_printed(*, binds: bool) -> None:
    assert check(document(URL, RESOURCES, binds=binds), URL, RESOURCES, binds=binds) == ()


def test_the_scheduler_asks_about_the_resources_of_all_vendors() -> None:
    managed = document(URL, RESOURCES)["extenders"][0]["managedResources"]
    assert [each["name"] for each in managed] == ["a.example/card", "a.example/memory", "b.example/card"]


def test_the_scheduler_does_not_look_on_nodes_for_what_no_plugin_offers() -> None:
    ignored = ("a.example/memory",)
    made = document(URL, RESOURCES, ignored=ignored)
    managed = made["extenders"][0]["managedResources"]
    assert [each["ignoredByScheduler"] for each in managed] == [False, True, False]
    assert check(made, URL, RESOURCES, ignored=ignored) == ()
    managed[1]["ignoredByScheduler"] = False
    (found,) = check(made, URL, RESOURCES, ignored=ignored)
    assert (found.severity, found.place) == ("error", "extenders[0] managedResources")
    assert found.what.startswith("has the scheduler look for a.example/memory on nodes")
    del managed[1]
    (found,) = check(made, URL, RESOURCES, ignored=ignored)
    assert found.remedy == "add it with ignoredByScheduler: true"


def test_the_scheduler_asks_who_is_evicted_where_pods_are_evicted() -> None:
    made = document(URL, RESOURCES, evicts=True)
    extender = made["extenders"][0]
    assert extender["preemptVerb"] == "preempt"
    assert "preemptVerb" not in document(URL, RESOURCES)["extenders"][0]
    assert check(made, URL, RESOURCES, evicts=True) == ()
    assert check(made, URL, RESOURCES) == (), "the call is answered all the same"
    extender["preemptVerb"] = "evict"
    for evicts in (True, False):
        (found,) = check(made, URL, RESOURCES, evicts=evicts)
        assert (found.severity, found.place, found.what) == (
            "error",
            "extenders[0] preemptVerb",
            "'evict' is not answered",
        )
    del extender["preemptVerb"]
    (found,) = check(made, URL, RESOURCES, evicts=True)
    assert (found.severity, found.remedy) == ("warning", "write preemptVerb: preempt")


@pytest.mark.parametrize("extenders", [None, [], ["x"], [{"urlPrefix": "http://other.example/filter"}]])
def test_a_configuration_without_the_extender_is_wrong(extenders: object) -> None:
    (found,) = check({"extenders": extenders}, URL, RESOURCES)
    assert (found.severity, found.place, found.remedy) == (
        "error",
        "extenders",
        f"add the extender with urlPrefix: {URL}",
    )


def test_the_extender_may_be_reached_by_another_name() -> None:
    assert found_after(lambda made: made.update(urlPrefix="https://10.0.0.1:9395/scheduler/")) == []


def test_two_extenders_for_one_server_are_wrong() -> None:
    made = document(URL, RESOURCES)
    made["extenders"] *= 2
    (found,) = check(made, URL, RESOURCES)
    assert (found.place, found.remedy) == ("extenders[1]", "leave one")


@pytest.mark.parametrize(
    ("change", "severity", "place"),
    [
        ({"filterVerb": None}, "error", "filterVerb"),
        ({"filterVerb": "predicate"}, "error", "filterVerb"),
        ({"prioritizeVerb": None}, "warning", "prioritizeVerb"),
        ({"prioritizeVerb": "score"}, "error", "prioritizeVerb"),
        ({"bindVerb": ""}, "error", "bindVerb"),
        ({"ignorable": True}, "error", "ignorable"),
        ({"nodeCacheCapable": False}, "warning", "nodeCacheCapable"),
        ({"httpTimeout": None}, "warning", "httpTimeout"),
        ({"httpTimeout": "soon"}, "warning", "httpTimeout"),
        ({"httpTimeout": "500ms"}, "warning", "httpTimeout"),
        ({"managedResources": None}, "warning", "managedResources"),
        ({"managedResources": [{"name": "a.example/card"}, {"name": "b.example/card"}]}, "error", "managedResources"),
    ],
)
def test_each_part_that_is_wrong_is_named(change: dict[str, Any], severity: str, place: str) -> None:
    assert found_after(lambda made: made.update(change)) == [(severity, f"extenders[0] {place}")]


def test_pods_that_wait_for_device_plugins_need_longer_calls() -> None:
    made = document(URL, RESOURCES, timeout="30s")
    assert made["extenders"][0]["httpTimeout"] == "30s"
    assert check(made, URL, RESOURCES, timeout="30s") == ()
    (found,) = check(document(URL, RESOURCES), URL, RESOURCES, timeout="30s")
    assert (found.place, found.remedy) == ("extenders[0] httpTimeout", "write 30s")


def test_a_server_that_does_not_bind_is_not_asked_to() -> None:
    assert found_after(lambda made: made.update(bindVerb="bind"), binds=False) == [("error", "extenders[0] bindVerb")]


def test_what_is_missing_of_the_resources_is_named() -> None:
    made = document(URL, RESOURCES)
    made["extenders"][0]["managedResources"] = [{"name": "b.example/card"}]
    (found,) = check(made, URL, RESOURCES)
    assert found.what.startswith("lacks a.example/card, a.example/memory:")
