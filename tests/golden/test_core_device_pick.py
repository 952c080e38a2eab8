"""Which of several devices is tried first."""

from dataclasses import replace

from hami_plugins.engine.order import arranged
from tests.golden import cases, core_rows


@cases.each("hami-core/device-pick.yaml")
def test_first_choice_is_that_of_its_vector(case: cases.Case) -> None:
    rows = case.given["devices"]
    devices, usage = zip(*map(core_rows.device, rows), strict=True)
    policy = core_rows.policy(case.given["policy"], numa_bind=case.given["numa_bind"])
    weighted = replace(policy, weights=core_rows.weights(case.given["weights"]))
    requests = core_rows.requests(case.given["request"])
    first = arranged(range(len(rows)), devices, usage, weighted, requests)[0]
    assert rows[first]["name"] == case.expect["tail"]
