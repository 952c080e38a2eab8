"""The smallest changes that make a refused pod fit: which are offered, how far they go, in which order."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import NodeConstraints, Requirement
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerDemand, ContainerKind, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.model.vendor import Headroom
from hami_plugins.suggest import preemption
from hami_plugins.suggest.changes import (
    AddedNode,
    ChangeKind,
    Counterfactual,
    Dropped,
    LessOf,
    LessPlain,
    RaisedQuota,
    Removed,
    Tolerated,
)
from hami_plugins.suggest.knobs import MOST_REQUESTS
from hami_plugins.vendors import nvidia
from tests import acme, acme_variants
from tests.builders import (
    ACME,
    CORES,
    COUNT,
    MEMORY,
    a_device,
    a_node,
    a_record,
    a_request,
    a_share,
    a_snapshot,
    allocated,
)
from tests.unit.suggest.questions import a_busy_node, a_pod_on, changes, facts, of_kind, offered, the, wanting


def less(kind: ChangeKind, before: int | None, after: int, *, container: int = 0) -> LessOf:
    resource = {ChangeKind.MEMORY: MEMORY, ChangeKind.CORES: CORES, ChangeKind.COUNT: COUNT}[kind]
    return LessOf(
        kind=kind, resource=resource, before=before, after=after, containers=(container,), vendor=acme.SPEC.name
    )


class TestNothingIsOffered:
    def test_when_the_pod_fits(self) -> None:
        assert offered(a_snapshot(), wanting(a_request())) == ()

    def test_when_nothing_is_wanted(self) -> None:
        assert offered(a_snapshot(), wanting(a_request(memory=99_999)), limit=0) == ()

    def test_when_there_are_no_nodes(self) -> None:
        assert offered(ClusterSnapshot(), wanting(a_request())) == ()

    def test_when_no_change_of_one_or_two_things_helps(self) -> None:
        impossible = a_request(count=3, memory=99_999, cores=50, selector=DeviceSelector(use_models=("none",)))
        broken = a_node("node-0", a_device(cores=0, memory=0, slots=0))
        assert offered(a_snapshot(broken), wanting(impossible)) == ()


def removed(found: Sequence[Counterfactual]) -> tuple[Removed, ...]:
    """The pods of the one suggestion that removes some; empty where none does."""
    kinds = {ChangeKind.VICTIM}
    chosen = [each.changes for each in found if set(each.kinds) == kinds]
    assert len(chosen) <= 1
    return tuple(each for changes in chosen for each in changes if isinstance(each, Removed))


class TestLessOfAResource:
    def test_memory_goes_down_to_the_most_that_any_node_has_free(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (9_000, 0)), a_busy_node("b", (4_000, 0)), a_busy_node("c", (8_000, 0)))
        found = offered(cluster, wanting(a_request(memory=20_000)))
        assert changes(found)[0] == (less(ChangeKind.MEMORY, 20_000, 12_384),)
        assert found[0].placed.node == "b"
        assert found[0].cost == pytest.approx(1 - 12_384 / 20_000)

    def test_memory_of_several_cards_is_what_the_worst_of_them_has(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (1_000, 0), (9_000, 0), (4_000, 0)))
        found = offered(cluster, wanting(a_request(count=2, memory=16_000)))
        assert the(found, ChangeKind.MEMORY).changes == (less(ChangeKind.MEMORY, 16_000, 12_384),)

    def test_memory_is_given_in_the_units_of_the_vendor(self) -> None:
        spec = acme_variants.requests(memory_unit=MiB(256))
        cluster = a_snapshot(a_busy_node("a", (9_000, 0)))
        found = offered(cluster, wanting(a_request(memory=40 * 256)), specs=(spec,))
        assert changes(found)[0] == (less(ChangeKind.MEMORY, 40, 7384 // 256),)

    def test_a_whole_card_becomes_an_amount(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (4_096, 10)))
        found = offered(cluster, wanting(a_request(memory=Percent(100))))
        assert changes(found)[0] == (less(ChangeKind.MEMORY, None, 12_288),)
        assert found[0].cost == pytest.approx(0.25)

    def test_a_percentage_goes_down(self) -> None:
        spec = replace(acme.SPEC, resources=replace(acme.RESOURCES, memory_percentage="acme.example/percent"))
        cluster = a_snapshot(a_busy_node("a", (4_097, 0)))
        found = offered(cluster, wanting(a_request(memory=Percent(90))), specs=(spec,))
        assert found[0].changes == (
            LessOf(
                kind=ChangeKind.PERCENTAGE,
                resource="acme.example/percent",
                before=90,
                after=74,
                containers=(0,),
                vendor=acme.SPEC.name,
            ),
        )

    def test_cores_go_down_and_leave_the_last_one_to_who_is_there_already(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (10, 60)), a_busy_node("b", (10, 0)))
        assert changes(offered(cluster, wanting(a_request(cores=100))))[0] == (less(ChangeKind.CORES, 100, 99),)

    def test_cores_of_a_vendor_that_counts_otherwise_are_found_by_trying(self) -> None:
        spec = acme_variants.fitting(
            cores_of=lambda device, request: CoreShare(request.cores // 10), clamps_cores=False
        )
        cluster = a_snapshot(a_busy_node("a", (10, 60), device=a_device(cores=100)))
        found = offered(cluster, wanting(a_request(cores=900)), specs=(spec,))
        assert changes(found)[0] == (less(ChangeKind.CORES, 900, 409),)

    def test_memory_of_a_vendor_that_books_otherwise_is_found_by_trying(self) -> None:
        spec = acme_variants.fitting(memory_of=lambda device, request: MiB(2 * request.memory.on(device)))
        cluster = a_snapshot(a_busy_node("a", (6_384, 0)))
        found = offered(cluster, wanting(a_request(memory=9_000)), specs=(spec,))
        assert changes(found)[0] == (less(ChangeKind.MEMORY, 9_000, 5_000),)

    def test_fewer_cards(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (0, 0), (0, 0), (0, 0)))
        found = offered(cluster, wanting(a_request(count=8)))
        assert changes(found)[0] == (less(ChangeKind.COUNT, 8, 3),)

    def test_fewer_slices_where_the_count_is_one_of_slices(self) -> None:
        spec = acme_variants.fitting(memory_of=lambda device, request: MiB(request.slices * 4_096))
        found = offered(a_snapshot(), wanting(a_request(slices=6)), specs=(spec,))
        assert the(found, ChangeKind.COUNT).changes == (less(ChangeKind.COUNT, 6, 4),)

    def test_fewer_of_many_cards_keep_what_a_vendor_can_link(self) -> None:
        """Sixteen steps or fewer are tried one by one: three may not do where two do."""
        spec = acme_variants.fitting(select=lambda cards, ask: cards if ask.request.count in {2, 1} else cards[:0])
        found = offered(a_snapshot(a_busy_node("a", *[(0, 0)] * 8)), wanting(a_request(count=9)), specs=(spec,))
        assert the(found, ChangeKind.COUNT).changes == (less(ChangeKind.COUNT, 9, 2),)

    def test_only_the_container_that_asks_too_much_changes(self) -> None:
        found = offered(a_snapshot(), wanting(a_request(memory=6_000), a_request(memory=12_000)))
        assert found[0].changes == (less(ChangeKind.MEMORY, 12_000, 10_384, container=1),)

    def test_containers_that_ask_for_the_same_change_together(self) -> None:
        found = offered(a_snapshot(), wanting(a_request(memory=9_000), a_request(memory=9_000)))
        assert found[0].changes == (replace(less(ChangeKind.MEMORY, 9_000, 8_192), containers=(0, 1)),)

    def test_only_so_many_requests_of_a_pod_are_looked_at(self) -> None:
        many = [a_request(memory=100 + at) for at in range(MOST_REQUESTS)]
        found = offered(a_snapshot(), wanting(*many, a_request(memory=99_999)))
        assert of_kind(found, ChangeKind.MEMORY) is None

    def test_nothing_is_asked_of_resources_that_the_vendor_does_not_have(self) -> None:
        names = replace(acme.RESOURCES, memory="", cores="")
        spec = replace(acme.SPEC, resources=names)
        assert offered(a_snapshot(), wanting(a_request(memory=99_999, cores=10)), specs=(spec,)) == ()

    def test_a_percentage_of_a_vendor_that_sells_only_those(self) -> None:
        names = replace(acme.RESOURCES, memory="", memory_percentage="acme.example/percent")
        spec = replace(acme.SPEC, resources=names)
        cluster = a_snapshot(a_busy_node("a", (8_192, 0)))
        found = offered(cluster, wanting(a_request(memory=Percent(100))), specs=(spec,))
        assert [(each.before, each.after) for each in found[0].changes] == [(100, 50)]  # type: ignore[union-attr]

    def test_counted_resources_go_down_in_the_sums_of_the_scheduler_too(self) -> None:
        spec = replace(acme.SPEC, counted_by_scheduler=acme.RESOURCES.all())
        node = a_node("a", facts=facts(allocatable={MEMORY: 5_000}))
        constraints = NodeConstraints(requests=((MEMORY, 9_000 * NANO),))
        found = offered(a_snapshot(node), wanting(a_request(memory=9_000), constraints=constraints), specs=(spec,))
        assert found[0].changes == (less(ChangeKind.MEMORY, 9_000, 5_000),)


class TestAWishGivenUp:
    @pytest.mark.parametrize(
        ("selector", "kind", "key", "value"),
        [
            (DeviceSelector(use_ids=frozenset({DeviceId("x")})), ChangeKind.USE_IDS, "acme.example/use-uuid", "x"),
            (
                DeviceSelector(avoid_ids=frozenset({DeviceId("card-0")})),
                ChangeKind.AVOID_IDS,
                "acme.example/nouse-uuid",
                "card-0",
            ),
            (DeviceSelector(use_models=("b", "a10")), ChangeKind.USE_MODELS, "acme.example/use-type", "a10,b"),
            (DeviceSelector(avoid_models=("acme",)), ChangeKind.AVOID_MODELS, "acme.example/nouse-type", "acme"),
        ],
    )
    def test_a_selector(self, selector: DeviceSelector, kind: ChangeKind, key: str, value: str) -> None:
        found = offered(a_snapshot(), wanting(a_request(selector=selector)))
        assert changes(found)[0] == (Dropped(kind=kind, key=key, value=value, vendor=acme.SPEC.name),)
        assert found[0].cost == 0.5

    def test_a_mode(self) -> None:
        spec = replace(acme.SPEC, keys=replace(acme.SPEC.keys, mode="acme.example/mode"))
        cluster = a_snapshot(a_node("a", a_device(mode="shared")))
        found = offered(cluster, wanting(a_request(selector=DeviceSelector(modes="mig"))), specs=(spec,))
        assert changes(found)[0] == (
            Dropped(kind=ChangeKind.MODES, key="acme.example/mode", value="mig", vendor=acme.SPEC.name),
        )

    def test_the_mutex_policy(self) -> None:
        found = offered(a_snapshot(a_busy_node("a", (10, 0))), wanting(a_request()), Policy(exclusive=True))
        assert changes(found)[0] == (
            Dropped(kind=ChangeKind.EXCLUSIVE, key="hami.io/gpu-scheduler-policy", value="mutex"),
        )
        assert not found[0].policy.exclusive

    def test_the_binding_to_one_numa_node(self) -> None:
        cards = [a_device(vendor="NVIDIA", numa=at % 2, index=at) for at in range(4)]
        demand = wanting(a_request(vendor="NVIDIA", count=3))
        found = offered(a_snapshot(a_node("a", *cards)), demand, Policy(one_numa=True), specs=(nvidia.SPEC,))
        dropped = the(found, ChangeKind.ONE_NUMA)
        assert dropped.changes == (Dropped(kind=ChangeKind.ONE_NUMA, key="nvidia.com/numa-bind", value="true"),)

    def test_the_wish_for_near_cards(self) -> None:
        def linked(cards, ask):  # type: ignore[no-untyped-def]
            return cards[:0]

        spec = acme_variants.fitting(select=linked, select_when_near=True)
        demand = wanting(a_request(count=2))
        cluster = a_snapshot(a_busy_node("a", (0, 0), (0, 0)))
        quota = {ACME: Headroom(memory=MiB(2_048))}
        tight = replace(demand, headroom=wanting(headroom=quota).headroom)
        found = offered(cluster, demand, Policy(near=True), specs=(spec,))
        assert of_kind(found, ChangeKind.NEAR) is None  # neither links nor a quota were the reported reason
        cluster = a_snapshot(a_busy_node("a", (0, 0), (0, 0), (0, 0)))
        found = offered(cluster, tight, Policy(near=True), specs=(spec,))
        assert the(found, ChangeKind.NEAR).changes == (
            Dropped(kind=ChangeKind.NEAR, key="hami.io/gpu-scheduler-policy", value="topology-aware"),
        )

    def test_a_node_selector(self) -> None:
        constraints = NodeConstraints(selector=(("gpu", "on"), ("zone", "b")))
        cluster = a_snapshot(a_node("a", facts=facts(labels={"gpu": "on", "zone": "c"})))
        found = offered(cluster, wanting(a_request(), constraints=constraints))
        assert changes(found)[0] == (Dropped(kind=ChangeKind.NODE_SELECTOR, key="zone", value="b"),)

    def test_the_requirements_of_an_affinity_on_one_key(self) -> None:
        term = (Requirement("zone", "In", ("b",)), Requirement("gpu", "Exists"))
        cluster = a_snapshot(a_node("a", facts=facts(labels={"gpu": "on"})))
        constraints = NodeConstraints(affinity=(term,))
        found = offered(cluster, wanting(a_request(), constraints=constraints))
        assert changes(found)[0] == (Dropped(kind=ChangeKind.NODE_AFFINITY, key="zone"),)
        assert found[0].demand.constraints.affinity == ((Requirement("gpu", "Exists"),),)

    def test_an_affinity_of_which_nothing_is_left_allows_every_node(self) -> None:
        constraints = NodeConstraints(affinity=((Requirement("zone", "In", ("b",)),),))
        found = offered(a_snapshot(), wanting(a_request(), constraints=constraints))
        assert found[0].demand.constraints.affinity is None

    def test_the_name_of_a_node(self) -> None:
        constraints = NodeConstraints(node=NodeName("gone"))
        found = offered(a_snapshot(), wanting(a_request(), constraints=constraints))
        assert changes(found)[0] == (Dropped(kind=ChangeKind.NODE_NAME, key="spec.nodeName", value="gone"),)

    def test_a_taint_is_tolerated_whatever_its_effects(self) -> None:
        taint = Taint("maintenance", "today", "NoSchedule")
        cluster = a_snapshot(a_node("a", facts=facts(taint, replace(taint, effect="NoExecute"))))
        assert changes(offered(cluster, wanting(a_request())))[0] == (Tolerated(taint=taint),)

    def test_a_cordoned_node_counts_as_tainted(self) -> None:
        found = offered(a_snapshot(a_node("a", facts=facts(unschedulable=True))), wanting(a_request()))
        assert isinstance(found[0].changes[0], Tolerated)

    def test_less_of_a_plain_resource_than_any_node_has(self) -> None:
        nodes = [a_node(name, facts=facts(allocatable={"cpu": cpu})) for name, cpu in (("a", 4), ("b", "8500m"))]
        constraints = NodeConstraints(requests=(("cpu", 16 * NANO),))
        found = offered(a_snapshot(*nodes), wanting(a_request(), constraints=constraints))
        assert changes(found)[0] == (LessPlain(resource="cpu", before=16 * NANO, after=8_500_000_000),)
        assert found[0].placed.node == "b"

    def test_a_plain_resource_that_no_node_knows_is_given_up_altogether(self) -> None:
        constraints = NodeConstraints(requests=(("acme.example/dongle", NANO), ("cpu", 0)))
        found = offered(a_snapshot(), wanting(a_request(), constraints=constraints))
        assert changes(found)[0] == (LessPlain(resource="acme.example/dongle", before=NANO, after=0),)

    def test_a_pod_that_asks_for_nothing_else_keeps_some_of_what_others_hand_out(self) -> None:
        constraints = NodeConstraints(requests=(("acme.example/dongle", 4 * NANO),))
        asked = wanting(constraints=constraints)
        assert offered(a_snapshot(), asked) == ()
        node = a_node("a", facts=facts(allocatable={"acme.example/dongle": 3}))
        found = offered(a_snapshot(node), asked)
        assert changes(found)[0] == (LessPlain(resource="acme.example/dongle", before=4 * NANO, after=3 * NANO),)

    def test_what_a_listing_leaves_out_is_no_limit(self) -> None:
        """A node that says nothing of its memory has some, so only what is known to be short goes down."""
        nodes = [a_node("a", facts=facts(allocatable={"cpu": 1}))]
        constraints = NodeConstraints(requests=(("cpu", 4 * NANO), ("memory", 8 << 30)))
        found = offered(a_snapshot(*nodes), wanting(a_request(), constraints=constraints))
        assert changes(found) == [(LessPlain(resource="cpu", before=4 * NANO, after=NANO),)]


class TestARaisedQuota:
    def test_goes_up_to_just_what_the_pod_needs(self) -> None:
        demand = wanting(a_request(count=2, memory=3_000), headroom={ACME: Headroom(memory=MiB(1_000))})
        found = offered(a_snapshot(a_busy_node("a", (0, 0), (0, 0))), demand, limit=5)
        quota = the(found, ChangeKind.QUOTA_MEMORY)
        assert quota.changes == (
            RaisedQuota(kind=ChangeKind.QUOTA_MEMORY, resource=MEMORY, left=1_000, needed=6_000, vendor=acme.SPEC.name),
        )
        raised = quota.changes[0]
        assert isinstance(raised, RaisedQuota)
        assert raised.by == 5_000
        assert quota.cost == pytest.approx(1 + 5_000 / 6_000)

    def test_of_memory_and_cores_goes_up_at_once(self) -> None:
        room = Headroom(memory=MiB(-5), cores=CoreShare(10))
        found = offered(a_snapshot(), wanting(a_request(memory=3_000, cores=30), headroom={ACME: room}), limit=9)
        both = the(found, ChangeKind.QUOTA_MEMORY, ChangeKind.QUOTA_CORES)
        assert both.demand.headroom == ((ACME, Headroom(MiB(3_000), CoreShare(30))),)

    def test_leaves_alone_what_is_no_limit(self) -> None:
        demand = wanting(a_request(cores=30), headroom={ACME: Headroom(cores=CoreShare(10))})
        raised = the(offered(a_snapshot(), demand, limit=9), ChangeKind.QUOTA_CORES)
        assert raised.demand.headroom == ((ACME, Headroom(None, CoreShare(30))),)

    def test_counts_in_the_units_of_the_vendor(self) -> None:
        spec = acme_variants.requests(memory_unit=MiB(256))
        demand = wanting(a_request(memory=Percent(25)), headroom={ACME: Headroom(memory=MiB(512))})
        found = offered(a_snapshot(a_node("a", a_device(memory=10_000))), demand, specs=(spec,), limit=9)
        raised = the(found, ChangeKind.QUOTA_MEMORY)
        assert [(each.left, each.needed) for each in raised.changes if isinstance(each, RaisedQuota)] == [(2, 10)]

    def test_does_not_help_where_cards_are_short_too(self) -> None:
        demand = wanting(a_request(memory=30_000), headroom={ACME: Headroom(memory=MiB(1_000))})
        found = offered(a_snapshot(), demand, limit=9)
        assert of_kind(found, ChangeKind.QUOTA_MEMORY) is None


class TestAnotherPodsPlace:
    def test_is_that_of_the_smallest_pod_that_is_enough(self) -> None:
        cluster = a_snapshot(
            a_busy_node("a", (12_000, 0), (9_000, 0)), a_busy_node("b", (10_000, 0)), a_busy_node("c", (7_000, 0))
        )
        found = offered(cluster, wanting(a_request(memory=9_500)))
        victim = the(found, ChangeKind.VICTIM)
        assert victim.victim is not None
        assert (victim.victim.full_name, victim.node.name) == ("default/c-pod-0", "c")
        assert victim.node.pods == ()
        assert victim.cost == pytest.approx(2 + 7_000 / 16_384)

    def test_is_that_of_a_pod_which_is_going_anyway_if_there_is_one(self) -> None:
        node = with_pods(
            a_busy_node("a", (0, 0), (0, 0)),
            [
                a_pod_on("a-0", 14_000, name="small"),
                a_pod_on("a-1", 16_000, name="going", terminating=True),
            ],
        )
        found = offered(a_snapshot(node), wanting(a_request(memory=9_500)))
        assert isinstance(found[0].changes[0], Removed)
        assert (found[0].victim.name if found[0].victim else "", found[0].cost) == ("going", 0.25)

    def test_is_never_that_of_a_more_important_pod_while_anything_else_helps(self) -> None:
        node = with_pods(a_busy_node("a", (0, 0)), [a_pod_on("a-0", 9_000, priority=10)])
        demand = wanting(a_request(memory=9_500))
        assert of_kind(offered(a_snapshot(node), demand, priority=9), ChangeKind.VICTIM) is None
        assert of_kind(offered(a_snapshot(node), demand, priority=10), ChangeKind.VICTIM) is not None

    def test_is_that_of_a_more_important_pod_when_nothing_else_helps(self) -> None:
        spec = replace(acme.SPEC, resources=replace(acme.RESOURCES, memory="", cores=""))
        pinned = NodeConstraints(affinity=((Requirement("metadata.name", "In", ("a",), on_field=True),),))
        node = with_pods(a_busy_node("a", (0, 0)), [a_pod_on("a-0", 9_000, priority=10)])
        found = offered(a_snapshot(node), wanting(a_request(memory=9_500), constraints=pinned), specs=(spec,))
        assert [each.kinds for each in found] == [(ChangeKind.VICTIM,)]

    def test_is_never_that_of_a_pod_which_is_spared(self) -> None:
        node = with_pods(a_busy_node("a", (0, 0), (0, 0)), [a_pod_on("a-0", 9_000), a_pod_on("a-1", 9_900, name="big")])
        found = offered(a_snapshot(node), wanting(a_request(memory=9_500)), spared=lambda pod: pod.name == "running")
        assert [each.victim.name for each in found if each.victim is not None] == ["big"]

    def test_may_give_several_cards_at_once(self) -> None:
        record = a_pod_on("a-0", 9_000, name="wide")
        wide = replace(record, allocations=(*record.allocations, *a_pod_on("a-1", 9_000).allocations))
        node = with_pods(a_busy_node("a", (0, 0), (0, 0)), [wide])
        found = offered(a_snapshot(node), wanting(a_request(count=2, memory=9_500)))
        assert of_kind(found, ChangeKind.VICTIM) is not None

    def test_is_that_of_several_pods_where_one_is_not_enough(self) -> None:
        node = with_pods(a_busy_node("a", (0, 0)), [a_pod_on("a-0", 5_000, name=name) for name in ("x", "y", "z")])
        found = offered(a_snapshot(node), wanting(a_request(memory=10_000)), limit=9)
        assert [each.pod.name for each in removed(found)] == ["x", "y"]
        assert removed(offered(a_snapshot(node), wanting(a_request(memory=17_000)), limit=9)) == ()

    def test_is_that_of_one_pod_before_several_smaller_ones(self) -> None:
        several = with_pods(a_busy_node("a", (0, 0)), [a_pod_on("a-0", 8_000, name=name) for name in ("x", "y")])
        one = with_pods(a_busy_node("b", (0, 0)), [a_pod_on("b-0", 16_384, name="large")])
        found = offered(a_snapshot(several, one), wanting(a_request(memory=16_000)), limit=9)
        assert [each.pod.name for each in removed(found)] == ["large"]

    def test_is_that_of_no_more_pods_than_a_person_deletes_together(self) -> None:
        def found(pods: int) -> tuple[Removed, ...]:
            names = [f"p{at}" for at in range(pods)]
            node = with_pods(a_busy_node("a", (0, 0)), [a_pod_on("a-0", 1_700, name=name) for name in names])
            return removed(offered(a_snapshot(node), wanting(a_request(memory=16_384)), limit=9))

        assert len(found(8)) == 8
        assert found(9) == ()

    def test_is_that_of_pods_on_the_cards_that_are_short(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (16_000, 0), (100, 0)))
        found = offered(cluster, wanting(a_request(count=2, memory=12_000)), limit=9)
        assert [each.pod.name for each in removed(found)] == ["a-pod-0"]

    def test_is_looked_for_on_the_nodes_where_the_least_could_be_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preemption, "MOST_SEARCHED", 1)
        cluster = a_snapshot(*(a_busy_node(name, (16_000 - at, 0)) for at, name in enumerate("abc")))
        found = offered(cluster, wanting(a_request(memory=16_000)), limit=9)
        assert [each.node for each in removed(found)] == ["c"]

    def test_frees_plain_resources_too(self) -> None:
        node = with_pods(
            a_node("a", facts=facts(allocatable={"cpu": 8})),
            [
                a_pod_on("card-0", 100, name="few", requests=(("cpu", 3 * NANO),)),
                a_pod_on("card-0", 200, name="many", requests=(("cpu", 5 * NANO),)),
            ],
        )
        constraints = NodeConstraints(requests=(("cpu", 4 * NANO),))
        victim = the(offered(a_snapshot(node), wanting(a_request(), constraints=constraints)), ChangeKind.VICTIM)
        assert victim.victim is not None
        assert victim.victim.name == "many"

    def test_frees_the_place_of_a_pod_on_a_full_node(self) -> None:
        node = with_pods(a_node("a", facts=facts(allocatable={"pods": 1})), [a_pod_on("card-0", 100)])
        assert of_kind(offered(a_snapshot(node), wanting(a_request())), ChangeKind.VICTIM) is not None

    def test_frees_nothing_on_a_node_that_objects_to_more_than_amounts(self) -> None:
        taint = Taint("k", "v", "NoSchedule")
        node = with_pods(a_node("a", facts=facts(taint, allocatable={"pods": 1})), [a_pod_on("card-0", 100)])
        assert of_kind(offered(a_snapshot(node), wanting(a_request())), ChangeKind.VICTIM) is None

    def test_may_be_that_of_any_pod_on_a_partitioned_card_that_has_memory_but_no_place(self) -> None:
        profile = Profile("4g.24gb", MiB(24_576), CoreShare(100), 4, (SlicePlacement(0, 4),))
        small = Profile("1g.6gb", MiB(6_144), CoreShare(25), 1, (SlicePlacement(0, 1), SlicePlacement(1, 1)))
        card = a_device(vendor="NVIDIA", mode="mig", memory=24_576, profiles=(profile, small))
        node = a_node("a", card, ids=["gpu"])
        held = a_share("gpu", 0, 0, Instance("1g.6gb", SlicePlacement(1, 1)), vendor="NVIDIA")
        node = with_pods(node, [a_record(allocated(held))])
        demand = wanting(a_request(vendor="NVIDIA", memory=20_000))
        found = offered(a_snapshot(node), demand, specs=(nvidia.SPEC,))
        assert of_kind(found, ChangeKind.VICTIM) is not None
        assert of_kind(found, ChangeKind.MEMORY) is not None


class TestOneMoreNode:
    def test_is_like_one_of_the_cluster_but_new(self) -> None:
        node = a_busy_node(
            "a", (16_000, 0), device=a_device(healthy=False), at=facts(labels={"kubernetes.io/hostname": "a"})
        )
        added = the(offered(a_snapshot(node), wanting(a_request())), ChangeKind.NODE)
        assert added.changes == (AddedNode(like=NodeName("a")),)
        assert added.node.name == "new-node"
        assert added.node.ids == ("new-node-0",)
        assert added.node.facts.labels == {"kubernetes.io/hostname": "new-node"}
        assert all(device.healthy for device in added.node.state.shape.devices)

    def test_is_the_smallest_that_takes_the_pod(self) -> None:
        cluster = a_snapshot(
            a_busy_node("a", *[(16_000, 0)] * 4), a_busy_node("b", *[(16_000, 0)] * 2), a_busy_node("c", (16_000, 0))
        )
        added = the(offered(cluster, wanting(a_request(count=2))), ChangeKind.NODE)
        assert added.changes == (AddedNode(like=NodeName("b")),)

    def test_may_be_of_a_shape_that_the_cluster_does_not_have_yet(self) -> None:
        spare = a_node("huge", a_device(memory=99_999))
        found = offered(a_snapshot(), wanting(a_request(memory=50_000)), spare_shapes=(spare,))
        added = the(found, ChangeKind.NODE)
        assert added.changes == (AddedNode(like=NodeName("huge")),)

    def test_has_a_name_that_is_free(self) -> None:
        cluster = a_snapshot(a_busy_node("new-node", (16_000, 0)), a_busy_node("new-node-2", (16_000, 0)))
        added = the(offered(cluster, wanting(a_request())), ChangeKind.NODE)
        assert added.node.name == "new-node-3"

    def test_has_no_card_that_a_pod_can_name(self) -> None:
        wanted = DeviceSelector(use_ids=frozenset({DeviceId("a-0")}))
        cluster = a_snapshot(a_busy_node("a", (16_000, 0)))
        found = offered(cluster, wanting(a_request(selector=wanted)), limit=9)
        assert of_kind(found, ChangeKind.NODE) is None

    def test_is_like_a_node_that_would_do_if_it_were_empty(self) -> None:
        """A full node objects before its cards are looked at, and so does a tainted one of the same shape."""
        full = with_pods(a_node("full", facts=facts(allocatable={"pods": 1})), [a_pod_on("card-0", 9)])
        tainted = a_node("a-tainted", a_device(slots=3), facts=facts(Taint("k", "v", "NoSchedule")))
        found = offered(a_snapshot(full, tainted), wanting(a_request()))
        added = the(found, ChangeKind.NODE)
        assert added.changes == (AddedNode(like=NodeName("full")),)


class TestPairs:
    def test_memory_and_cores_together_where_neither_is_enough(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (6_384, 70)))
        found = offered(cluster, wanting(a_request(memory=16_000, cores=50)))
        pair = of_kind(found, ChangeKind.MEMORY, ChangeKind.CORES) or of_kind(
            found, ChangeKind.CORES, ChangeKind.MEMORY
        )
        assert pair is not None
        assert {change.after for change in pair.changes if isinstance(change, LessOf)} == {10_000, 30}

    def test_keep_more_of_that_which_costs_less_to_keep(self) -> None:
        """One card has the memory, the other the cores; the cheaper of the two compromises is offered."""
        cluster = a_snapshot(a_busy_node("a", (1, 90), (14_384, 2)))
        found = offered(cluster, wanting(a_request(memory=16_384, cores=99)))
        pair = next(each for each in found if len(each.changes) == 2)
        assert {change.after for change in pair.changes if isinstance(change, LessOf)} == {2_000, 98}

    def test_of_a_wish_and_an_amount(self) -> None:
        demand = wanting(a_request(memory=20_000, selector=DeviceSelector(use_models=("b100",))))
        pair = next(each for each in offered(a_snapshot(), demand) if len(each.changes) == 2)
        assert set(pair.kinds) == {ChangeKind.MEMORY, ChangeKind.USE_MODELS}
        assert less(ChangeKind.MEMORY, 20_000, 16_384) in pair.changes

    def test_of_two_wishes(self) -> None:
        constraints = NodeConstraints(selector=(("a", "1"), ("b", "2")))
        found = offered(a_snapshot(), wanting(a_request(), constraints=constraints))
        assert [each.kinds for each in found] == [(ChangeKind.NODE_SELECTOR, ChangeKind.NODE_SELECTOR)]

    def test_come_after_all_singles(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (6_384, 70)))
        found = offered(cluster, wanting(a_request(memory=16_000, cores=50)), limit=9)
        assert [len(each.changes) for each in found] == sorted(len(each.changes) for each in found)

    def test_are_not_sought_when_singles_are_enough(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (6_384, 70)))
        found = offered(cluster, wanting(a_request(memory=16_000, cores=50)), limit=1)
        assert [each.kinds for each in found] == [(ChangeKind.VICTIM,)]

    def test_of_nothing_that_any_node_objected_to_are_not_tried(self) -> None:
        broken = a_snapshot(a_node("a", a_device(healthy=False)))
        constraints = NodeConstraints(selector=())
        demand = wanting(
            a_request(selector=DeviceSelector(use_models=("b",), avoid_models=("x",))), constraints=constraints
        )
        assert offered(broken, demand) == ()


class TestOrderAndNumber:
    def test_small_changes_come_first(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (384, 0)))
        demand = wanting(a_request(memory=16_384))
        found = offered(cluster, demand, limit=9)
        assert [each.kinds[0] for each in found] == [ChangeKind.MEMORY, ChangeKind.VICTIM, ChangeKind.NODE]
        assert [each.cost for each in found] == sorted(each.cost for each in found)

    def test_no_more_than_asked_for_are_offered(self) -> None:
        demand = wanting(a_request(memory=16_384))
        assert len(offered(a_snapshot(a_busy_node("a", (384, 0))), demand, limit=2)) == 2

    def test_there_is_one_of_each_kind(self) -> None:
        cluster = a_snapshot(a_busy_node("a", (8_384, 0)))
        found = offered(cluster, wanting(a_request(memory=9_000), a_request(memory=8_500)), limit=9)
        assert len({each.kinds for each in found}) == len(found)

    def test_the_same_question_has_the_same_answer_whatever_the_order_of_nodes(self) -> None:
        nodes = [a_busy_node(f"n{at}", (1_000 * at, 5 * at), (500 * at, at)) for at in range(1, 8)]
        demand = wanting(a_request(count=2, memory=16_000, cores=99))
        one, other = offered(a_snapshot(*nodes), demand), offered(a_snapshot(*reversed(nodes)), demand)
        assert changes(one) == changes(other)
        assert [each.node.name for each in one] == [each.node.name for each in other]


class TestWhatTheWebhookMakesOfIt:
    def test_an_amount_counts_for_what_it_becomes(self) -> None:
        """A vendor that sells 4,096 MiB pieces: a smaller request gets a whole piece all the same."""
        demand = wanting(a_request(memory=16_384))

        def settle(made: tuple[object, ...]) -> DecisionRequest:
            change = made[0]
            asked = change.after if isinstance(change, LessOf) else 16_384
            return DecisionRequest(wanting(a_request(memory=-(-asked // 4_096) * 4_096)), Policy())

        found = offered(a_snapshot(a_busy_node("a", (5_000, 0))), demand, settle=settle, limit=1)
        assert found[0].changes == (less(ChangeKind.MEMORY, 16_384, 8_192),)
        assert found[0].demand == wanting(a_request(memory=8_192))

    def test_an_amount_that_is_refused_is_not_offered(self) -> None:
        """A vendor that takes powers of two only."""
        demand = wanting(a_request(memory=16_384))

        def settle(made: tuple[object, ...]) -> DecisionRequest | None:
            change = made[0]
            if not isinstance(change, LessOf) or change.after & (change.after - 1):
                return None
            return DecisionRequest(wanting(a_request(memory=change.after)), Policy())

        found = offered(a_snapshot(a_busy_node("a", (5_000, 0))), demand, settle=settle)
        assert changes(found) == [(less(ChangeKind.MEMORY, 16_384, 8_192),)]

    def test_a_request_that_vanishes_is_not_measured(self) -> None:
        nothing = DecisionRequest(wanting(ContainerDemand(ContainerKind.APP)), Policy())
        found = offered(a_snapshot(), wanting(a_request(memory=99_999)), settle=lambda _: nothing)
        assert found[0].kinds == (ChangeKind.MEMORY,)
