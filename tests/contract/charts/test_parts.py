"""The parts of an image: what differs from its publisher's list ends the build, and the bill has hash and licence."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.docker import parts
from charts.docker.parts import ImageError, Part
from charts.docker.targets import TARGETS

EVERY = sorted({name for target in TARGETS for name in target.packages})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of libraries with one in it, whose RECORD has the hashes of its files."""
    folder = tmp_path / "site"
    about = folder / "cardlib-1.2.dist-info"
    about.mkdir(parents=True)
    (folder / "cardlib.py").write_text("x = 1\n")
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: cardlib\nVersion: 1.2\nLicense-Expression: MIT\n")
    (about / "RECORD").write_text(
        "cardlib.py,sha256=49DgNmZPb1Idem5gwyOIFkZSgAu43KaKjA3I8bgzlV0,6\n"
        "cardlib-1.2.dist-info/RECORD,,\n"
        "__pycache__/cardlib.cpython-311.pyc,,\n"
    )
    monkeypatch.syspath_prepend(folder)
    yield folder
    importlib.invalidate_caches()


def recorded(folder: Path) -> None:
    """Writes the hash of the file as it is."""
    digest = base64.urlsafe_b64encode(hashlib.sha256((folder / "cardlib.py").read_bytes()).digest())
    record = folder / "cardlib-1.2.dist-info" / "RECORD"
    lines = record.read_text().splitlines()
    lines[0] = f"cardlib.py,sha256={digest.decode().rstrip('=')},6"
    record.write_text("\n".join(lines) + "\n")


def test_a_library_is_copied_without_byte_code_and_described(installed: Path, tmp_path: Path) -> None:
    recorded(installed)
    home = tmp_path / "home"
    found = parts.library("cardlib", home)
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["cardlib.py"]
    assert (found.name, found.version, found.licence) == ("cardlib", "1.2", "MIT")
    assert found.purl == "pkg:pypi/cardlib@1.2"
    assert len(found.sha256) == 64


def test_a_file_that_was_changed_after_installation_ends_the_build(installed: Path, tmp_path: Path) -> None:
    recorded(installed)
    (installed / "cardlib.py").write_text("x = 2\n")
    with pytest.raises(
        ImageError, match=r"cardlib\.py: of cardlib 1\.2, its hash is \S+, and RECORD has \S+; reinstall"
    ):
        parts.library("cardlib", tmp_path / "home")


def test_a_file_that_is_missing_ends_the_build(installed: Path, tmp_path: Path) -> None:
    recorded(installed)
    (installed / "cardlib.py").unlink()
    with pytest.raises(ImageError, match=r"cardlib\.py: of cardlib 1\.2, No such file or directory; reinstall"):
        parts.library("cardlib", tmp_path / "home")


def test_a_library_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"no-such-library: the image needs it, and it is not installed here"):
        parts.library("no-such-library", tmp_path)


def test_a_library_without_a_licence_ends_the_build(installed: Path, tmp_path: Path) -> None:
    recorded(installed)
    (installed / "cardlib-1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: cardlib\nVersion: 1.2\n"
    )
    with pytest.raises(ImageError, match=r"cardlib 1\.2: its METADATA names no licence"):
        parts.library("cardlib", tmp_path / "home")


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        ("License-Expression: MPL-2.0\nLicense: other\n", "MPL-2.0"),
        ("License: Apache 2.0\n", "Apache 2.0"),
        ("Classifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        (f"License: {'text ' * 30}\nClassifier: License :: OSI Approved :: BSD License\n", "BSD License"),
    ],
)
def test_a_licence_is_an_expression_a_name_or_a_classifier(installed: Path, lines: str, licence: str) -> None:
    about = installed / "cardlib-1.2.dist-info" / "METADATA"
    about.write_text(f"Metadata-Version: 2.4\nName: cardlib\nVersion: 1.2\n{lines}")
    assert parts.licence_of(importlib.metadata.distribution("cardlib")) == licence


@pytest.mark.parametrize("name", EVERY)
def test_every_library_of_an_image_is_locked_and_has_a_licence(name: str) -> None:
    assert f"\n{name}==" in Path(".ci/requirements.lock").read_text()
    assert parts.licence_of(importlib.metadata.distribution(name))


def test_a_file_that_a_package_of_debian_does_not_list_so_ends_the_build() -> None:
    sums = {"usr/bin/x": hashlib.md5(b"good", usedforsecurity=False).hexdigest()}
    parts.check_md5("x 1", "usr/bin/x", b"good", sums)
    with pytest.raises(ImageError, match=r"/usr/bin/x: its MD5 is \w+, and x 1 lists \w+; fetch the package anew"):
        parts.check_md5("x 1", "usr/bin/x", b"evil", sums)
    with pytest.raises(ImageError, match=r"/usr/bin/y: its MD5 is \w+, and x 1 does not list it"):
        parts.check_md5("x 1", "usr/bin/y", b"good", sums)


def test_the_checksums_of_a_package_are_read_from_its_control_part() -> None:
    """Those of files that an administrator may change are not in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as control:
        for name, text in {
            "md5sums": "0123456789abcdef0123456789abcdef  usr/bin/a file\n",
            "conffiles": "/etc/x.conf\n",
            "postinst": "exit\n",
        }.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(text)
            control.addfile(entry, io.BytesIO(text.encode()))
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as control:
        sums = parts.md5sums(control)
    assert sums == {"usr/bin/a file": "0123456789abcdef0123456789abcdef", "etc/x.conf": ""}
    parts.check_md5("x 1", "etc/x.conf", b"anything", sums)


def test_the_licences_of_debian_are_those_of_its_copyright_file() -> None:
    form = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    text = f"{form}\nLicense: Zlib\n\nLicense: GPL-2+\n text\n"
    assert parts.debian_licence("zlib1g", text) == "Zlib AND GPL-2+"
    assert parts.debian_licence("libc6", "Copyright ...") == "see /usr/share/doc/libc6/copyright"


def test_the_bill_has_hash_and_licence_of_every_part() -> None:
    one = Part(name="a", version="1", purl="pkg:pypi/a@1", sha256="0" * 64, licence="MIT")
    assert parts.bill([one]) == [
        {
            "type": "library",
            "name": "a",
            "version": "1",
            "purl": "pkg:pypi/a@1",
            "bom-ref": "pkg:pypi/a@1",
            "hashes": [{"alg": "SHA-256", "content": "0" * 64}],
            "licenses": [{"license": {"name": "MIT"}}],
        }
    ]
