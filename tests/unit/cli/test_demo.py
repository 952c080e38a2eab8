"""``demo``: a story that ends well. Its live part is in ``tests/integration``."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from hami_plugins import examples
from hami_plugins.cli.live import processes
from tests.unit.cli.conftest import Type


def test_the_planning_part_needs_nothing_and_ends_with_the_page(
    type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = type_in("demo", "--no-live")
    assert (said.code, said.err) == (0, "")
    page = tmp_path / "build" / "demo.html"
    assert page.as_uri() in said.out
    assert "research/giant" in page.read_text(encoding="utf-8")


def test_a_pod_that_is_held_at_the_gate_is_told_who_holds_it_and_what_frees_it_also_on_the_page(
    type_in: Type, tmp_path: Path
) -> None:
    page = tmp_path / "x.html"
    said = type_in("demo", "--no-live", "--html", page)
    shown = unescape(page.read_text(encoding="utf-8"))
    for words in (
        "not enqueued by Volcano: volcano.sh/vgpu-number: asks 2, queue lab has 1 of 10 left (9 inqueue)",
        "PodGroup lab/podgroup-sweep of pod lab/sweep (of this plan, Inqueue) can never fit and reserves 9 of 10 ",
        "fits without PodGroup lab/podgroup-sweep, which can never fit",
    ):
        assert words in said.out
        assert words in shown


def test_a_pod_of_hamis_is_carried_to_koordinators_nodes(type_in: Type, tmp_path: Path) -> None:
    said = type_in("demo", "--no-live", "--html", tmp_path / "x.html").out
    assert "koordinator.sh/gpu.shared: 1, koordinator.sh/gpu-memory: 4000Mi, koordinator.sh/gpu-core: 30" in said
    assert "research/notebook-0 fits on l40sx4-0" in said
    assert 'scheduling.koordinator.sh/device-allocated: {"gpu":[{"minor":0,' in said


def test_the_page_can_go_elsewhere(type_in: Type, tmp_path: Path) -> None:
    type_in("demo", "--no-live", "--html", tmp_path / "x.html")
    assert [each.name for each in tmp_path.iterdir()] == ["x.html"]


def test_without_an_agent_to_start_the_rest_is_shown_and_the_reason_is_told(
    type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "COMMAND", "no-such-agent")
    said = type_in("demo", "--html", tmp_path / "x.html")
    assert said.code == 2
    assert said.out.endswith("hami-plugins plan --fleet mixed -f YOUR.yaml\n")
    assert (tmp_path / "x.html").exists()
    assert "command no-such-agent is not installed" in said.err
    assert "--no-live" in said.err


def test_files_of_the_live_part_are_shipped() -> None:
    assert all(map(examples.live_text, ("background", "cards", "evaluation", "outage", "overnight", "urgent")))
