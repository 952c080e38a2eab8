"""The vectors about what Volcano books, writes and calls things."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.inventory import RecordReader, with_pods
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import manifests, workloads
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.model.devices import GroupMember
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.plan import Planner, PlanUnit, Stage, submission
from hami_plugins.queueing.queues import ADMITTED, INQUEUE
from hami_plugins.vendors import volcano
from hami_plugins.wire import gang_keys, objects
from tests.golden import volcano_rows as rows
from tests.golden.cases import Case, each

REGISTRY = Registry([volcano.SPEC])

LEDGER: dict[str, tuple[str, dict[str, list[int]]]] = {
    "ledger-074": ("every container counts, as in 1.14.1", {"GPU-a": [2, 5000, 30]}),
    "ledger-076": ("ids are compared whole", {"GPU-ab": [1, 100, 0], "GPU-a": [0, 0, 0]}),
    "ledger-076a-without": ("a pod that is gone holds nothing, whatever its object says", {"GPU-a": [0, 0, 0]}),
    "ledger-076b": ("a pod that is gone holds nothing of any container", {"GPU-a": [0, 0, 0]}),
    "ledger-076c": ("zero cards book nothing", {"GPU-a": [0, 0, 0]}),
}
"""Deviations of ``ledger.yaml``: why, and what is booked."""


@each("volcano/ledger.yaml")
def test_ledger(case: Case) -> None:
    cards = [{**card, "memory": card.get("memory", 40960)} for card in case.given["cards"]]
    entry = rows.node(rows.register_of(cards), REGISTRY)
    for operation in case.given["operations"]:
        entry = _done(case, entry, operation)
    wanted = LEDGER[case.id][1] if case.id in LEDGER else case.expect["ledger"]
    assert wanted.items() <= rows.ledger(entry).items()


def _done(case: Case, entry: NodeEntry, operation: dict[str, Any]) -> NodeEntry:
    uid = operation["uid"]
    others = without_pods(entry, lambda record: record.uid == uid)
    match operation["op"]:
        case "add_from_annotation":
            return _added(others, uid, operation["ids"])
        case "add_pod":
            return _added(others, uid, f"{entry.ids[0]},NVIDIA,{operation['memory']},{operation['cores']}:")
        case "allocate":
            listed = operation.get("containers") or [operation["limits"]]
            pod = rows.pod_of([{"limits": limits} for limits in listed], name=uid)
            policies = rows.defaults(case, operation["policy"])
            found = rows.decide(others, pod, REGISTRY, policies)
            return rows.holding(others, found, uid) if found.placed and found.placed.shares() else others
        case _:  # sub_pod, sub_from_annotation, release; the tentative booking is the pod's own
            return others


def _added(entry: NodeEntry, uid: str, ids: str | None) -> NodeEntry:
    segments = [] if ids is None else ids.split(";")
    pod = rows.pod_of(
        [{"limits": {"volcano.sh/vgpu-number": "1"}} for _ in segments or [""]],
        annotations={} if ids is None else {rows.IDS: ids},
        name=uid,
    )
    record, problems = RecordReader(REGISTRY).record(pod)
    assert not problems
    return with_pods(entry, (*entry.pods, record))


@each("volcano/ledger-capacity.yaml")
def test_every_pod_counts_once(case: Case) -> None:
    # Volcano 1.14.1 counts a bound pod twice until something changes on the node, so it stops at half.
    entry = rows.node(rows.register_of(case.given["cards"]), REGISTRY)
    assert _fitting(entry, "1") == 2 * case.expect["pods_per_card_split_10"]
    assert _fitting(entry, "10240") == 2 * case.expect["pods_of_10240_per_40960_card"]


def _fitting(entry: NodeEntry, memory: str) -> int:
    pod = rows.pod_of([{"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": memory}}])
    count = 0
    while (found := rows.decide(entry, pod, REGISTRY, PolicyDefaults())).placed is not None:
        entry = rows.holding(entry, found, f"p{count}")
        count += 1
    return count


@each("volcano/annotations.yaml")
def test_annotations(case: Case) -> None:
    entry = rows.node(rows.register_of([{"uuid": "GPU-a"}]), REGISTRY)
    pod = rows.pod_of([{"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}}])
    found = rows.decide(entry, pod, REGISTRY, PolicyDefaults())
    assert found.placed is not None
    written = annotations_of(pod, found.placed, entry, REGISTRY, now_ns=1_790_000_000_500_000_000)
    forms = {
        "node name": "n1",
        "decimal Unix seconds": "1790000000",
        "encoded devices": "GPU-a,NVIDIA,4096,0:",
        f"same string as {rows.IDS} initially": "GPU-a,NVIDIA,4096,0:",
        "allocating": "allocating",
    }
    assert written[case.given["key"]] == forms[case.expect["form"]]


@each("volcano/podgroup-key.yaml")
def test_key_of_a_pod_group(case: Case) -> None:
    given = case.given["pod"] or {"namespace": "default", "annotations": {}}
    pod = rows.pod_of([{}], annotations={**given["annotations"], volcano.SPREAD_KEY: "spread"})
    assert volcano.group_of(replace(pod, namespace=given["namespace"])) == case.expect["key"]


@each("volcano/podgroup-same.yaml")
def test_card_holds_the_same_pod_group(case: Case) -> None:
    marks = tuple(
        GroupMember(group) for group, usage in case.given["card_groups"].items() if usage["memory"] or usage["cores"]
    )
    key = case.given["key"]
    assert bool(key and GroupMember(key) in marks) is case.expect["same"]


@each("volcano/podgroup-bare.yaml")
def test_names_of_bare_pods(case: Case) -> None:
    ours = {
        "pod annotation patched by the controller": gang_keys.GROUP_KEY,
        "pod annotation naming the queue": gang_keys.QUEUE_KEY,
        "owner annotation with the gang size": gang_keys.MIN_MEMBER_KEY,
    }
    # The others are about network topology, which a plan does not look at, and about names that it need not make.
    assert ours.get(case.given["item"], case.expect["value"]) == case.expect["value"]


@each("volcano/queue-facts.yaml")
def test_facts_about_queues(case: Case) -> None:
    value, rule = case.expect["value"], case.given["rule"]
    if rule == "default" and case.given["field"] == "weight":
        assert Queue(name="q").weight == value
    elif rule == "states":
        states = {state: objects.queue({"metadata": {"name": "q"}, "status": {"state": state}}).open for state in value}
        assert states == {"Open": True, "Closed": False, "Closing": False, "Unknown": True}
    elif rule == "podgroup phases":
        assert {INQUEUE, *ADMITTED} <= set(value)


@each("volcano/queue-missing.yaml")
def test_job_in_a_missing_queue(case: Case) -> None:
    text = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  queue: test
  tasks:
  - template: {spec: {containers: [{name: c, resources: {limits: {volcano.sh/vgpu-number: 1}}}]}}
"""
    submitted = workloads.read(manifests.read(text, source="job"))
    cluster = ClusterSnapshot(queues={"default": Queue(name="default")})
    plan = Planner(REGISTRY).plan(cluster, submission.units(submitted, cluster))
    assert [pod.stage for pod in plan.pods] == [Stage.ADMISSION]
    assert plan.pods[0].why == "no queue test; known are default"
    assert not case.expect["pods"]


USABLE = {
    "node-usable-11": "agents of today write no handshake, so its absence says nothing; only a given-up one does",
    "node-usable-09": "for Volcano up to 1.13 and some later ones; as node-usable-11",
}


@each("volcano/node-usable.yaml")
def test_usable_nodes(case: Case) -> None:
    given = case.given
    registers = {
        "present": rows.register_of([{"uuid": "GPU-a"}]),
        "absent": "",
        "5-field record": "GPU-a,10,40960,NVIDIA-T4,true:",
    }
    handshakes = {"present": "Reported", "Deleted_*": "Deleted_2026.11.21 07:39:03"}
    marks = {"volcano.sh/node-vgpu-handshake": handshakes[given["handshake"]]} if given["handshake"] != "absent" else {}
    amounts = {"present": "100000", "zero": "0"}
    allocatable = {name: amounts[state] for name, state in given["allocatable"].items() if state != "absent"}
    entry = rows.node(registers[given["register"]], REGISTRY, allocatable=allocatable, annotations=marks)
    # Later versions look for all three resources; earlier ones only sum up what a pod asks.
    asks = {"volcano.sh/vgpu-number": "1"}
    if "1.14.1" not in case.about["applies_to"]:
        asks |= {"volcano.sh/vgpu-memory": "1", "volcano.sh/vgpu-cores": "1"}
    usable = _placed(entry, asks) is None
    assert usable is (True if case.id in USABLE else case.expect["usable"])


@each("volcano/node-resources.yaml")
def test_sums_of_a_node(case: Case) -> None:
    have = {name: "100000" for name in volcano.RESOURCES.all() if name not in case.given["missing"]}
    entry = rows.node(rows.register_of([{"uuid": "GPU-a"}]), REGISTRY, allocatable=have)
    more = {
        "number_only": {},
        "with_memory": {"volcano.sh/vgpu-memory": "1000"},
        "with_cores": {"volcano.sh/vgpu-cores": "10"},
    }
    why = _placed(entry, {"volcano.sh/vgpu-number": "1", **more[case.given["pod_asks"]]})
    assert (why is None) is case.expect["placed"]
    assert case.expect.get("reason", "") in (why or "")


def _placed(entry: NodeEntry, asks: dict[str, str]) -> str | None:
    """Why a pod with such an amount of everything does not fit, sums of the node included."""
    pod = rows.pod_of([{"limits": asks, "requests": asks}])
    cluster = ClusterSnapshot(nodes=(entry,))
    (found,) = Planner(REGISTRY).plan(cluster, [PlanUnit(name="pod", pods=(pod,))]).pods
    return None if found.stage is Stage.PLACED else found.words
