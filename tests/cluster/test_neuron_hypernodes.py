"""HyperNodes of our making on the real Volcano: jobs stay in one part of the network, on devices that are linked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from neuron_topology.names import LAYER_LABELS, ZONE_LABEL
from tests.cluster.grants import command
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import PRODUCT, Machines, NeuronGrants, Submissions
from tests.cluster.volcano import Volcano

HYPERNODES: Final = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
LEAF: Final = "network-layer-3"


@pytest.fixture(scope="module")
def grants(volcano: Volcano) -> Iterator[NeuronGrants]:
    with NeuronGrants(volcano, plugins=["network-topology-aware"]) as server:
        yield server


@pytest.fixture
def machines(control_plane: ControlPlane) -> Iterator[Machines]:
    """Two leaves of two machines each below one switch, with their HyperNodes."""
    made = Machines(control_plane)
    with made:
        for leaf in ("leaf-a", "leaf-b"):
            layers = dict(zip(LAYER_LABELS, ("spine", "row", leaf), strict=True))
            made.boot(2, **layers, **{ZONE_LABEL: "use1-az1"})
        kubeconfig = ("--kubeconfig", str(control_plane.admin_kubeconfig))
        command("hypernodes", "apply", "--prune", *kubeconfig, product=PRODUCT)
        assert command("hypernodes", "diff", "-o", "json", *kubeconfig, product=PRODUCT)
        yield made
        control_plane.api.delete(HYPERNODES)


@pytest.fixture
def submitted(control_plane: ControlPlane, machines: Machines, namespace: str) -> Submissions:
    return Submissions(control_plane, machines, namespace)


def within(tier: str) -> dict[str, str]:
    return {"mode": "hard", "highestTierName": tier}


@pytest.mark.usefixtures("grants")
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


@pytest.mark.usefixtures("grants")
def test_a_job_that_no_leaf_holds_waits_and_one_that_may_span_the_zone_goes(
    machines: Machines, submitted: Submissions
) -> None:
    submitted.gang("near", 3, 16, networkTopology=within(LEAF))
    submitted.gang("wide", 3, 16, networkTopology=within("zone"))
    submitted.wait_bound("wide", 3)
    assert not any(each["spec"].get("nodeName") for each in submitted.members("near"))
    assert not machines.faults()
