"""Each request for another amount of memory is answered once, in any order of events and with concurrent writers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.resizer import Resizer
from hami_plugins.errors import KubeError
from hami_plugins.kube.reflector import ObjectChange
from tests import raw_objects
from tests.raw_objects import Raw
from tests.unit.allocator.products import product, settings
from tests.waiting import wait_for

CARDS = [{**card, "agent": "kube-system/agent"} for card in raw_objects.registered_cards("GPU-0")]
NODE = {"metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": json.dumps(CARDS)}}, "status": {}}
BOOKED, REFUSED = "hami-plugins.io/booked-memory", "hami-plugins.io/resize-refused"


def a_pod(version: str = "1", **notes: str) -> Raw:
    """A bound pod with a quarter of the card that asks for half of it."""
    allocated = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,10240,0:;", "hami.io/vgpu-node": "n"}
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10240"}
    metadata = {
        "namespace": "team",
        "uid": "uid-p",
        "resourceVersion": version,
        "annotations": {**allocated, "hami-plugins.io/resize-memory": "main=20480", **notes},
    }
    return raw_objects.pod("p", raw_objects.container(limits=limits), metadata=metadata, node="n", phase="Running")


class Writes:
    """An API server that has the pod in this version."""

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.done: list[Mapping[str, str]] = []
        self.refused = 0

    def lost(self, times: int) -> bool:
        return self.refused == times

    def merge_patch(self, _path: str, body: Mapping[str, Any]) -> None:
        if body["metadata"]["resourceVersion"] != self.version:
            self.refused += 1
            raise KubeError("the object has been modified", status=409, reason="Conflict")
        self.done.append(body["metadata"]["annotations"])


class Site:
    """The cache of a leader, and its resizer."""

    def __init__(self, api: Writes) -> None:
        self.cache = LockedAllocationCache(product(found=settings(vendors=["NVIDIA"])), keep=90.0, clock=lambda: 0.0)
        self.resizer = Resizer(api, self.cache)  # type: ignore[arg-type]

    def node(self) -> None:
        self.cache.node_changed(ObjectChange("added", NODE, "uid-n"))

    def pod(self, raw: Raw | None) -> None:
        change = ObjectChange("deleted" if raw is None else "modified", raw, "uid-p")
        self.cache.pod_changed(change)
        self.resizer.pod_changed(change)


def test_an_ask_seen_before_its_node_is_answered_once_the_node_is_known() -> None:
    api = Writes()
    site = Site(api)
    site.pod(a_pod())
    site.resizer.look()
    site.node()
    with site.resizer:
        site.resizer.look()
        assert wait_for(lambda: api.done) == [{BOOKED: "main=20480"}]
        site.pod(a_pod(version="2", **{BOOKED: "main=20480"}))
        site.resizer.look()
    assert len(api.done) == 1


def test_of_an_ask_seen_before_its_node_only_the_newest_version_counts() -> None:
    api = Writes(version="2")
    site = Site(api)
    site.pod(a_pod("1"))
    site.node()
    site.pod(a_pod("2", **{BOOKED: "main=20480"}))
    site.resizer.look()
    with site.resizer:
        site.pod(a_pod("2"))
        assert wait_for(lambda: api.done) == [{BOOKED: "main=20480"}]
    assert api.refused == 0


def test_an_ask_is_answered_though_others_write_the_pod_again_and_again() -> None:
    api = Writes(version="9")
    site = Site(api)
    site.node()
    with site.resizer:
        for version in range(1, 6):
            site.pod(a_pod(str(version)))
            wait_for(partial(api.lost, version))
        site.pod(a_pod("9"))
        assert wait_for(lambda: api.done) == [{BOOKED: "main=20480"}]
