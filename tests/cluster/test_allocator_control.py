"""What the same comes to without us: the faults that ``test_allocator`` shows to be cured, on the same Volcano."""

from __future__ import annotations

from typing import Final

from tests.cluster.agents import Numbers
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import MEMBERS, Case, seconds_to_bound, submit_waiting
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.volcano import Volcano

TRIES: Final = 12


def test_without_us_a_gang_that_had_to_wait_is_bound_with_the_cards_of_an_earlier_try(
    volcano: Volcano, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    volcano.restart_scheduler()
    with Pool(control_plane) as pool:
        pool.add(MEMBERS)
        case = Case(control_plane, pool, namespace)
        for at in range(TRIES):
            pool.touch()
            name = f"gang-{at}"
            submit_waiting(case, name)
            seconds = seconds_to_bound([(case, name)], heal=True)
            if faults := pool.faults():
                numbers.add("gang that had to wait, without us: faults in its allocations", str(len(faults)), "")
                numbers.add("gang that had to wait, without us: room to bound", f"{seconds:.1f} s", "")
                return
            control_plane.clear_namespace(namespace)
    raise AssertionError(f"{TRIES} gangs had to wait, and each got the cards of its own nodes")
