"""What the driver's counters mean for allocation."""

from __future__ import annotations

from neuron_topology.core.agent.sensors import DeviceErrors, Sensors, health_of


def test_uncorrected_errors_of_memory_and_sram_exclude_a_device() -> None:
    sensors = Sensors((DeviceErrors(index=0, memory=1), DeviceErrors(index=1, sram=1), DeviceErrors(index=2)))
    assert health_of(sensors, [0, 1, 2]).devices == {0, 1}


def test_a_repairable_error_only_makes_a_device_the_second_choice() -> None:
    found = health_of(Sensors((DeviceErrors(index=0, repairable=3), DeviceErrors(index=1))), [0, 1])
    assert not found.devices
    assert found.repaired == {0}


def test_a_broken_device_is_not_also_a_repaired_one() -> None:
    found = health_of(Sensors((DeviceErrors(index=0, memory=1, repairable=3),)), [0])
    assert found.devices == {0}
    assert not found.repaired


def test_a_listed_device_that_the_driver_has_lost_is_broken() -> None:
    assert health_of(Sensors((DeviceErrors(index=0),)), [0, 5]).devices == {5}


def test_of_two_sources_the_larger_count_holds() -> None:
    driver = Sensors((DeviceErrors(index=0, sram=2), DeviceErrors(index=1, repairable=3)))
    joined = driver.joined([DeviceErrors(index=0, memory=1, sram=1), DeviceErrors(index=9, memory=1)])
    assert joined.devices == (DeviceErrors(index=0, memory=1, sram=2), DeviceErrors(index=1, repairable=3))
