"""Resources that kube-scheduler leaves to HAMi, and those that it sums up itself."""

from tests.golden import cases, notation


@cases.each("hami-vendors/ignored-resources.yaml")
def test_resource_is_left_to_the_extender_as_its_vector_says(case: cases.Case) -> None:
    resource = case.given["resource"]
    owner = notation.registry().owner_of(resource)
    assert owner is not None
    assert (resource in owner.ignored_by_scheduler) is case.expect["ignored"]
