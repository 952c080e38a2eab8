"""When the utilisation of a region is read again, and which of two reads counts."""

from __future__ import annotations

import pytest

from tests.shared_regions import Booked, Slot
from tests.unit.volcano_vgpu.monitor.test_join import region

BUSY, IDLE = Booked(utilization=40), Booked(utilization=0)
EXITED = 0


@pytest.mark.parametrize(
    ("slots", "silent"),
    [
        ([Slot(booked=[BUSY])], False),
        ([Slot(booked=[IDLE])], True),
        ([Slot(pid=1, booked=[BUSY]), Slot(pid=2, booked=[IDLE])], True),
        ([Slot(pid=1, booked=[BUSY]), Slot(pid=2, booked=[IDLE], status=EXITED)], False),
        ([], False),
    ],
    ids=["busy", "idle", "one of two is idle", "an idle one has exited", "no process"],
)
def test_a_region_is_silent_where_a_process_that_has_not_exited_computes_nothing(
    slots: list[Slot], silent: bool
) -> None:
    assert region(*slots).silent is silent


def test_the_higher_utilisation_of_two_reads_counts_and_the_rest_is_that_of_the_first() -> None:
    first = region(Slot(pid=1, booked=[Booked(data=8, utilization=0)]), Slot(pid=2, booked=[BUSY]), unsettled=[1])
    again = region(Slot(pid=1, booked=[Booked(data=9, utilization=30)]), Slot(pid=2, booked=[IDLE]))
    both = first.with_busiest(again)
    assert [process.devices[0].utilization for process in both.processes] == [30, 40]
    assert both.processes[0].devices[0].data == 8
    assert (both.header, both.tail, both.unsettled) == (first.header, first.tail, first.unsettled)
