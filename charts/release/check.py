"""``python -m charts.release.check FOLDER``: that a release is what its tree makes, and runs without it.

The files are those of ``SHA256SUMS``; made again they are the same; the wheel in an empty environment runs the demo;
Helm reads every chart from its archive. With ``tests.cluster`` one installation follows from these files alone:
``make release-check`` runs it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from charts.docker.parts import ImageError
from charts.release import ReleaseError
from charts.release.__main__ import SUMS, make, sums

TREE: Final = Path(__file__).parents[2]
LOCK: Final = TREE / ".ci" / "requirements.lock"
_REGISTRY: Final = "global.imageRegistry=registry.example"
NEEDED: Final[Mapping[str, str]] = {
    "hami-plugins": f"{_REGISTRY},volcano-vgpu.agent.nodeSelector.gpu=on",
    "volcano-vgpu": f"{_REGISTRY},agent.nodeSelector.gpu=on",
    "allocator": _REGISTRY,
    "koordinator-adapter": _REGISTRY,
}
"""What each chart cannot know, and asks for: where its images are, and which nodes have cards."""

SIGNED: Final = ".prov"


def listed(folder: Path) -> None:
    """Every file is the one that ``SHA256SUMS`` lists, and none else is there. Raises ``ReleaseError``."""
    kept, found = (folder / SUMS).read_text(), sums(folder)
    if kept != found:
        differ = {line[66:] for line in set(kept.splitlines()) ^ set(found.splitlines())}
        raise ReleaseError(f"{folder / SUMS}: {', '.join(sorted(differ))}: not as listed; make the release anew")


def same_again(folder: Path, helm: str) -> None:
    """The release made once more from this tree has the same files, signatures aside. Raises ``ReleaseError``."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        again = Path(name) / "again"
        make(again, helm=helm, key="")
        kept = {line for line in (folder / SUMS).read_text().splitlines() if not line.endswith(SIGNED)}
        made = set((again / SUMS).read_text().splitlines())
    if kept != made:
        differ = sorted({line[66:] for line in kept ^ made})
        raise ReleaseError(
            f"{folder}: {', '.join(differ)}: made again they differ; "
            "is the tree, a library, a Debian package or SOURCE_DATE_EPOCH another one?"
        )


def runs_alone(folder: Path) -> None:
    """The wheel, with the locked libraries in an environment of its own, runs the demo outside of the tree.

    Raises ``ReleaseError``.
    """
    (wheel,) = (folder / "python").glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        home = Path(name)
        venv.create(home / "venv", with_pip=True)
        programs = home / "venv" / "bin"
        pip = [str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        _run([*pip, "--require-hashes", "--requirement", str(LOCK)], home)
        _run([*pip, "--no-deps", str(wheel.absolute())], home)
        _run([str(programs / "hami-plugins"), "demo"], home)


def read_by_helm(folder: Path, helm: str) -> None:
    """Each chart renders from its archive. Raises ``ReleaseError``."""
    for archive in sorted((folder.absolute() / "charts").glob("*.tgz")):
        values = ("--set", NEEDED[archive.name.rpartition("-")[0]])
        _run([helm, "lint", "--quiet", str(archive), *values], folder)
        _run([helm, "template", "release", str(archive), *values], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main(arguments: list[str]) -> int:
    """Check a release; 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m charts.release.check", description="That a release is right.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--helm", default="helm", metavar="PROGRAM", help="Helm 3 or 4; default: helm")
    found = parser.parse_args(arguments)
    checks: Sequence[tuple[str, Callable[[], None]]] = (
        (f"the files are those of {SUMS}", partial(listed, found.folder)),
        ("Helm reads the charts from their archives", partial(read_by_helm, found.folder, found.helm)),
        ("the wheel alone runs the demo", partial(runs_alone, found.folder)),
        ("made again, every file is the same", partial(same_again, found.folder, found.helm)),
    )
    try:
        for told, check in checks:
            check()
            sys.stderr.write(f"ok: {told}\n")
    except (ReleaseError, ImageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
