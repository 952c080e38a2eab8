"""Bindings of HAMi's own scheduler: what it wrote on the pod goes with them, if it is right, also before the watch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.vendors import nvidia
from hami_plugins.wire.admission_review import Allowed
from tests.unit.allocations import test_assigned as hami
from tests.unit.allocator.products import MARK, product
from tests.unit.volcano_vgpu.allocation.cluster import request


class Cluster:
    """A node with two cards, and a webhook whose watch may be late."""

    def __init__(self) -> None:
        self.server: dict[str, dict[str, Any]] = {}
        self.reads = 0
        self.cache = LockedAllocationCache(product(nvidia.SPEC), keep=90, clock=lambda: 0.0)
        self.bindings = Bindings(
            cache=self.cache,
            metrics=AllocatorMetrics(),
            read=self._read,
            now_ns=lambda: 1_790_000_000_000_000_000,
            touch=lambda _node: None,
        )
        node = hami.a_node("n1")
        (card,) = json.loads(node["metadata"]["annotations"]["hami.io/node-nvidia-register"])
        cards = [{**card, "id": f"GPU-{at}", "index": at} for at in range(2)]
        node["metadata"]["annotations"]["hami.io/node-nvidia-register"] = json.dumps(cards)
        self.cache.node_changed(ObjectChange("added", node, "n1"))

    def shows(self, pod: dict[str, Any]) -> None:
        self.cache.pod_changed(ObjectChange("modified", pod, pod["metadata"]["uid"]))

    def bind(self, pod: dict[str, Any]) -> str:
        """The list of devices that goes with HAMi's Binding of a pod."""
        told = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        binding = {"metadata": told, "target": {"kind": "Node", "name": "n1"}}
        answer = self.bindings(replace(request(binding, name=told["name"]), namespace=told["namespace"]))
        assert isinstance(answer, Allowed), answer
        written = json.dumps(list(answer.operations))
        return next((f"GPU-{at}" for at in range(2) if f"GPU-{at},NVIDIA" in written), "")

    def _read(self, _namespace: str, name: str) -> dict[str, Any] | None:
        self.reads += 1
        return self.server.get(name)


def with_card(raw: dict[str, Any], at: int) -> dict[str, Any]:
    """What HAMi's ``filter`` writes for a card."""
    found = hami.assigned(raw)
    text = f"GPU-{at},NVIDIA,30000,0:;"
    for key in ("hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"):
        found["metadata"]["annotations"][key] = text
    return found


@pytest.mark.parametrize("at", [0, 1])
def test_hamis_choice_of_a_card_goes_with_its_binding(at: int) -> None:
    cluster = Cluster()
    raw = with_card(hami.a_pod(), at)
    cluster.shows(raw)
    assert (cluster.bind(raw), cluster.reads) == (f"GPU-{at}", 0)


@pytest.mark.parametrize("at", [0, 1])
def test_what_hami_wrote_just_now_is_read_where_the_watch_is_late(at: int) -> None:
    cluster = Cluster()
    raw = hami.a_pod()
    cluster.shows(raw)
    cluster.server["p"] = with_card(raw, at)
    assert (cluster.bind(raw), cluster.reads) == (f"GPU-{at}", 1)


def test_a_marked_pod_is_not_read_again_and_its_annotations_decide_nothing() -> None:
    given = set()
    for at in range(2):
        cluster = Cluster()
        raw = hami.a_pod(annotations={MARK: "extender"})
        cluster.shows(raw)
        cluster.server["p"] = with_card(raw, at)
        given.add(cluster.bind(raw))
        assert cluster.reads == 0
    assert len(given) == 1


def test_a_card_that_was_given_away_meanwhile_is_replaced() -> None:
    cluster = Cluster()
    first, second = with_card(hami.a_pod("a"), 0), with_card(hami.a_pod("b"), 0)
    cluster.shows({**first, "spec": {**first["spec"], "nodeName": "n1"}})
    cluster.shows(second)
    assert cluster.bind(second) == "GPU-1"
