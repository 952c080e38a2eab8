"""Snapshot files under pseudonyms: no name survives, no answer changes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.eligibility import selected
from hami_plugins.inputs import fleets
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.snapshots import files as snapshot_file
from hami_plugins.inputs.snapshots.pseudonyms import Named
from hami_plugins.inputs.snapshots.redaction import Redactor
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Plan, Planner, PlanUnit
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects
from tests import raw_objects

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
    container = raw_objects.container(
        "secret-container",
        limits=asks,
        requests=asks,
        image="registry.secret.example/app:1",
        env=[{"name": "TOKEN", "value": "hunter2"}],
    )
    labels = {"app": f"secret-app-{len(name) % 2}"}
    metadata = {"namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    scheduler = "koord-scheduler" if "koordinator.sh/gpu.shared" in asks else ""
    return raw_objects.pod(name, container, metadata=metadata, scheduler=scheduler, **spec)


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
    units = [PlanUnit(name=pod.full_name, pods=(pod,)) for pod in made]
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


def renamed(redactor: Redactor, device: str, node: str) -> str:
    """A device's id under pseudonyms; the number of a card without an id stands behind the name of its node."""
    if device == f"{node}-gpu-1":
        return f"{redactor.names.name(Named.NODE, node)}-gpu-1"
    return redactor.walk.word(device)


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
            assert ours.decision.node == redactor.names.name(Named.NODE, theirs.decision.node)
            assert ours.decision.fit == theirs.decision.fit
            assert [share.device for share in ours.decision.shares()] == [
                renamed(redactor, share.device, theirs.decision.node) for share in theirs.decision.shares()
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
        schedulingGates=[{"name": "secret-gate"}, {"name": "kueue.x-k8s.io/admission"}],
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
    first = {
        "kind": "PriorityClass",
        "metadata": {"name": "secret-first"},
        "value": 1000,
        "preemptionPolicy": "Never",
    }
    return [*raws, *waiting, pod, group, queue, quota, first]


def test_no_name_survives() -> None:
    text = json.dumps(snapshot_file.document(a_secretive_cluster(), REGISTRY, taken_at="now", redacted=True))
    assert not [secret for secret in SECRETS if secret in text]


def test_what_belonged_together_still_does() -> None:
    items = Redactor(a_secretive_cluster(), REGISTRY).cluster()
    pod = next(raw for raw in items if raw["kind"] == "Pod" and "volcano.sh/task-spec" in _annotations(raw))
    group = next(raw for raw in items if raw["kind"] == "PodGroup")
    queue = next(raw for raw in items if raw["kind"] == "Queue")
    quota = next(raw for raw in items if raw["kind"] == "ResourceQuota")
    node = next(raw for raw in items if raw["kind"] == "Node")
    first = next(raw for raw in items if raw["kind"] == "PriorityClass")
    assert (first["value"], first["preemptionPolicy"]) == (1000, "Never")
    spec: Any = pod["spec"]
    said = _metadata(pod)["annotations"]
    assert said["scheduling.k8s.io/group-name"] == _metadata(group)["name"]
    assert said["scheduling.volcano.sh/queue-name"] == _metadata(queue)["name"] == group["spec"]["queue"]  # type: ignore[index]
    assert group["spec"]["minTaskMember"] == {said["volcano.sh/task-spec"]: 2}  # type: ignore[index]
    assert _metadata(quota)["namespace"] == _metadata(pod)["namespace"] == _metadata(group)["namespace"]
    (term,) = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == [_metadata(node)["name"]]
    rack = term["matchExpressions"][0]
    assert rack["values"] == [_metadata(node)["labels"][rack["key"]]]
    assert spec["tolerations"][0]["value"] == node["spec"]["taints"][0]["value"]  # type: ignore[index]
    assert spec["schedulingGates"] == [{"name": "gate"}, {"name": "kueue.x-k8s.io/admission"}]
    assert spec["priorityClassName"] == group["spec"]["priorityClassName"] == _metadata(first)["name"]  # type: ignore[index]
    (apart,) = spec["affinity"]["podAntiAffinity"][REQUIRED]
    assert apart["labelSelector"]["matchLabels"]["volcano.sh/queue-name"] == _metadata(queue)["name"]
    assert apart["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": _metadata(pod)["namespace"]}
    assert objects.pod(pod).init_finished


def _metadata(raw: Mapping[str, object]) -> Any:
    return raw["metadata"]


def _annotations(raw: Mapping[str, object]) -> Any:
    return _metadata(raw).get("annotations", {})


@pytest.mark.parametrize("kind", ["namespace", "queue", "node"])
def test_pseudonyms_sort_as_the_names_did(kind: str) -> None:
    names = ["alpha", "beta", "default", "gamma", "root", "zeta"]
    raws: list[Any] = [{"kind": "Queue", "metadata": {"name": name}} for name in names]
    raws += [{"kind": "Node", "metadata": {"name": name}} for name in names]
    raws += [a_raw_pod("p", {}, namespace=name) for name in names]
    found = Redactor(raws, REGISTRY).names
    told = [found.name(Named(kind), name) for name in names]
    assert told == sorted(told)
    assert len(set(told)) == len(names)


def test_cards_called_after_a_node_that_has_gone_are_renamed_with_it() -> None:
    pod = a_raw_pod("p", ASKS[5], nodeName="gone-box")
    pod["metadata"]["annotations"] = {"hami.io/aws-neuron-devices-allocated": "gone-box-AWSNeuron-3,AWSNeuron,0,3:;"}
    (found,) = Redactor([pod], REGISTRY).cluster()
    assert _annotations(found) == {"hami.io/aws-neuron-devices-allocated": "node-0-AWSNeuron-3,AWSNeuron,0,3:;"}


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "Pod", "metadata": {"name": 5, "labels": ["secret"]}, "spec": "secret"},
        {
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "env": ["secret", {"name": 5}]}]},
        },
        {"kind": "Node", "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": "[{secret"}}},
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "secret"}}},
        {
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "tolerations": ["secret"],
                "initContainers": ["secret", {"name": 5, "env": "secret"}],
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchFields": ["secret"]},
                                {"matchFields": [{"key": "spec.secret", "operator": "In", "values": ["secret"]}]},
                            ]
                        }
                    }
                },
            },
        },
        {"kind": "ResourceQuota", "metadata": "secret"},
        {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": "secret", "capability": {"cpu": "secret"}}},
    ],
)
def test_an_object_that_cannot_be_read_stays_so_and_says_nothing(broken: dict[str, Any]) -> None:
    (found,) = Redactor([broken], REGISTRY).cluster()
    assert "secret" not in json.dumps(found)
    assert len(snapshot_of([found], REGISTRY).problems) == len(snapshot_of([broken], REGISTRY).problems) > 0


@pytest.mark.parametrize(
    ("numbers", "made"),
    [
        (["5", "17", "9"], ["0", "2", "1"]),
        (["7", "007", "8"], ["0", "00", "1"]),
        (["-3", "2"], ["0", "1"]),
    ],
)
def test_whole_numbers_in_labels_become_their_ranks(numbers: list[str], made: list[str]) -> None:
    raws = [
        {"kind": "Node", "metadata": {"name": f"n{at}", "labels": {"slot": each}}} for at, each in enumerate(numbers)
    ]
    found = Redactor(raws, REGISTRY).cluster()
    assert [next(iter(_metadata(raw)["labels"].values())) for raw in found] == made


def test_a_comparison_of_numbers_is_answered_the_same() -> None:
    nodes = [
        {"kind": "Node", "metadata": {"name": f"n{slot}", "labels": {"slot": slot}}, "status": {"capacity": {}}}
        for slot in ("9", "100", "17")
    ]
    term = {"matchExpressions": [{"key": "slot", "operator": "Gt", "values": ["17"]}]}
    pod = a_raw_pod("p", {}, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    redactor = Redactor([*nodes, pod], REGISTRY)
    *redacted, wanting = redactor.cluster()
    constraints = objects.pod(wanting).constraints
    chosen = [
        raw["metadata"]["name"]  # type: ignore[index]
        for raw in redacted
        if selected(str(_metadata(raw)["name"]), _metadata(raw)["labels"], constraints)
    ]
    assert chosen == [redactor.names.name(Named.NODE, "n100")]


@pytest.mark.parametrize(
    ("key", "domain"),
    [
        ("huawei.com/secret", "huawei.com/"),
        ("nvidia.com/gpu-secret", "nvidia.com/gpu-"),
        ("secret.example/fpga", ""),
        ("secret", ""),
    ],
)
def test_unknown_resources_keep_known_domains_and_sort_as_they_did(key: str, domain: str) -> None:
    known = [
        "cpu",
        "amd.com/gpu",
        "huawei.com/Ascend910B4",
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "volcano.sh/vgpu-number",
    ]
    raw = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": dict.fromkeys([*known, key], "1")}}
    (found,) = Redactor([raw], REGISTRY).cluster()
    names = list(found["status"]["capacity"])  # type: ignore[index]
    assert names[:-1] == known
    assert names[-1].startswith(domain)
    assert "secret" not in names[-1]
    assert ("/" in key) is ("/" in names[-1])
    assert sorted([*known, key]).index(key) == sorted(names).index(names[-1])


def test_ids_keep_their_form_and_say_the_same_card_everywhere() -> None:
    one, other = "GPU-8c25a887-0000-0000-0000-000000000001", "GPU-1c25a887-0000-0000-0000-000000000001"
    pod = a_raw_pod("p", {})
    pod["metadata"]["annotations"] = {
        "nvidia.com/use-gpuuuid": f"{one},{other}",
        "hami.io/vgpu-devices-allocated": f"{one},NVIDIA,4000,30:;",
        "hami.io/vgpu-mig-allocations": json.dumps([{"gpuUUID": other, "profile": "1g.10gb"}]),
    }
    (found,) = Redactor([pod], REGISTRY).cluster()
    first = "GPU-00000000-0000-4000-8000-000000000000"
    second = "GPU-00000000-0000-4000-8000-000000000001"
    assert _annotations(found) == {
        "nvidia.com/use-gpuuuid": f"{second},{first}",
        "hami.io/vgpu-devices-allocated": f"{second},NVIDIA,4000,30:;",
        "hami.io/vgpu-mig-allocations": json.dumps([{"gpuUUID": first, "profile": "1g.10gb"}]),
    }


def test_a_document_with_escapes_stays_one() -> None:
    text = '[{"id":"GPU-\\u0041b","type":"NVIDIA-Tesla T4","note":"a\\"b"}]'
    node = {"kind": "Node", "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": text}}}
    (found,) = Redactor([node], REGISTRY).cluster()
    (card,) = json.loads(_annotations(found)["hami.io/node-nvidia-register"])
    assert (card["id"], card["type"]) == ("redacted-0", "NVIDIA-Tesla T4")


def test_devices_on_one_bus_stay_on_one_bus() -> None:
    text = '[{"bdf":"cc:00.0"},{"bdf":"cc:01.0"},{"bdf":"10:1e.0"}]'
    node = {"kind": "Node", "metadata": {"name": "n", "annotations": {"metax-tech.com/node-gpu-devices": text}}}
    (found,) = Redactor([node], REGISTRY).cluster()
    assert _annotations(found) == {
        "metax-tech.com/node-gpu-devices": '[{"bdf":"01:00.0"},{"bdf":"01:01.0"},{"bdf":"00:1e.0"}]'
    }


def test_devices_behind_one_bridge_stay_behind_one_bridge() -> None:
    text = '[{"root":"pci0000:cc","near":"pci0000:cc"},{"root":"pci0000:10"}]'
    node = {"kind": "Node", "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": text}}}
    (found,) = Redactor([node], REGISTRY).cluster()
    one, other = json.loads(_annotations(found)["hami.io/node-nvidia-register"])
    assert (list(one.values()), list(other.values())) == (["pci0000:01"] * 2, ["pci0000:00"])


def test_a_text_with_escapes_that_is_no_document_says_nothing() -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": "x\\nsecret"}}}
    (found,) = Redactor([node], REGISTRY).cluster()
    assert "secret" not in json.dumps(found)


def test_an_object_count_of_a_quota_keeps_what_is_counted_secret() -> None:
    hard = {"count/ours.example.com": "5", "requests.example.com/ours": "2", "pods": "3"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "x"}, "spec": {"hard": hard}}
    (found,) = Redactor([quota], REGISTRY).cluster()
    spec: Any = found["spec"]
    counted, asked, known = spec["hard"]
    assert (counted.partition("/")[0], asked.partition(".")[0], known) == ("count", "requests", "pods")
    assert "ours" not in json.dumps(found)


def test_only_the_variables_that_rules_read_are_named() -> None:
    pod = a_raw_pod("p", {})
    names = ["SECRET", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT_SECRET"]
    pod["spec"]["containers"][0]["env"] = [{"name": name, "value": "secret"} for name in names]
    (found,) = Redactor([pod], REGISTRY).cluster()
    assert found["spec"]["containers"][0]["env"] == [  # type: ignore[index]
        {"name": "NVIDIA_VISIBLE_DEVICES"},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT_0"},
    ]


@pytest.mark.parametrize(
    ("image", "made"),
    [
        ("secret.example/volcanosh/vc-scheduler:v1.12.1@sha256:77", "vc-scheduler:v1.12.1"),
        ("secret.example/vc-scheduler:v1.12.1-secret", "vc-scheduler:v1.12.1"),
        ("vc-scheduler:secret", "image"),
        ("secret.example/app:v1.12.1", "image"),
    ],
)
def test_of_images_the_release_of_volcanos_scheduler_stays(image: str, made: str) -> None:
    pod = a_raw_pod("p", {})
    pod["spec"]["containers"][0]["image"] = image
    (found,) = Redactor([pod], REGISTRY).cluster()
    assert found["spec"]["containers"][0]["image"] == made  # type: ignore[index]


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ("A100,T4", "A100,T4"),
        ("a100-sx", "a100-sx"),
        ("esl,a", "esl,a"),
        ("Secret9", "redacted-0"),
        ("A100,Secret9", "A100,redacted-0"),
    ],
)
def test_wished_models_stay_as_far_as_they_are_published(asked: str, made: str) -> None:
    pod = a_raw_pod("p", {})
    pod["metadata"]["annotations"] = {"nvidia.com/use-gputype": asked}
    pod["metadata"].pop("uid")
    pod["metadata"].pop("labels")
    (found,) = Redactor([pod], REGISTRY).cluster()
    assert _annotations(found) == {"nvidia.com/use-gputype": made}


@pytest.mark.parametrize(("value", "stays"), [("A100-10.1.2", True), ("A100-10.1.2.3", False)])
def test_a_published_word_with_an_address_behind_it_does_not_stay(value: str, stays: bool) -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": value}}}
    (found,) = Redactor([node], REGISTRY).cluster()
    assert (value in json.dumps(found)) is stays


def test_containers_that_an_annotation_names_are_those_of_the_pod() -> None:
    pod = a_raw_pod("p", {}, initContainers=[{"name": "secret-sidecar", "restartPolicy": "Always"}])
    pod["metadata"]["annotations"] = {"hami-plugins.io/vgpu-more-ids": "secret-sidecar=GPU-x1,NVIDIA,1000,10:;gone=:"}
    (found,) = Redactor([pod], REGISTRY).cluster()
    spec: Any = found["spec"]
    said = _annotations(found)["hami-plugins.io/vgpu-more-ids"]
    assert said.startswith(f"{spec['initContainers'][0]['name']}=redacted-")
    assert said.endswith("=:")
    assert "gone" not in said


def test_queues_and_groups_keep_when_they_were_made() -> None:
    made = "2026-01-01T00:00:00Z"
    raws: list[Any] = [
        {"kind": "Queue", "metadata": {"name": "q", "creationTimestamp": made}, "spec": {"priority": 3}},
        {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "n", "creationTimestamp": made}, "spec": {}},
    ]
    found = list(Redactor(raws, REGISTRY).cluster())
    assert [_metadata(raw)["creationTimestamp"] for raw in found] == [made, made]
    assert found[0]["spec"] == {"priority": 3}


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        ("v1.34.1-eks-113cf36", "v1.34.1-eks-"),
        ("v1.33.4-gke.1036000", "v1.33.4-gke."),
        ("v1.34.1", "v1.34.1"),
        ("v1.34.1-secret", "v1.34.1"),
        ("v1.34.1+secret-eks-", "v1.34.1"),
    ],
)
def test_of_a_kubelet_its_version_and_provider_stay_so_that_tolerations_stay(version: str, kept: str) -> None:
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "secret-node"},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"nodeInfo": {"kubeletVersion": version, "machineID": "secret"}},
    }
    found: Any = Redactor([node], REGISTRY).cluster()[0]
    assert found["status"]["nodeInfo"] == {"kubeletVersion": kept}
    providers = objects.node_facts(node).tolerated if "secret" not in version else frozenset()
    assert objects.node_facts(found).tolerated == providers


def test_a_kubelet_without_a_version_gets_a_pseudonym() -> None:
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n"},
        "status": {"nodeInfo": {"kubeletVersion": "x"}},
    }
    found: Any = Redactor([node], REGISTRY).cluster()[0]
    assert found["status"]["nodeInfo"]["kubeletVersion"] not in {"x", ""}
