"""Images: one target for each process that a chart runs, from a base that is named to the patch."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from charts.docker.targets import TARGETS
from tests.cluster import peers
from tests.contract.charts import schemas

INSTRUCTIONS = {"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
DOCKERFILE = Path("charts/docker/Dockerfile")


def repositories(found: object) -> set[str]:
    """The images that values name."""
    if not isinstance(found, dict):
        return set()
    own = {str(found["repository"])} if "repository" in found else set()
    return own.union(*(repositories(held) for held in found.values()))


def test_the_page_names_the_versions_that_the_tests_run() -> None:
    """Of everything that is built for them, and of what is locked."""
    page = Path("docs/reference/support.md").read_text()
    releases = {module.folder: module.release.partition("@v")[2] for module in peers.modules({})}
    for part, words in {
        "kubernetes": "Kubernetes {}:",
        "kubectl": "kubectl {}",
        "containerd": "containerd {},",
        "helm3": "Helm {} and",
        "helm4": "and {},",
        "volcano": "Volcano {} ",
        "koordinator": "Koordinator {}:",
        "buildah": "Buildah {} ",
    }.items():
        assert words.format(releases[part]) in page, part
    locks = "".join(Path(name).read_text() for name in (".ci/requirements.lock", ".ci/requirements-torchx.lock"))
    for name, words in {"nvidia-ml-py": "nvidia-ml-py {} ", "torchx": "TorchX {} "}.items():
        (version,) = set(re.findall(rf"^{name}==(\S+)", locks, re.MULTILINE))
        assert words.format(version) in page


def test_every_process_of_the_charts_has_a_target_and_no_other_has() -> None:
    named = {
        each
        for name in schemas.SCHEMAS
        for each in repositories(yaml.safe_load((schemas.CHARTS / name / "values.yaml").read_text()))
    }
    assert named == {f"hami-plugins/{target.name}" for target in TARGETS}


def test_the_dockerfile_makes_the_same_targets_with_the_same_users() -> None:
    stage = r"^FROM common AS (\S+)\nCOPY --from=build /opt/(\S+) /opt/hami-plugins\nUSER (\S+)$"
    stages = re.findall(stage, DOCKERFILE.read_text(), re.MULTILINE)
    assert stages == [(target.name, target.name, target.user) for target in TARGETS]
    lists = {file.stem for file in (DOCKERFILE.parent / "packages").iterdir()}
    assert lists == {target.name for target in TARGETS}


def test_the_base_is_one_that_whoever_builds_names_by_its_digest() -> None:
    """There is no default: a tag could be another image tomorrow, and the digest is unknown here."""
    text = DOCKERFILE.read_text()
    assert re.findall(r"^ARG BASE.*$", text, re.MULTILINE) == ["ARG BASE", "ARG BASE"]
    first = text.partition("FROM ${BASE} AS build\n")[2].replace("\\\n", "").splitlines()
    assert first[0] == "ARG BASE"
    shell, words = "/bin/sh", first[1].removeprefix("RUN ")
    for base, code in (("python:3.11@sha256:0123", 0), ("python:3.11-slim", 1), ("", 1)):
        done = subprocess.run([shell, "-c", words], env={"BASE": base}, capture_output=True, text=True, check=False)
        assert done.returncode == code, base
        assert not code or f"BASE={base}: name the base by its digest" in done.stderr


def test_nothing_is_compiled_or_taken_by_a_moving_name() -> None:
    text = DOCKERFILE.read_text()
    assert "latest" not in text
    assert text.count("pip install") + text.count("pip download") == text.count("--only-binary=:all:")


def test_every_wheel_is_held_to_its_hash() -> None:
    """It comes from the index by its hash, or from what has come so."""
    steps = DOCKERFILE.read_text().replace("\\\n", " ").replace("&&", "\n").splitlines()
    fetching = [step for step in steps if "pip install" in step or "pip download" in step]
    assert fetching
    assert all("--require-hashes" in step or "--no-index" in step for step in fetching)


def test_the_dockerfile_copies_what_is_there_and_from_stages_that_are_before() -> None:
    seen: set[str] = set()
    for line in DOCKERFILE.read_text().replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["FROM"]:
            assert words[1] == "${BASE}" or words[1] in seen, line
            seen.add(words[3])
        elif words[:1] == ["COPY"]:
            stage = words[1].removeprefix("--from=") if words[1].startswith("--from=") else ""
            assert not stage or stage in seen, line
            assert stage or all(Path(source).exists() for source in words[1:-1]), line
        assert not words or words[0].startswith("#") or words[0] in INSTRUCTIONS, line


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    sent = re.findall(r"^!(.+)$", DOCKERFILE.with_name("Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(" ".join(copied).split()) == sorted(sent)
