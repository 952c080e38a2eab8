"""The update that records the cards of a pod."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.wire.admission_review import Allowed
from hami_plugins.wire.koordinator import ALLOCATED_KEY, MEMORY, SHARED
from koordinator_adapter.core.admission.resolution import resolve
from koordinator_adapter.core.translation.vocabulary import ISOLATION, VISIBLE
from tests.unit.koordinator_adapter.admission.asking import POLICY, admitted, annotated, change, patched, reason
from tests.unit.koordinator_adapter.written import pod

RECORD = '{"gpu":[{"minor":0,"id":"GPU-0","resources":{"koordinator.sh/gpu-memory":"1Gi"}}]}'
WAITING = admitted(pod({SHARED: 1, MEMORY: "1Gi"}, labels={ISOLATION: "HAMi-core"}), replace(POLICY, injects="always"))


def test_limits_are_added_once() -> None:
    recorded = annotated(WAITING, {ALLOCATED_KEY: RECORD})
    answer = resolve(change(WAITING, recorded))
    assert isinstance(answer, Allowed)
    found = patched(recorded, answer)
    assert found["metadata"]["annotations"][VISIBLE] == "GPU-0"
    assert resolve(change(recorded, found)) == Allowed()


def test_a_record_that_says_no_limit_is_not_written() -> None:
    assert MEMORY in reason(resolve(change(WAITING, annotated(WAITING, {ALLOCATED_KEY: '{"gpu":[{"minor":0}]}'}))))


def test_deletions_and_pods_that_wait_for_nothing_are_let_through() -> None:
    plain = pod({"cpu": 1})
    assert resolve(change(plain, plain)) == Allowed()
    assert resolve(replace(change(plain, plain), object=None)) == Allowed()
