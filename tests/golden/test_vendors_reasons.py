"""Reasons as HAMi spells, joins and reads them."""

from hami_plugins.engine.fit import spelled
from hami_plugins.model.verdicts import Reason
from tests.golden import cases

DEVIATIONS = {
    **dict.fromkeys(
        ("reason-015", "reason-016"), "a word of HAMi's log and events about a node, not a reason of a device"
    ),
    **dict.fromkeys(
        ("reason-023", "reason-024", "reason-025"), "reasons are values here; nobody reads them back out of a text"
    ),
}


@cases.each("hami-vendors/reasons.yaml")
def test_reason_is_spelled_as_its_vector_says(case: cases.Case) -> None:
    given = case.given
    match given["op"]:
        case "name":
            assert (given["name"] in set(Reason)) is (case.id not in DEVIATIONS)
        case "format":
            counts = {Reason(name): count for name, count in given["counts"].items()}
            assert spelled(counts, given["total"]) == case.expect["text"]
        case "parse":
            total = max((each["total"] for each in case.expect["parsed"]), default=0)
            counts = {Reason(each["name"]): each["count"] for each in case.expect["parsed"]}
            assert spelled(counts, total) in given["text"]
