"""Pods in HAMi's words on nodes whose devices an agent of ours registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.integration.allocator.hami_pods import ALLOCATED, LOCK, PHASE, TIME, a_pod, bind, call, hami, notes_of
from tests.unit.volcano_vgpu.cards import card, inventory, settings, uuid
from tests.waiting import wait_for
from volcano_vgpu.core import register


def own_node(name: str) -> dict[str, Any]:
    words = register.desired(inventory(card(0)), settings(dialect="hami"), handshake=False)
    return bare_node(name, capacity={"nvidia.com/gpu": "10"}, annotations=dict(words.annotations))


def test_no_lock_is_taken_and_no_phase_is_written_where_the_agent_needs_none(tmp_path: Path) -> None:
    with hami(tmp_path, own_node("n1")) as (place, client):
        (pod,) = place.create(a_pod("p"))
        wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["NodeNames"])
        assert bind(client, pod, "n1") == ""
        notes = notes_of(place.server.get("pods", "p", "default"))
        assert notes[ALLOCATED] == f"{uuid(0)},NVIDIA,1000,0:;"
        assert not {PHASE, TIME} & notes.keys()
        assert LOCK not in notes_of(place.server.get("nodes", "n1"))


def test_what_pods_of_volcano_hold_on_the_node_is_not_given_again(tmp_path: Path) -> None:
    asks = raw_objects.container(limits={"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "40000"}, image="i")
    notes = {"volcano.sh/vgpu-ids-new": f"{uuid(0)},NVIDIA,40000,0:", "volcano.sh/vgpu-node": "n1"}
    metadata = {"namespace": "default", "annotations": notes}
    holder = raw_objects.pod("old", asks, metadata=metadata, nodeName="n1", schedulerName="volcano")
    with hami(tmp_path, own_node("n1")) as (place, client):
        place.create({**holder, "status": {"phase": "Running"}})
        (pod,) = place.create(a_pod("p"))
        found = wait_for(lambda: call(client, "filter", Pod=pod, NodeNames=["n1"])["FailedNodes"])
        assert "960" in json.dumps(found)
