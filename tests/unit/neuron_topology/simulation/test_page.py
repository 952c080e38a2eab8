"""The page of a simulation: in the frame of all pages, with drawings that say what they show."""

from __future__ import annotations

from neuron_topology.core.simulation import page
from neuron_topology.core.simulation.jobs import SimulatedJob, Trace
from tests.unit.neuron_topology.simulation.findings import TRACE, a_setting, a_study, both
from tests.unit.output.test_page import read

EVIL = "<img src=x onerror=window.broken=1>"


def rendered(*found: object, **given: str) -> str:
    study = a_study(*(each[0].setting for each in found))  # type: ignore[index]
    return page.render(study, found, source=given.get("source", ""), made_at="2026-01-01")  # type: ignore[arg-type]


def test_every_drawing_says_in_words_what_it_shows() -> None:
    reader = read(rendered(both()))
    drawings = [attrs for tag, attrs in reader.elements if tag == "svg" and attrs.get("role") == "img"]
    assert len(drawings) == 5
    assert "fragmentation rejects: aws 4.00 ±1.00 %; linked 1.00 ±1.00 %" in [each["aria-label"] for each in drawings]
    assert len(reader.with_class("linked")) == len(reader.with_class("aws")) == 6


def test_every_setting_has_a_table_and_a_tile() -> None:
    text = rendered(both(aws=0.08, linked=0.02), both(aws=0.0), both(linked=0.0))
    assert text.count("<table>") == 3
    assert text.count('class="panel tile"') == 2
    assert "<b>4.0x</b>" in text
    assert "<b>no job</b>" in text
    assert 'href="#s2"' in text


def test_without_a_gain_there_is_no_summary() -> None:
    assert 'aria-label="Summary"' not in rendered(both(aws=0.0))


def test_a_trace_is_not_said_to_be_drawn() -> None:
    assert "lognormal" not in rendered(both(setting=a_setting(TRACE)))
    assert "lognormal" in rendered(both())


def test_names_run_nothing_and_the_frame_lets_nothing_in() -> None:
    setting = a_setting(Trace(EVIL, (SimulatedJob(0, 1, 1), SimulatedJob(1, 1, 1))))
    text = rendered(both(setting=setting), source=EVIL)
    assert EVIL not in text
    assert "default-src 'none'" in text
