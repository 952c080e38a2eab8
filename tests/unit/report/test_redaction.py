"""Snapshot files under pseudonyms: no name survives, no answer changes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.decisions import Placed
from hami_plugins.report import fleets
from hami_plugins.report.listing import snapshot_of
from hami_plugins.report.plan import Plan, Planner, Unit
from hami_plugins.report.snapshots import files as snapshot_file
from hami_plugins.report.snapshots.redaction import Redactor
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects

REGISTRY = builtin()
SHAPES = ("t4x1", "l40sx4", "310px4", "mlu370x8", "dcu-z100x4", "inf2.48xlarge", "h100x8-mig")
ASKS: Sequence[Mapping[str, str]] = (
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "20"},
    {"nvidia.com/gpu": "2"},
    {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "6144"},
    {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "40"},
    {"hygon.com/dcunum": "1", "hygon.com/dcumem": "4000"},
    {"aws.amazon.com/neuron": "1"},
    {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5000"},
    {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "20", "koordinator.sh/gpu-memory": "4Gi"},
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMES = st.from_regex(r"[a-z]([a-z0-9]{0,6}|[a-z0-9-]{0,10}[a-z0-9])", fullmatch=True).filter(
    lambda name: name not in {"default", "a-node", "node"}
)


def a_raw_pod(name: str, asks: Mapping[str, str], *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A pod as the API server shows it."""
    container = {
        "name": "secret-container",
        "image": "registry.secret.example/app:1",
        "env": [{"name": "TOKEN", "value": "hunter2"}],
        "resources": {"limits": dict(asks), "requests": dict(asks)},
    }
    labels = {"app": f"secret-app-{len(name) % 2}"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    scheduler = {"schedulerName": "koord-scheduler"} if "koordinator.sh/gpu.shared" in asks else {}
    spec = {"containers": [container], **scheduler, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def published(name: str) -> list[dict[str, Any]]:
    """A node of Koordinator's, and its cards: one is called after the node, one has no id."""
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24Gi"}
    amounts = {**resources, "koordinator.sh/gpu-memory": "48Gi", "koordinator.sh/gpu.shared": "200", "cpu": "8"}
    status = {"capacity": amounts, "allocatable": amounts}
    card = {"type": "gpu", "health": True, "resources": resources, "labels": {"gpu-uuid": f"{name}-card"}}
    devices = [{**card, "minor": 0, "id": f"{name}-card"}, {**card, "minor": 1}]
    about = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status},
        {**about, "metadata": {"name": name}, "spec": {"devices": devices}},
    ]


def apart_from(app: str, *namespaces: str) -> dict[str, Any]:
    """Affinity of a pod that stays away from the nodes of others."""
    expression = {"key": "app", "operator": "In", "values": [app]}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [expression]},
        "namespaces": list(namespaces),
    }
    return {"podAntiAffinity": {REQUIRED: [term]}}


def placed(raw: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The pod after its scheduler has bound it."""
    (found,) = plan.pods
    if not isinstance(found.decision, Placed):
        return raw
    metadata = {**raw["metadata"], "annotations": {**raw["metadata"].get("annotations", {}), **found.annotations}}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "nodeName": found.decision.node}}


def plan_of(raws: Sequence[object], pods: Sequence[object]) -> Plan:
    """What becomes of some pods, one after another, in a cluster of some objects."""
    made = [objects.pod(pod) for pod in pods]
    units = [Unit(name=pod.full_name, pods=(pod,)) for pod in made]
    return Planner(REGISTRY).plan(snapshot_of(raws, REGISTRY), units)


def a_cluster(nodes: Sequence[str], running: Sequence[str], seed: int) -> tuple[list[Any], list[Any]]:
    """Nodes of various shapes with pods on them, and pods that wait."""
    chance = random.Random(seed)
    raws: list[Any] = []
    for at, name in enumerate(nodes):
        shape = SHAPES[(seed + at) % len(SHAPES)]
        (node,) = fleets.nodes_of(fleets.parse(f"nodes: [{{shape: {shape}, name: x{at}}}]", source="test"))
        raws.append(json.loads(json.dumps(node).replace(f'"x{at}-0"', f'"{name}"')))
    raws += published(f"{nodes[0]}-koord")
    for name in running:
        lonely = {"affinity": apart_from("secret-app-1", "default", "team-secret")} if chance.random() < 0.3 else {}
        raw = a_raw_pod(name, chance.choice(ASKS), namespace=chance.choice(("default", "team-secret")), **lonely)
        raws.append(placed(raw, plan_of(raws, [raw])))
    waiting = [a_raw_pod(f"w-{at}", asks) for at, asks in enumerate(ASKS)]
    waiting.append(a_raw_pod("w-apart", ASKS[0], affinity=apart_from("secret-app-0", "team-secret")))
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "secret-app-1"}},
    }
    waiting.append(a_raw_pod("w-spread", ASKS[0], topologySpreadConstraints=[spread]))
    pinned = chance.choice(nodes)
    waiting.append(a_raw_pod("w-pinned", ASKS[0], nodeSelector={"kubernetes.io/hostname": pinned}))
    return raws, waiting


@given(
    nodes=st.lists(NAMES, min_size=1, max_size=5, unique=True),
    running=st.lists(NAMES, max_size=6, unique=True),
    seed=st.integers(0, 1000),
)
def test_pseudonyms_change_no_answer(nodes: list[str], running: list[str], seed: int) -> None:
    raws, waiting = a_cluster(nodes, running, seed)
    redactor = Redactor([*raws, *waiting], REGISTRY)
    secret = plan_of(raws, waiting)
    told = plan_of(redactor.cluster()[: len(raws)], redactor.cluster()[len(raws) :])
    assert [pod.stage for pod in told.pods] == [pod.stage for pod in secret.pods]
    for ours, theirs in zip(told.pods, secret.pods, strict=True):
        if isinstance(theirs.decision, Placed) and isinstance(ours.decision, Placed):
            assert ours.decision.node == redactor.names.node[theirs.decision.node]
            assert ours.decision.fit == theirs.decision.fit
            known = redactor.names.device
            assert [share.device for share in ours.decision.grants()] == [
                known.get(share.device, share.device) for share in theirs.decision.grants()
            ]
        else:
            assert ours.words == theirs.words


SECRETS = ("gpu-box", "secret", "hunter2", "registry", "payroll", "nightly")


def a_secretive_cluster() -> list[Any]:
    raws, waiting = a_cluster(["gpu-box-1.corp.example", "gpu-box-2.corp.example"], ["payroll-7c9f-x2"], 4)
    raws[0]["metadata"]["labels"]["rack"] = "r7-gpu-box-1"
    raws[0]["spec"]["taints"] = [{"key": "for", "value": "payroll", "effect": "NoSchedule"}]
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["gpu-box-1.corp.example"]}
                        ],
                        "matchExpressions": [{"key": "rack", "operator": "In", "values": ["r7-gpu-box-1"]}],
                    }
                ]
            }
        }
    }
    affinity["podAntiAffinity"] = {
        REQUIRED: [
            {
                "topologyKey": "rack",
                "labelSelector": {"matchLabels": {"app": "payroll-app", "volcano.sh/queue-name": "payroll-queue"}},
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": "payroll"},
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["nightly-space"]},
                    ],
                },
            }
        ]
    }
    pod = a_raw_pod(
        "payroll",
        ASKS[0],
        namespace="payroll",
        affinity=affinity,
        tolerations=[{"key": "for", "operator": "Equal", "value": "payroll"}],
        schedulingGates=[{"name": "secret-gate"}],
        priorityClassName="secret-first",
        initContainers=[{"name": "secret-init"}],
    )
    pod["metadata"]["annotations"] = {
        "scheduling.k8s.io/group-name": "nightly",
        "scheduling.volcano.sh/queue-name": "payroll-queue",
        "volcano.sh/task-spec": "secret-task",
        "kubectl.kubernetes.io/last-applied-configuration": '{"secret": 1}',
    }
    pod["status"] = {"initContainerStatuses": [{"name": "secret-init", "state": {"terminated": {"exitCode": 0}}}]}
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "nightly", "namespace": "payroll"},
        "spec": {
            "minMember": 2,
            "minTaskMember": {"secret-task": 2},
            "queue": "payroll-queue",
            "priorityClassName": "secret-first",
        },
    }
    queue = {"kind": "Queue", "metadata": {"name": "payroll-queue"}, "spec": {"parent": "root"}}
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "payroll-quota", "namespace": "payroll"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}},
    }
    first = {"kind": "PriorityClass", "metadata": {"name": "secret-first"}, "value": 1000}
    return [*raws, *waiting, pod, group, queue, quota, first]


def test_no_name_survives() -> None:
    text = json.dumps(snapshot_file.document(a_secretive_cluster(), REGISTRY, taken_at="now", redacted=True))
    assert not [secret for secret in SECRETS if secret in text]


def test_what_belonged_together_still_does() -> None:
    items = Redactor(a_secretive_cluster(), REGISTRY).cluster()
    pod = next(
        raw for raw in items if raw["kind"] == "Pod" and _metadata(raw)["annotations"].get("volcano.sh/task-spec")
    )
    group = next(raw for raw in items if raw["kind"] == "PodGroup")
    queue = next(raw for raw in items if raw["kind"] == "Queue")
    quota = next(raw for raw in items if raw["kind"] == "ResourceQuota")
    node = next(raw for raw in items if raw["kind"] == "Node")
    first = next(raw for raw in items if raw["kind"] == "PriorityClass")
    spec: Any = pod["spec"]
    said = _metadata(pod)["annotations"]
    assert said["scheduling.k8s.io/group-name"] == _metadata(group)["name"]
    assert said["scheduling.volcano.sh/queue-name"] == _metadata(queue)["name"] == group["spec"]["queue"]  # type: ignore[index]
    assert group["spec"]["minTaskMember"] == {said["volcano.sh/task-spec"]: 2}  # type: ignore[index]
    assert _metadata(quota)["namespace"] == _metadata(pod)["namespace"] == _metadata(group)["namespace"]
    (term,) = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == [_metadata(node)["name"]]
    assert term["matchExpressions"][0]["values"] == [_metadata(node)["labels"]["rack"]]
    assert spec["tolerations"][0]["value"] == node["spec"]["taints"][0]["value"]  # type: ignore[index]
    assert spec["schedulingGates"] == [{"name": "gate"}]
    assert spec["priorityClassName"] == group["spec"]["priorityClassName"] == _metadata(first)["name"]  # type: ignore[index]
    (apart,) = spec["affinity"]["podAntiAffinity"][REQUIRED]
    assert apart["labelSelector"]["matchLabels"]["volcano.sh/queue-name"] == _metadata(queue)["name"]
    assert apart["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": _metadata(pod)["namespace"]}
    assert objects.pod(pod).init_finished


def _metadata(raw: Mapping[str, object]) -> Any:
    return raw["metadata"]


@pytest.mark.parametrize("kind", ["namespace", "queue", "node"])
def test_pseudonyms_sort_as_the_names_did(kind: str) -> None:
    names = ["alpha", "beta", "default", "gamma", "root", "zeta"]
    raws: list[Any] = [{"kind": "Queue", "metadata": {"name": name}} for name in names]
    raws += [{"kind": "Node", "metadata": {"name": name}} for name in names]
    raws += [a_raw_pod("p", {}, namespace=name) for name in names]
    made = getattr(Redactor(raws, REGISTRY).names, kind)
    told = [made.get(name, name) for name in names]
    assert told == sorted(told)
    assert len(set(told)) == len(names)


def test_further_objects_of_the_cluster_get_the_same_pseudonyms() -> None:
    raws, _ = a_cluster(["box-a", "box-b"], [], 0)
    redactor = Redactor(raws, REGISTRY)
    (pod,) = redactor.also([a_raw_pod("later", ASKS[0], nodeName="box-b")])
    assert pod["spec"]["nodeName"] == "node-2"  # type: ignore[index]


def test_cards_called_after_a_node_that_has_gone_are_renamed_with_it() -> None:
    pod = a_raw_pod("p", ASKS[5], nodeName="gone-box")
    pod["metadata"]["annotations"] = {"hami.io/aws-neuron-devices-allocated": "gone-box-AWSNeuron-3,AWSNeuron,0,3:;"}
    (found,) = Redactor([pod], REGISTRY).cluster()
    assert _metadata(found)["annotations"] == {
        "hami.io/aws-neuron-devices-allocated": "node-0-AWSNeuron-3,AWSNeuron,0,3:;"
    }


def test_an_object_that_cannot_be_read_is_left_out() -> None:
    redactor = Redactor([a_raw_pod("p", {}), {"kind": "Pod", "metadata": {"name": 5}}, "text"], REGISTRY)
    assert len(redactor.cluster()) == 1
    assert redactor.left_out == 1


def test_queues_and_groups_keep_when_they_were_made() -> None:
    made = "2026-01-01T00:00:00Z"
    raws: list[Any] = [
        {"kind": "Queue", "metadata": {"name": "q", "creationTimestamp": made}, "spec": {"priority": 3}},
        {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "n", "creationTimestamp": made}, "spec": {}},
    ]
    found = list(Redactor(raws, REGISTRY).cluster())
    assert [_metadata(raw)["creationTimestamp"] for raw in found] == [made, made]
    assert found[0]["spec"] == {"priority": 3}
