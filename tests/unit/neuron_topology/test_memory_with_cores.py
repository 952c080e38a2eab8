"""The device memory that goes with cores: told in plans, and never allocated."""

from __future__ import annotations

import pytest

from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.plan.slices import memory_with_cores
from neuron_topology.core.vendor import SPEC
from tests.unit.neuron_topology.nodes import TRN1, TRN2, a_neuron_node


@pytest.mark.parametrize(
    ("kind", "cores", "gib"), [(TRN1, 1, 16), (TRN1, 2, 32), (TRN2, 1, 24), ("inf1.6xlarge", 3, 6)]
)
def test_a_core_has_its_share_of_the_devices_memory(kind: str, cores: int, gib: int) -> None:
    device = SPEC.inventory(SPEC, a_neuron_node(kind)).devices[0]
    assert memory_with_cores(CoreShare(cores), device) == gib * 1024
    assert device.memory == MiB(0)


def test_the_memory_of_an_unknown_type_is_what_the_machine_lists() -> None:
    listed = '[{"neuron_device": 0, "nc_count": 2, "memory_size": 4294967296}]'
    node = a_neuron_node("trn9.small", devices=1, cores=2, annotations={"hami-plugins.io/neuron-ls": listed})
    assert memory_with_cores(CoreShare(1), SPEC.inventory(SPEC, node).devices[0]) == 2048


def test_nothing_is_told_of_a_device_whose_memory_is_not_known() -> None:
    device = SPEC.inventory(SPEC, a_neuron_node("trn9.small", devices=1, cores=2)).devices[0]
    assert memory_with_cores(CoreShare(1), device) == 0
    assert memory_with_cores(CoreShare(1), None) == 0
