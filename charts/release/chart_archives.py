"""Charts as archives: what ``helm package`` puts into them, in one order and of one time, and signed on request.

Helm writes the time of packaging into each entry, so two archives of one chart differ. A provenance file is Helm's:
the chart's description and the archive's SHA-256, clear-signed with OpenPGP (https://helm.sh/docs/topics/provenance/).
"""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import yaml

from charts.docker.parts import sha256
from charts.release import ReleaseError

UMBRELLA: Final = Path(__file__).parents[1] / "hami-plugins"


def installable(umbrella: Path = UMBRELLA) -> list[Path]:
    """The folders of the charts that can be installed: the umbrella and its parts, but no library."""
    found = [umbrella, *sorted(each.parent for each in umbrella.glob("charts/*/Chart.yaml"))]
    return [each for each in found if _described(each).get("type") != "library"]


def package(chart: Path, folder: Path, *, helm: str, version: str, epoch: int) -> Path:
    """The archive of a chart, in ``folder``. Raises ``ReleaseError``.

    ``epoch``: the time of all entries, seconds since 1970.
    """
    described = _described(chart)
    for key in ("version", "appVersion"):
        if str(described.get(key)) != version:
            raise ReleaseError(
                f"{chart / 'Chart.yaml'}: {key} is {described.get(key)}, the release is {version}; "
                f"run python -m charts.release.version {version}"
            )
    with tempfile.TemporaryDirectory(prefix="chart-") as packed:
        _run(helm, "package", str(chart), "--destination", packed)
        (made,) = Path(packed).iterdir()
        archive = folder / made.name
        archive.write_bytes(_settled(made.read_bytes(), epoch))
    return archive


def _settled(archive: bytes, epoch: int) -> bytes:
    """The same archive with its entries in the order of their names, of one owner, mode and time."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as found,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as settled,
    ):
        for entry in sorted(found, key=lambda each: each.name):
            plain = tarfile.TarInfo(entry.name)
            plain.size, plain.mode, plain.mtime = entry.size, 0o644, epoch
            settled.addfile(plain, found.extractfile(entry))
    return gzip.compress(buffer.getvalue(), 9, mtime=0)


def sign(archive: Path, chart: Path, key: str) -> Path:
    """The provenance file of the archive, signed now by this key of GnuPG's. Raises ``ReleaseError``."""
    told = yaml.safe_dump(_described(chart), sort_keys=True)
    files = yaml.safe_dump({"files": {archive.name: f"sha256:{sha256(archive.read_bytes())}"}})
    words = ("--batch", "--yes", "--local-user", key, "--digest-algo", "SHA512", "--clearsign", "--output", "-")
    signed = archive.with_name(f"{archive.name}.prov")
    signed.write_bytes(_run("gpg", *words, given=f"{told}\n...\n{files}".encode()))
    return signed


def _described(chart: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    return found


def _run(*command: str, given: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]}: not found; install it, or name it") from error
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:2])} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
