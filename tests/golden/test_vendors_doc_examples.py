"""Examples in the vendors' documentation and the requests that they give."""

from tests.golden import cases, notation


@cases.each("hami-vendors/doc-examples.yaml")
def test_documented_example_asks_for_what_its_vector_says(case: cases.Case) -> None:
    spec = notation.vendor(case.given["backend"])
    found = notation.asked(spec, notation.container(case.given), case.given["annotations"])
    assert notation.same_request(spec, found, case.expect["request"], case.given.get("config"))
