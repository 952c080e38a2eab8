"""A migration of what runs, on the real API server: killed at any moment, gone on with, and taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, MEMORY, SHARED
from tests.cluster.api import Object
from tests.cluster.koordinator import Koordinator
from tests.cluster.koordinator_adapter import ISOLATION, Adapter, CardNodes, a_pod

SLICE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}


def a_workload(name: str, limits: Mapping[str, str], **spec: Any) -> Object:
    """A Deployment of no pods."""
    labels = {"app": name}
    container = {"name": "main", "image": "i", "resources": {"limits": dict(limits)}}
    metadata = {"labels": {**labels, **spec.pop("labels", {})}}
    template = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    body = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


class Namespace:
    """What a migration changes in a namespace, and the command."""

    def __init__(self, koordinator: Koordinator, name: str, journal: Path) -> None:
        self._plane = koordinator.plane
        self.name = name
        self._journal = journal
        self.workloads = f"/apis/apps/v1/namespaces/{name}/deployments"

    def state(self) -> tuple[list[Any], list[Any]]:
        """The templates, and what pods hold."""
        templates = [each["spec"]["template"] for each in self._plane.api.items(self.workloads)]
        pods = self._plane.api.items(f"/api/v1/namespaces/{self.name}/pods")
        return templates, [each["metadata"].get("annotations") for each in pods]

    def run(self, *words: str) -> subprocess.Popen[str]:
        """The command, under way."""
        where = ["-n", self.name, "--journal", str(self._journal), "--kubeconfig", str(self._plane.admin_kubeconfig)]
        whole = [sys.executable, "-m", "hami_plugins.cli", "koordinator", "migrate", *words, *where]
        return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, *words: str) -> str:
        """What the command prints; it has to go well, or to have gone well before it could be killed."""
        process = self.run(*words)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0 or "this migration is done" in said, said
        return said

    def kill_after(self, marks: int, *words: str) -> None:
        """Kill the command as soon as its journal has so many lines."""
        process = self.run(*words)
        while process.poll() is None:
            if self._journal.exists() and self._journal.read_bytes().count(b"\n") > marks:
                break
        process.kill()
        process.communicate()


@pytest.mark.parametrize("marks", [0, 1, 2, 3, 4, 5])
def test_a_migration_that_is_killed_at_any_moment_goes_on_and_is_taken_back(
    koordinator: Koordinator, namespace: str, tmp_path: Path, marks: int
) -> None:
    api, team = koordinator.plane.api, Namespace(koordinator, namespace, tmp_path / "journal.jsonl")
    with Adapter(koordinator), CardNodes(koordinator) as nodes:
        node = nodes.add()
        nodes.wait_summed(node, 200)
        held = {"hami.io/vgpu-devices-allocated": f"GPU-{node}-1,NVIDIA,3000,30:;"}
        pod = a_pod("held", SLICE, translated=False, nodeName=node, annotations=held)
        api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
        for name in ("serving", "training"):
            api.create(team.workloads, a_workload(name, SLICE, schedulerName="hami-scheduler"))
        before = team.state()
        team.kill_after(marks, "--apply")
        team.finish("--apply")
        templates, (annotations,) = team.state()
        cards = json.loads(annotations[ALLOCATED_KEY])["gpu"]
        assert [(each["id"], each["resources"][MEMORY]) for each in cards] == [(f"GPU-{node}-1", "3000Mi")]
        assert {json.dumps(each["spec"]["containers"][0]["resources"]["limits"]) for each in templates} == {
            json.dumps({CORE: "30", MEMORY: "3000Mi", SHARED: "1"})
        }
        team.kill_after(2 + 6 + marks, "--undo", "--apply")
        team.finish("--undo", "--apply")
        assert team.state() == before


def test_amounts_that_the_api_server_spells_its_own_way_are_nobodys_change(
    koordinator: Koordinator, namespace: str, tmp_path: Path
) -> None:
    team = Namespace(koordinator, namespace, tmp_path / "journal.jsonl")
    limits = {SHARED: "1", MEMORY: "3000Mi", CORE: "30"}
    spec = {"schedulerName": "koord-scheduler", "nodeSelector": ISOLATION, "labels": ISOLATION}
    koordinator.plane.api.create(team.workloads, a_workload("serving", limits, **spec))
    before = team.state()
    team.finish("--to", "hami", "--apply")
    assert "3k" in json.dumps(team.state())
    team.finish("--undo", "--apply")
    assert team.state() == before
