"""Whether a list of policy words has a word."""

from hami_plugins.model.policy import SortKey
from tests.golden import cases, core_rows


@cases.each("hami-core/policy-contains.yaml")
def test_policy_has_the_word_that_its_vector_says(case: cases.Case) -> None:
    policy = core_rows.policy(case.given["policy"], numa_bind=False)
    chained = policy.order[:2] == (SortKey.MOST_SCORE, SortKey.HIGH_NUMA) and SortKey.HIGH_INDEX in policy.order
    assert case.given["token"] == "numa"
    assert chained is case.expect["contains"]
