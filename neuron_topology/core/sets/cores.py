"""Which cores of one device a container gets: a run of neighbouring ones. Core sets are bit masks, bit 0 for core 0."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=8192)
def run_of(free: int, count: int) -> int:
    """The run to allocate of a device's free cores, or 0 where no run is long enough.

    A run that starts at a multiple of its length goes first, as AWS's collectives want it; of those the one in the
    shortest stretch of free cores, then the lowest.
    """
    run = (1 << count) - 1
    starts = [start for start in range(free.bit_length()) if free >> start & run == run]
    if not starts:
        return 0
    return run << min(starts, key=lambda start: (start % count > 0, _others_around(free, start), start))


@lru_cache(maxsize=1024)
def longest_run(free: int) -> int:
    """How many neighbouring cores are free at most."""
    return max(map(len, f"{free:b}".split("0")))


def _others_around(free: int, core: int) -> int:
    """How many other free cores are in one stretch with a free core."""
    first = last = core
    while first and free >> (first - 1) & 1:
        first -= 1
    while free >> (last + 1) & 1:
        last += 1
    return last - first
