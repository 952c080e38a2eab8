"""Objects of Dynamic Resource Allocation as the API server has them, and the plan of pods on clusters made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_plugins.engine.claims.rules import KUBERNETES_1_36, ClaimRules
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.plan import Plan, Planner, PlanUnit
from hami_plugins.queueing.stages import Stage
from hami_plugins.vendors import BUILTIN
from hami_plugins.wire import objects
from tests.raw_objects import Raw

DRIVER: Final = "gpu.example.com"
CLASS: Final = "gpu"
VERSION: Final = "resource.k8s.io/v1"


def cel(*expressions: str) -> list[Raw]:
    """Selectors."""
    return [{"cel": {"expression": each}} for each in expressions]


def a_class(name: str = CLASS, *expressions: str, **spec: Any) -> Raw:
    """A class of the driver's devices, or of those that the expressions choose."""
    chosen = cel(*(expressions or (f'device.driver == "{DRIVER}"',)))
    return {
        "apiVersion": VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": chosen, **spec},
    }


def a_device(name: str = "gpu-0", *, attributes: Mapping[str, Any] | None = None, **more: Any) -> Raw:
    """A device; attributes are given as plain values."""
    kinds: dict[type, str] = {bool: "bool", int: "int", str: "string"}
    written = {
        key: value if isinstance(value, dict) else {kinds[type(value)]: value}
        for key, value in (attributes or {}).items()
    }
    return {"name": name, **({"attributes": written} if written else {}), **more}


def a_card(name: str = "gpu-0", *, memory: str = "80Gi", policy: Mapping[str, Any] | None = None, **more: Any) -> Raw:
    """A device of which several claims may have memory."""
    amount = {"value": memory, **({"requestPolicy": policy} if policy is not None else {})}
    return a_device(name, allowMultipleAllocations=True, capacity={"memory": amount}, **more)


def a_slice(
    *devices: Raw,
    node: str | None = "n1",
    name: str = "",
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    driver: str = DRIVER,
    **spec: Any,
) -> Raw:
    """A slice with devices of one node; its pool has the node's name."""
    pool = pool or node or "shared"
    where = {} if node is None else {"nodeName": node}
    return {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{pool}-{generation}"},
        "spec": {
            "driver": driver,
            **where,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def a_request(name: str = "r", *expressions: str, of: str = CLASS, **more: Any) -> Raw:
    """A request of one device of the class."""
    return {"name": name, "exactly": exactly(*expressions, of=of, **more)}


def exactly(*expressions: str, of: str = CLASS, memory: str = "", **more: Any) -> Raw:
    """What is inside a request."""
    chosen = {"selectors": cel(*expressions)} if expressions else {}
    amounts = {"capacity": {"requests": {"memory": memory}}} if memory else {}
    return {"deviceClassName": of, **chosen, **amounts, **more}


def first_of(name: str, **choices: Raw) -> Raw:
    """A prioritized list."""
    return {"name": name, "firstAvailable": [{"name": each, **choice} for each, choice in choices.items()]}


def a_template(name: str, *requests: Raw, constraints: Sequence[Raw] = ()) -> Raw:
    """A template of claims."""
    devices = {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {})}
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }


def a_claim(name: str, *requests: Raw, constraints: Sequence[Raw] = (), **status: Any) -> Raw:
    """A claim."""
    devices = {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {})}
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": devices},
        **({"status": status} if status else {}),
    }


def given(*devices: str, node: str = "n1", users: Sequence[str] = (), **more: Any) -> Raw:
    """The status of a claim that has devices of a node's pool; ``more`` is written with each."""
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": each, **more} for each in devices]
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [named]}},
        "reservedFor": [{"resource": "pods", "name": each, "uid": f"u-{each}"} for each in users],
    }


def a_node(
    name: str = "n1",
    *,
    kubelet: str = "",
    labels: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
) -> Raw:
    """A node with room for ten pods."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {
            "allocatable": {"cpu": "8", "pods": "10", **(resources or {})},
            **({"nodeInfo": {"kubeletVersion": kubelet}} if kubelet else {}),
        },
    }


def a_pod(
    name: str = "p",
    *,
    template: str = "",
    claim: str = "",
    claims: Sequence[Raw] = (),
    limits: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """A pod with one claim, or with those given."""
    named = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    listed = [{"name": "c", **named}] if template or claim else list(claims)
    used = {"claims": [{"name": each["name"]} for each in listed]} if listed else {}
    amounts = {"limits": dict(limits), "requests": dict(limits)} if limits else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": {**used, **amounts}}],
            **({"resourceClaims": listed} if listed else {}),
            **spec,
        },
    }


def planned(
    raws: Iterable[Raw], rules: ClaimRules | None = KUBERNETES_1_36, snapshot: ClusterSnapshot | None = None
) -> Plan:
    """The plan of the pods without a node, in their order, on the cluster of the other objects."""
    listed = list(raws)
    waiting = [each for each in listed if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    registry = Registry(BUILTIN)
    cluster = snapshot or snapshot_of([each for each in listed if each not in waiting], registry)
    units = [PlanUnit(name=each["metadata"]["name"], pods=(objects.pod(each),)) for each in waiting]
    return Planner(registry, decider=Decider(registry, claim_rules=rules)).plan(cluster, units)


def places(raws: Iterable[Raw], rules: ClaimRules | None = KUBERNETES_1_36) -> dict[str, str]:
    """The node of each pod, or the stage at which it stops."""
    return {
        each.pod.name: each.decision.node if each.stage is Stage.PLACED else each.stage.value  # type: ignore[union-attr]
        for each in planned(raws, rules).pods
    }


def devices(plan: Plan, pod: str = "p") -> list[str]:
    """The devices of a planned pod, by request: ``request=device``."""
    found = next(each for each in plan.pods if each.pod.name == pod)
    placed = found.decision
    return [f"{each.request}={each.device.name}" for claim in placed.claims for each in claim.allocation.devices]  # type: ignore[union-attr]


def why(plan: Plan, pod: str = "p") -> list[str]:
    """What nodes say to a pod without a place, each once."""
    found = next(each for each in plan.pods if each.pod.name == pod)
    return list(dict.fromkeys(str(each) for _, each in found.decision.by_node))  # type: ignore[union-attr]
