"""Policies of single pods decide in the live server as in a plan of the same cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hami_plugins import api
from hami_plugins.model.decisions import Placed
from tests import raw_objects
from tests.integration.allocator.hami_pods import ALLOCATED, a_holder, a_node, a_pod, bind, call, hami, notes_of
from tests.waiting import wait_for

NODE_POLICY, DEVICE_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"
POLICIES: tuple[dict[str, str], ...] = (
    {},
    {NODE_POLICY: "spread"},
    {NODE_POLICY: "binpack", DEVICE_POLICY: "binpack"},
    {DEVICE_POLICY: "spread"},
    {DEVICE_POLICY: "mutex"},
    {DEVICE_POLICY: "topology-aware"},
    {DEVICE_POLICY: "binpack,numa"},
    {DEVICE_POLICY: "binpack", WEIGHTS: "slot=0,core=0,memory=1"},
    {DEVICE_POLICY: "binpack", WEIGHTS: "slot=1,core=0,memory=0"},
)
NODES = ("n1", "n2", "n3")


def a_cluster() -> list[dict[str, Any]]:
    """One node empty; one with few slots and much memory taken on one card, and the reverse on the other; one full."""
    held = [a_holder("large", "n2", "GPU-n2-0", 30_000)]
    held += [a_holder(f"small-{at}", "n2", "GPU-n2-1", 100) for at in range(4)]
    return [*held, *(a_holder(f"whole-{at}", "n3", f"GPU-n3-{at}", 40_960) for at in range(2))]


def test_each_policy_of_a_pod_gives_it_the_devices_of_a_plan(tmp_path: Path) -> None:
    chosen: list[str] = []
    with hami(tmp_path, *map(a_node, NODES)) as (place, client):
        place.put(*a_cluster())
        (probe,) = place.create(a_pod("probe", 40_900))
        wait_for(lambda: call(client, "filter", Pod=probe, NodeNames=NODES)["NodeNames"] == ["n1"])
        for at, notes in enumerate(POLICIES):
            asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}, image="i")
            (pod,) = place.create(
                raw_objects.pod(f"p{at}", asks, metadata={"namespace": "default", "annotations": notes})
            )
            objects = [*place.server.objects("nodes"), *place.server.objects("pods")]
            planned = api.decide(api.load_snapshot([each for each in objects if each is not pod]), api.admit(pod))
            assert isinstance(planned, Placed)
            fits = call(client, "filter", Pod=pod, NodeNames=NODES)["NodeNames"]
            scores = {each["Host"]: each["Score"] for each in call(client, "prioritize", Pod=pod, NodeNames=fits)}
            best = max(fits, key=lambda name: (scores[name], name == planned.node))
            assert best == planned.node, notes
            assert bind(client, pod, best) == ""
            text = notes_of(place.server.get("pods", f"p{at}", "default"))[ALLOCATED]
            assert text.split(",")[0] == planned.shares()[0].device, notes
            chosen.append(text.split(",")[0])
            place.server.delete("pods", f"p{at}", "default", grace=0)
            wait_for(lambda: call(client, "filter", Pod=probe, NodeNames=NODES)["NodeNames"] == ["n1"])
    assert len(set(chosen)) >= 3, "the policies differ"
    by_memory, by_slots = chosen[-2:]
    assert (by_memory, by_slots) == ("GPU-n2-0", "GPU-n2-1")


@pytest.mark.parametrize("text", ["slot=1", "slot=a,core=1,memory=1"])
def test_weights_that_cannot_be_read_are_refused_with_the_reason_at_admission_or_filter(
    tmp_path: Path, text: str
) -> None:
    with hami(tmp_path, a_node("n1")) as (place, client):
        with pytest.raises(Exception, match="device-scoring-weights"):
            place.create(a_pod("p", notes={WEIGHTS: text}))
        pod = a_pod("p", notes={WEIGHTS: text}, schedulerName="hami-scheduler")
        pod["metadata"]["uid"] = "u"
        reply = call(client, "filter", Pod=pod, NodeNames=["n1"])
    assert "device-scoring-weights" in reply["FailedAndUnresolvableNodes"]["n1"]
