"""The ``Dockerfile`` is built as its page says, by a real builder, and what comes of it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from charts.docker.targets import AGENT, TARGETS
from tests.cluster.agents import Numbers
from tests.cluster.dockerfile import Builder
from tests.cluster.helm import VOLCANO_VGPU
from tests.cluster.pages import Page

MIB = 2**20

PROCESSES: Mapping[str, Sequence[str]] = {
    "volcano-vgpu-agent": ("volcano-vgpu", "agent"),
    "allocator": ("allocator", "run"),
    "koordinator-adapter": ("koordinator", "serve"),
}
"""The program that each image starts."""


def test_the_dockerfile_builds_an_image_that_reads_the_driver(
    programs: Mapping[str, Path], tmp_path: Path, numbers: Numbers
) -> None:
    """And each of the other targets one whose process starts as its user."""
    builder = Builder(programs["buildah"], tmp_path / "builder")
    builder.prepare()
    (command,) = (
        line
        for line in Page(VOLCANO_VGPU / "README.md").console("docker build").splitlines()
        if line.startswith("docker build ")
    )
    words = command.removeprefix("docker build ")
    assert words != command
    said = builder.build(words)
    assert "Successfully tagged" in said
    (name,) = re.findall(r"-t (\S+)", words)
    described = json.loads(builder.run("inspect", "--type", "image", name))["OCIv1"]
    assert described["config"]["User"] == AGENT.user
    for target in TARGETS:
        other = name.replace(AGENT.name, target.name)
        assert "Successfully tagged" in builder.build(words.replace(name, other).replace(AGENT.name, target.name))
        started = builder.started(builder.container(other), *PROCESSES[target.name], "--help", user=target.user)
        assert started.returncode == 0, started.stderr
        assert " ".join(PROCESSES[target.name]) in started.stdout
    container = builder.container(name)
    tried = builder.started(container, "volcano-vgpu", "cards", user=AGENT.user)
    assert tried.returncode == 2
    assert "no NVIDIA driver: NVML Shared Library Not Found; install or load it" in tried.stderr + tried.stdout
    archive = tmp_path / "agent.tar"
    builder.run("push", "--quiet", *builder.trusting, name, f"oci-archive:{archive}")
    numbers.add(
        "image of the Dockerfile, compressed, its base included", f"{archive.stat().st_size / MIB:.0f} MiB", "150"
    )
    assert archive.stat().st_size <= 150 * MIB
