"""The Neuron allocator's metrics with the real Volcano: alerts and dashboard are tried on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.kubernetes import ControlPlane
from tests.cluster.monitored import HAMI_ONLY, recorded
from tests.cluster.neuron import Machines, NeuronAllocator, Submissions
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until


@pytest.fixture
def allocator(volcano: Volcano) -> Iterator[NeuronAllocator]:
    with NeuronAllocator(volcano) as server:
        yield server


@pytest.fixture
def machines(control_plane: ControlPlane) -> Iterator[Machines]:
    made = Machines(control_plane)
    with made:
        yield made


def test_what_is_scraped_is_what_dashboard_and_alerts_are_tried_on(
    allocator: NeuronAllocator, machines: Machines, control_plane: ControlPlane, namespace: str, *, update_golden: bool
) -> None:
    """The recorded scrape has the names of a real one; it includes a gang."""
    submitted = Submissions(control_plane, machines, namespace)
    machines.boot(2)
    submitted.gang("train", 3, 8)
    submitted.wait_bound("train", 3)
    submitted.pod("alone", 4)
    submitted.wait_bound("alone", 1)
    replica = allocator.replica
    wait_until(lambda: replica.metric("hami_allocator_gangs", state="complete") == 1, "the gang is seen to be complete")
    assert replica.metric("hami_allocator_gang_admission_seconds_count") == 1
    assert replica.metric("hami_allocator_gang_partial_starts_total") == 0
    assert replica.metric("neuron_devices", state="held") == 28
    recorded("allocator", replica.port, update=update_golden, without=HAMI_ONLY)
