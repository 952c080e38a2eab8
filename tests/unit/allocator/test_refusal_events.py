"""How much is kept of pods that are to be told why no node takes them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import pytest

from hami_plugins.allocator.app import product_of
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.refusal_events import RefusalEvents
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName, PodUid
from tests.unit.allocations.objects import a_node
from tests.unit.allocations.test_quotas import REGISTRY, a_pod, asking
from tests.waiting import wait_for

INTAKE = asking(a_pod())


def events() -> RefusalEvents:
    product = product_of(AllocatorSettings(), REGISTRY)
    cache = LockedAllocationCache(product, keep=90.0, clock=lambda: 0.0)
    return RefusalEvents(cast("Any", None), cache, "allocator", "host")


def refuse(events: RefusalEvents, name: str, nodes: int) -> None:
    pod = replace(INTAKE, pod=replace(INTAKE.pod, uid=PodUid(name)))
    events.refused(pod, (NodeName("n"),) * nodes)


def test_a_thousand_pods_wait_and_fewer_where_each_was_asked_of_many_nodes() -> None:
    few, many = events(), events()
    for at in range(1_500):
        refuse(few, f"u{at}", 3)
        refuse(many, f"u{at}", 5_000)
    assert few.waiting == 1_000
    assert many.waiting == 40
    refuse(many, "huge", 300_000)
    assert many.waiting == 1


def test_a_pod_that_is_refused_again_waits_once() -> None:
    told = events()
    for _ in range(3):
        refuse(told, "u", 100_000)
    assert told.waiting == 1
    refuse(told, "other", 100_000)
    assert told.waiting == 2


class Events:
    """An API server that takes events."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def create(self, _path: str, body: Any) -> Any:
        self.names.append(body["involvedObject"]["name"])
        return body


def test_a_pod_refused_before_the_watch_shows_it_gets_its_event_and_one_that_never_comes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hami_plugins.allocator.refusal_events.PAUSE", 0.01)
    product = product_of(AllocatorSettings(), REGISTRY)
    cache, api = LockedAllocationCache(product, keep=90.0, clock=lambda: 0.0), Events()
    cache.node_changed(ObjectChange("added", a_node("n1", ""), "uid-n1"))
    told = RefusalEvents(cast("Any", api), cache, "allocator", "host")
    raw = a_pod()
    told.start()
    refuse(told, "unknown", 1)
    told.refused(asking(raw), (NodeName("n1"),))
    time.sleep(0.1)
    cache.pod_changed(ObjectChange("added", raw, raw["metadata"]["uid"]))
    wait_for(lambda: api.names)
    told.stop()
    assert api.names == [raw["metadata"]["name"]]
