"""The admission policy on allocations in the charts: it is the program's, and no chart takes another's keys."""

from __future__ import annotations

from itertools import combinations

import pytest
import yaml

from tests.contract.charts import policies
from tests.contract.charts.schemas import CHARTS, LIBRARY_CHART

CHARTS_WITH_ONE = (*policies.SYSTEMS, policies.ALLOCATOR)
every_chart = pytest.mark.parametrize("chart", CHARTS_WITH_ONE)


@every_chart
def test_the_file_is_generated_from_the_program(chart: str) -> None:
    assert (CHARTS / chart / policies.FILE).read_text() == policies.text(chart), (
        "write it anew: python -m tests.contract.charts.policies"
    )


@every_chart
def test_it_is_on_by_default_and_trusts_administrators_and_kubelets(chart: str) -> None:
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())["allocationPolicy"]
    assert values == {"enabled": True, "users": [], "groups": ["system:masters", "system:nodes"]}


@every_chart
def test_the_template_takes_all_rules_from_the_file(chart: str) -> None:
    """No second copy of a key or of an expression, so that Helm is not needed to see that they are right."""
    template = (CHARTS / chart / "templates" / "allocation-policy.yaml").read_text()
    assert template.count("files/allocation-policy.yaml") == 1
    assert 'include "library.allocationPolicy"' in template
    shared = (CHARTS / LIBRARY_CHART / "templates" / "_objects.tpl").read_text()
    for word in ("annotations.", "pods", "failurePolicy", "oldObject"):
        assert word not in template
        assert word not in shared
    assert "validationActions: [Deny]" in shared


def test_a_key_is_protected_by_one_chart() -> None:
    """Or an account would have to be listed in two of them."""
    protected = {
        chart: {*policies.allocations(chart).keys, *policies.allocations(chart).marks} for chart in CHARTS_WITH_ONE
    }
    for one, other in combinations(protected, 2):
        assert not protected[one] & protected[other]
