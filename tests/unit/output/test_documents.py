"""Documents: what they say, and that the published schema describes all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import orjson
import pytest

from hami_plugins import vet
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.dialect import Dialect
from hami_plugins.output import documents, findings, vendors
from hami_plugins.plan import Plan, Planner, submission
from hami_plugins.vendors import builtin
from tests.schema import ADAPTER, generated
from tests.unit.plan.plans import NOW_NS, REGISTRY, a_plan, answers_of, asking

JOB = """
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: lab}
spec:
  initContainers:
  - name: warm
    resources: {limits: {nvidia.com/gpu: 1}}
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000, nvidia.com/gpucores: 30}}
---
apiVersion: v1
kind: Service
metadata: {name: front}
"""


def a_submission() -> tuple[Plan, Answers, workloads.Submission]:
    """A pod of two containers and a document that runs nothing, on one T4."""
    registry = builtin()
    snapshot = snapshot_of(fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="fleet")), registry)
    submitted = workloads.read(manifests.read(JOB, source="job.yaml"))
    planner = Planner(registry)
    plan = planner.plan(snapshot, submission.units(submitted, snapshot), now_ns=NOW_NS)
    return plan, Answers(plan, planner), submitted


def test_the_published_schema_is_the_one_of_the_types() -> None:
    published = resources.files("hami_plugins.output").joinpath("schemas", "v1alpha1.json").read_text(encoding="utf-8")
    assert json.loads(published) == generated(), "python -m tests.schema writes it anew"


@pytest.mark.parametrize("pods", [(), (asking(),), (asking(), asking(100_000, name="big"), asking(1, 500, name="odd"))])
def test_every_plan_is_as_the_schema_says(pods: tuple[Any, ...]) -> None:
    plan = a_plan(*pods)
    document = documents.plan(plan, answers_of(plan))
    ADAPTER.validate_python(orjson.loads(orjson.dumps(document)), strict=True)


def test_every_vendor_is_as_the_schema_says() -> None:
    ADAPTER.validate_python(vendors.document(builtin()), strict=True)


def test_a_placed_pod_says_where_and_what() -> None:
    plan, told, submitted = a_submission()
    document = documents.plan(plan, told, submitted=submitted)
    (pod,) = document["pods"]
    assert document["summary"] == {
        "pods": 1,
        "placed": 1,
        "refused": 0,
        "nodes": 1,
        "workloads": 1,
        "skipped": 0,
        "afterEviction": 0,
        "evictions": 0,
    }
    assert (pod["verdict"], pod["stage"], pod["node"], pod["candidates"]) == ("placed", "placed", "t4x1-0", 1)
    assert pod["admission"]["allowed"]
    assert {"container": None, "kind": "schedulerName", "key": "schedulerName", "value": "hami-scheduler"} in pod[
        "admission"
    ]["changes"]
    warm, main = pod["containers"]
    assert (warm["name"], warm["kind"]) == ("warm", "init")
    assert warm["limits"]["nvidia.com/gpucores"] == "100", "the webhook adds it"
    (share,) = main["slices"]
    assert (share["memoryMiB"], share["cores"], share["index"], share["vendor"]) == (4000, 30, 0, "NVIDIA")
    assert share["id"] in pod["annotations"]["hami.io/vgpu-devices-allocated"]
    assert pod["labels"] == {"hami.io/vgpu-node": "t4x1-0"}


def test_documents_that_run_nothing_are_named_with_their_line() -> None:
    plan, told, submitted = a_submission()
    (ignored,) = documents.plan(plan, told, submitted=submitted)["ignored"]
    assert ignored == {
        "file": "job.yaml",
        "document": 2,
        "line": 13,
        "kind": "Service",
        "name": "front",
        "why": "runs no pods",
        "hasPods": False,
    }


def test_a_refused_pod_has_no_node_and_keeps_its_resources() -> None:
    plan = a_plan(asking(100_000))
    (pod,) = documents.plan(plan, answers_of(plan))["pods"]
    assert (pod["verdict"], pod["stage"], pod["node"], pod["score"]) == ("refused", "nodes", None, None)
    assert "CardInsufficientMemory" in pod["hamiReason"]
    assert pod["containers"][0]["slices"] == []
    assert pod["containers"][0]["limits"]["acme.example/memory"] == "100k"
    assert [reason["nodes"] for reason in pod["reasons"]] == [1]
    assert "asked 100,000 MiB" in pod["reason"]
    assert pod["counterfactuals"][0]["changes"] == ["with acme.example/memory: 16384 instead of 100000"]
    assert pod["counterfactuals"][0]["node"] == "node-0"


def test_the_annotations_of_another_dialect_are_empty() -> None:
    plan, told, _ = a_submission()
    (pod,) = documents.plan(plan, told, dialect=Dialect.VOLCANO)["pods"]
    assert pod["annotations"] == pod["labels"] == {}


def test_what_is_written_is_a_patch_of_the_pod() -> None:
    plan, told, _ = a_submission()
    written = documents.written(plan.pods[0], Dialect.HAMI)
    assert written is not None
    assert (written["metadata"]["namespace"], written["metadata"]["name"]) == ("lab", "two")
    assert written["metadata"]["annotations"] == documents.pod(told.all[0])["annotations"]
    assert documents.written(plan.pods[0], Dialect.VOLCANO) is None


def test_nothing_is_written_on_a_refused_pod() -> None:
    assert documents.written(a_plan(asking(100_000)).pods[0], Dialect.HAMI) is None


def test_a_vendor_says_all_that_one_has_to_know() -> None:
    (acme,) = vendors.document(REGISTRY)["items"]
    assert acme["resources"] == {
        "count": "acme.example/card",
        "memory": "acme.example/memory",
        "cores": "acme.example/cores",
    }
    assert acme["annotations"]["useIds"] == ["acme.example/use-uuid"]
    assert acme["memoryUnitMiB"] == 1


def test_findings_are_as_the_schema_says() -> None:
    found = vet.vet(
        manifests.read(JOB.replace("nvidia.com/gpumem: 4000", "nvidia.com/gpumen: 4000"), source="j"), builtin()
    )
    assert found
    ADAPTER.validate_python(findings.document(found), strict=True)
    ADAPTER.validate_python(findings.rules_document(vet.RULES), strict=True)


def test_pods_of_a_plan_are_made_one_by_one_where_they_are_printed_so() -> None:
    plan, told, submitted = a_submission()
    streamed = documents.streamed_plan(plan, told, submitted=submitted)
    pods = streamed["pods"]
    assert isinstance(pods, Iterator)
    assert {**streamed, "pods": list(pods)} == documents.plan(plan, told, submitted=submitted)
