"""Refused pods and the changes that are offered for them; whatever is offered is tried before a test looks at it."""

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import Device
from hami_plugins.model.nodes import NodeEntry, NodeFacts, Taint
from hami_plugins.model.pods import ANYWHERE, NodeConstraints, PodRecord
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.requests import ContainerDemand, DeviceRequest
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.suggest import relax
from hami_plugins.suggest.changes import Change, ChangeKind, Counterfactual
from tests import acme
from tests.builders import a_demand, a_device, a_node, a_record, a_share, allocated, amounts


def offered(
    snapshot: ClusterSnapshot,
    demand: PodDemand,
    policy: Policy = DEFAULT_POLICY,
    *,
    specs: tuple[VendorSpec, ...] = (acme.SPEC,),
    **options: object,
) -> tuple[Counterfactual, ...]:
    """What ``relax`` offers, each of it accepted by a decider that has never heard of the search."""
    found = relax(Decider(Registry(specs)), snapshot, demand, policy, **options)  # type: ignore[arg-type]
    for each in found:
        whole = Decider(Registry(specs)).decide(each.applied_to(snapshot), each.demand, each.policy)
        assert isinstance(whole, Placed), each
        alone = Decider(Registry(specs)).decide(replace(snapshot, nodes=(each.node,)), each.demand, each.policy)
        assert alone == each.placed
        assert each.placed.node == each.node.name
    return found


def of_kind(found: tuple[Counterfactual, ...], *kinds: ChangeKind) -> Counterfactual | None:
    """The offer that needs exactly these kinds of change."""
    return next((each for each in found if each.kinds == kinds), None)


def the(found: tuple[Counterfactual, ...], *kinds: ChangeKind) -> Counterfactual:
    """The same where there has to be one."""
    one = of_kind(found, *kinds)
    assert one is not None, [each.kinds for each in found]
    return one


def changes(found: tuple[Counterfactual, ...]) -> list[tuple[Change, ...]]:
    """All offers without their proofs."""
    return [each.changes for each in found]


def wanting(
    *requests: DeviceRequest | ContainerDemand,
    constraints: NodeConstraints = ANYWHERE,
    headroom: Mapping[VendorName, Headroom] | None = None,
) -> PodDemand:
    """A pod of these requests."""
    left = tuple(sorted((headroom or {}).items()))
    return PodDemand(a_demand(*requests), constraints, left)


def facts(
    *taints: Taint,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, int | str] | None = None,
    unschedulable: bool = False,
) -> NodeFacts:
    """What the scheduler knows of a node."""
    return NodeFacts(labels=labels or {}, taints=taints, allocatable=amounts(allocatable), unschedulable=unschedulable)


def a_busy_node(
    name: str, *held: tuple[int, int], device: Device | None = None, at: NodeFacts | None = None
) -> NodeEntry:
    """A node with a card for every (MiB, cores), which a pod of its own holds; a card with (0, 0) is free."""
    ids = [f"{name}-{index}" for index in range(len(held))]
    entry = a_node(name, *[device or a_device()] * len(held), ids=ids, facts=at)
    pods = [
        a_pod_on(card, memory, cores, name=f"{name}-pod-{index}")
        for index, (card, (memory, cores)) in enumerate(zip(ids, held, strict=True))
        if memory or cores
    ]
    return with_pods(entry, pods)


def a_pod_on(
    card: str,
    memory: int,
    cores: int = 0,
    *,
    name: str = "running",
    priority: int = 0,
    terminating: bool = False,
    requests: tuple[tuple[str, int], ...] = (),
) -> PodRecord:
    """A pod that holds one slice of one card."""
    record = a_record(allocated(a_share(card, memory, cores)), name=name, requests=requests)
    return replace(record, priority=priority, terminating=terminating)
