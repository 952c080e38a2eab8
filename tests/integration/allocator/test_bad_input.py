"""The allocator with malformed calls, pods and clusters."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from tests import raw_objects
from tests.integration.allocator.hami_pods import (
    ALLOCATED,
    LOCK,
    NODE,
    a_holder,
    a_node,
    a_pod,
    bind,
    call,
    hami,
    notes_of,
)
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

REGISTER = "hami.io/node-nvidia-register"
LEASE = "hami-plugins-allocator"


def fits(client: Client, pod: dict[str, Any], *nodes: str) -> None:
    wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=nodes)["NodeNames"] == list(nodes))


def held_by(place: Site, client: Client) -> int:
    """Promises that are not seen in effect."""
    snapshot = client.server.snapshot()
    assert snapshot is not None
    bound = {each["metadata"]["uid"] for each in place.server.objects("pods") if each["spec"].get("nodeName")}
    return sum(record.uid not in bound for entry in snapshot.nodes for record in entry.pods)


def test_bodies_that_are_no_calls_get_an_error_and_the_next_call_an_answer(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1")) as (place, client):
        (pod,) = place.create(a_pod("p"))
        fits(client, pod, "n1")
        deep = b'{"Pod":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
        for body in (b"", b"\xff\xfe", b"[]", b"{", b'{"Pod": 3}', b'{"Pod": {"spec": []}, "NodeNames": ["n1"]}', deep):
            for verb in ("filter", "bind"):
                status, text = client.post(client.plain(f"{SCHEDULER_PATH}/{verb}"), body)
                assert (status, bool(json.loads(text)["Error"])) == (200, True), body[:40]
            assert client.post(client.plain(f"{SCHEDULER_PATH}/prioritize"), body)[0] == 200
        names = [None, 1, {"a": 1}]
        reply = call(client, "filter", Pod=pod, NodeNames=names)
        assert "NodeNames" in reply["Error"] or "nodenames" in reply["Error"]
        assert bind(client, pod, "n1") == ""


def test_a_pod_with_words_of_two_systems_is_one_refusal_that_names_what_is_missing(tmp_path: Path) -> None:
    vendors = ["NVIDIA", "Volcano-vGPU"]
    with site(tmp_path, a_node("n1")) as place:
        client = place.start(vendors=vendors)
        place.install(client, vendors=vendors)
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "volcano.sh/vgpu-number": "1"}
        both = raw_objects.pod(
            "both", raw_objects.container(limits=limits, image="i"), metadata={"namespace": "default"}
        )
        (pod,) = place.create(both)
        (other,) = place.create(a_pod("other"))
        fits(client, other, "n1")
        reply = call(client, "filter", Pod=pod, NodeNames=["n1"])
        why = bind(client, pod, "n1")
        assert held_by(place, client) == 0
    assert "volcano" in reply["FailedAndUnresolvableNodes"]["n1"].lower()
    assert "volcano" in why.lower()


def test_a_pod_that_another_scheduler_binds_meanwhile_is_not_bound_twice(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), a_node("n2")) as (place, client):
        (pod,) = place.create(a_pod("p", 30_000))
        fits(client, pod, "n1", "n2")
        bound = a_holder("p", "n2", "GPU-n2-0", 30_000)
        place.put({**bound, "metadata": {**bound["metadata"], "uid": pod["metadata"]["uid"]}})
        answers = [bind(client, pod, "n1")]
        wait_for(lambda: "is bound" in bind(client, pod, "n1"))
        after = place.server.get("pods", "p", "default")
        wait_for(lambda: held_by(place, client) == 0)
    assert all(answers)
    assert (after["spec"]["nodeName"], notes_of(after)[NODE]) == ("n2", "n2")


def test_of_many_binds_of_one_pod_one_is_carried_out_and_nothing_is_held_for_the_others(tmp_path: Path) -> None:
    nodes = ["n1", "n2"]
    with hami(tmp_path, *map(a_node, nodes)) as (place, client):
        (pod,) = place.create(a_pod("p", 10_000))
        fits(client, pod, *nodes)
        with ThreadPoolExecutor(8) as calls:
            errors = list(calls.map(lambda at: bind(client, pod, nodes[at % 2]), range(8)))
        after = place.server.get("pods", "p", "default")
        wait_for(lambda: held_by(place, client) == 0)
        locked = [each["metadata"]["name"] for each in place.server.objects("nodes") if LOCK in notes_of(each)]
    node = after["spec"]["nodeName"]
    assert errors.count("") == 1
    assert notes_of(after)[NODE] == node
    assert notes_of(after)[ALLOCATED].startswith(f"GPU-{node}-")
    assert locked == [node]


def test_a_register_that_changes_under_a_promised_pod_takes_nothing_from_it(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1")) as (place, client):
        pod, other, small = place.create(a_pod("p", 30_000), a_pod("other", 30_000), a_pod("small", 100))
        fits(client, pod, "n1")
        assert bind(client, pod, "n1") == ""
        card = notes_of(place.server.get("pods", "p", "default"))[ALLOCATED].split(",")[0]
        with place.server.store.lock:
            raw = place.server.get("nodes", "n1")
            devices = json.loads(notes_of(raw)[REGISTER])
            changed = [{**each, "devmem": 20_000} for each in devices if each["id"] == card]
            raw["metadata"]["annotations"][REGISTER] = json.dumps(changed)
            place.server.put(raw)
        reply = wait_for(lambda: _lasting(call(client, "filter", Pod=other, NodeNames=["n1"])))
        why = call(client, "filter", Pod=small, NodeNames=["n1"])
        assert notes_of(place.server.get("pods", "p", "default"))[ALLOCATED].startswith(card)
    assert "30,000 MiB" in reply["n1"]
    assert why["NodeNames"] == [], "the card is over-allocated until the pod ends"


def _lasting(reply: Any) -> Any:
    return reply["FailedAndUnresolvableNodes"]


@pytest.mark.parametrize("when", ["2099-01-01T00:00:00Z", "1999-01-01T00:00:00Z"])
def test_a_lock_of_a_pod_that_is_gone_is_taken_whatever_the_clock_that_wrote_it(tmp_path: Path, when: str) -> None:
    node = a_node("n1")
    node["metadata"]["annotations"][LOCK] = f"{when},default,gone"
    with hami(tmp_path, node) as (place, client):
        (pod,) = place.create(a_pod("p"))
        fits(client, pod, "n1")
        assert bind(client, pod, "n1") == ""
        assert notes_of(place.server.get("nodes", "n1"))[LOCK].endswith(",default,p")


def lose_the_lease(place: Site, client: Client) -> None:
    with place.server.store.lock:
        lease = place.server.get("leases", LEASE, "default")
        lease["spec"] |= {"holderIdentity": "another", "renewTime": "2099-01-01T00:00:00.000000Z"}
        place.server.put(lease)
    wait_for(lambda: client.server.snapshot() is None)


def test_a_leader_that_loses_its_lease_before_the_binding_sends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hami(tmp_path, a_node("n1")) as (place, client):
        (pod,) = place.create(a_pod("p"))
        fits(client, pod, "n1")

        def acquired(*_: object) -> str:
            lose_the_lease(place, client)
            return ""

        monkeypatch.setattr("hami_plugins.allocator.pod_locks.PodLocks.acquire", acquired)
        why = bind(client, pod, "n1")
        after = place.server.get("pods", "p", "default")
    assert "this replica has lost its lease" in why
    assert "nodeName" not in after["spec"]


def test_a_former_leader_that_waited_for_a_lock_binds_nothing(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1")) as (place, client):
        first, second = place.create(a_pod("first"), a_pod("second"))
        fits(client, second, "n1")
        assert bind(client, first, "n1") == ""
        errors: list[str] = []
        waiting = threading.Thread(target=lambda: errors.append(bind(client, second, "n1")))
        waiting.start()
        wait_for(lambda: place.value(client, "node_lock_waiting"))
        lose_the_lease(place, client)
        place.server.delete("pods", "first", "default", grace=0)
        waiting.join(30)
        after = place.server.get("pods", "second", "default")
    assert len(errors) == 1
    assert errors[0]
    assert "nodeName" not in after["spec"]
