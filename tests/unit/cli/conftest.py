"""A terminal to type into, and the files of an ordinary question."""

from __future__ import annotations

import io
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from hami_plugins.cli import main

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


class Said(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


Type = Callable[..., Said]

FITS = """
apiVersion: v1
kind: Pod
metadata: {name: small}
spec:
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000, nvidia.com/gpucores: 30}}
"""
TOO_BIG = FITS.replace("small", "big").replace("4000", "400000")
SERVICE = "---\napiVersion: v1\nkind: Service\nmetadata: {name: front}\n"


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Type:
    """Run a command line; ``stdin`` is what comes in through a pipe."""

    def run(*words: str | Path, stdin: str | bytes = "") -> Said:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A pod that fits on any GPU."""
    return _file(tmp_path / "job.yaml", FITS)


@pytest.fixture
def too_big(tmp_path: Path) -> Path:
    """A pod that fits nowhere."""
    return _file(tmp_path / "big.yaml", TOO_BIG)


def _file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def packs_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry points as the project declares them, whatever is installed."""
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    known = metadata.EntryPoints(
        metadata.EntryPoint(name, value, group) for group, each in declared.items() for name, value in each.items()
    )
    monkeypatch.setattr(metadata, "entry_points", known.select)
