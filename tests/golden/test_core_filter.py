"""Whole filter calls: which node, which cards, or the reason. Missing values of the vectors are filled in here."""

from typing import Any

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY, PolicyDefaults, policy_of
from hami_plugins.engine.quota import headroom
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerDemand, ContainerKind, DeviceDemand, Percent
from hami_plugins.vendors import nvidia
from tests import builders
from tests.golden import cases

REGISTRY = Registry([nvidia.SPEC])

_OPEN: dict[str, Any] = {"totalmem": 8000, "totalcore": 100, "count": 10, "type": "NVIDIA", "numa": 0}
_OPEN_REQUEST: dict[str, Any] = {"memreq": 1000, "cores": 10}


@cases.each("hami-core/filter.yaml")
def test_filter_answers_as_its_vector_says(case: cases.Case) -> None:
    nodes = [_node(raw, f"node{at}") for at, raw in enumerate(case.given["nodes"])]
    decision = _decision(case, nodes)
    if "reason" in case.expect:
        assert not isinstance(decision, Placed)
        assert [words for words, _ in decision.counted()] == [case.expect["reason"]]
        return
    assert isinstance(decision, Placed)
    entry = builders.a_snapshot(*nodes).node(decision.node)
    assert entry is not None
    chosen = [[share.device for share in allocation.shares] for allocation in decision.containers]
    positions = [entry.ids.index(device) for devices in chosen for device in devices]
    inits = len(case.given["pod"]["init"])
    found = {
        "node": decision.node,
        "node_names": [decision.node],
        "init": chosen[:inits],
        "app": chosen[inits:],
        "chosen_index": positions[0],
        "chosen_totalmem": entry.state.shape.devices[positions[0]].memory,
    }
    assert {name: found[name] for name in case.expect} == case.expect


def _decision(case: cases.Case, nodes: list[NodeEntry]) -> Decision:
    demand = PodDemand(_demand(case.given["pod"]), headroom=_headroom(case.given["quota"]))
    return Decider(REGISTRY).decide(builders.a_snapshot(*nodes), demand, _policy(case.given))


def _node(raw: dict[str, Any], name: str) -> NodeEntry:
    rows = [_filled(row) for row in raw["devices"]]
    return builders.a_node(
        raw.get("name", name),
        *(
            builders.a_device(
                vendor="NVIDIA",
                model=row["type"],
                slots=row["count"],
                memory=row["totalmem"],
                cores=row["totalcore"],
                index=at,
                numa=row["numa"],
            )
            for at, row in enumerate(rows)
        ),
        usage=[builders.used(row["used"], row["usedmem"], row["usedcores"]) for row in rows],
        ids=[row.get("uuid", f"dev-{at}") for at, row in enumerate(rows)],
    )


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    """A card in use is used by one container; "half used" is half of everything."""
    full = {**_OPEN, **row}
    part = row.get("used_percent", 0)
    full["usedmem"] = row.get("usedmem", full["totalmem"] - row.get("freemem", full["totalmem"] * (100 - part) // 100))
    full["usedcores"] = row.get("usedcores", full["totalcore"] - row.get("freecores", full["totalcore"] - part))
    full["used"] = full["count"] * part // 100 or int(full["usedmem"] > 0 or full["usedcores"] > 0)
    return full


def _demand(pod: dict[str, Any]) -> DeviceDemand:
    containers = []
    for kind, rows in ((ContainerKind.INIT, pod["init"]), (ContainerKind.APP, pod["app"])):
        for row in rows:
            asked = {**_OPEN_REQUEST, **row}
            memory = Percent(100) if asked.get("whole_card") else asked["memreq"]
            request = builders.a_request(vendor="NVIDIA", count=asked["nums"], memory=memory, cores=asked["cores"])
            containers.append(ContainerDemand(kind, (request,)))
    return DeviceDemand(tuple(containers))


def _headroom(limits: dict[str, int] | None) -> Any:
    names = {"memory": "limits.nvidia.com/gpumem", "cores": "limits.nvidia.com/gpucores"}
    hard = {names[name]: amount * NANO for name, amount in (limits or {}).items()}
    return headroom(NamespaceQuota(namespace="default", hard=hard) if limits else None, {}, REGISTRY)


def _policy(given: dict[str, Any]) -> Policy:
    said = {NODE_POLICY_KEY: given["node_policy"], DEVICE_POLICY_KEY: given["gpu_policy"]}
    return policy_of({key: words for key, words in said.items() if words is not None}, PolicyDefaults())
