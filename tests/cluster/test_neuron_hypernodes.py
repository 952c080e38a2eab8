"""HyperNodes of our making on the real Volcano: jobs stay in one part of the network, on devices that are linked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from neuron_topology.core.names import DEVICES, LAYER_LABELS, ZONE_LABEL
from tests.cluster.allocator import command
from tests.cluster.card_nodes import NODES
from tests.cluster.dry_runs import NAMED_RESOURCES, patched, without_kubelets
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import PRODUCT, Machines, NeuronAllocator, Submissions
from tests.cluster.objects import pod
from tests.cluster.slices import jobs, pods
from tests.cluster.volcano import Volcano, open_queue
from tests.cluster.waiting import wait_until

HYPERNODES: Final = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
LEAF: Final = "network-layer-3"


@pytest.fixture(scope="module")
def allocator(volcano: Volcano) -> Iterator[NeuronAllocator]:
    with NeuronAllocator(volcano, plugins=["network-topology-aware"]) as server:
        yield server


@pytest.fixture
def machines(control_plane: ControlPlane) -> Iterator[Machines]:
    """Two leaves of two machines each below one switch, with their HyperNodes."""
    made = Machines(control_plane)
    with made:
        for leaf in ("leaf-a", "leaf-b"):
            layers = dict(zip(LAYER_LABELS, ("spine", "row", leaf), strict=True))
            made.boot(2, **layers, **{ZONE_LABEL: "use1-az1"})
        hypernodes(control_plane, "apply", "--prune")
        yield made
        control_plane.api.delete(HYPERNODES)


@pytest.fixture
def submitted(control_plane: ControlPlane, machines: Machines, namespace: str) -> Submissions:
    return Submissions(control_plane, machines, namespace)


def hypernodes(plane: ControlPlane, *arguments: str) -> list[str]:
    """The steps that the command made, or would make; ``diff`` fails where there is any."""
    kubeconfig = ("--kubeconfig", str(plane.admin_kubeconfig), "-o", "json")
    answer = json.loads(command("hypernodes", *arguments, *kubeconfig, product=PRODUCT))
    assert answer["conflicts"] == []
    return [f"{step['verb']} {step['name']}" for step in answer["steps"]]


def within(tier: str) -> dict[str, str]:
    return {"mode": "hard", "highestTierName": tier}


@pytest.mark.usefixtures("allocator")
def test_a_job_that_has_to_stay_below_one_switch_waits_rather_than_span_two(
    machines: Machines, submitted: Submissions
) -> None:
    first, second, *others = machines.cards
    submitted.pod("busy", 16, nodeSelector={"kubernetes.io/hostname": first})
    submitted.wait_bound("busy", 1)
    submitted.gang("near", 2, 16, networkTopology=within(LEAF))
    bound = submitted.wait_bound("near", 2)
    assert sorted(each["spec"]["nodeName"] for each in bound) == sorted(others)
    submitted.gang("parts", 2, 8, networkTopology=within(LEAF))
    bound = submitted.wait_bound("parts", 2)
    assert {each["spec"]["nodeName"] for each in bound} == {second}
    assert not machines.faults()
    assert not machines.unlinked()


@pytest.mark.usefixtures("allocator")
def test_a_job_that_no_leaf_holds_waits_and_one_that_may_span_the_zone_goes(
    machines: Machines, submitted: Submissions
) -> None:
    submitted.gang("near", 3, 16, networkTopology=within(LEAF))
    submitted.gang("wide", 3, 16, networkTopology=within("zone"))
    submitted.wait_bound("wide", 3)
    assert not any(each["spec"].get("nodeName") for each in submitted.members("near"))
    assert not machines.faults()


@pytest.mark.usefixtures("volcano")
def test_volcano_reads_what_is_written_and_prune_takes_what_has_gone(
    machines: Machines, control_plane: ControlPlane
) -> None:
    def leaves() -> dict[str, int | None]:
        """The leaves by their labels, with the nodes that Volcano's controller counts in them."""
        every = control_plane.api.items(HYPERNODES)
        found = [each for each in every if each["spec"].get("tierName") == LEAF]
        label = LAYER_LABELS[-1]
        return {each["metadata"]["labels"][label]: each.get("status", {}).get("nodeCount") for each in found}

    wait_until(lambda: leaves() == {"leaf-a": 2, "leaf-b": 2}, "Volcano counts two nodes in each")
    assert hypernodes(control_plane, "diff") == []
    foreign = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "of-another-pool"}}}]}
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    control_plane.api.create(HYPERNODES, {**kind, "metadata": {"name": "somebody-elses"}, "spec": foreign})
    for name in list(machines.cards)[2:]:
        control_plane.api.delete(f"{NODES}/{name}")
    hypernodes(control_plane, "apply")
    assert leaves().keys() == {"leaf-a", "leaf-b"}
    (step,) = hypernodes(control_plane, "apply", "--prune")
    assert step.startswith("delete ")
    assert leaves().keys() == {"leaf-a"}
    assert hypernodes(control_plane, "diff", "--prune") == []
    assert control_plane.api.find(f"{HYPERNODES}/somebody-elses")


@pytest.mark.usefixtures("allocator")
def test_a_gang_of_torchx_waits_for_room_below_one_switch_and_goes_there(
    machines: Machines, submitted: Submissions, control_plane: ControlPlane
) -> None:
    """Two machines are free, so that there is room for all four pods, but not below one switch."""
    first, second, third, _ = machines.cards
    for node in (first, third):
        submitted.pod(f"busy-{node}", 16, nodeSelector={"kubernetes.io/hostname": node})
    submitted.wait_bound("busy", 2)
    open_queue(control_plane, "test")
    control_plane.api.create(jobs(submitted.namespace), without_kubelets(patched(NAMED_RESOURCES)["gang-0"]))
    wait_until(
        lambda: len(submitted.members("gang")) == 4, "the gang has its pods", show=lambda: submitted.told("gang")
    )
    later = pod("later", nodeSelector=dict(machines.selector), schedulerName="volcano")
    control_plane.api.create(pods(submitted.namespace), later)
    submitted.wait_bound("later", 1)
    assert not any(each["spec"].get("nodeName") for each in submitted.members("gang"))
    control_plane.api.delete(f"{pods(submitted.namespace)}/busy-{first}", grace=0)
    bound = submitted.wait_bound("gang", 4)
    assert sorted(each["spec"]["nodeName"] for each in bound) == [first, first, second, second]
    assert {each["spec"]["containers"][0]["resources"]["requests"][DEVICES] for each in bound} == {"8"}
    assert not machines.faults()
    assert not machines.unlinked()
