"""A release: one version, archives that are the same when they are made again, and a list that names what differs."""

from __future__ import annotations

import importlib.metadata
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from charts.release import ReleaseError, chart_archives, distributions
from charts.release.__main__ import sums
from charts.release.check import listed
from charts.release.version import rewritten
from hami_plugins import __version__

OURS = ("charts", "docs", "hami_plugins/examples/vendor")

HELM = """#!/usr/bin/env python3
import sys, tarfile, time
from pathlib import Path
chart, folder = Path(sys.argv[2]), Path(sys.argv[4])
with tarfile.open(folder / f"{chart.name}-1.2.3.tgz", "w:gz") as made:
    for number, each in enumerate(sorted(chart.rglob("*"), reverse=ORDER)):
        if each.is_file():
            entry = made.gettarinfo(each, f"{chart.name}/{each.relative_to(chart)}")
            entry.mtime, entry.uid, entry.mode = time.time() + number, number, 0o600
            made.addfile(entry, each.open("rb"))
"""
"""It packs as Helm does: with the time of packaging."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What of the project names its version."""
    for name in OURS:
        shutil.copytree(name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy("hami_plugins/__init__.py", tmp_path / "hami_plugins" / "__init__.py")
    return tmp_path


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart of version 1.2.3."""
    folder = tmp_path / "one"
    (folder / "templates").mkdir(parents=True)
    described = {"apiVersion": "v2", "name": "one", "version": "1.2.3", "appVersion": "1.2.3"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(described))
    (folder / "templates" / "all.yaml").write_text("kind: ConfigMap\n")
    return folder


def helm(folder: Path, *, backwards: bool) -> str:
    """A program that packs in one order or the other."""
    program = folder / f"helm-{backwards}"
    program.write_text(HELM.replace("ORDER", str(backwards)))
    program.chmod(0o755)
    return str(program)


def test_the_version_stands_in_one_place_and_charts_repeat_it() -> None:
    for path in Path("charts").rglob("Chart.yaml"):
        described = yaml.safe_load(path.read_text())
        assert (described["version"], described.get("appVersion", __version__)) == (__version__, __version__), path
        assert all(each["version"] == __version__ for each in described.get("dependencies", [])), path
    assert "version" not in (Path("pyproject.toml").read_text().partition("[project]")[2].partition("dynamic")[0])


def test_a_new_version_is_written_wherever_the_old_one_stands(tree: Path) -> None:
    for path, text in rewritten(__version__, "7.8.9", tree).items():
        path.write_text(text)
    assert '__version__ = "7.8.9"' in (tree / "hami_plugins/__init__.py").read_text()
    for path in (tree / "charts").rglob("Chart.yaml"):
        assert __version__ not in path.read_text(), path
    whole = "".join(path.read_text() for folder in ("charts", "docs") for path in (tree / folder).rglob("*.md"))
    assert not re.findall(rf"hami-plugins/[a-z-]+:{re.escape(__version__)}", whole)
    assert "hami-plugins/allocator:7.8.9" in whole
    own = (tree / "hami_plugins/examples/vendor/pyproject.toml.in").read_text()
    assert own == Path("hami_plugins/examples/vendor/pyproject.toml.in").read_text()


@pytest.mark.parametrize("new", ["1.2", "v1.2.3", "1.2.3rc1", "01.2.3", "1.2.3-rc.1", ""])
def test_a_version_that_python_or_helm_reads_otherwise_is_refused(new: str, tree: Path) -> None:
    with pytest.raises(ReleaseError, match="is not a version; write three numbers"):
        rewritten(__version__, new, tree)


def test_a_chart_gives_the_same_archive_whenever_and_however_helm_packs_it(chart: Path, tmp_path: Path) -> None:
    made = []
    for backwards in (True, False):
        folder = tmp_path / str(backwards)
        folder.mkdir()
        packed = helm(tmp_path, backwards=backwards)
        archive = chart_archives.package(chart, folder, helm=packed, version="1.2.3", epoch=400_000_000)
        made.append(archive.read_bytes())
    first, second = made
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as found:
        entries = [(each.name, each.mtime, each.uid, oct(each.mode)) for each in found]
    assert entries == [
        ("one/Chart.yaml", 400_000_000, 0, "0o644"),
        ("one/templates/all.yaml", 400_000_000, 0, "0o644"),
    ]


@pytest.mark.parametrize("key", ["version", "appVersion"])
def test_a_chart_of_another_version_than_the_release_is_not_packed(chart: Path, tmp_path: Path, key: str) -> None:
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**described, key: "1.2.2"}))
    packed = helm(tmp_path, backwards=False)
    with pytest.raises(ReleaseError, match=rf"{key} is 1\.2\.2, the release is 1\.2\.3; run python -m"):
        chart_archives.package(chart, tmp_path, helm=packed, version="1.2.3", epoch=0)


def test_where_helm_is_missing_its_name_is_told(chart: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no-such-helm: not found; install it, or name it"):
        chart_archives.package(chart, tmp_path, helm="no-such-helm", version="1.2.3", epoch=0)


def test_every_chart_that_can_be_installed_is_part_of_a_release() -> None:
    names = [each.name for each in chart_archives.installable()]
    assert names == ["hami-plugins", "allocator", "koordinator-adapter", "volcano-vgpu"]


def test_wheel_and_sdist_are_the_same_when_they_are_built_again(tmp_path: Path) -> None:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append([each.read_bytes() for each in distributions.build(tmp_path / name, 1_700_000_000)])
    assert made[0] == made[1]
    (wheel,) = (tmp_path / "first").glob("*.whl")
    assert wheel.name == f"hami_plugins-{__version__}-py3-none-any.whl"


def test_the_bill_of_the_wheel_has_what_it_needs_and_nothing_that_only_tests_need(tmp_path: Path) -> None:
    wheel = tmp_path / "hami_plugins-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"content")
    bill = json.loads(distributions.bill(wheel))
    assert bill["metadata"]["component"]["version"] == "1.2.3"
    found = {each["name"].lower(): each["version"] for each in bill["components"]}
    assert found["starlette"] == importlib.metadata.version("starlette")
    assert "anyio" in found  # starlette's
    assert not {"pytest", "ruff", "torchx", "nvidia-ml-py", "hami-plugins"} & found.keys()


def test_a_file_that_is_not_as_listed_is_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(sums(tmp_path))
    listed(tmp_path)
    (tmp_path / "two").write_text("changed")
    (tmp_path / "three").write_text("more")
    with pytest.raises(ReleaseError, match="SHA256SUMS: three, two: not as listed"):
        listed(tmp_path)
