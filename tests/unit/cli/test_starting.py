"""What the program loads before it knows what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hami_plugins.vendors.volcano_releases import Grants
from volcano_vgpu.granting.mode import Mode

HEAVY = {"hami_plugins.vendors", "hami_plugins.engine", "kubernetes", "jinja2", "grpc", "starlette"}
PROGRAM = """
import sys
from hami_plugins.cli import main
code = main(sys.argv[1:])
print("loaded", *sys.modules)
sys.exit(code)
"""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["help"], ["volcano-vgpu", "--help"], ["nothing"]])
def test_help_loads_neither_vendors_nor_what_talks_to_clusters(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    loaded = done.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert HEAVY.isdisjoint(loaded)


def test_the_modes_are_those_that_releases_of_volcano_are_judged_with() -> None:
    assert {each.value for each in Mode} == {each.value for each in Grants} - {"volcano"}
