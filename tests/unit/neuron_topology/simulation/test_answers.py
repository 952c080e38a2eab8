"""Findings in words, as tables, and as documents."""

from __future__ import annotations

import pytest

from neuron_topology.core.simulation import answers
from neuron_topology.core.simulation.comparison import PolicyResult
from neuron_topology.core.simulation.jobs import Trace
from neuron_topology.core.simulation.policies import SelectionPolicy
from tests.schema import ADAPTER
from tests.unit.neuron_topology.simulation.findings import MIXED, TRACE, a_finding, a_setting, a_study, both


def test_a_row_says_every_share_in_per_cent_with_its_interval() -> None:
    table = answers.table(both())
    assert table.columns == ("POLICY", "UTILISED", "FRAG REJECTS", "ACCEPTED", "OF 1", "OF 4")
    assert table.rows[0].cells == ("aws", "70.00 ±1.00", "4.00 ±1.00", "90.00 ±1.00", "99.50 ±1.00", "50.00 ±1.00")


def test_a_single_run_has_figures_alone() -> None:
    found = [a_finding(SelectionPolicy.AWS, 0.04, setting=a_setting(TRACE), half_width=None)]
    assert answers.table(found).rows[0].cells == ("aws", "70.00", "4.00", "90.00", "99.50", "50.00")
    assert answers.title(found[0].setting) == "ours.csv, 8 x trn1.32xlarge"
    assert answers.effort(a_study(), found[0].setting) == "per cent; one run of 3 jobs, too few for intervals"
    longer = a_setting(Trace("long", TRACE.jobs * 100))
    assert (
        answers.effort(a_study(), longer) == "per cent, ± half of the 95 % interval; one run of 300 jobs, in 10 parts"
    )


def test_a_setting_is_named_by_its_mix_its_nodes_and_its_load() -> None:
    assert answers.title(a_setting()) == "pairs, 8 x trn1.32xlarge, load 0.9"
    assert "10 runs of 1,000 jobs" in answers.effort(a_study(), a_setting())


def test_the_gain_is_how_many_times_as_many_jobs_aws_rejects_for_fragments() -> None:
    assert answers.gain(both(aws=0.08, linked=0.02)) == (
        "4.0x",
        "as many jobs rejected for fragments by aws (8.00 ±1.00 %) as by linked (2.00 ±1.00 %)",
    )
    assert answers.gain(both(aws=0.04, linked=0.0)) == (
        "no job",
        "rejected for fragments by linked, 4.00 ±1.00 % by aws",
    )


def test_where_linked_may_reject_nothing_the_gain_is_what_the_intervals_leave() -> None:
    found = answers.gain(both(aws=0.09, linked=0.01))
    assert found is not None
    assert found[0] == "at least 4.0x"
    assert answers.gain(both(aws=0.02, linked=0.01)) is None


@pytest.mark.parametrize("found", [both()[:1], both()[1:], both(aws=0.0)], ids=["aws alone", "linked alone", "nothing"])
def test_without_both_or_without_rejects_there_is_no_gain(found: tuple[PolicyResult, ...]) -> None:
    assert answers.gain(found) is None


def test_the_document_holds_what_was_asked_and_what_was_found() -> None:
    traced = a_setting(TRACE, nodes=2)
    document = answers.document(a_study(a_setting(), traced), [both(), both(setting=traced)])
    ADAPTER.validate_python(document)
    drawn, trace = document["settings"]
    assert drawn["workload"] == {
        "kind": "mix",
        "name": "pairs",
        "jobs": MIXED.count,
        "load": 0.9,
        "shares": {"1": 0.3, "2": 0.3, "4": 0.2, "8": 0.15, "16": 0.05},
        "durationMean": 1.0,
        "durationSigma": 1.0,
    }
    assert (drawn["runs"], drawn["devicesPerNode"], drawn["nodes"]) == (10, 16, 8)
    assert drawn["policies"][0]["fragRejects"] == {"mean": 0.04, "halfWidth": 0.01, "runs": 10}
    assert drawn["policies"][1]["acceptanceOf"]["4"]["mean"] == 0.5
    assert trace["workload"]["kind"] == "trace"
    assert (trace["workload"]["jobs"], trace["workload"]["load"], trace["runs"], trace["nodes"]) == (3, None, 1, 2)
