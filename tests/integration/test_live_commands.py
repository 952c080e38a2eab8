"""Commands on a live cluster: read through kubeconfig, page by page, and never written to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.cli import main
from hami_plugins.inputs import fleets
from tests.integration.test_kube_client import ApiServer, Reply, serve

__all__ = ["serve"]

JOB = """
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}
"""
NODES = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1, count: 3}]", source="test"))


def a_cluster(path: str, query: dict[str, str]) -> Reply:
    """Three nodes on pages of their own, no pods, and neither quotas nor Volcano."""
    if path == "/api/v1/nodes":
        at = int(query.get("continue", "0"))
        more = {"continue": str(at + 1)} if at + 1 < len(NODES) else {}
        return 200, {"metadata": more, "items": [NODES[at]]}
    return (200, {"metadata": {}, "items": []}) if path == "/api/v1/pods" else (404, {"message": "not found"})


@pytest.fixture
def kubeconfig(serve: Any, tmp_path: Path) -> Path:
    """A kubeconfig that leads to the cluster."""
    server: ApiServer = serve(a_cluster)
    file = tmp_path / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_a_plan_reads_the_cluster_of_kubeconfig(
    kubeconfig: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    assert main(["plan", "-f", str(job), "--kubeconfig", str(kubeconfig), "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["summary"]["nodes"], said["pods"][0]["node"]) == (3, "t4x1-0")


def test_a_snapshot_of_a_live_cluster_can_be_planned_on(
    kubeconfig: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, file = tmp_path / "job.yaml", tmp_path / "snapshot.json.gz"
    job.write_text(JOB, encoding="utf-8")
    assert main(["snapshot", "--kubeconfig", str(kubeconfig), "--out", str(file)]) == 0
    assert main(["plan", "-f", str(job), "--snapshot", str(file)]) == 0
    assert "t4x1-0" in capsys.readouterr().out


def test_an_unknown_context_is_one_line_and_two(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pods", "--kubeconfig", str(kubeconfig), "--context", "there"]) == 2
    said = capsys.readouterr().err
    assert "there" in said
    assert len(said.splitlines()) == 1
