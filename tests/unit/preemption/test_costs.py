"""What evictions cost: which of two sets of pods is cheaper, one claim for each digit of the number."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.preemption.costs import NEVER, CostScale, SizeScale
from tests.builders import a_record, a_share, allocated

NOW = 1_800_000_000


def aged(made_at: int | None) -> PodRecord:
    return replace(a_record(name="p"), made_at=made_at)


def evicted(scale: CostScale, *priorities: int, made_at: int | None = NOW) -> int:
    """The cost of a pod of each of these priorities."""
    return sum(scale.of(aged(made_at), each) for each in priorities)


class TestEvictions:
    scale = CostScale([0, 5, 9])

    def test_one_pod_is_cheaper_than_two_of_lower_priority(self) -> None:
        assert evicted(self.scale, 9) < evicted(self.scale, 0, 0)

    def test_of_equally_many_the_ones_with_fewer_of_the_highest_priority_are_cheaper(self) -> None:
        assert evicted(self.scale, 5, 5) < evicted(self.scale, 9, 0)
        assert evicted(self.scale, 9, 0) < evicted(self.scale, 9, 5)
        assert evicted(self.scale, *[0] * 1000, 9) > evicted(self.scale, *[5] * 1001)

    def test_a_lower_priority_is_cheaper_whatever_the_ages(self) -> None:
        assert evicted(self.scale, 0, made_at=None) < evicted(self.scale, 5)
        assert evicted(self.scale, *[0] * 1000, made_at=None) < evicted(self.scale, *[0] * 999, 5)

    def test_of_equal_priorities_the_youngest_are_cheaper_and_unknown_ages_are_the_oldest(self) -> None:
        assert evicted(self.scale, 5, made_at=NOW) < evicted(self.scale, 5, made_at=NOW - 1)
        assert evicted(self.scale, 5, made_at=1) < evicted(self.scale, 5, made_at=None)

    def test_no_set_of_pods_costs_as_much_as_what_cannot_be(self) -> None:
        assert evicted(CostScale(range(100)), *[99] * 100_000, made_at=None) < NEVER


def holding(memory: int = 0, cores: int = 0, cpu: int = 0, *, ending: bool = False) -> int:
    """What it costs that a person deletes a pod that holds so much."""
    requests = (("cpu", cpu), ("memory", 10**18)) if cpu else (("memory", 10**18),)
    record = a_record(allocated(a_share("card-0", memory, cores)), name="p", requests=requests)
    return SizeScale().of(replace(record, terminating=ending), 0)


class TestDeletions:
    def test_one_large_pod_is_cheaper_than_two_small_ones(self) -> None:
        assert holding(1_000_000, 100, 100 * NANO) < 2 * holding(1)

    def test_a_pod_that_ends_anyway_is_cheaper(self) -> None:
        assert holding(1_000_000, 100, 100 * NANO, ending=True) < holding()

    def test_then_memory_counts_then_cores_then_cpus(self) -> None:
        assert holding(1, 100, 100 * NANO) < holding(2)
        assert holding(1, 1, 100 * NANO) < holding(1, 2)
        assert holding(1, 1, 1) < holding(1, 1, 2)
        assert holding(1, 1) < holding(1, 1, 1)
