"""What the modes of the allocator imply."""

from __future__ import annotations

from hami_plugins.allocations.mode import PreemptionMode


def test_pods_are_evicted_for_others_in_every_mode_of_preemption_but_off() -> None:
    assert {mode.value for mode in PreemptionMode if mode.evicts} == {"scheduler", "full"}
    assert not PreemptionMode("off").evicts
