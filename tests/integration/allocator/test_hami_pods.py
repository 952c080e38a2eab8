"""Pods in HAMi's words: the webhook gives them to HAMi's scheduler, and they are bound behind the locks of plugins."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hami_plugins.sandbox.fleet import bare_node
from tests.integration.allocator.hami_pods import (
    ALLOCATED,
    LOCK,
    NODE,
    PHASE,
    TIME,
    TO_ALLOCATE,
    a_node,
    a_pod,
    bind,
    call,
    hami,
    notes_of,
)
from tests.integration.allocator.sites import MARK, Site
from tests.waiting import PATIENCE, wait_for


class Plugins:
    """HAMi's plugin on each node: the kubelet asks for a pod, and it takes the one that the lock names."""

    def __init__(self, place: Site) -> None:
        self.place = place
        self.served: list[tuple[str, str]] = []
        """The pod that the kubelet asked for, and the one that the plugin took."""
        self._asked: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Plugins:
        self._thread.start()
        return self

    def __exit__(self, *_of_error: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            for pod in self.place.server.objects("pods"):
                node, name = pod["spec"].get("nodeName"), pod["metadata"]["name"]
                if node and name not in self._asked:
                    self._asked.add(name)
                    self._serve(name, node)

    def _serve(self, asked: str, node: str) -> None:
        server = self.place.server
        _, _, taken = notes_of(server.get("nodes", node)).get(LOCK, ",,").split(",")
        self.served.append((asked, taken))
        with server.store.lock:
            pod = server.get("pods", asked, "default")
            assert notes_of(pod)[PHASE] == "allocating"
            notes_of(pod).update({PHASE: "success", TO_ALLOCATE: ""})
            server.put(pod)
            raw = server.get("nodes", node)
            if notes_of(raw).pop(LOCK, None):
                server.put(raw)


def test_a_pod_is_marked_given_to_hamis_scheduler_and_bound_with_its_slice(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), bare_node("plain")) as (place, client):
        (pod,) = place.create(a_pod("p"))
        assert (pod["spec"]["schedulerName"], notes_of(pod)[MARK]) == ("hami-scheduler", "extender")
        found = wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1", "plain"])["NodeNames"])
        assert bind(client, pod, "n1") == ""
        bound = place.server.get("pods", "p", "default")
        lock = notes_of(place.server.get("nodes", "n1"))[LOCK]
    notes = notes_of(bound)
    assert (found, bound["spec"]["nodeName"]) == (["n1"], "n1")
    assert notes[TO_ALLOCATE] == notes[ALLOCATED] == "GPU-n1-1,NVIDIA,1000,0:;"
    assert (notes[NODE], notes[PHASE]) == ("n1", "allocating")
    assert notes[TIME].isdecimal()
    assert lock.endswith(",default,p")


def test_pods_bound_at_once_are_served_one_after_the_other_and_none_gets_anothers_slice(tmp_path: Path) -> None:
    nodes, count = ("n1", "n2", "n3"), 100
    with hami(tmp_path, *(a_node(name, cards=6) for name in nodes)) as (place, client), Plugins(place) as plugins:
        pods = place.create(*(a_pod(f"p{at}") for at in range(count)))
        wait_for(lambda: all(call(client, "filter", Pod=pod, NodeNames=nodes)["NodeNames"] for pod in pods))
        with ThreadPoolExecutor(count) as calls:
            errors = list(calls.map(lambda each: bind(client, each[1], nodes[each[0] % 3]), enumerate(pods)))
        wait_for(lambda: len(plugins.served) == count)
        writes = place.server.requests.total(verb="patch", resource="nodes", code=200)
        wait_for(lambda: not any(LOCK in notes_of(each) for each in place.server.objects("nodes")))
    assert set(errors) == {""}
    assert all(asked == taken for asked, taken in plugins.served)
    assert writes == count


def test_a_lock_of_a_pod_that_is_gone_is_replaced_at_once(tmp_path: Path) -> None:
    left = a_node("n1")
    left["metadata"]["annotations"][LOCK] = "2026-11-24T00:00:00Z,default,gone"
    with hami(tmp_path, left) as (place, client):
        (pod,) = place.create(a_pod("p"))
        wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        assert bind(client, pod, "n1") == ""
        assert notes_of(place.server.get("nodes", "n1"))[LOCK].endswith(",default,p")


def test_a_lock_of_hamis_own_scheduler_is_waited_for_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.allocator.pod_locks.WAIT_SECONDS", 0.2)
    with hami(tmp_path, a_node("n1")) as (place, client):
        other, pod = place.create(a_pod("other"), a_pod("p"))
        wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        with place.server.store.lock:
            raw = place.server.get("nodes", "n1")
            raw["metadata"]["annotations"][LOCK] = "2026-11-24T00:00:00Z,default,other"
            place.server.put(raw)
        why = bind(client, pod, "n1")
        assert place.server.get("pods", "p", "default")["spec"].get("nodeName") is None
        place.server.delete("pods", other["metadata"]["name"], "default", grace=0)
        wait_for(lambda: bind(client, pod, "n1") == "")
    assert "default/other" in why
