"""What the server knows of its cluster, change by change."""

from __future__ import annotations

import json
from typing import Any

from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.edits import made
from hami_plugins.model.units import NodeName
from hami_plugins.vendors import builtin
from hami_plugins.wire import pods
from hami_plugins.wire.koordinator import ALLOCATED_KEY, MEMORY, RATIO, SHARED
from hami_plugins.wire.koordinator_devices import MODEL_LABEL
from koordinator_adapter.core import injection
from koordinator_adapter.core.translation.model import TranslationFinding
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION
from koordinator_adapter.server.cluster import WatchedCluster
from tests import raw_objects
from tests.unit.koordinator_adapter.devices.nodes import a_node, card, published

N = NodeName("n")
RECORD = json.dumps({"gpu": [{"minor": 4, "resources": {RATIO: "50", MEMORY: "1Gi"}}]})


class Seen:
    """A cluster, and the nodes that it has called dirty."""

    def __init__(self) -> None:
        self.dirty: list[str] = []
        self.cluster = WatchedCluster(builtin(), on_dirty=self.dirty.append)

    def node(self, raw: dict[str, Any], kind: Any = "added") -> None:
        self.cluster.node_changed(ObjectChange(kind, raw, "node-uid"))

    def pod(self, raw: dict[str, Any] | None, kind: Any = "added", uid: str = "pod-uid") -> None:
        self.cluster.pod_changed(ObjectChange(kind, raw, uid))


def a_pod(record: str = RECORD, *, phase: str = "Running", node: str = "n", **labels: str) -> dict[str, Any]:
    metadata = {"namespace": "d", "labels": labels, "annotations": {ALLOCATED_KEY: record}}
    return raw_objects.pod("p", raw_objects.container("c"), metadata=metadata, node=node, phase=phase)


def koordlet(*gates: str) -> dict[str, Any]:
    arguments = [f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"]
    spec = {"nodeName": "n", "containers": [{"name": "k", "args": arguments}]}
    return {"metadata": {"name": "k", "labels": {"koord-app": "koordlet"}}, "spec": spec}


def test_a_node_is_read_again_only_when_what_is_read_of_it_changes() -> None:
    seen = Seen()
    seen.node(a_node(card(0)))
    before = seen.cluster.site(N)
    beaten = a_node(card(0))
    beaten["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    seen.node(beaten, "modified")
    after = seen.cluster.site(N)
    assert before is not None
    assert after is not None
    assert after[0].found is before[0].found
    assert after[1] is beaten
    assert seen.dirty == ["n", "n"]
    seen.node(a_node(card(0), card(1)), "modified")
    changed = seen.cluster.site(N)
    assert changed is not None
    assert len(changed[0].found.cards) == 2


def test_a_node_that_a_list_no_longer_has_is_gone() -> None:
    seen = Seen()
    seen.node(a_node(card(0)))
    seen.cluster.node_changed(ObjectChange("deleted", None, "node-uid"))
    seen.cluster.node_changed(ObjectChange("deleted", None, "another"))
    seen.cluster.node_changed(ObjectChange("synced", None, ""))
    assert seen.cluster.site(N) is None
    assert seen.cluster.names() == ()


def test_what_pods_hold_stays_held_until_they_end() -> None:
    seen = Seen()
    seen.node(a_node(card(0)))
    seen.pod(a_pod())
    assert (seen.cluster.site(N) or [None])[0].held == {4}  # type: ignore[union-attr]
    seen.pod(a_pod(phase="Succeeded"), "modified")
    assert (seen.cluster.site(N) or [None])[0].held == frozenset()  # type: ignore[union-attr]
    assert seen.dirty.count("n") == 3
    seen.pod(a_pod(), "modified")
    seen.pod(None, "deleted")
    assert seen.cluster.sizes() == (1, 0, 0)


def test_a_record_that_cannot_be_read_is_counted_and_hides_no_other() -> None:
    seen = Seen()
    seen.pod(a_pod("{"), uid="broken")
    seen.pod(a_pod(), uid="whole")
    seen.pod({"metadata": {"name": "waits", "annotations": {ALLOCATED_KEY: RECORD}}, "spec": {}}, uid="waiting")
    seen.cluster.pod_changed(ObjectChange("synced", None, ""))
    assert seen.cluster.sizes()[2] == 1
    assert seen.cluster.problems == 1


def test_a_pod_that_asks_for_a_part_and_has_no_record_runs_without_limits() -> None:
    seen = Seen()
    seen.pod(koordlet("GPUEnvInject"), uid="koordlet")
    raw = a_pod(**{ISOLATION: HAMI_CORE})
    raw["metadata"]["annotations"] = {}
    seen.pod(raw, uid="asks for nothing")
    assert seen.cluster.sizes()[2] == 0
    raw["spec"]["containers"][0]["resources"] = {"limits": {SHARED: "1", RATIO: "50"}}
    seen.pod(raw)
    ((pod, why),) = seen.cluster.unlimited()
    assert (pod.name, pod.minors) == ("d/p", frozenset())
    assert "no record of its cards" in why
    seen.pod({**raw, "metadata": {**raw["metadata"], "annotations": {ALLOCATED_KEY: RECORD}}}, "modified")
    assert seen.cluster.unlimited() == ()


def test_a_node_that_cannot_be_read_is_counted_and_told_of() -> None:
    seen = Seen()
    broken = a_node(card(0))
    broken["status"]["capacity"] = {"cpu": "many"}
    seen.node(broken)
    site = seen.cluster.site(N)
    assert site is not None
    assert (site[0].found.certain, seen.cluster.problems) == (False, 1)


def test_koordlets_say_who_reports_cards_and_who_limits_pods() -> None:
    seen = Seen()
    labelled = a_node(card(0))
    labelled["metadata"]["labels"] = {ISOLATION: HAMI_CORE, MODEL_LABEL: "A100"}
    seen.node(labelled)
    seen.pod(a_pod(**{ISOLATION: HAMI_CORE}))
    assert seen.cluster.facts().lacks_hook
    assert "GPUEnvInject" in seen.cluster.unlimited()[0][1]
    seen.pod(koordlet("Accelerators", "GPUEnvInject"), uid="koordlet")
    site = seen.cluster.site(N)
    assert site is not None
    assert site[0].reported
    assert not seen.cluster.facts().lacks_hook
    assert seen.cluster.unlimited() == ()
    seen.pod(None, "deleted", uid="koordlet")
    assert seen.cluster.facts().lacks_hook
    assert seen.dirty.count("n") == 4


def test_a_pod_whose_containers_take_their_limits_from_it_has_limits_without_any_koordlet() -> None:
    seen = Seen()
    seen.node(a_node(card(0)))
    bare = a_pod(**{ISOLATION: HAMI_CORE})
    bare["spec"]["containers"][0]["resources"] = {"limits": {SHARED: "1", RATIO: "50"}}
    seen.pod(bare)
    assert seen.cluster.unlimited()
    injected = injection.edits_of(bare, pods.pod(bare), "/hook", "/lock")
    assert not isinstance(injected, TranslationFinding)
    waits = made(bare, injected)
    seen.pod(made(waits, injection.resolved(waits, pods.pod(waits))), "modified")
    assert seen.cluster.unlimited() == ()


def test_facts_are_those_of_nodes_objects_and_namespaces() -> None:
    seen = Seen()
    assert seen.cluster.facts().models == ()
    node = a_node(card(0), card(1, devmem=81_920))
    node["metadata"]["labels"] = {MODEL_LABEL: "A100"}
    seen.node(node)
    raw = published(node)
    seen.cluster.device_changed(ObjectChange("added", raw, "device-uid"))
    seen.cluster.namespace_changed(ObjectChange("added", {"metadata": {"name": "system"}}, "ns-uid"))
    seen.cluster.namespace_changed(ObjectChange("synced", None, ""))
    facts = seen.cluster.facts()
    assert (facts.models, facts.device_labels, facts.card_memory) == (("A100",), True, 81_920)
    assert facts.card_sizes == {40_960, 81_920}
    assert facts.unserved == {"system"}
    assert seen.cluster.facts() is facts
    theirs = {
        "metadata": {"name": "m"},
        "spec": {"devices": [{"type": "gpu", "minor": 0, "resources": {MEMORY: "1Gi"}}]},
    }
    seen.cluster.device_changed(ObjectChange("added", theirs, "other-uid"))
    assert not seen.cluster.facts().device_labels
    assert seen.cluster.names() == ("n", "m")
    seen.cluster.device_changed(ObjectChange("deleted", None, "other-uid"))
    seen.cluster.device_changed(ObjectChange("deleted", None, "unknown"))
    seen.cluster.device_changed(ObjectChange("modified", {"metadata": {"name": "n"}, "spec": 3}, "device-uid"))
    seen.cluster.namespace_changed(ObjectChange("deleted", None, "ns-uid"))
    facts = seen.cluster.facts()
    assert (facts.device_labels, facts.card_memory, facts.unserved) == (False, None, frozenset())


def versioned(raw: dict[str, Any], version: int) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version)}}


def test_what_comes_back_from_a_write_hides_nothing_that_happened_since() -> None:
    seen = Seen()
    before, after = a_node(card(0)), a_node(card(0), card(1))
    seen.node(versioned(after, 9))
    seen.cluster.written(versioned(before, 8))
    site = seen.cluster.site(N)
    assert site is not None
    assert len(site[0].found.cards) == 2
    seen.cluster.written(versioned(before, 10))
    site = seen.cluster.site(N)
    assert site is not None
    assert len(site[0].found.cards) == 1


def test_an_object_that_was_deleted_since_its_write_is_gone() -> None:
    seen = Seen()
    node = a_node(card(0))
    seen.node(versioned(node, 1))
    raw = published(node)
    seen.cluster.device_changed(ObjectChange("added", versioned(raw, 5), "device-uid"))
    seen.cluster.device_changed(ObjectChange("deleted", versioned(raw, 6), "device-uid"))
    seen.cluster.published(N, versioned(raw, 5))
    site = seen.cluster.site(N)
    assert site is not None
    assert site[2] is None
    seen.cluster.published(N, versioned(raw, 7))
    site = seen.cluster.site(N)
    assert site is not None
    assert site[2] is not None
