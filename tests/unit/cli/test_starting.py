"""What the program loads before it knows what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.vendors.volcano_releases import DeviceAssigner

HEAVY = {"hami_plugins.vendors", "hami_plugins.engine", "kubernetes", "jinja2", "grpc", "starlette"}
OURS = ("hami_plugins", "volcano_vgpu", "koordinator_adapter", "neuron_topology")
FRAME = {"hami_plugins", "hami_plugins.cli", "hami_plugins.cli.kit", "hami_plugins.cli.kit.edge"}
OPTIONS = {
    f"hami_plugins.cli.{name}"
    for name in ("app", "completion", "kit.light", "kit.option_group", "kit.options", "kit.plugins", "option_groups")
} | {
    "hami_plugins.errors",
    "hami_plugins.model",
    "hami_plugins.model.dialect",
}
BUILT_IN = [
    "plan",
    "nodes",
    "vet",
    "explain",
    "snapshot",
    "demo",
    "vendors",
    "new-vendor",
    "fleets",
    "settings",
    "allocation-policy",
    "completion",
]
PROGRAM = """
import sys
from hami_plugins.cli import main
code = main(sys.argv[1:])
print("loaded", *sys.modules)
sys.exit(code)
"""


def loaded(*words: str, error: str = "") -> frozenset[str]:
    """The modules that a command line has loaded when it ends, with this error if with any."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    first, *modules = done.stdout.splitlines()[-1].split()
    assert first == "loaded"
    assert error in done.stderr
    return frozenset(modules)


def of_ours(modules: frozenset[str]) -> set[str]:
    return {each for each in modules if each.partition(".")[0] in OURS}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["help"],
        ["nothing"],
        ["volcano-vgpu", "--help"],
        ["volcano-vgpu", "agent", "--help"],
        ["koordinator", "translate", "--help"],
        ["neuron", "patch", "--help"],
    ],
    ids=" ".join,
)
def test_help_loads_neither_vendors_nor_what_talks_to_clusters(words: list[str]) -> None:
    assert HEAVY.isdisjoint(loaded(*words))


def test_the_version_is_printed_without_the_options_of_commands() -> None:
    modules = loaded("--version")
    assert "typer" not in modules
    assert of_ours(modules) == FRAME | {"hami_plugins.errors", "hami_plugins.observe", "hami_plugins.observe.build"}


@pytest.mark.parametrize("command", BUILT_IN)
def test_the_help_of_a_command_loads_options_alone(command: str) -> None:
    modules = loaded(command, "--help")
    assert of_ours(modules) == FRAME | OPTIONS
    assert modules.isdisjoint({"pydantic", "importlib.metadata"})


@pytest.mark.parametrize(
    ("product", "command"), [("koordinator", "translate"), ("neuron", "patch"), ("volcano-vgpu", "agent")]
)
def test_the_help_of_a_product_s_command_loads_no_values_of_it(product: str, command: str) -> None:
    modules = loaded(product, command, "--help")
    assert modules.isdisjoint({"pydantic", "hami_plugins.model.vendor", "hami_plugins.wire"})


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "-f", "missing"],
        ["plan", "-f", ".", "--snapshot", "missing"],
        ["plan", "-f", ".", "--settings", "missing"],
        ["plan", "-f", ".", "--usage", "missing"],
        ["vet", "-f", "missing"],
        ["vet", "--snapshot", "missing"],
        ["explain", "pod", "a/b", "--snapshot", "missing"],
        ["snapshot", "--snapshot", "missing"],
        ["koordinator", "translate", "--to", "koordinator", "-f", "missing"],
        ["neuron", "patch", "-f", "missing"],
    ],
    ids=" ".join,
)
def test_a_missing_file_is_found_before_what_reads_it_is_loaded(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    assert HEAVY.isdisjoint(loaded(*words, error="error: missing: No such file or directory"))


def test_the_modes_are_those_that_releases_of_volcano_are_judged_with() -> None:
    assert {each.value for each in AllocatorMode} == {each.value for each in DeviceAssigner} - {"volcano"}


def test_the_list_of_vendors_loads_no_library_for_settings_and_no_answers_about_pods() -> None:
    modules = loaded("vendors")
    assert not modules & {"pydantic", "rich", "yaml", "hami_plugins.plan", "hami_plugins.explain"}
