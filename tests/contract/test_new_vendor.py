"""A new vendor is one file and one line: ``tests/acme.py``, and its place in the registry."""

import json
from pathlib import Path

import pytest

from hami_plugins import library
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import manifests
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.output import vendors
from hami_plugins.plan import Planner
from hami_plugins.queueing.stages import Stage
from hami_plugins.vendors import BUILTIN
from hami_plugins.vet import vet
from tests import acme
from tests.machines import plain

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example.com/train:1
        resources:
          limits: {acme.example/card: 2, acme.example/memory: %s, acme.example/cores: 50}
"""


@pytest.fixture
def registry() -> Registry:
    return Registry([*BUILTIN, acme.SPEC])  # the one line


@pytest.fixture
def snapshot(registry: Registry) -> ClusterSnapshot:
    found = library.load_snapshot([plain(acme.SPEC).node("acme-0")], registry)
    assert found.problems == ()
    return found


def test_its_file_is_small_and_knows_nothing_of_other_vendors() -> None:
    text = Path(str(acme.__file__)).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert "hami_plugins.vendors" not in text


def test_plan_places_its_pods_and_writes_its_annotations(registry: Registry, snapshot: ClusterSnapshot) -> None:
    plan = library.plan(snapshot, JOB % 8_000, Planner(registry))
    assert [pod.stage for pod in plan.pods] == [Stage.PLACED] * 2
    (first, second) = (pod.annotations for pod in plan.pods)
    assert first["hami.io/vgpu-node"] == "acme-0"
    assert first["hami.io/acme-devices-allocated"] == first["hami.io/acme-devices-to-allocate"]
    assert first["hami.io/acme-devices-allocated"].count(",Acme,8000,50:") == 2
    assert first["hami.io/acme-devices-allocated"] != second["hami.io/acme-devices-allocated"]


def test_plan_refuses_with_counted_reasons_and_relax_finds_a_way(registry: Registry, snapshot: ClusterSnapshot) -> None:
    plan = library.plan(snapshot, JOB % 20_000, Planner(registry))
    refused = plan.pods[0]
    assert refused.stage is Stage.NODES
    assert "8/8 CardInsufficientMemory" in refused.words
    ways = library.relax(snapshot, refused.intake, Planner(registry).decider)
    assert ways
    assert "16384" in str(ways[0]) or "acme.example/memory" in str(ways[0])


def test_vendors_lists_it(registry: Registry) -> None:
    listed = json.dumps(vendors.document(tuple(registry)))
    assert all(word in listed for word in ("Acme One", *acme.RESOURCES.all(), acme.SPEC.keys.allocated))
    assert "Acme One" in str(vendors.detail(registry[acme.SPEC.name]))


def test_vet_knows_its_resources_and_its_misspellings(registry: Registry, snapshot: ClusterSnapshot) -> None:
    fine = manifests.read(JOB % 8_000, source="job.yaml")
    assert [finding for finding in vet(fine, registry, snapshot=snapshot) if "acme" in str(finding)] == []
    typo = manifests.read((JOB % 8_000).replace("acme.example/memory", "acme.example/memroy"), source="job.yaml")
    assert any("acme.example/memory" in str(finding) for finding in vet(typo, registry))
    bytes_ = manifests.read(JOB % "8Gi", source="job.yaml")
    assert any("8Gi" in str(finding) for finding in vet(bytes_, registry))
