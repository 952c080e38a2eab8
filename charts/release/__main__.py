"""``python -m charts.release FOLDER``: everything of a release, in a folder that is not there yet.

``python/`` has wheel and sdist, ``charts/`` the charts as archives, ``images/`` an OCI archive of each image;
``*.cdx.json`` lists the content of wheel and images, and ``SHA256SUMS`` lists every file for ``sha256sum -c``. The same
tree, libraries and Debian packages make the same files, byte by byte; signatures have their time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from charts.docker import image
from charts.docker.parts import ImageError, sha256
from charts.docker.targets import TARGETS
from charts.release import ReleaseError, chart_archives, distributions
from hami_plugins import __version__

SUMS = "SHA256SUMS"


def make(folder: Path, *, helm: str, key: str) -> None:
    """Write the release into ``folder``, which appears whole or not at all. Raises ``ReleaseError``, ``ImageError``.

    ``key``: the OpenPGP key that signs the charts; empty leaves them unsigned.
    """
    if folder.exists():
        raise ReleaseError(f"{folder} is there already; remove it, or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
        half = Path(name) / "release"
        for part in ("python", "charts", "images"):
            (half / part).mkdir(parents=True)
        wheel, _ = distributions.build(half / "python", image.EPOCH)
        _tell(f"wheel and sdist of {__version__}")
        (half / "python" / f"{wheel.name}.cdx.json").write_text(distributions.bill(wheel))
        _charts(half / "charts", helm=helm, key=key)
        for target in TARGETS:
            image.build(target, half / "images" / f"{target.name}-{__version__}.tar", name=image.image_name(target))
            _tell(f"image of {target.name}")
        (half / SUMS).write_text(sums(half))
        half.rename(folder)


def _charts(folder: Path, *, helm: str, key: str) -> None:
    for chart in chart_archives.installable():
        archive = chart_archives.package(chart, folder, helm=helm, version=__version__, epoch=image.EPOCH)
        if key:
            chart_archives.sign(archive, chart, key)
        _tell(f"chart {chart.name}, {'signed' if key else 'not signed: no --key'}")


def sums(folder: Path) -> str:
    """The SHA-256 of each file of the folder, in the form that ``sha256sum -c`` reads."""
    files = sorted(each.relative_to(folder) for each in folder.rglob("*") if each.is_file() and each.name != SUMS)
    return "".join(f"{sha256((folder / each).read_bytes())}  {each}\n" for each in files)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Make a release; 1 where that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m charts.release", description="Everything of a release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--helm", default="helm", metavar="PROGRAM", help="Helm 3 or 4; default: helm")
    parser.add_argument("--key", default="", help="the OpenPGP key of gpg's that signs the charts; default: none does")
    found = parser.parse_args(arguments)
    try:
        make(found.folder, helm=found.helm, key=found.key)
    except (ReleaseError, ImageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
