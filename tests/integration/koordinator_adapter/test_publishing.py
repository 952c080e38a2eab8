"""Device objects and the sums in nodes: made, kept, repaired, and left to other writers."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.kube import paths
from hami_plugins.sandbox.apiserver import ApiServer, Fault, Refuse
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, GPU, MEMORY, RATIO, SHARED
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, VENDOR_LABEL
from koordinator_adapter.core.devices.wanted import PUBLISHER, PUBLISHER_LABEL
from tests.integration.koordinator_adapter.servers import Site, a_node, a_pod, card, register
from tests.waiting import PATIENCE, wait_for

LABELS = {VENDOR_LABEL: "nvidia", MODEL_LABEL: "NVIDIA-A100", PUBLISHER_LABEL: PUBLISHER}
DEVICES = "devices.scheduling.koordinator.sh"
KOORDLET = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "koordlet-1", "namespace": "default", "labels": {"koord-app": "koordlet"}},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "k", "image": "i", "args": ["-feature-gates=Accelerators=true,GPUEnvInject=true"]}],
    },
}


def allocatable(cluster: Site, node: str) -> dict[str, str]:
    found: dict[str, str] = cluster.server.get("nodes", node)["status"].get("allocatable", {})
    return {name: amount for name, amount in found.items() if name.startswith("koordinator.sh/")}


def settled(cluster: Site, node: str, count: int) -> list[dict[str, Any]]:
    """The devices of a node once there are so many and the node has their sums."""

    def done() -> bool:
        healthy = sum(each.get("health", False) for each in cluster.devices(node))
        there = allocatable(cluster, node).get(SHARED, "0")
        return len(cluster.devices(node)) == count and there == str(100 * healthy)

    wait_for(done, f"{node} has {count} devices and their sums")
    return cluster.devices(node)


def quiet(cluster: Site, server: Any) -> dict[str, float]:
    """All writes by the time no work is left."""

    def still() -> bool:
        before = cluster.writes(server)
        time.sleep(0.3)
        return cluster.value(server, "waiting_nodes") == 0 and cluster.writes(server) == before

    wait_for(still, "nothing waits")
    return cluster.writes(server)


def change_node(cluster: Site, name: str, *cards: dict[str, Any]) -> None:
    cluster.api.merge_patch(paths.node(name), {"metadata": {"annotations": register(*cards)}})


def a_holder(minor: int, node: str = "n1") -> dict[str, Any]:
    record = {"gpu": [{"minor": minor, "resources": {RATIO: "50", MEMORY: "20Gi"}}]}
    pod = a_pod("holder", {SHARED: 1, RATIO: 50}, annotations={ALLOCATED_KEY: json.dumps(record)})
    pod["spec"]["nodeName"] = node
    return pod


def test_a_node_gets_a_device_object_and_the_sums_with_one_write_each(cluster: Site) -> None:
    (node,) = cluster.put(a_node("n1", number=2))
    server = cluster.start()
    first, second = settled(cluster, "n1", 2)
    assert first["resources"] == {CORE: "100", MEMORY: "40Gi", RATIO: "100"}
    assert (first["id"], first["minor"], first["health"], second["minor"]) == ("GPU-n1-0", 0, True, 1)
    assert first["labels"] == {"gpu-uuid": "GPU-n1-0", "gpu-model": "NVIDIA-A100"}
    assert first["topology"] == {"socketID": -1, "nodeID": 0, "pcieID": first["id"]}
    made = cluster.device("n1")
    assert made is not None
    assert made["metadata"]["labels"] == LABELS
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Node", node["metadata"]["uid"], True)
    sums = {GPU: "200", CORE: "200", MEMORY: "80Gi", RATIO: "200", SHARED: "200"}
    assert allocatable(cluster, "n1") == sums
    wait_for(lambda: cluster.writes(server).get("labels"), "the node has the labels")
    assert cluster.server.get("nodes", "n1")["metadata"]["labels"][MODEL_LABEL] == "NVIDIA-A100"
    assert quiet(cluster, server) == {"created": 1, "sums": 1, "labels": 1}


def test_after_a_restore_of_the_store_objects_and_sums_are_made_again(
    cluster: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions go back, and watches from later ones say nothing."""
    monkeypatch.setattr("hami_plugins.kube.reflector._SILENT", 0.2)
    cluster.put(a_node("n1"))
    before = cluster.server.store.version
    cluster.start()
    settled(cluster, "n1", 2)
    for beat in range(5):
        cluster.api.merge_patch(paths.node_status("n1"), {"status": {"nodeInfo": {"bootID": str(beat)}}})
    cluster.server.restore(before)
    assert cluster.device("n1") is None

    def made_again() -> bool:
        cluster.server.cut_watches()  # in place of the minutes that a watch lasts
        time.sleep(0.4)
        return cluster.device("n1") is not None and allocatable(cluster, "n1").get(SHARED) == "200"

    wait_for(made_again, "the object and the sums are there")


def test_nothing_is_written_while_nothing_changes(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)
    before = quiet(cluster, server)
    for beat in range(5):
        cluster.api.merge_patch(paths.node_status("n1"), {"status": {"nodeInfo": {"bootID": str(beat)}}})
    cluster.server.cut_watches()
    wait_for(lambda: cluster.server.get("nodes", "n1")["status"]["nodeInfo"]["bootID"] == "4", "the node has beaten")
    again = cluster.start("two")
    wait_for(lambda: cluster.value(again, "devices") == 1, "the other replica knows the object")
    assert quiet(cluster, server) == before
    assert quiet(cluster, again) == {}


def test_a_card_that_falls_ill_and_recovers_costs_one_write_each_time(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)
    before = quiet(cluster, server)
    change_node(cluster, "n1", card("n1", 0), card("n1", 1, health=False))
    wait_for(lambda: not cluster.devices("n1")[1]["health"], "the card is published as ill")
    (said,) = cluster.devices("n1")[1]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Healthy", "False", "Unhealthy")
    wait_for(lambda: allocatable(cluster, "n1").get(SHARED) == "100", "the sums are those of the other card")
    change_node(cluster, "n1", card("n1", 0), card("n1", 1))
    settled(cluster, "n1", 2)
    wait_for(lambda: "conditions" not in cluster.devices("n1")[1], "nothing is wrong with it any more")
    after = quiet(cluster, server)
    assert after["changed"] - before.get("changed", 0) == 2
    assert after["sums"] - before["sums"] == 2


def test_numbers_stay_with_their_cards_when_others_are_swapped_and_when_the_server_starts_anew(cluster: Site) -> None:
    cluster.put(a_node("n1", number=3))
    server = cluster.start()
    settled(cluster, "n1", 3)
    cluster.put(a_holder(0))
    wait_for(lambda: cluster.value(server, "holders") == 1, "the pod is known")
    # The first card is swapped, and the driver numbers the others anew.
    new = card("n1", 0, id="GPU-new", index=2)
    change_node(cluster, "n1", card("n1", 1, index=0), card("n1", 2, index=1), new)
    found = {
        each["id"]: each for each in wait_for(lambda: len(cluster.devices("n1")) == 4 and cluster.devices("n1"), "")
    }
    assert {name: each["minor"] for name, each in found.items()} == {
        "GPU-n1-0": 0,
        "GPU-n1-1": 1,
        "GPU-n1-2": 2,
        "GPU-new": 3,
    }
    assert not found["GPU-n1-0"]["health"]
    assert found["GPU-n1-0"]["conditions"][0]["reason"] == "Vanished"
    server.stop()
    cluster.start("two")
    cluster.server.delete("pods", "holder", "default", grace=0)
    wait_for(lambda: len(cluster.devices("n1")) == 3, "nobody holds the old card any more")
    assert {each["id"]: each["minor"] for each in cluster.devices("n1")}["GPU-new"] == 3


def test_a_node_that_tells_of_no_card_keeps_its_numbers_and_offers_nothing(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    cluster.start()
    settled(cluster, "n1", 2)
    cluster.api.merge_patch(paths.node("n1"), {"metadata": {"annotations": {"hami.io/node-nvidia-register": None}}})
    wait_for(lambda: allocatable(cluster, "n1") == {}, "the node offers nothing")
    assert [(each["minor"], each["health"]) for each in cluster.devices("n1")] == [(0, False), (1, False)]


def test_a_register_that_cannot_be_read_changes_nothing_and_is_told(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)
    before, offered = cluster.device("n1"), allocatable(cluster, "n1")
    cluster.api.merge_patch(paths.node("n1"), {"metadata": {"annotations": {"hami.io/node-nvidia-register": "[{"}}})
    wait_for(lambda: "node-nvidia-register" in cluster.get(server, "/findings")[1], "it is told")
    cluster.put(a_node("n2"))
    settled(cluster, "n2", 2)
    quiet(cluster, server)
    assert (cluster.device("n1"), allocatable(cluster, "n1")) == (before, offered)


def test_another_publishers_object_is_left_to_it_and_told(cluster: Site) -> None:
    theirs = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1", "labels": {VENDOR_LABEL: "nvidia"}},
        "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True, "resources": {CORE: "100"}}]},
    }
    cluster.put(a_node("n1"), a_node("n2"), theirs)
    server = cluster.start()
    settled(cluster, "n2", 2)
    found = json.loads(cluster.get(server, "/findings")[1])["nodes"]
    assert [each["node"] for each in found] == ["n1"]
    assert "another client publishes" in found[0]["what"]
    assert cluster.devices("n1") == theirs["spec"]["devices"]  # type: ignore[index]
    assert allocatable(cluster, "n1") == {}


def test_a_node_whose_koordlet_reports_cards_is_left_to_it_until_it_does_no_more(cluster: Site) -> None:
    cluster.put(a_node("n1"), a_node("n2"), KOORDLET)
    server = cluster.start()
    settled(cluster, "n2", 2)
    assert cluster.device("n1") is None
    assert "Accelerators" in cluster.get(server, "/findings")[1]
    cluster.server.delete("pods", "koordlet-1", "default", grace=0)
    settled(cluster, "n1", 2)
    wait_for(lambda: "Accelerators" not in cluster.get(server, "/findings")[1], "there is nothing to tell")


@pytest.mark.parametrize(
    "half",
    [
        {"devices": [{"type": "gpu", "id": "GPU-n1-1", "minor": 5}, {"type": "gpu"}, "nonsense"]},
        {"devices": "nonsense"},
        None,
    ],
)
def test_a_half_written_object_of_ours_is_written_whole_with_the_numbers_that_can_be_read(
    cluster: Site, half: Any
) -> None:
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1", "labels": {PUBLISHER_LABEL: PUBLISHER}},
        "spec": half,
    }
    cluster.put(a_node("n1"), body)
    cluster.start()
    wait_for(lambda: all("id" in each for each in cluster.devices("n1")), "it is written")
    found = {each["id"]: each["minor"] for each in settled(cluster, "n1", 2)}
    assert found == {"GPU-n1-0": 0, "GPU-n1-1": 5 if isinstance(half, dict) and len(half["devices"]) == 3 else 1}


def test_what_others_put_on_our_object_stays(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    cluster.start()
    settled(cluster, "n1", 2)
    body = copy.deepcopy(cluster.device("n1"))
    assert body is not None
    nic = {
        "type": "rdma",
        "id": "0000:09:00.0",
        "minor": 0,
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
    }
    body["metadata"]["annotations"] = {"theirs": "x"}
    body["spec"]["devices"].append(nic)
    cluster.api.replace(paths.device("n1"), body)
    change_node(cluster, "n1", card("n1", 0, health=False), card("n1", 1))
    found = wait_for(lambda: not cluster.devices("n1")[0]["health"] and cluster.device("n1"), "the change is published")
    assert found["metadata"]["annotations"] == {"theirs": "x"}
    assert found["spec"]["devices"][-1] == nic


def test_a_write_that_loses_a_race_or_fails_is_made_again(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    cluster.server.faults.add(Fault(action=Refuse(403), verb="create", resource=DEVICES, times=2))
    server = cluster.start()
    settled(cluster, "n1", 2)
    cluster.server.faults.add(Fault(action=Refuse(409), verb="update", resource=DEVICES, times=2))
    change_node(cluster, "n1", card("n1", 0, health=False), card("n1", 1))
    wait_for(lambda: not cluster.devices("n1")[0]["health"], "the change is published")
    found = cluster.writes(server)
    assert found["failed"] == 2
    assert found["conflict"] == 2


def test_an_object_that_somebody_deletes_is_made_anew(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    cluster.start()
    settled(cluster, "n1", 2)
    cluster.server.delete("devices", "n1")
    settled(cluster, "n1", 2)


def test_without_device_objects_the_webhooks_answer_and_what_is_missing_is_told(tmp_path: Path) -> None:
    with ApiServer() as server:
        bare = Site(server, tmp_path)
        try:
            bare.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, a_node("n1"))
            replica = bare.start()
            bare.install(replica)
            labels = {"hami-plugins.io/koordinator": "translate"}
            made = bare.api.create(
                paths.pods("default"), a_pod("a", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"}, labels=labels)
            )
            assert made["spec"]["schedulerName"] == "koord-scheduler"
            (told,) = json.loads(bare.get(replica, "/findings")[1])["cluster"]
            assert "devices.scheduling.koordinator.sh" in told["what"]
            assert "koordinator_adapter_device_objects_missing 1.0" in bare.get(replica, "/metrics")[1]
            wait_for(lambda: replica.publishes, "it has the lease")
            wait_for(lambda: bare.value(replica, "waiting_nodes") == 0, "nothing waits")
            assert bare.writes(replica) == {}
        finally:
            bare.stop()


def test_nobody_is_answered_before_the_cluster_is_taken_in_and_put_to_rest(cluster: Site) -> None:
    rested = threading.Event()
    entered: list[int] = []

    @contextmanager
    def filling() -> Iterator[None]:
        entered.append(1)
        yield
        rested.wait(PATIENCE)

    cluster.put(a_node("n1"))
    server = cluster.start(ready=False, filling=filling)
    wait_for(lambda: cluster.value(server, "nodes") == 1, "the node is known")
    wait_for(lambda: server.trouble == "the cluster is being read", "it is not ready")
    rested.set()
    wait_for(lambda: not server.trouble, "it is ready")
    assert entered == [1]


def test_of_two_replicas_one_publishes_and_the_other_takes_over(cluster: Site) -> None:
    first = cluster.start("one")
    wait_for(lambda: first.publishes, "the first has the lease")
    second = cluster.start("two")
    cluster.put(a_node("n1"))
    settled(cluster, "n1", 2)
    assert cluster.writes(second) == {}
    first.stop()
    cluster.put(a_node("n2"))
    settled(cluster, "n2", 2)
    assert cluster.writes(second)["created"] == 1


def test_somebody_who_writes_other_sums_is_not_fought(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)

    def undone() -> bool:
        cluster.api.merge_patch(paths.node_status("n1"), {"status": {"allocatable": {SHARED: "7"}}})
        return "another client writes other amounts" in cluster.get(server, "/findings")[1]

    wait_for(undone, "it is given up and told")
    assert quiet(cluster, server)["sums"] <= 4


def test_somebody_who_changes_our_object_each_time_is_not_fought(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)

    def undone() -> bool:
        listed = [{**each, "resources": {**each["resources"], MEMORY: "1Gi"}} for each in cluster.devices("n1")]
        cluster.api.merge_patch(paths.device("n1"), {"spec": {"devices": listed}})
        return "changes its Device object" in cluster.get(server, "/findings")[1]

    wait_for(undone, "it is given up and told")
    assert quiet(cluster, server)["changed"] <= 3
    # A newly unhealthy card is another message, and is reported.
    change_node(cluster, "n1", card("n1", 0), card("n1", 1, health=False))
    wait_for(lambda: not cluster.devices("n1")[1]["health"], "the illness is published")


def test_somebody_who_deletes_our_object_each_time_is_not_fought(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()

    def undone() -> bool:
        if cluster.device("n1") is not None:
            cluster.server.delete("devices", "n1")
        return "deletes its Device object" in cluster.get(server, "/findings")[1]

    wait_for(undone, "it is given up and told")
    assert quiet(cluster, server)["created"] == 3


def test_writes_that_lose_races_are_not_taken_for_a_fight(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    settled(cluster, "n1", 2)
    cluster.server.faults.add(Fault(action=Refuse(409), verb="update", resource=DEVICES, times=4))
    change_node(cluster, "n1", card("n1", 0, health=False), card("n1", 1))
    wait_for(lambda: not cluster.devices("n1")[0]["health"], "the change is published")
    assert "Device object" not in cluster.get(server, "/findings")[1]


def test_koordinators_controller_has_time_to_write_the_sums_itself(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start(devices={"grace": 3600})
    wait_for(lambda: cluster.device("n1"), "the object is there")
    wait_for(lambda: cluster.value(server, "waiting_nodes") == 1, "the node is looked at later")
    assert cluster.writes(server) == {"created": 1}


@pytest.mark.parametrize("settings", [{"devices": {"nodeResources": "never"}}, {"devices": {"enabled": False}}])
def test_what_is_switched_off_is_not_written(cluster: Site, settings: dict[str, Any]) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start(**settings)
    if settings["devices"].get("enabled", True):
        wait_for(lambda: "created" in cluster.writes(server), "the object is there")
    else:
        assert cluster.device("n1") is None
    assert allocatable(cluster, "n1") == {}


def test_nodes_of_several_makers_are_told_of_and_published_once_one_is_named(cluster: Site) -> None:
    mlu = bare = a_node("n1")
    bare["status"]["capacity"]["cambricon.com/mlu.smlu.vcore"] = "100"
    mlu["metadata"]["annotations"]["hami.io/node-dcu-register"] = "DCU-1,4,16384,100,DCU-Z100,0,true,0,:"
    cluster.put(mlu)
    server = cluster.start()
    wait_for(lambda: "knows one vendor" in cluster.get(server, "/findings")[1], "it is told")
    assert cluster.device("n1") is None
    server.stop()
    cluster.start("two", devices={"vendors": ["NVIDIA"], "grace": 0})
    settled(cluster, "n1", 2)
