"""The library on the node: copied whole or not at all, and never under the feet of those who use it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from hami_plugins.node.hami_core.library import RECORD, Library, install, installed
from volcano_vgpu.agent.library import missing, without_mps
from volcano_vgpu.core.refusals import RefusalCode


@pytest.fixture
def source(tmp_path: Path) -> Path:
    found = tmp_path / "image"
    found.mkdir()
    (found / "libvgpu.so").write_bytes(b"first")
    return found


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    return tmp_path / "node" / "vgpu"


def test_a_node_gets_library_preload_and_record(source: Path, hook: Path) -> None:
    found = install(source, hook, version="2.9.0")
    assert (hook / "libvgpu.so").read_bytes() == b"first"
    assert (hook / "ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"
    assert json.loads((hook / RECORD).read_text()) == {"sha256": found.digest, "version": "2.9.0"}
    assert stat.S_IMODE((hook / "libvgpu.so").stat().st_mode) == 0o755
    assert installed(hook) == found


def test_an_unchanged_library_is_not_written_again(source: Path, hook: Path) -> None:
    install(source, hook)
    before = {path.name: path.stat().st_ino for path in hook.iterdir()}
    install(source, hook)
    assert {path.name: path.stat().st_ino for path in hook.iterdir()} == before


def test_who_has_the_old_library_open_keeps_it(source: Path, hook: Path) -> None:
    install(source, hook)
    with (hook / "libvgpu.so").open("rb") as mounted:
        (source / "libvgpu.so").write_bytes(b"second")
        found = install(source, hook)
        assert mounted.read() == b"first"
    assert (hook / "libvgpu.so").read_bytes() == b"second"
    assert installed(hook).digest == found.digest


def test_the_version_of_an_image_is_that_of_its_own_record(source: Path, hook: Path) -> None:
    install(source, source.parent / "other", version="1.2")
    assert install(source.parent / "other", hook).version == "1.2"


def test_a_record_that_is_about_another_library_is_not_believed(source: Path, hook: Path) -> None:
    install(source, hook, version="1.2")
    (hook / "libvgpu.so").write_bytes(b"by hand")
    assert installed(hook).version == ""
    (hook / RECORD).write_text("[]")
    assert installed(hook).version == ""


def test_without_a_source_the_library_of_the_node_is_used(source: Path, hook: Path) -> None:
    there = install(source, hook)
    assert install(None, hook) == there
    missing = install(source.parent / "nowhere", hook)
    assert missing.digest == there.digest
    assert "stays" in missing.problem


def test_a_node_without_any_library_is_told_so(hook: Path) -> None:
    found = install(None, hook)
    assert found == Library(problem=found.problem)
    assert "librarySource" in found.problem
    assert "there is none on this node" in install(hook / "nowhere", hook).problem


def test_a_copy_that_was_cut_short_leaves_the_old_one_and_the_next_one_succeeds(source: Path, hook: Path) -> None:
    install(source, hook)
    (hook / ".libvgpu.so.new").write_bytes(b"half")
    (source / "libvgpu.so").write_bytes(b"second")
    install(source, hook)
    assert (hook / "libvgpu.so").read_bytes() == b"second"
    assert not (hook / ".libvgpu.so.new").exists()


def test_a_place_that_cannot_be_written_is_named(source: Path, hook: Path) -> None:
    hook.parent.mkdir()
    hook.write_text("a file")
    assert str(hook) in install(source, hook).problem


FIRST, SECOND = (hashlib.sha256(content).hexdigest() for content in (b"first", b"second"))


def test_a_library_with_another_checksum_is_not_installed(source: Path, hook: Path) -> None:
    found = install(source, hook, sha256=SECOND)
    assert not (hook / "libvgpu.so").exists()
    assert found.problem == (
        f"{source}/libvgpu.so: its SHA-256 is {FIRST}, and librarySha256 is {SECOND}; use an image that has that "
        "library, or correct librarySha256; there is none on this node: limits do not hold"
    )
    assert install(source, hook, sha256=FIRST).digest == FIRST


def test_the_library_of_the_node_stays_where_the_images_has_another_checksum(source: Path, hook: Path) -> None:
    install(source, hook)
    (source / "libvgpu.so").write_bytes(b"second")
    found = install(source, hook, sha256=FIRST)
    assert (hook / "libvgpu.so").read_bytes() == b"first"
    assert found.digest == FIRST
    assert f"its SHA-256 is {SECOND}" in found.problem


def test_containers_are_refused_while_the_nodes_library_has_another_checksum(source: Path, hook: Path) -> None:
    install(source, hook)
    refusal = missing(hook, sha256=SECOND)
    assert refusal is not None
    assert refusal.code is RefusalCode.LIBRARY
    assert refusal.text == (
        f"{hook}/libvgpu.so: its SHA-256 is {FIRST}, and librarySha256 is {SECOND}; use an image that has that "
        "library, or correct librarySha256"
    )
    assert missing(hook, sha256=FIRST) is None
    assert missing(hook) is None


def test_mps_is_missing_until_its_daemon_has_both_directories_and_runs(tmp_path: Path) -> None:
    wanted = ["has no pipe and shm there", "has no shm there", "does not run: pipe/control is missing"]
    for made, words in zip(("pipe", "shm", "pipe/control"), wanted, strict=True):
        refusal = without_mps(tmp_path)
        assert refusal is not None
        assert refusal.code is RefusalCode.MPS
        assert refusal.text.startswith(
            f"{tmp_path}: MPS's control daemon {words}; start it on this node (CUDA_MPS_PIPE_D"
        )
        if made == "pipe/control":
            os.mkfifo(tmp_path / made)
        else:
            (tmp_path / made).mkdir()
    assert without_mps(tmp_path) is None
