"""Values for tests: each builder makes an ordinary one, so that a test names only what it is about.

Devices and requests are those of the plain vendor of ``tests.acme`` unless a test says otherwise.
"""

from collections.abc import Mapping, Sequence

from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.devices import IDLE, AllocatedShare, Device, DeviceUsage, Mark, Profile
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeShape, NodeState
from hami_plugins.model.pods import (
    ANYWHERE,
    Container,
    ContainerAllocation,
    NodeConstraints,
    Pod,
    PodRecord,
    ResourceList,
)
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import (
    ANY_DEVICE,
    Absolute,
    ContainerDemand,
    ContainerKind,
    DeviceDemand,
    DeviceRequest,
    DeviceSelector,
    MemoryDemand,
)
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.wire import quantity
from tests import acme

ACME = acme.SPEC.name
COUNT, MEMORY, CORES = acme.RESOURCES.count, acme.RESOURCES.memory, acme.RESOURCES.cores


def amounts(given: Mapping[str, int | str] | None = None) -> ResourceList:
    """Resource amounts as a manifest spells them."""
    return quantity.amounts({name: str(amount) for name, amount in (given or {}).items()}, key="test")


def a_device(
    *,
    vendor: str = ACME,
    model: str = "Acme",
    slots: int = 10,
    memory: int = 16_384,
    cores: int = 100,
    index: int = 0,
    numa: int = 0,
    mode: str = "",
    healthy: bool = True,
    cordoned: bool = False,
    group: str | None = None,
    profiles: tuple[Profile, ...] = (),
    traits: tuple[tuple[str, str], ...] = (),
) -> Device:
    """A healthy card with 16 GiB that ten containers may share."""
    return Device(
        vendor=VendorName(vendor),
        model=model,
        slots=slots,
        memory=MiB(memory),
        cores=CoreShare(cores),
        index=index,
        numa=numa,
        mode=mode,
        healthy=healthy,
        cordoned=cordoned,
        group=group,
        profiles=profiles,
        traits=traits,
    )


def used(slots: int = 1, memory: int = 0, cores: int = 0, *marks: Mark) -> DeviceUsage:
    """What is promised of a device."""
    return DeviceUsage(slots, MiB(memory), CoreShare(cores), marks)


def a_request(
    *,
    vendor: str = ACME,
    count: int = 1,
    memory: int | MemoryDemand = 1024,
    cores: int = 0,
    slices: int = 0,
    selector: DeviceSelector = ANY_DEVICE,
    options: tuple[tuple[str, str], ...] = (),
) -> DeviceRequest:
    """A slice of 1 GiB of one card."""
    return DeviceRequest(
        vendor=VendorName(vendor),
        count=count,
        memory=Absolute(MiB(memory)) if isinstance(memory, int) else memory,
        cores=CoreShare(cores),
        slices=slices,
        selector=selector,
        options=options,
    )


def a_demand(*containers: DeviceRequest | ContainerDemand) -> DeviceDemand:
    """A pod's demand; a bare request is an application container of its own."""
    return DeviceDemand(
        tuple(
            each if isinstance(each, ContainerDemand) else ContainerDemand(ContainerKind.APP, (each,))
            for each in containers
        )
    )


def a_candidate(device: Device | None = None, usage: DeviceUsage = IDLE, *, wanted: bool = True) -> Candidate:
    """One device in one decision."""
    return Candidate(0, device or a_device(), usage, wanted)


def an_ask(request: DeviceRequest | None = None, policy: Policy = DEFAULT_POLICY, *devices: Device) -> ContainerRequest:
    """A request in a pod of its own on a node of such devices."""
    return ContainerRequest(request or a_request(), policy, NodeShape(devices or (a_device(),)))


def a_container(
    limits: Mapping[str, int | str] | None = None,
    *,
    requests: Mapping[str, int | str] | None = None,
    name: str = "main",
    kind: ContainerKind = ContainerKind.APP,
    env: frozenset[str] = frozenset(),
    privileged: bool = False,
) -> Container:
    """A container with these resources."""
    return Container(
        name=name, kind=kind, limits=amounts(limits), requests=amounts(requests), env=env, privileged=privileged
    )


def a_pod(
    *containers: Container,
    name: str = "p",
    namespace: str = "default",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "",
    node: str | None = None,
    runtime_class: str | None = None,
    init_finished: bool = False,
    priority: int = 0,
    constraints: NodeConstraints = ANYWHERE,
) -> Pod:
    """A pod; without containers given, of one that wants a slice of 1 GiB of one card."""
    return Pod(
        namespace=namespace,
        name=name,
        uid=PodUid(uid or f"uid-{name}"),
        annotations=annotations or {},
        containers=containers or (a_container({COUNT: 1, MEMORY: 1024}),),
        scheduler=scheduler,
        node=None if node is None else NodeName(node),
        runtime_class=runtime_class,
        init_finished=init_finished,
        priority=priority,
        constraints=constraints,
    )


def a_share(
    device: str = "card-0",
    memory: int = 1024,
    cores: int = 0,
    mark: Mark | None = None,
    *,
    vendor: str = ACME,
    word: str = "",
) -> AllocatedShare:
    """A slice of a named card."""
    return AllocatedShare(
        device=DeviceId(device),
        vendor=VendorName(vendor),
        word=word or vendor,
        memory=MiB(memory),
        cores=CoreShare(cores),
        mark=mark,
    )


def allocated(*shares: AllocatedShare, kind: ContainerKind = ContainerKind.APP) -> ContainerAllocation:
    """What one container holds."""
    return ContainerAllocation(kind, shares)


def a_record(
    *allocations: ContainerAllocation,
    name: str = "running",
    namespace: str = "default",
    requests: tuple[tuple[str, int], ...] = (),
    init_finished: bool = False,
) -> PodRecord:
    """A pod on a node; without allocations given, with a slice of the first card."""
    return PodRecord(
        namespace=namespace,
        name=name,
        uid=PodUid(f"uid-{name}"),
        allocations=allocations or (allocated(a_share()),),
        requests=requests,
        init_finished=init_finished,
    )


def a_state(*devices: Device, usage: Sequence[DeviceUsage] = (), links: tuple[tuple[int, ...], ...] = ()) -> NodeState:
    """A node without its names; idle unless told."""
    shape = NodeShape(devices or (a_device(),), links)
    return NodeState(shape, tuple(usage)) if usage else NodeState.idle(shape)


def a_node(
    name: str = "node-0",
    *devices: Device,
    usage: Sequence[DeviceUsage] = (),
    ids: Sequence[str] = (),
    links: tuple[tuple[int, ...], ...] = (),
    facts: NodeFacts | None = None,
    requested: Mapping[str, int] | None = None,
) -> NodeEntry:
    """A node with one idle card, ``card-0``, unless told otherwise."""
    state = a_state(*devices, usage=usage, links=links)
    known = tuple(map(DeviceId, ids)) or tuple(DeviceId(f"card-{at}") for at in range(len(state.usage)))
    return NodeEntry(name=NodeName(name), state=state, ids=known, facts=facts or NodeFacts(), requested=requested or {})


def a_snapshot(*nodes: NodeEntry, quotas: Mapping[str, Mapping[str, int]] | None = None) -> ClusterSnapshot:
    """A cluster of these nodes; ``quotas`` are whole amounts per namespace and key."""
    limits = {
        namespace: NamespaceQuota(namespace=namespace, hard={key: amount * NANO for key, amount in hard.items()})
        for namespace, hard in (quotas or {}).items()
    }
    return ClusterSnapshot(nodes=nodes or (a_node(),), quotas=limits)


def a_node_object(
    name: str = "node-0",
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, int | str] | None = None,
) -> NodeObject:
    """The parts of a Node that inventories look at."""
    return NodeObject(NodeName(name), annotations or {}, labels or {}, amounts(capacity), amounts(capacity))
