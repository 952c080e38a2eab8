"""What pods hold whose slices were resized, as every reader of annotations has it."""

from __future__ import annotations

import pytest

from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.resizes import obstacle, with_memory
from hami_plugins.model.devices import GroupMember, Instance, Mark, SlicePlacement
from hami_plugins.model.units import MiB
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import objects
from tests.builders import a_share, allocated
from tests.unit.allocations.objects import a_pod, bound

BOOKED = "hami-plugins.io/booked-memory"


def test_what_is_booked_counts_and_the_record_tells_of_it() -> None:
    raw = bound(a_pod(annotations={BOOKED: "main=20000"}), "n1", "GPU-n1-0,NVIDIA,10000,0:;")
    record, problems = RecordReader(Registry([SPEC])).record(objects.pod(raw))
    assert [share.memory for each in record.allocations for share in each.shares] == [20_000]
    assert (record.resize, problems) == ("booked main=20000 MiB", ())


def test_what_cannot_be_read_is_a_problem_and_the_allocation_counts() -> None:
    raw = bound(a_pod(annotations={BOOKED: "lots"}), "n1", "GPU-n1-0,NVIDIA,10000,0:;")
    record, problems = RecordReader(Registry([SPEC])).record(objects.pod(raw))
    assert [share.memory for each in record.allocations for share in each.shares] == [10_000]
    assert [each.place for each in problems] == ["pod team/p"]


@pytest.mark.parametrize("mark", [None, GroupMember("g")])
def test_only_the_named_container_changes(mark: Mark | None) -> None:
    held = (allocated(a_share(memory=1, mark=mark)), allocated(a_share(memory=2)))
    found = with_memory(held, ("a", "b"), {"a": MiB(5)})
    assert [each.shares[0].memory for each in found] == [5, 2]
    assert found[0].shares[0].mark == mark


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (allocated(), "it holds 0 cards; only a container with one card can be resized"),
        (allocated(a_share("a"), a_share("b")), "it holds 2 cards; only a container with one card can be resized"),
        (
            allocated(a_share(mark=Instance("1g.5gb", SlicePlacement(0, 1)))),
            "it holds a hardware partition, whose size is fixed",
        ),
    ],
)
def test_what_cannot_be_resized_stays_as_it_is(held: object, why: str) -> None:
    assert obstacle(held) == why  # type: ignore[arg-type]
    assert with_memory((held,), ("a",), {"a": MiB(5)}) == (held,)  # type: ignore[arg-type]
