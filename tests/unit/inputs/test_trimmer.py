"""Snapshot files hold what a plan looks at and nothing else."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.snapshots import files as snapshot_file
from hami_plugins.inputs.snapshots.trimmer import Trimmer
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects

REGISTRY = builtin()
LISTINGS = sorted((Path(__file__).parents[2] / "golden" / "scenarios").glob("*/before.json.gz"))


def trimmed(*raws: object) -> list[dict[str, Any]]:
    return list(Trimmer(REGISTRY).objects(raws))


def test_lists_in_lists_are_taken_apart_in_order() -> None:
    inner = {"kind": "PodList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
    found = trimmed({"kind": "List", "items": [inner, {"kind": "Node", "metadata": {"name": "n"}}]})
    assert [(raw["kind"], raw["metadata"]["name"]) for raw in found] == [("Pod", "a"), ("Pod", "b"), ("Node", "n")]


def test_objects_of_several_files_are_taken_together() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in "abc"]
    assert [raw["metadata"]["name"] for raw in trimmed([nodes[0], [nodes[1]]], "nothing", nodes[2])] == ["a", "b", "c"]


def test_other_kinds_are_left_out() -> None:
    assert trimmed({"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "v"}}, 5, None) == []


def test_only_annotations_that_mean_something_stay() -> None:
    annotations = {
        "hami.io/vgpu-devices-allocated": ":;",
        "hami.io/node-scheduler-policy": "spread",
        "scheduling.k8s.io/group-name": "g",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "team.example/owner": "x",
    }
    (pod,) = trimmed({"kind": "Pod", "metadata": {"name": "p", "annotations": annotations}})
    assert list(pod["metadata"]["annotations"]) == list(annotations)[:3]


def test_values_of_environment_variables_never_stay() -> None:
    env = [{"name": "TOKEN", "value": "hunter2"}, {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s"}}}]
    (pod,) = trimmed({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "env": env}]}})
    assert pod["spec"]["containers"][0]["env"] == [{"name": "TOKEN"}, {"name": "X"}]


def test_a_member_of_the_wrong_type_stays_to_be_complained_about() -> None:
    broken = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "none"}}
    assert snapshot_of(trimmed(broken), REGISTRY).problems == snapshot_of([broken], REGISTRY).problems


def test_quotas_keep_that_they_hold_some_pods_alone_and_no_names() -> None:
    chosen = {"scopeName": "PriorityClass", "operator": "In", "values": ["ours"]}
    spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [chosen]}}
    (quota,) = trimmed({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"}, "spec": spec})
    assert quota["spec"] == {**spec, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}


@pytest.mark.parametrize("path", LISTINGS, ids=lambda path: path.parent.name)
def test_a_snapshot_file_reads_as_the_listing_it_was_made_of(path: Path) -> None:
    listing = json.loads(gzip.decompress(path.read_bytes()))
    content = snapshot_file.document([listing], REGISTRY, taken_at="2026-01-01T00:00:00Z")
    read, again = snapshot_of([listing], REGISTRY), snapshot_of([content], REGISTRY)
    assert [(entry.name, entry.state, entry.facts, entry.requested) for entry in again.nodes] == [
        (entry.name, entry.state, entry.facts, entry.requested) for entry in read.nodes
    ]
    assert again.queues == read.queues
    assert again.pod_groups == read.pod_groups
    assert again.quotas == read.quotas
    assert again.priorities == read.priorities
    assert [replace(pod, annotations={}) for pod in again.pending] == [
        replace(pod, annotations={}) for pod in read.pending
    ]
    assert len(json.dumps(content)) < len(json.dumps(listing))


def test_what_others_report_on_a_node_stays_without_their_messages() -> None:
    told = {"type": "Broken", "status": "True", "reason": "Why", "message": "at 10.0.0.1"}
    raw = {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [told]}}
    (kept,) = trimmed(raw)
    assert objects.node_object(kept) == objects.node_object(raw)
    assert objects.node_object(kept).conditions
    assert "10.0.0.1" not in str(kept)


def test_everything_that_is_read_of_a_pod_stays() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "namespaces": ["x"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    container = {
        "name": "main",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
        "env": [{"name": "A", "value": "b"}],
        "securityContext": {"privileged": True},
    }
    spec = {
        "nodeName": "n",
        "schedulerName": "s",
        "priority": 5,
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "runtimeClassName": "nvidia",
        "schedulingGates": [{"name": "g"}],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "3"}},
        "nodeSelector": {"a": "b"},
        "affinity": {
            "nodeAffinity": {
                required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}
            },
            "podAffinity": {required: [term]},
            "podAntiAffinity": {required: [term]},
        },
        "topologySpreadConstraints": [{**term, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}],
        "tolerations": [{"key": "t", "operator": "Exists", "effect": "NoSchedule"}],
        "schedulingGroup": {"podGroupName": "g"},
        "initContainers": [{**container, "name": "init", "restartPolicy": "Always"}, {**container, "name": "once"}],
        "containers": [container],
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
    }
    container["resources"]["claims"] = [{"name": "c", "request": "r"}]  # type: ignore[index]
    status = {
        "phase": "Running",
        "nominatedNodeName": "n",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
        "initContainerStatuses": [{"name": "once", "state": {"terminated": {"exitCode": 0}}}],
        "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "made"}],
    }
    metadata = {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {"app": "a", "volcano.sh/preemptable": "false"},
        "creationTimestamp": "2025-12-31T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    (kept,) = trimmed(raw)
    assert objects.pod(kept) == objects.pod(raw)
    told = objects.pod(raw)
    ordinary = objects.pod({"metadata": {"name": "p"}, "spec": {"containers": [{}]}})
    silent = {each.name for each in fields(told) if getattr(told, each.name) == getattr(ordinary, each.name)}
    # The controller of a pod is of use to a live allocator alone; templates are of jobs that are submitted.
    kept_elsewhere = {"of_group", "owner", "template_requests"}
    assert silent <= {"name", "annotations"} | kept_elsewhere, "a new field of pods has to be kept, and told of here"


def test_of_a_pods_conditions_only_that_of_its_eviction_stays() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "why"}
    ready = {"type": "Ready", "status": "True"}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [ready, target]}}
    (kept,) = trimmed(pod)
    assert kept["status"]["conditions"] == [{key: target[key] for key in ("type", "status", "reason")}]
    assert objects.pod(kept).disruption == "PreemptionByScheduler"
    (without,) = trimmed({**pod, "status": {"phase": "Running", "conditions": [ready], "nominatedNodeName": "n"}})
    assert without["status"] == {"phase": "Running", "nominatedNodeName": "n"}
    (odd,) = trimmed({**pod, "status": {"conditions": 7}})
    assert odd["status"] == {"conditions": 7}
