"""Times that others write: any text gives a moment, nothing, or the error that its reader promises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hami_plugins.allocations.writers import written_later
from hami_plugins.errors import WireError
from hami_plugins.kube.leases import holder_of
from hami_plugins.wire import node_lock, objects
from neuron_topology.core.capacity_block_end import END_KEY, end_of, objection
from volcano_vgpu.agent.bookkeeper import bound_at
from volcano_vgpu.agent.scheduler import leader_of
from volcano_vgpu.core.publication import touched_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "volcano.sh/vgpu-ids-new"

offsets = st.sampled_from(["Z", "+00:00", "-23:59", "+23:59", "+14:00", "", "z", "+24:00", " "])
days = st.sampled_from(["0001-01-01", "1970-01-01", "2026-02-30", "9999-12-31", "0000-01-01", "2026-W01-1", "20260101"])
hours = st.sampled_from(["T00:00:00", "T23:59:59", "T23:59:60", "T24:00:00", " 12:00:00.123456789", "T12", ""])
near = st.builds("{}{}{}".format, days, hours, offsets)
valid = st.datetimes(timezones=st.just(UTC)).map(lambda each: each.isoformat())
times = near | valid | st.text(max_size=40) | st.from_regex(r"\d{1,12}", fullmatch=True)

LAST, FIRST = "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"


@given(text=times)
def test_the_times_of_objects_and_locks(text: str) -> None:
    found = objects.seconds(text)
    assert found is None or isinstance(found, int)
    try:
        assert node_lock.parse("lock", text).since.tzinfo is not None
    except WireError:
        return


@given(text=times, seconds=st.sampled_from([15, 0, -1, 1e12, "x", None, float("inf"), float("nan")]))
@example(text="9999-12-31T23:59:59Z", seconds=15)
@example(text=FIRST, seconds=-1)
def test_who_holds_a_lease_and_whether_that_is_over(text: str, seconds: Any) -> None:
    spec = {"holderIdentity": "me", "renewTime": text, "acquireTime": text, "leaseDurationSeconds": seconds}
    leader = leader_of({"spec": spec})
    assert leader is not None
    assert leader.since is None or min(leader.since, NOW) <= NOW
    try:
        holder = holder_of({"spec": spec})
    except WireError:
        return
    assert holder is not None
    assert holder.expired(NOW) in (True, False)


@given(bound=times, written=times)
@example(bound="9999-12-31T23:59:59Z", written="9999-12-31T23:59:59Z")
@example(bound=FIRST, written=LAST)
def test_who_wrote_an_annotation_later(bound: str, written: str) -> None:
    entry = {"manager": "m", "time": written, "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{KEY}": {}}}}}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
    raw = {"metadata": {"managedFields": [entry]}, "status": {"conditions": [condition]}}
    assert isinstance(written_later(raw, [KEY]), str)


@given(text=times)
@example(text=LAST)
@example(text=FIRST)
def test_when_a_node_was_written_and_a_pod_was_bound(text: str) -> None:
    touched = touched_at({"metadata": {"annotations": {"volcano.sh/vgpu-touched": f"{text} why"}}})
    assert touched is None or touched > NOW or touched + timedelta(days=1) > touched
    bound = bound_at({"volcano.sh/bind-time": text}, NOW)
    assert bound is None or bound <= NOW + timedelta(days=1)


@given(text=times, duration=st.floats(0, 1e14))
@example(text=LAST, duration=1e14)
@example(text=FIRST, duration=0.0)
@example(text="9999-12-31T23:59:59Z", duration=1e14)
def test_when_a_capacity_block_ends(text: str, duration: float) -> None:
    try:
        end = end_of({END_KEY: text}, {})
    except ValueError:
        return
    if end is not None:
        assert isinstance(objection(end, duration, NOW.timestamp(), 1800.0), str)
