"""From policy words to sort keys."""

from hami_plugins.model.policy import SortKey
from tests.golden import cases, core_rows

KEYS = {
    ("used", "desc"): SortKey.LEAST_SHARED,
    ("numa", "asc"): SortKey.HIGH_NUMA,
    ("numa", "desc"): SortKey.LOW_NUMA,
    ("score", "asc"): SortKey.MOST_SCORE,
    ("score", "desc"): SortKey.LEAST_SCORE,
    ("index", "asc"): SortKey.HIGH_INDEX,
}
"""HAMi tries devices from the end of its list, so each of its keys is one of ours the other way round."""


@cases.each("hami-core/device-sort-keys.yaml")
def test_policy_sorts_by_the_keys_of_its_vector(case: cases.Case) -> None:
    policy = core_rows.policy(case.given["policy"], numa_bind=case.given["numa_bind"])
    keys = [KEYS[member, direction] for member, direction in case.expect["keys"]]
    # Equals go by their places, the last listed first, as Go's sort keeps up to twelve.
    assert policy.order == (*keys, SortKey.LAST)
