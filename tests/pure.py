"""``python -m tests.pure`` prints the files of the pure part as patterns for ``coverage``.

They are listed once, as the folders of import-linter's contract ``pure`` in ``pyproject.toml``.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def modules() -> list[str]:
    """The packages and modules of the contract, as written there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pure,) = (each for each in project["tool"]["importlinter"]["contracts"] if each["id"] == "pure")
    found: list[str] = pure["source_modules"]
    return found


def patterns() -> list[str]:
    """A pattern for each: everything below a package, or the one file of a module."""
    paths = [each.replace(".", "/") for each in modules()]
    return [f"{path}.py" if (ROOT / f"{path}.py").is_file() else f"{path}/*" for path in paths]


if __name__ == "__main__":
    sys.stdout.write(",".join(patterns()) + "\n")
