"""Nodes, pods and decisions out of the vectors about Volcano."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.apply import with_pod
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.devices import DeviceUsage
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import ContainerAllocation, Pod, PodRecord
from hami_plugins.model.units import CoreShare, MiB, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano
from hami_plugins.wire import objects, volcano_config

IDS = volcano.SPEC.keys.allocated
MODEL = "NVIDIA-NVIDIA A100-SXM4-40GB"
CONFIG = Path(__file__).parent / "corpus" / "volcano-device-config.yaml"

Json = dict[str, Any]


class Outcome(NamedTuple):
    """What became of one pod on one node."""

    intake: PodInfo
    decision: Decision | None
    ids: str

    @property
    def placed(self) -> Placed | None:
        return self.decision if isinstance(self.decision, Placed) else None

    @property
    def words(self) -> str:
        """Why it does not fit."""
        if self.decision is None:
            return self.intake.refusal
        assert not isinstance(self.decision, Placed)
        return self.decision.by_node[0][1].words


def spec_of(*, percentage: bool = False, geometries: bool = False) -> VendorSpec:
    """The vendor without a configuration, or with as much of one as a case has."""
    config = volcano_config.VolcanoConfig()
    if geometries:
        config = volcano_config.decode(yaml.safe_load(CONFIG.read_text(encoding="utf-8")))
    percent = volcano.RESOURCES.memory_percentage if percentage or geometries else ""
    return volcano.configured(replace(config, memory_percentage=percent))


def register_of(cards: Sequence[Mapping[str, Any]], mode: str = "hami-core") -> str:
    """The register of some cards; what a case leaves open is filled."""
    return "".join(
        f"{card['uuid']},{card.get('count', 10)},{card.get('memory') or 40960},{card.get('type', MODEL)},"
        f"{str(card.get('health', True)).lower()},{mode}:"
        for card in cards
    )


def node(register: str, registry: Registry, *, name: str = "n1", **facts: Any) -> NodeEntry:
    """A node that registers so."""
    raw = {
        "metadata": {
            "name": name,
            "annotations": {volcano.SPEC.keys.register: register, **facts.get("annotations", {})},
        },
        "status": {"allocatable": facts.get("allocatable", {})},
    }
    return NodeBuilder(registry).entry(objects.node_object(raw), objects.node_facts(raw))


def used(entry: NodeEntry, cards: Sequence[Mapping[str, Any]]) -> NodeEntry:
    """The node with the usage that a case gives to its cards, whichever pod uses them."""
    usage = tuple(
        DeviceUsage(card.get("used_num", 0), MiB(card.get("used_memory", 0)), CoreShare(card.get("used_cores", 0)))
        for card in cards
    )
    return replace(entry, state=NodeState(entry.state.shape, usage))


def pod_of(
    containers: Sequence[Mapping[str, Any]],
    *,
    annotations: Mapping[str, str] | None = None,
    init: Sequence[Mapping[str, Any]] = (),
    name: str = "p",
) -> Pod:
    """A pod for Volcano; each container is its ``limits`` and ``requests``."""
    raw = {
        "metadata": {"name": name, "uid": name, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": "volcano",
            "initContainers": [_container(f"i{at}", each) for at, each in enumerate(init)],
            "containers": [_container(f"c{at}", each) for at, each in enumerate(containers)],
        },
    }
    return objects.pod(raw, default_requests=False)


def _container(name: str, about: Mapping[str, Any]) -> Json:
    lists = {kind: dict(about[kind]) for kind in ("limits", "requests") if about.get(kind)}
    return {"name": name, "resources": lists}


def defaults(case: Any, policy: str | None) -> PolicyDefaults:
    """The scheduler of a case: from 1.15 on the policy also orders cards."""
    versions = case.about.get("applies_to") or []
    later = any(version == "master" or version.startswith(">=1.15") for version in versions)
    return PolicyDefaults(volcano=policy or "", volcano_orders_cards=later)


def decide(entry: NodeEntry, pod: Pod, registry: Registry, policies: PolicyDefaults) -> Outcome:
    """The pod on the node, devices alone."""
    intake = take_in(pod, registry, Rules(policies=policies))
    if intake.refusal:
        return Outcome(intake, None, "")
    decider = Decider(registry, uncounted=registry.resources)
    found = decider.decide(ClusterSnapshot(nodes=(entry,)), intake.demand, intake.policy)
    ids = ""
    if isinstance(found, Placed):
        ids = annotations_of(intake.pod, found, entry, registry, now_ns=0).get(IDS, "")
    return Outcome(intake, found, ids)


def holding(entry: NodeEntry, outcome: Outcome, uid: str) -> NodeEntry:
    """The node after a placement."""
    assert outcome.placed is not None
    return with_pod(entry, record(uid, outcome.placed.containers))


def record(uid: str, allocations: tuple[ContainerAllocation, ...]) -> PodRecord:
    return PodRecord(namespace="default", name=uid, uid=PodUid(uid), allocations=allocations)


def ledger(entry: NodeEntry) -> dict[str, list[int]]:
    """Card by card: containers, memory, cores."""
    return {
        name: [usage.slots, usage.memory, usage.cores] for name, usage in zip(entry.ids, entry.state.usage, strict=True)
    }
