"""Studies and traces as people write them, and the messages about invalid ones."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError
from neuron_topology.commands import study_reader
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation.comparison import Study
from neuron_topology.core.simulation.jobs import MIXES, Durations, Poisson, SimulatedJob, Trace
from neuron_topology.core.simulation.policies import SelectionPolicy

TRN1 = INSTANCE_TYPES["trn1.32xlarge"]
OURS = """
instance: trn2.48xlarge
nodes: [1, 4]
loads: 0.5
mixes: {ours: {8: 1, 1: 3}}
durations: {mean: 2.5, sigma: 0}
policies: [linked, aws, linked]
jobs: 500
runs: 3
seed: 7
"""


PAGE = resources.files("neuron_topology.core.simulation").joinpath("README.md").read_text(encoding="utf-8")


def fenced(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def study(text: str = "", *traces: Trace) -> Study:
    return study_reader.study(study_reader.order(texts.mapping(text, "s.yaml"), "s.yaml"), "s.yaml", traces)


def trace(*lines: str) -> study_reader.TraceRead:
    return study_reader.trace("\n".join(lines), "t.csv", TRN1)


def test_nothing_said_is_every_mix_of_the_pack_and_every_policy() -> None:
    found = study()
    assert [each.workload for each in found.settings] == [Poisson(mix, 0.9, 20_000) for mix in MIXES.values()]
    assert found.policies == tuple(SelectionPolicy)
    assert {(each.nodes, each.instance.name) for each in found.settings} == {(8, "trn1.32xlarge")}


def test_everything_can_be_said() -> None:
    found = study(OURS)
    assert [each.nodes for each in found.settings] == [1, 4]
    assert {each.instance.name for each in found.settings} == {"trn2.48xlarge"}
    workload = found.settings[0].workload
    assert isinstance(workload, Poisson)
    assert dict(workload.mix.shares) == {1: 3, 8: 1}
    assert (workload.load, workload.count) == (0.5, 500)
    assert workload.durations == Durations(2.5, 0)
    assert found.policies == (SelectionPolicy.LINKED, SelectionPolicy.AWS)
    assert (found.runs, found.seed) == (3, 7)


def test_every_mix_load_and_number_of_nodes_is_a_setting() -> None:
    found = study("nodes: [1, 2]\nloads: [0.5, 1]\nonly: [pairs, singles]")
    assert len(found.settings) == len(set(found.settings)) == 8


def test_mixes_of_the_pack_can_be_named_beside_those_of_the_file() -> None:
    found = study(f"{OURS}\nonly: [ours, pairs, ours]")
    assert len(found.settings) == 4


def test_a_trace_takes_the_place_of_mixes_that_nobody_names() -> None:
    ours = Trace("t", (SimulatedJob(0, 1, 1), SimulatedJob(1, 1, 1)))
    assert [each.workload for each in study("", ours).settings] == [ours]
    assert len(study("only: [pairs]", ours).settings) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: 0", "nodes.0"),
        ("nodes: many", "found 'many'"),
        ("loads: [.inf]", ".inf cannot be sent as JSON"),
        ("instance: p4d.24xlarge", "trn1.32xlarge"),
        ("policies: [best]", "policies.0"),
        ("policies: []", "policies: not a policy; choose from aws, hami"),
        ("mixes: {ours: {}}", "mixes.ours"),
        ("mixes: {ours: {0: 1}}", "mixes.ours"),
        ("mixes: {ours: {1: -1}}", "mixes.ours.1"),
        ("mixes: {ours: {32: 1}}", "32 devices fit on no trn1.32xlarge, which has 16"),
        ("only: [others]", "fours-and-eights, singles, pairs"),
        ("runs: 1", "runs"),
        ("durations: {mean: 0}", "durations.mean"),
        ("node: 3", "node: no such setting; did you mean nodes"),
        ("[1]", "not a mapping"),
    ],
)
def test_what_cannot_be_is_named_with_what_can(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^s\.yaml") as refused:
        study(text)
    assert said in str(refused.value)


def test_a_policy_that_there_is_not_is_one_complaint() -> None:
    with pytest.raises(ConfigError) as refused:
        study("policies: [best]")
    (line,) = str(refused.value).splitlines()
    assert "'linked'" in line


def test_a_trace_is_sorted_by_arrival_and_other_columns_are_passed_over() -> None:
    found = trace("job, duration, devices, arrival", "b, 1.5, 4, 10", "a, 2, 1, 3")
    assert found.trace == Trace("t.csv", (SimulatedJob(3.0, 1, 2.0), SimulatedJob(10.0, 4, 1.5)))
    assert found.problems == ()


def test_arrivals_can_be_dates() -> None:
    lines = ("2026-01-01T00:00:00Z,1,60", "2026-01-01T00:01:00,1,60", "2026-01-01T01:02:00+01:00,1,60")
    arrivals = [job.arrival for job in trace("arrival,devices,duration", *lines).trace.jobs]
    assert [arrival - arrivals[0] for arrival in arrivals] == [0, 60, 120]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x,1,1", "arrival: not a number or a date with time (found 'x')"),
        ("1,1,x", "duration: not a number (found 'x')"),
        ("1,1", "duration: not a number (found '')"),
        ("inf,1,1", "arrival"),
        ("1e308,1,1", "arrival: not a number"),
        ("1,1,1e308", "duration: not a number (found '1e308')"),
        ("1,1.5,1", "devices: not a number of devices (found '1.5')"),
        ("1,0,1", "devices: not a number of devices"),
        ("1,32,1", "devices: 32 fit on no trn1.32xlarge, which has 16"),
        ("1,1,-1", "duration: negative"),
    ],
)
def test_a_line_that_is_no_job_is_left_out_and_named(line: str, said: str) -> None:
    found = trace("arrival,devices,duration", "0,1,1", line, "5,1,1")
    assert [job.arrival for job in found.trace.jobs] == [0, 5]
    (problem,) = found.problems
    assert problem.startswith("t.csv: line 3: ")
    assert said in problem


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "no column arrival, devices, duration"),
        (("arrival,size,duration", "1,1,1"), "no column devices"),
        (("arrival,devices,duration", "1,1,1"), "too few jobs (1)"),
        (("arrival,devices,duration", "1,1,1", "1,1,1"), "at least two have to arrive apart"),
        (("arrival,devices,duration", "1,x,1"), "line 2: devices"),
        (("arrival,devices,duration", "0,1,1", *["5,1,1"] * 9), "too few jobs (10)"),
    ],
)
def test_what_is_no_trace_is_refused(lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=r"^t\.csv") as refused:
        trace(*lines)
    assert said in str(refused.value)


def test_the_study_of_the_page_says_what_holds_without_it_but_for_its_mix() -> None:
    said, nothing = (study_reader.order(texts.mapping(text, "README"), "README") for text in (fenced("yaml"), ""))
    assert said.model_dump(exclude={"mixes"}) == nothing.model_dump(exclude={"mixes"})
    assert said.mixes == {"ours": {1: 0.5, 2: 0.2, 8: 0.3}}


def test_the_trace_of_the_page_is_one() -> None:
    found = trace(*fenced("csv").splitlines())
    assert [job.devices for job in found.trace.jobs] == [4, 16]
    assert found.problems == ()
