"""Whatever the cluster and the pod: what is offered works, comes in order, and leaves the caller's decider alone."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState, Taint
from hami_plugins.model.pods import NodeConstraints, PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import (
    Absolute,
    ContainerDemand,
    ContainerKind,
    DeviceRequest,
    DeviceSelector,
    MemoryDemand,
    Percent,
)
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.suggest import relax
from hami_plugins.suggest.changes import AddedNode, LessOf, LessPlain, RaisedQuota, Removed
from hami_plugins.vendors import hygon, nvidia
from tests import acme
from tests.builders import a_device, a_node, a_record, a_request, a_share, allocated
from tests.unit.suggest.questions import facts, offered, wanting

SPECS = (acme.SPEC, nvidia.SPEC, hygon.SPEC)
NAMES = tuple(spec.name for spec in SPECS)
GIB = 1024
PROFILES = (
    Profile("1g.4gb", MiB(4 * GIB), CoreShare(25), 1, tuple(SlicePlacement(at, 1) for at in range(4))),
    Profile("4g.16gb", MiB(16 * GIB), CoreShare(100), 4, (SlicePlacement(0, 4),)),
)

words = st.sampled_from(["a", "b"])
amounts = st.integers(0, 20 * GIB)


@st.composite
def records(draw: st.DrawFn, ids: Sequence[str], vendors: Sequence[str], number: int) -> PodRecord:
    shares = []
    for at in draw(st.lists(st.integers(0, len(ids) - 1), max_size=2, unique=True)):
        memory, cores = draw(st.integers(0, 12 * GIB)), draw(st.integers(0, 60))
        shares.append(a_share(ids[at], memory, cores, vendor=vendors[at]))
    kind = draw(st.sampled_from(ContainerKind))
    record = a_record(
        allocated(*shares, kind=kind),
        name=f"run-{ids[0]}-{number}",
        requests=(("cpu", draw(st.integers(0, 4)) * NANO),),
    )
    return replace(record, priority=draw(st.integers(0, 2)), terminating=draw(st.booleans()))


@st.composite
def nodes(draw: st.DrawFn, number: int) -> NodeEntry:
    name = f"node-{number}"
    vendors = draw(st.lists(st.sampled_from(NAMES), min_size=0, max_size=4))
    mig = draw(st.booleans())
    devices = [
        a_device(
            vendor=vendor,
            model=f"{vendor}-{draw(words)}",
            slots=draw(st.integers(1, 4)),
            memory=draw(st.sampled_from([8 * GIB, 16 * GIB])),
            index=at,
            numa=at % 2,
            mode="mig" if mig and vendor == "NVIDIA" else "hami-core",
            profiles=PROFILES if mig and vendor == "NVIDIA" else (),
            healthy=draw(st.integers(0, 9)) > 0,
        )
        for at, vendor in enumerate(vendors)
    ]
    ids = [f"{name}-{at}" for at in range(len(devices))]
    taints = draw(st.lists(words.map(lambda word: Taint("t", word, "NoSchedule")), max_size=1))
    known = facts(
        *taints,
        labels={"zone": draw(words)},
        allocatable={"cpu": draw(st.integers(0, 8)), "pods": draw(st.integers(0, 4))},
        unschedulable=draw(st.integers(0, 9)) == 0,
    )
    if not devices:
        return NodeEntry(name=NodeName(name), state=NodeState.idle(NodeShape(())), ids=(), facts=known)
    entry = a_node(name, *devices, ids=ids, facts=known)
    return with_pods(entry, [draw(records(ids, vendors, at)) for at in range(draw(st.integers(0, 4)))])


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    return ClusterSnapshot(nodes=tuple(draw(nodes(at)) for at in range(draw(st.integers(0, 4)))))


memories: st.SearchStrategy[MemoryDemand] = st.one_of(
    amounts.map(lambda mib: Absolute(MiB(mib))), st.integers(0, 100).map(Percent)
)
selectors = st.builds(
    DeviceSelector,
    use_ids=st.none() | st.just(frozenset({DeviceId("node-0-0")})),
    avoid_ids=st.none() | st.just(frozenset({DeviceId("node-0-1")})),
    use_models=st.none() | words.map(lambda word: (f"-{word}",)),
    avoid_models=st.none() | words.map(lambda word: (f"-{word}",)),
    modes=st.none() | st.sampled_from(["mig", "hami-core"]),
)


@st.composite
def requests(draw: st.DrawFn) -> DeviceRequest:
    return a_request(
        vendor=draw(st.sampled_from(NAMES)),
        count=draw(st.integers(1, 4)),
        memory=draw(memories),
        cores=draw(st.sampled_from([0, 10, 60, 100])),
        selector=draw(selectors) if draw(st.booleans()) else DeviceSelector(),
    )


@st.composite
def demands(draw: st.DrawFn) -> PodDemand:
    containers = [
        ContainerDemand(draw(st.sampled_from(ContainerKind)), tuple(each))
        for each in draw(
            st.lists(st.lists(requests(), max_size=2, unique_by=lambda each: each.vendor), min_size=1, max_size=3)
        )
    ]
    room: dict[VendorName, Headroom] = {}
    if draw(st.booleans()):
        room[draw(st.sampled_from(NAMES))] = Headroom(
            draw(st.none() | amounts.map(MiB)), draw(st.none() | st.integers(-10, 90).map(CoreShare))
        )
    constraints = NodeConstraints(
        selector=(("zone", draw(words)),) if draw(st.booleans()) else (),
        requests=(("cpu", draw(st.integers(0, 9)) * NANO),),
    )
    return wanting(*containers, constraints=constraints, headroom=room)


policies = st.builds(Policy, exclusive=st.booleans(), near=st.booleans(), one_numa=st.booleans())


@given(clusters(), demands(), policies, st.integers(0, 2))
def test_every_offer_is_accepted_by_decide_and_none_is_made_when_the_pod_fits(
    cluster: ClusterSnapshot, demand: PodDemand, policy: Policy, priority: int
) -> None:
    decider = Decider(Registry(SPECS))
    before = decider.decide(cluster, demand, policy)
    misses = decider.statistics.misses
    found = relax(decider, cluster, demand, policy, limit=5, priority=priority)
    assert (decider.statistics.misses, decider.statistics.columns) == (misses, 1)  # the caller's memory is left alone
    if isinstance(before, Placed):
        assert found == ()
    again = offered(cluster, demand, policy, specs=SPECS, priority=priority, limit=5)
    assert [(each.changes, each.placed) for each in found] == [(each.changes, each.placed) for each in again]
    assert len(found) <= 5
    assert len({each.kinds for each in found}) == len(found)
    ranks = [(len(each.changes), each.cost) for each in found]
    assert ranks == sorted(ranks)
    for change in (change for each in found for change in each.changes):
        match change:
            case LessOf(before=had, after=after):
                assert had is None or 0 < after < had
            case LessPlain(before=plain, after=after):
                assert 0 <= after < plain
            case RaisedQuota():
                assert change.by > 0
            case Removed(pod=pod):
                assert pod.priority <= priority or len(found) == 1
            case AddedNode(like=like):
                assert like in cluster.position
            case _:
                pass
