"""Charts of a release, signed: Helm itself verifies them, and refuses one that was changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from charts.release import chart_archives
from hami_plugins import __version__
from tests.cluster.helm import UMBRELLA, VERSIONS, Helm, HelmError

WHO = "release@test.invalid"


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a GnuPG that has one key, and ``public.gpg``, which Helm reads."""
    folder = tmp_path_factory.mktemp("gnupg")
    folder.chmod(0o700)
    gpg = ["gpg", "--homedir", str(folder), "--batch", "--quiet"]
    new = ["--passphrase", "", "--quick-generate-key", WHO, "rsa2048", "sign", "never"]
    subprocess.run([*gpg, *new], check=True, capture_output=True)
    (folder / "public.gpg").write_bytes(subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout)
    yield folder
    subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "gpg-agent"], check=False)  # noqa: S607


@pytest.mark.parametrize("version", VERSIONS)
def test_helm_verifies_a_signed_chart_and_refuses_it_once_it_was_changed(
    version: str, programs: Mapping[str, Path], keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNUPGHOME", str(keyring))
    program = programs[version]
    archive = chart_archives.package(UMBRELLA, tmp_path, helm=str(program), version=__version__, epoch=0)
    chart_archives.sign(archive, UMBRELLA, WHO)
    verify = ("verify", str(archive), "--keyring", str(keyring / "public.gpg"))
    helm = Helm(program, tmp_path / "home")
    helm.run(*verify)
    archive.write_bytes(archive.read_bytes() + b"\0")
    with pytest.raises(HelmError, match="sha256"):
        helm.run(*verify)
