"""Which requests a fault strikes and how often, and how requests are counted."""

from __future__ import annotations

import pytest

from hami_plugins.sandbox.apiserver.faults import Delay, DropConnection, Fault, Faults, ObservedRequest, Refuse
from hami_plugins.sandbox.apiserver.tally import RequestKey, RequestTally

SEEN = ObservedRequest("patch", "nodes", "status", "", "n1", "volcano-vgpu/1.0 (linux)", "agent")


@pytest.mark.parametrize(
    ("fault", "strikes"),
    [
        (Fault(action=DropConnection()), True),
        (Fault(action=DropConnection(), verb="patch", resource="nodes", subresource="status", name="n1"), True),
        (Fault(action=DropConnection(), verb="get"), False),
        (Fault(action=DropConnection(), subresource=""), False),
        (Fault(action=DropConnection(), agent="volcano-vgpu"), True),
        (Fault(action=DropConnection(), agent="kubelet"), False),
        (Fault(action=DropConnection(), user="agent", where=lambda seen: seen.name.endswith("1")), True),
        (Fault(action=DropConnection(), where=lambda seen: seen.namespace == "x"), False),
    ],
)
def test_a_fault_strikes_what_it_names(fault: Fault, strikes: bool) -> None:
    assert fault.strikes(SEEN) is strikes


def test_a_fault_is_used_up() -> None:
    faults = Faults()
    twice = faults.add(Fault(action=DropConnection(), times=2))
    always = faults.add(Fault(action=Refuse(500), times=None))
    found = [faults.strike(SEEN) for _ in range(4)]
    assert found == [DropConnection(), DropConnection(), Refuse(500), Refuse(500)]
    assert (faults.struck(twice), faults.struck(always)) == (2, 2)
    faults.remove(always)
    assert faults.strike(SEEN) is None
    faults.add(Fault(action=Delay(1)))
    faults.clear()
    assert faults.strike(SEEN) is None


def test_counts_are_added_up_by_any_field() -> None:
    requests = RequestTally()
    for verb, code in (("patch", 200), ("patch", 409), ("get", 200), ("delete", 200)):
        requests.add(RequestKey(verb, "nodes", "", code, "a/1", ""))
    assert requests.total() == 4
    assert requests.total(verb="patch", code=409) == 1
    assert requests.writes(resource="nodes") == 3
    requests.clear()
    assert requests.total() == 0


def test_counts_are_bounded() -> None:
    requests = RequestTally()
    for number in range(10_000):
        requests.add(RequestKey("get", "nodes", "", 200, f"agent/{number}", ""))
    assert len(requests.counts()) == 4097
    assert requests.total() == 10_000
