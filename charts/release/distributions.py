"""Python's part of a release: wheel and sdist as the build back end makes them, and the wheel's bill of materials."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from charts.docker import parts
from charts.docker.parts import Part
from charts.release import ReleaseError

TREE: Final = Path(__file__).parents[2]
PACK: Final = "hami-plugins"


def build(folder: Path, epoch: int) -> tuple[Path, Path]:
    """Wheel and sdist of this tree, in ``folder``. Raises ``ReleaseError``."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder.absolute())]
    environment = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(epoch), "HOME": str(folder)}
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"hatchling build failed: {done.stderr.strip()}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def bill(wheel: Path) -> str:
    """A CycloneDX document: the wheel and the libraries that it was tested with, those that are installed here."""
    version = wheel.name.split("-")[1]
    digest = {"alg": "SHA-256", "content": parts.sha256(wheel.read_bytes())}
    about = {"type": "application", "name": PACK, "version": version, "hashes": [digest]}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": about}}
    return json.dumps({**document, "components": parts.bill(libraries())}, indent=1) + "\n"


def libraries() -> Iterator[Part]:
    """What the pack needs, and what that needs, without extras; each as it is installed here."""
    seen, wanted = {PACK}, [PACK]
    while wanted:
        for text in importlib.metadata.requires(wanted.pop()) or ():
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            if needed.name.lower() not in seen:
                seen.add(needed.name.lower())
                wanted.append(needed.name)
                yield parts.described(importlib.metadata.distribution(needed.name))
