"""Pods in HAMi's words: the webhook gives them to HAMi's scheduler, and they are bound as HAMi's plugins expect."""

from __future__ import annotations

from pathlib import Path

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
from tests.integration.allocator.sites import MARK
from tests.waiting import wait_for


def test_a_pod_is_marked_given_to_hamis_scheduler_and_bound_with_its_slice(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), bare_node("plain")) as (place, client):
        (pod,) = place.create(a_pod("p"))
        assert (pod["spec"]["schedulerName"], notes_of(pod)[MARK]) == ("hami-scheduler", "extender")
        found = wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1", "plain"])["NodeNames"])
        assert bind(client, pod, "n1") == ""
        bound = place.server.get("pods", "p", "default")
        lock = notes_of(place.server.get("nodes", "n1"))[LOCK]
        wait_for(lambda: place.server.get("pods", "p", "default")["metadata"].get("labels") == {NODE: "n1"})
    notes = notes_of(bound)
    assert (found, bound["spec"]["nodeName"]) == (["n1"], "n1")
    assert notes[TO_ALLOCATE] == notes[ALLOCATED] == "GPU-n1-1,NVIDIA,1000,0:;"
    assert (notes[NODE], notes[PHASE]) == ("n1", "allocating")
    assert notes[TIME].isdecimal()
    assert lock.endswith(",default,p")
