"""Which cores of one device a container gets: a run of neighbouring ones. Core sets are bit masks, bit 0 for core 0."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=8192)
def run_of(free: int, count: int) -> int:
    """The run to grant of a device's free cores, or 0 where no run is long enough.

    A run that starts at a multiple of its length goes first, as AWS's collectives want it; of those the one in the
    shortest stretch of free cores, then the lowest.
    """
    run = (1 << count) - 1
    starts = [start for start in range(free.bit_length() - count + 1) if free >> start & run == run]
    if not starts:
        return 0
    return run << min(starts, key=lambda start: (start % count > 0, _stretch(free, start), start))


@lru_cache(maxsize=1024)
def longest_run(free: int) -> int:
    """How many neighbouring cores are free at most."""
    length = 0
    while free:
        free &= free >> 1
        length += 1
    return length


def _stretch(free: int, core: int) -> int:
    """How long the stretch of free cores around a free core is."""
    first = last = core
    while first and free >> (first - 1) & 1:
        first -= 1
    while free >> (last + 1) & 1:
        last += 1
    return last - first + 1
