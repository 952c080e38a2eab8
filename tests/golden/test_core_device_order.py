"""Which of two devices HAMi's ascending sort puts first; the last one is tried first."""

from dataclasses import replace

from hami_plugins.engine.order import arranged
from hami_plugins.model.policy import Weights
from tests import builders
from tests.golden import cases, core_rows


@cases.each("hami-core/device-order.yaml")
def test_two_devices_are_ordered_as_their_vector_says(case: cases.Case) -> None:
    rows = [case.given["a"], case.given["b"]]
    policy = core_rows.policy(case.given["policy"], numa_bind=case.given["numa_bind"])
    # Only memory counts, so that a row's score is its used memory; slots are what mutex looks at.
    by_memory = replace(policy, weights=Weights(0, 0, 1))
    devices = [builders.a_device(memory=1000, numa=row.get("numa", 0), index=row.get("index", 0)) for row in rows]
    usage = [builders.used(row.get("used", 0), row.get("score", 0)) for row in rows]
    tried = arranged(range(2), devices, usage, by_memory, ())
    assert (tried[-1] == 0) is case.expect["a_before_b"]
