"""Whatever the content of a Device object: the plan has an answer, and its writes settle."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_plugins.wire import koordinator_devices
from koordinator_adapter.core.devices import sums
from koordinator_adapter.core.devices.publication import CreateObject, KeepObject, UpdateObject
from koordinator_adapter.core.devices.wanted import PUBLISHER, PUBLISHER_LABEL
from tests.unit.koordinator_adapter.devices.nodes import LATER, a_node, card, devices, planned

JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 70), st.text(max_size=5), st.sampled_from(["GPU-0", "gpu"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "id", "minor", "health", "resources", "labels", "topology"]), inner),
    ),
    max_leaves=10,
)
CARDS = st.lists(st.integers(0, 9), max_size=6, unique=True).map(lambda found: [card(at) for at in found])
ILL = st.lists(st.integers(0, 9), max_size=3)
HELD = st.frozensets(st.integers(0, 9), max_size=3)


def stored(body: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(body)
    found["metadata"] |= {"resourceVersion": "3"}
    return found


@given(CARDS, JUNK, JUNK, HELD)
@settings(max_examples=300, deadline=None)
def test_whatever_stands_there_is_left_or_written_whole(
    cards: list[dict[str, Any]], listed: Any, annotations: Any, held: frozenset[int]
) -> None:
    node = a_node(*cards)
    live = {
        "metadata": {"name": "n", "labels": {PUBLISHER_LABEL: PUBLISHER}, "annotations": annotations},
        "spec": {"devices": listed},
    }
    step = planned(node, live, held=held).step
    if isinstance(step, KeepObject):
        return
    body = dict(step.body)
    assert {f"GPU-{each['index']}" for each in cards} <= set(devices(body))
    assert planned(node, stored(body), held=held, now=LATER).step == KeepObject()


@given(st.lists(st.tuples(CARDS, ILL, HELD), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_in_any_history_numbers_are_unique_kept_and_each_step_is_one_write(
    history: list[tuple[list[dict[str, Any]], list[int], frozenset[int]]],
) -> None:
    live: dict[str, Any] | None = None
    known: dict[str, int] = {}
    for cards, ill, held in history:
        node = a_node(*({**each, "health": each["index"] not in ill} for each in cards))
        step = planned(node, live, held=held).step
        if isinstance(step, CreateObject | UpdateObject):
            live = stored(dict(step.body))
        assert planned(node, live, held=held, now=LATER).step == KeepObject()
        if live is None:
            continue
        found = {name: each["minor"] for name, each in devices(live).items()}
        assert len(set(found.values())) == len(found)
        assert all(found[name] == minor for name, minor in known.items() if name in found)
        healthy = {name for name, each in devices(live).items() if each["health"]}
        assert healthy == {f"GPU-{each['index']}" for each in cards if each["index"] not in ill}
        known = found
        total = sums.sums_of(koordinator_devices.decode(live))
        assert total.get("koordinator.sh/gpu.shared", 0) == 100 * len(healthy)
