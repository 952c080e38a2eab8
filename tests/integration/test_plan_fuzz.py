"""Anything may be in a dump or a manifest: only documented errors come out, and healthy objects are still planned."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins import library
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError
from hami_plugins.explain.answers import Answers
from hami_plugins.output import documents, tables
from hami_plugins.plan import Plan, Planner, Stage
from tests import strategies
from tests.machines import MACHINES, SPECS

REGISTRY = Registry(SPECS)
PLANNER = Planner(REGISTRY)
Raw = dict[str, Any]

GOOD_NODE = next(machine for machine in MACHINES if machine.name == "hygon").node("good")
GOOD_NODE["metadata"]["labels"]["pool"] = "good"
GOOD_LIMITS = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 2000, "hygon.com/dcucores": 10}
GOOD_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "good", "namespace": "healthy"},
    "spec": {
        "nodeSelector": {"pool": "good"},
        "containers": [{"name": "main", "resources": {"limits": GOOD_LIMITS}}],
    },
}


def planned(listed: list[object], wanted: list[Raw]) -> Plan:
    """The plan, and everything that is made of it."""
    snapshot = library.load_snapshot(listed, REGISTRY)
    plan = library.plan(snapshot, json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}), PLANNER)
    if len(plan.pods) <= 2:
        documents.plan(plan, Answers(plan, PLANNER))
    tables.plan(plan, REGISTRY)
    assert all(pod.stage is Stage.PLACED or pod.why or pod.words for pod in plan.pods)
    return plan


def is_placed(plan: Plan) -> bool:
    """Whether the healthy pod got its place on the healthy node."""
    (good,) = (pod for pod in plan.pods if pod.pod.full_name == "healthy/good")
    return good.stage is Stage.PLACED and good.annotations["hami.io/vgpu-node"] == "good"


@given(strategies.clusters(), st.randoms())
def test_nothing_in_a_dump_hides_a_healthy_node(cluster: tuple[list[object], list[Raw]], order: Any) -> None:
    items = [GOOD_NODE, *cluster[0]]
    order.shuffle(items)
    assert is_placed(planned(items, [GOOD_POD]))


@given(strategies.clusters())
def test_no_pod_hides_a_healthy_one(cluster: tuple[list[object], list[Raw]]) -> None:
    listed, pods = cluster
    try:
        plan = planned([GOOD_NODE, *listed], [*pods, GOOD_POD])
    except ManifestError:
        # What is no Pod at all is refused with its place, before anything is planned.
        return
    assert is_placed(plan)


@given(strategies.json_values)
def test_any_document_is_planned_or_refused_with_its_place(document: object) -> None:
    snapshot = library.load_snapshot([GOOD_NODE], REGISTRY)
    with suppress(ManifestError):
        assert library.plan(snapshot, json.dumps(document), PLANNER).before.nodes == snapshot.nodes


@given(st.text(max_size=60))
def test_any_text_is_a_listing_or_refused(text: str) -> None:
    with suppress(ManifestError):
        assert library.load_snapshot(text, REGISTRY).nodes == ()


class TestOneNode:
    """Particular nodes that clusters have had."""

    @staticmethod
    def node(register: str, **capacity: str) -> Raw:
        return {
            "kind": "Node",
            "metadata": {"name": "odd", "annotations": {"hami.io/node-nvidia-register": register}},
            "status": {"capacity": capacity, "allocatable": capacity},
        }

    @staticmethod
    def cards(*ids: str) -> str:
        card = {"count": 10, "devmem": 16384, "devcore": 100, "type": "NVIDIA-T4", "health": True, "mode": "hami-core"}
        return json.dumps([{"id": name, "index": at, **card} for at, name in enumerate(ids)])

    @staticmethod
    def pod(**limits: str) -> Raw:
        resources = {"limits": {f"nvidia.com/{name}": amount for name, amount in limits.items()}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "new"},
            "spec": {"containers": [{"name": "main", "resources": resources}]},
        }

    def stage(self, *listed: object, **limits: str) -> Stage:
        plan = planned([*listed, GOOD_NODE], [self.pod(**limits), GOOD_POD])
        assert is_placed(plan)
        return plan.pods[0].stage

    def test_a_node_with_ten_thousand_cards(self) -> None:
        node = self.node(self.cards(*(f"GPU-{at}" for at in range(10_000))))
        assert self.stage(node, gpu="2", gpumem="1000") is Stage.PLACED

    def test_a_node_without_cards(self) -> None:
        assert self.stage(self.node("[]"), gpu="1", gpumem="1000") is Stage.NODES

    def test_a_node_with_half_a_register(self) -> None:
        whole = self.cards("GPU-0", "GPU-1")
        assert self.stage(self.node(whole[: len(whole) // 2]), gpu="1", gpumem="1000") is Stage.NODES

    def test_a_node_that_lists_a_card_twice_has_it_once(self) -> None:
        assert self.stage(self.node(self.cards("GPU-0", "GPU-0")), gpu="2", gpumem="1000") is Stage.NODES
        assert self.stage(self.node(self.cards("GPU-0", "GPU-0")), gpu="1", gpumem="1000") is Stage.PLACED

    def test_a_pod_on_a_card_that_vanished_is_kept(self) -> None:
        running = {
            "kind": "Pod",
            "metadata": {
                "name": "running",
                "annotations": {"hami.io/vgpu-devices-allocated": "GPU-9,NVIDIA,9000,9:;"},
            },
            "spec": {"nodeName": "odd", "containers": [{"name": "main"}]},
        }
        snapshot = library.load_snapshot([self.node(self.cards("GPU-0")), running], REGISTRY)
        (node,) = snapshot.nodes
        assert [share.device for share in node.pods[0].strangers] == ["GPU-9"]
        assert "GPU-9" in snapshot.problems[0].what

    def test_a_vendor_that_nobody_knows_is_left_to_the_scheduler(self) -> None:
        pod = self.pod()
        pod["spec"]["containers"][0]["resources"] = {"limits": {"unknown.example/npu": "1"}}
        (plan,) = planned([GOOD_NODE], [pod]).pods
        assert "Insufficient unknown.example/npu" in plan.words
        without = planned([self.node("[]", **{"unknown.example/npu": "4"})], [pod])
        assert without.pods[0].stage is Stage.PLACED

    @pytest.mark.parametrize("amount", ["1500m", "16Gi", "99999999999999999999", "0.5", "2147483648"])
    def test_an_amount_that_means_nothing_is_refused_and_says_so(self, amount: str) -> None:
        plan = planned([self.node(self.cards("GPU-0"))], [self.pod(gpu="1", gpumem=amount)])
        assert plan.pods[0].stage in (Stage.ADMISSION, Stage.REQUEST)
        assert "nvidia.com/gpumem" in plan.pods[0].why

    def test_a_negative_amount_is_not_planned_and_the_next_pod_still_is(self) -> None:
        good = self.pod(gpu="1", gpumem="1000")
        good["metadata"]["name"] = "good"
        bad, fine = planned([self.node(self.cards("GPU-0"))], [self.pod(gpu="1", gpumem="-1"), good]).pods
        assert (bad.stage, fine.stage) == (Stage.REQUEST, Stage.PLACED)
        assert "nvidia.com/gpumem=-1" in bad.why

    def test_a_negative_amount_of_a_plain_resource_is_not_planned(self) -> None:
        pod = self.pod(gpu="1")
        pod["spec"]["containers"][0]["resources"]["requests"] = {"unknown.example/npu": "-1"}
        (plan,) = planned([self.node(self.cards("GPU-0"))], [pod]).pods
        assert plan.stage is Stage.REQUEST
        assert "unknown.example/npu=-1: the amount is negative" in plan.why


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("nodeSelector", {"pool": 5}),
        ("tolerations", [{"key": 7}]),
        ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [5]}}}),
        ("runtimeClassName", ["a"]),
        ("containers", [{"name": "main", "env": [{"name": 3}]}]),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_pod_that_cannot_be_read_is_refused_with_its_place(kind: str, member: str, value: object) -> None:
    spec: Raw = {"containers": [{"name": "main"}], member: value}
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": spec}
    if kind == "Deployment":
        raw = {**raw, "apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": 2, "template": {"spec": spec}}}
    with pytest.raises(ManifestError, match=rf"document 1, line \d+, column \d+: .*{member}"):
        library.read_manifests(json.dumps(raw))
