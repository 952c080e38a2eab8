"""Small clusters of equal cards, with pods that a ReplicaSet makes anew, unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hami_plugins.defrag.planner import Defragmenter
from hami_plugins.defrag.values import DefragPlan, Move, MoveOptions, NoMoves, RunningCluster, RunningPod
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.quantity import NANO
from tests.builders import COUNT, MEMORY, a_container, a_pod
from tests.unit.clusters import CARD, REGISTRY, CardNode, cluster_of, holding
from tests.unit.clusters import asking as waiting

__all__ = ["CARD", "REGISTRY", "waiting"]

Cards = Sequence[Mapping[str, int]]
"""The pods of each card of a node, with the MiB that they hold."""


def a_cluster(
    change: Callable[[PodRecord], PodRecord] = lambda record: record,
    *,
    controllers: Mapping[str, str] | None = None,
    pods: Mapping[str, Mapping[str, Any]] | None = None,
    slots: int = 10,
    cpu: int = 0,
    about: Mapping[str, Any] | None = None,
    **nodes: Cards,
) -> RunningCluster:
    """Nodes by name. ``controllers`` are by pod, ``pods`` what a pod says otherwise. Pods named ``fixed`` never move.

    With ``cpu`` every node has so many, and each pod asks for one.
    """
    held, found = {}, dict[str, RunningPod]()
    requests = (("cpu", NANO),) if cpu else ()
    for node, cards in nodes.items():
        records = []
        for at, by_pod in enumerate(cards):
            for name, memory in by_pod.items():
                records.append(change(holding(name, memory, at, requests=requests)))
                written = running(name, memory, node, **(pods or {}).get(name, {}))
                if cpu:
                    written = replace(written, constraints=replace(written.constraints, requests=requests))
                found[written.full_name] = RunningPod(written, (controllers or {}).get(name, _controller(name)))
        held[node] = CardNode(len(cards), records)
    return RunningCluster(cluster_of(held, slots=slots, cpu=cpu, **(about or {})), found)


def _controller(name: str) -> str:
    return "DaemonSet" if name.startswith("fixed") else "ReplicaSet"


def running(name: str, memory: int, node: str, **fields: Any) -> Pod:
    """A running pod as it is written."""
    return replace(a_pod(a_container({COUNT: 1, MEMORY: memory}), name=name, node=node), phase="Running", **fields)


def a_defragmenter(cluster: RunningCluster, **options: Any) -> Defragmenter:
    return Defragmenter(cluster, Decider(REGISTRY), Rules(), MoveOptions(**options))


def planned(cluster: RunningCluster, *infos: PodInfo, **options: Any) -> DefragPlan:
    """The plan for these pods, or for stranded memory."""
    defragmenter = a_defragmenter(cluster, **options)
    found = defragmenter.for_pods(infos) if infos else defragmenter.for_stranded()
    assert isinstance(found, DefragPlan), found
    return found


def refused(cluster: RunningCluster, *infos: PodInfo, **options: Any) -> NoMoves:
    defragmenter = a_defragmenter(cluster, **options)
    found = defragmenter.for_pods(infos) if infos else defragmenter.for_stranded()
    assert isinstance(found, NoMoves), found
    return found


def told(moves: Sequence[Move]) -> list[str]:
    """Moves as ``pod: node/card -> node/card``."""
    return [f"{move.pod.name}: {_place(move.source, move.pod)} -> {_target(move)}" for move in moves]


def _place(node: str, record: PodRecord) -> str:
    return f"{node}/{','.join(share.device for each in record.allocations for share in each.shares)}"


def _target(move: Move) -> str:
    return f"{move.placed.node}/{','.join(share.device for share in move.placed.shares())}"
