"""The lines of the journal of allocations: read as written, and refused with the member that is wrong."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.charges import ChargeKey, HeldAmount
from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName
from hami_plugins.wire import allocation_journal
from hami_plugins.wire.allocation_journal import (
    AllListed,
    JournalEvent,
    JournalRecord,
    PodEnded,
    PodHeld,
    RunAlive,
    RunBegan,
)

words = st.text(min_size=1, max_size=8)
amounts = st.builds(
    HeldAmount,
    uid=words.map(PodUid),
    pod=words,
    node=st.text(max_size=8).map(NodeName),
    key=st.builds(ChargeKey, words, st.text(max_size=8), st.text(max_size=8), words.map(VendorName)),
    devices=st.fractions(min_value=0, max_value=64, max_denominator=10**6),
    memory=st.integers(0, 2**31 - 1).map(MiB),
)
events: st.SearchStrategy[JournalEvent] = st.one_of(
    st.builds(RunBegan, st.integers(0, 2**45)),
    st.just(AllListed()),
    st.just(RunAlive()),
    amounts.map(PodHeld),
    st.builds(PodEnded, words.map(PodUid), words.map(VendorName)),
)
HELD = {
    "journal": "hami-plugins.io/allocation-journal/v1",
    "event": "held",
    "run": "allocator-7 1790000000000",
    "elapsedMilliseconds": 15000,
    "uid": "u",
    "namespace": "team",
    "pod": "train-0",
    "node": "n1",
    "queue": "gold",
    "owner": "Job/train",
    "vendor": "NVIDIA",
    "devices": "1/4",
    "memoryMiB": 10240,
}


@given(st.builds(JournalRecord, run=words, elapsed_milliseconds=st.integers(0, 2**45), event=events))
def test_a_line_is_read_as_it_was_written(record: JournalRecord) -> None:
    assert allocation_journal.decode(json.loads(json.dumps(allocation_journal.encode(record))), "line:") == record


def test_a_line_is_spelled_as_documented() -> None:
    key = ChargeKey("team", "gold", "Job/train", VendorName("NVIDIA"))
    amount = HeldAmount(
        uid=PodUid("u"), pod="train-0", node=NodeName("n1"), key=key, devices=Fraction(1, 4), memory=MiB(10_240)
    )
    record = JournalRecord(run="allocator-7 1790000000000", elapsed_milliseconds=15_000, event=PodHeld(amount))
    assert allocation_journal.encode(record) == HELD


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"journal": "v9"}, "j.jsonl:3: journal: expected hami-plugins.io/allocation-journal/v1 (in 'v9')"),
        ({"event": "grown"}, "j.jsonl:3: event: expected began, listed, held, ended or alive"),
        ({"run": ""}, "j.jsonl:3: run: is missing"),
        ({"uid": None}, "j.jsonl:3: uid: is missing"),
        ({"elapsedMilliseconds": -1}, "elapsedMilliseconds: expected an integer that is not negative"),
        ({"memoryMiB": None}, "memoryMiB: expected an integer that is not negative"),
        *(
            ({"devices": bad}, "expected a number of devices, such as 2 or 1/4")
            for bad in ("x", "1/0", "1/", "-1", "1/x", "²")
        ),
    ],
)
def test_a_wrong_member_is_named_with_its_value(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WireError) as refused:
        allocation_journal.decode({**HELD, **change}, "j.jsonl:3:")
    assert words in str(refused.value)
