"""The commands of a page, run as they stand there, and what was seen, written down."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

_TIMEOUT: Final = 600.0


class Page:
    """The blocks of a page: ``sh`` ones, which are run, and ``yaml`` ones that begin with the name of a file."""

    def __init__(self, file: Path) -> None:
        self._text = file.read_text()
        self.blocks: Sequence[str] = re.findall(r"^```sh\n(.*?)^```", self._text, re.DOTALL | re.MULTILINE)
        assert self.blocks, file

    def block(self, word: str) -> str:
        """The only block with that word in it."""
        (found,) = (each for each in self.blocks if word in each)
        return found

    def commands(self, word: str) -> Sequence[str]:
        """Those of the only block with that word in it, each in one line."""
        return [line for line in self.block(word).replace("\\\n", " ").splitlines() if line.strip()]

    def text(self, name: str) -> str:
        """The page's text for a file."""
        (found,) = re.findall(rf"^```yaml\n# {re.escape(name)}\n(.*?)^```", self._text, re.DOTALL | re.MULTILINE)
        return str(found)

    def values(self) -> Mapping[str, Any]:
        """The page's text for ``values.yaml``."""
        read: Mapping[str, Any] = yaml.safe_load(self.text("values.yaml"))
        return read

    def console(self, word: str) -> str:
        """The commands of the only ``console`` block with that word in it, without what they printed."""
        blocks = re.findall(r"^```console\n(.*?)^```", self._text, re.DOTALL | re.MULTILINE)
        (found,) = (each for each in blocks if word in each)
        return "".join(f"{line[2:]}\n" for line in found.splitlines() if line.startswith("$ "))


_OF_THE_RUN = ("VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS", "ARGS")
"""How the variables begin that a person's terminal does not have: the make that runs the tests would tell its own."""


@dataclass
class Terminal:
    """A shell in a folder, with ``programs`` by their names before all others; ``transcript`` has all that was seen."""

    folder: Path
    programs: Mapping[str, Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    transcript: list[str] = field(default_factory=list)

    def run(self, command: str, *, timeout: float = _TIMEOUT) -> subprocess.CompletedProcess[str]:
        """Run one command or several."""
        place = self.folder / ".programs"
        place.mkdir(exist_ok=True)
        for name, program in self.programs.items():
            if not (place / name).is_symlink():
                (place / name).symlink_to(program)
        inherited = {name: held for name, held in os.environ.items() if not name.startswith(_OF_THE_RUN)}
        path = f"{place}:{os.environ.get('PATH', '/usr/bin:/bin')}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],  # noqa: S607
            cwd=self.folder,
            env={**inherited, **self.environment, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        self.transcript.append(f"$ {command.strip()}\n{done.stdout}")
        return done

    def lines(self, block: str) -> str:
        """Run the commands of a block one by one; what they printed. The first that fails is an ``AssertionError``."""
        printed = ""
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip():
                done = self.run(line)
                assert done.returncode == 0, "\n".join(self.transcript[-3:])
                printed += done.stdout
        return printed
