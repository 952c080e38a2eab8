"""Counted reasons as text. Text is never read back into counts here."""

from hami_plugins.engine.fit import spelled
from hami_plugins.engine.place import Placer
from hami_plugins.engine.registry import Registry
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.verdicts import NoFit, Reason
from tests import acme, builders
from tests.golden import cases

DEVIATIONS = {
    "reason-parse-s34-02": "HAMi reads its reasons back from their text and loses those without a count; our refusals "
    "are counted values, so a node with too few cards counts, too",
    "reason-f30": "ambiguous in the text; the divisor is the number of candidates, 10, not of all devices",
}


@cases.each("hami-core/reasons.yaml")
def test_counts_are_spelled_as_their_vector_says(case: cases.Case) -> None:
    counts = {Reason(key): count for key, count in case.given["counts"].items()}
    assert spelled(counts, case.given["candidates"]) == case.expect["text"]


def test_every_reason_of_upstream_has_a_name_here_unless_it_is_no_reason_about_a_device() -> None:
    stated = cases.document("hami-core/reasons.yaml")
    theirs = {*stated["reason_keys"], *stated["metax_sgpu_reason_keys"]} - {"NodeFitPod", "NodeUnfitPod"}
    assert theirs <= {str(reason) for reason in Reason}


@cases.each("hami-core/reasons-parse.yaml")
def test_a_refusal_carries_the_counts_that_upstream_reads_from_its_text(case: cases.Case) -> None:
    text = case.given["text"]
    if case.id in DEVIATIONS:
        placer = Placer(builders.a_demand(builders.a_request(count=2)), DEFAULT_POLICY, Registry([acme.SPEC]))
        verdict = placer(builders.a_state())
        assert isinstance(verdict, NoFit)
        assert (verdict.words, verdict.reasons) == (text, ((Reason.TOO_FEW_CARDS, 1),))
        return
    counts = {Reason(key): count for key, count in case.expect["counts"].items()}
    assert spelled(counts, 4) == text
