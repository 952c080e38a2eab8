"""The options of ``sandbox``, what a fleet needs to run, and the example for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_plugins import api, examples
from hami_plugins.cli import main
from hami_plugins.cli.kit import inputs
from hami_plugins.cli.live.sandbox import SandboxNeeds
from hami_plugins.cli.sandbox import example_pod


def nodes(fleet: str) -> list[dict[str, object]]:
    return [dict(each) for each in inputs.fleet_objects(fleet) if each["kind"] == "Node"]


@pytest.mark.parametrize("fleet", examples.fleet_names())
def test_the_example_fits_on_every_shipped_fleet(fleet: str) -> None:
    plan = api.plan(api.load_fleet(fleet), example_pod(nodes(fleet)))
    assert [pod.stage.value for pod in plan.pods] == ["placed"]


@pytest.mark.parametrize(
    ("fleet", "agents", "servers"),
    [
        ("h100x8", ("h100x8-2", "h100x8-3"), ["allocator"]),
        ("910bx8", (), []),
        ("koordinator", (), ["koordinator-adapter"]),
        ("trn2.48xlarge", (), ["allocator"]),
        ("mixed", ("a100-80x8-0", "a100-80x8-1"), ["allocator"]),
    ],
)
def test_a_fleet_gets_the_programs_that_its_nodes_need(fleet: str, agents: tuple[str, ...], servers: list[str]) -> None:
    needs = SandboxNeeds.of(inputs.fleet_objects(fleet))
    assert (needs.agents, [each.user for each in needs.servers]) == (agents, servers)


def test_a_fleet_that_is_missing_or_too_large_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--fleet", "nowhere"]) == 2
    assert "fleet nowhere: no such file, and the shipped fleets are" in capsys.readouterr().err
    large = tmp_path / "large.yaml"
    large.write_text("nodes:\n- {shape: t4x1, count: 33}\n")
    assert main(["sandbox", "--fleet", str(large)]) == 2
    said = capsys.readouterr().err
    assert "has 33 nodes, and the sandbox runs at most 32" in said
    assert "plan --fleet" in said


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", f"--port={port}"]) == 2
    assert f"--port {port} is not a port; 0 to 65535 are" in capsys.readouterr().err
