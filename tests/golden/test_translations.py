"""Translations of manifests from guides and examples, kept word for word with the report of losses."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from hami_plugins.cli import main

FOLDER = Path(__file__).parent / "translations"
TARGETS = ("hami", "volcano", "koordinator")


def printed(file: str, target: str) -> str:
    """What the command prints of a file: the report, then the manifests."""
    parts = []
    for more in (["--report", "text"], []):
        out = io.StringIO()
        with contextlib.chdir(FOLDER), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main(["koordinator", "translate", "-f", file, "--to", target, *more])
        parts.append(f"{out.getvalue()}[exit {code:d}]\n" if more else out.getvalue())
    return "".join(parts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_becomes_of_a_manifest_is_what_is_kept(path: Path, *, update_golden: bool) -> None:
    told = "".join(f"=== to {target}\n{printed(path.name, target)}" for target in TARGETS)
    kept = path.with_suffix(".txt")
    if update_golden:
        kept.write_text(told, encoding="utf-8")
    assert told == kept.read_text(encoding="utf-8"), "pytest --update-golden keeps what is printed now"


def test_every_kept_text_belongs_to_a_manifest() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in FOLDER.glob("*.yaml")}
