"""The guide to a new vendor, followed line by line in a folder of its own.

``pip`` is played: the package's folder is put on the path with the entry points that its ``pyproject.toml`` declares,
as an editable install does. What needs a cluster, Docker or Helm is left to the tests, which get the lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TREE: Final = Path(__file__).parents[1]
PAGE: Final = TREE / "docs" / "tasks" / "add-a-vendor.md"
LEFT: Final = ("docker", "helm", "hami-plugins allocator run")


def lines() -> Iterator[str]:
    """Every command of the guide, in its order."""
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        yield from block.splitlines()


@dataclass
class Guide:
    """What came of the commands: their output by the line, and the lines that were left to the test."""

    folder: Path
    said: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @property
    def environment(self) -> Mapping[str, str]:
        """Of every command: this tree, and what is installed in the folder."""
        installed = (self.folder / "site", *self.folder.glob("hami-*"))
        clean = {name: held for name, held in os.environ.items() if not name.startswith("HAMI_PLUGINS__")}
        return {**clean, "PYTHONPATH": os.pathsep.join(map(str, (*installed, TREE)))}

    def follow(self) -> None:
        """Run every line. Raises ``AssertionError`` with the output of one that fails."""
        for line in lines():
            if line.startswith(LEFT):
                self.left.append(line)
            elif line.startswith("pip install --editable "):
                self._install(self.folder / line.split()[-1])
            else:
                self.said[line] = self.run(line)

    def run(self, line: str) -> str:
        """One command, whose output may go to a file."""
        command, _, file = line.partition(" > ")
        words = shlex.split(command)
        program = {"hami-plugins": ["-m", "hami_plugins.cli"], "python": []}[words[0]]
        done = subprocess.run(
            [sys.executable, *program, *words[1:]],
            cwd=self.folder,
            env={**self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if file:
            (self.folder / file).write_text(done.stdout, encoding="utf-8")
        return done.stdout

    def _install(self, package: Path) -> None:
        project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        about = self.folder / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        about.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (about / "METADATA").write_text(metadata, encoding="utf-8")
        groups = (
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
            for group, entries in project["entry-points"].items()
        )
        (about / "entry_points.txt").write_text("".join(groups), encoding="utf-8")
