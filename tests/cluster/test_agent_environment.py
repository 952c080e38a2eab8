"""A runtime without CDI: the slice stands in the answer to ``Allocate``, or the pod is refused, never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.agents import NodeAgent, card, uuid
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.slices import allocated, amiss, gpu, pods, rejected, served, settled, volcano_pod, wait_serving
from tests.cluster.volcano import Volcano

LONGER: Final = f"{uuid(1)}-a"
"""A UUID that contains another card's. Volcano's cache takes one for the other."""


@pytest.fixture(scope="module")
def plain_agent(node: Node, volcano: Volcano) -> Iterator[NodeAgent]:
    """An agent that is configured for a runtime that passes no CDI names on, with three cards."""
    agent = NodeAgent(node, "plain-agent", settings={"cdi": "never"})
    agent.cards(card(1), card(2), {**card(3), "uuid": LONGER})
    try:
        agent.start(20)
        wait_serving(node.plane)
        yield agent
    finally:
        agent.stop()


def test_a_card_whose_uuid_contains_another_is_left_out(plain_agent: NodeAgent) -> None:
    registered = [entry.partition(",")[0] for entry in plain_agent.annotation().split(":") if entry]
    assert registered == [uuid(1), uuid(2)]
    assert f"contains that of {uuid(1)}" in plain_agent.said("cards_found")[-1]["passed_over"][LONGER]


def test_a_pod_has_its_slice_without_cdi(plain_agent: NodeAgent, control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(pods(namespace), volcano_pod("one", gpu(memory=4096, cores=30)))
    (found,) = settled(control_plane, namespace, ["one"])
    assert not rejected(found)
    assert not amiss(control_plane, found)
    assert allocated(found)["main"][0][1:] == ("4096", "30")


def test_pods_of_one_shape_without_cdi_get_their_own_slices_or_none(
    plain_agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    found, _ = served(control_plane, namespace, [volcano_pod(f"p{at}", gpu(memory=1000 + at)) for at in range(20)])
    running = [each for each in found if not rejected(each)]
    assert running
    assert not [problem for each in running for problem in amiss(control_plane, each)]
    assert not [text for each in found if (text := rejected(each)) and "Turn CDI on" not in text]
