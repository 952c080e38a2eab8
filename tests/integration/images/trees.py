"""The folder of libraries of an image, and processes that see it and Python's own library, and nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from charts.docker import parts
from charts.docker.targets import Target
from tests.waiting import PATIENCE

OURS: Final = ("hami_plugins", "volcano_vgpu", "koordinator_adapter", "neuron_topology")
RUN: Final = """
import atexit, json, runpy, sys

home, report, *words = sys.argv[1:]
sys.path.insert(0, home)

def tell():
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    with open(report, "w") as file:
        json.dump([each for each in files if each and each.startswith(home)], file)

atexit.register(tell)
sys.argv = ["hami-plugins", *words]
runpy.run_module("hami_plugins.cli", run_name="__main__", alter_sys=True)
"""


@dataclass
class Tree:
    """The library folder of a target's image, in ``home``."""

    target: Target
    folder: Path
    imported: set[str] = field(default_factory=set)
    """The libraries that its processes have imported so far."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def lay(self) -> None:
        """Lays it out, as the image has it."""
        self.home.mkdir(parents=True)
        for name in self.target.packages:
            parts.library(name, self.home)
        for name in OURS:
            shutil.copytree(name, self.home / name, ignore=shutil.ignore_patterns("__pycache__"))
        about = importlib.metadata.distribution("hami-plugins")
        for each in about.files or ():
            if each.name in {"METADATA", "entry_points.txt"} and each.parts[0].endswith(".dist-info"):
                (self.home / each).parent.mkdir(exist_ok=True)
                (self.home / each).write_bytes(Path(str(about.locate_file(each))).read_bytes())

    @contextmanager
    def process(self, *words: str, **environment: str) -> Iterator[Path]:
        """A process that runs until the end of the block, and ends well then; its log."""
        log = self.folder / f"{words[1]}.log"
        with log.open("wb") as output:
            started = subprocess.Popen(
                self._command(words), stdout=output, stderr=output, env=self._environment(environment)
            )
        try:
            yield log
        except BaseException as error:
            error.add_note(log.read_text()[-3000:])
            raise
        finally:
            started.send_signal(signal.SIGTERM)
            try:
                code = started.wait(PATIENCE)
            finally:
                started.kill()
                started.wait()
        assert code == 0, log.read_text()[-3000:]
        assert "ModuleNotFoundError" not in log.read_text()
        self._note()

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints. It ends with that code, and misses no module."""
        done = subprocess.run(
            self._command(words),
            capture_output=True,
            text=True,
            env=self._environment({}),
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "ModuleNotFoundError" not in done.stdout + done.stderr
        self._note()
        return done.stdout + done.stderr

    def _command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", RUN, str(self.home), str(self._report), *words]

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.folder), **more}

    @property
    def _report(self) -> Path:
        return self.folder / "imported.json"

    def _note(self) -> None:
        found = set(json.loads(self._report.read_text()))
        self._report.unlink()
        for name in self.target.packages:
            own = {str(self.home / each) for each in parts.files_of(importlib.metadata.distribution(name))}
            if own & found:
                self.imported.add(name)
