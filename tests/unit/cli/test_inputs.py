"""Where a cluster comes from, and what people see while it is being read."""

from __future__ import annotations

import gc
import io
import re
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from hami_plugins.cli.kit import inputs
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.inputs import fleets, list_reader
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.plan import Planner, PlanUnit
from tests.builders import a_snapshot
from tests.unit.cli.test_plan import a_listing
from tests.unit.plan.plans import REGISTRY, asking


class Terminal(io.StringIO):
    """The output on a terminal."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal. No fixture: the runner puts its own stream back before a test begins."""
    looking = Terminal()
    monkeypatch.setattr(sys, "stderr", looking)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return looking


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(ClusterSource(snapshots=("a/b.json", "-")), "b.json, stdin", id="dumps"),
        pytest.param(ClusterSource(fleet="mixed"), "fleet mixed", id="fleet"),
        pytest.param(ClusterSource(context="prod"), "cluster prod", id="context"),
        pytest.param(ClusterSource(), "the cluster of kubeconfig", id="live"),
    ],
)
def test_a_source_is_called_as_people_gave_it(source: ClusterSource, words: str) -> None:
    assert source.words() == words


def test_a_long_read_tells_a_terminal_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(inputs, "_LONG", 1)
    dump = tmp_path / "dump.json"
    dump.write_bytes(a_listing())
    assert len(list(inputs.objects(ClusterSource(snapshots=(str(dump),))))) == 1
    assert "reading dump.json" in terminal.getvalue()
    assert "parsing" in terminal.getvalue()


def test_a_live_read_counts_the_objects_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with inputs.counting() as seen:
        assert seen is not None
        seen("Node", 500)
        seen("Pod", 1)
        seen("Node", 600)
    assert "1,100 Nodes, 1 Pods" in terminal.getvalue()


def test_nothing_is_counted_where_nobody_looks() -> None:
    with inputs.counting() as seen:
        assert seen is None


def a_large_listing(pods: int) -> dict[str, Any]:
    node = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    metadata = [{"name": f"p-{at}", "namespace": "a"} for at in range(pods)]
    waiting = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": each, "spec": {"containers": [{"name": "main"}]}}
        for each in metadata
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*node, *waiting]}


def read_into(tmp_path: Path, pods: int) -> ClusterSnapshot:
    dump = tmp_path / "dump.json"
    dump.write_bytes(orjson.dumps(a_large_listing(pods)))
    return inputs.cluster(ClusterSource(snapshots=(str(dump),)), inputs.registry_of(inputs.settings_of(None)))


def test_a_large_dump_shows_how_far_the_reading_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    assert len(read_into(tmp_path, 2_500).pending) == 2_500
    shown = terminal.getvalue()
    assert "reading 2,501 objects" in shown
    assert {"0%", "100%"} <= set(re.findall(r"\d+%", shown))


@pytest.mark.parametrize("pods", [10, 2_500])
def test_nothing_is_shown_of_a_small_dump_or_where_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pods: int
) -> None:
    if pods == 10:
        terminal = a_terminal(monkeypatch)
        read_into(tmp_path, pods)
        assert "objects" not in terminal.getvalue()
    else:
        read_into(tmp_path, pods)
        assert capsys.readouterr().err == ""


def test_no_garbage_is_looked_for_while_a_large_dump_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    finish = list_reader.ListingReader.finish

    def watched(reader: list_reader.ListingReader) -> ClusterSnapshot:
        seen.append(gc.isenabled())
        return finish(reader)

    monkeypatch.setattr(list_reader.ListingReader, "finish", watched)
    for pods in (10, 2_500):
        read_into(tmp_path, pods)
        assert gc.isenabled()
    gc.unfreeze()
    assert seen == [True, False]


def test_several_large_dumps_are_one_piece_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with inputs.BulkRead() as reading:
        for _ in range(2):
            reading.expect(a_large_listing(2_000))
        reading(2_002)
    gc.unfreeze()
    assert re.findall(r"\d+%", terminal.getvalue())[-1] == "50%"


def test_a_plan_of_many_pods_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    for total in (10, 5_000):
        with inputs.advancing(f"planning {total} pods", total) as progress:
            if progress is not None:
                for _ in range(total):
                    progress(1)
    assert "planning 5000 pods" in terminal.getvalue()
    assert "planning 10 pods" not in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_a_planner_counts_the_pods_that_it_has_decided() -> None:
    counted: list[int] = []
    pods = tuple(asking(20_000 if at else 1000, name=f"p-{at}") for at in range(5))
    Planner(REGISTRY).plan(a_snapshot(), [PlanUnit(name="u", pods=pods)], progress=counted.append)
    assert sum(counted) == 5
