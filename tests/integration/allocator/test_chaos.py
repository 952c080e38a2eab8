"""No slice is given twice or lost, whatever is killed. ``python -m tests.bench allocator-chaos`` is the long form."""

from __future__ import annotations

from pathlib import Path

from tests.integration.allocator.chaos import ASKS, chaos


def test_no_slice_of_six_vendors_is_given_twice_or_lost_while_everything_is_killed(tmp_path: Path) -> None:
    with chaos(tmp_path) as cluster:
        found = cluster.run(binds=60, kills=3)
    assert not found.faults
    assert found.bound.keys() == ASKS.keys()
