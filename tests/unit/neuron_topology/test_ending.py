"""Capacity Blocks end: jobs that say how long they run do not begin where their machine goes before that."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.marks import mark
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY, declared, end_of, objection, seconds_of
from tests.unit.allocator.products import product
from tests.unit.neuron_topology.server.cluster import a_pod

END = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("90m", 5400), ("4h", 14_400), ("1h30m", 5400), ("2d", 172_800)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == declared({DURATION_KEY: text}) == seconds


@pytest.mark.parametrize("text", ["", "soon", "4 h", "-1h", "h", "1.5h", "4hours"])
def test_what_is_no_duration_is_told_and_counts_as_none(text: str) -> None:
    assert declared({DURATION_KEY: text}) is None
    with pytest.raises(ValueError, match="is not a duration; write 90m"):
        seconds_of(text)


def test_ends_are_read_from_annotations_and_labels() -> None:
    assert end_of({END_KEY: "2027-01-15T08:00:00Z"}, {}) == END
    assert end_of({}, {END_KEY: "1800000000"}) == END
    assert end_of({END_KEY: "1800000001"}, {END_KEY: "1800000000"}) == END + 1
    assert end_of({}, {}) is None


@pytest.mark.parametrize("text", ["tomorrow", "2027-01-15T08:00:00", "08:00"])
def test_what_is_no_moment_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time, so long jobs are not kept off the node"):
        end_of({END_KEY: text}, {})


def test_a_job_that_is_through_in_time_begins_and_one_that_is_not_does_not() -> None:
    assert objection(END, 3600, END - 3600 - 1800, 1800) == ""
    said = objection(END, 3600, END - 3600 - 1799, 1800)
    assert "the Capacity Block ends at 2027-01-15T08:00:00Z, 30 minutes before that its machines go" in said
    assert "1.0 h" in said


def test_what_a_pod_says_itself_comes_before_what_its_job_says() -> None:
    assert declared({}, {DURATION_KEY: "1h"}) == 3600
    assert declared({DURATION_KEY: "30m"}, {DURATION_KEY: "1h"}) == 1800
    assert declared({DURATION_KEY: "soon"}, {DURATION_KEY: "1h"}) is None


def test_a_duration_that_means_nothing_is_refused_when_the_pod_is_made() -> None:
    answer = mark(a_pod(annotations={DURATION_KEY: "long"}), product())
    assert "'long' is not a duration" in getattr(answer, "reason", "")
