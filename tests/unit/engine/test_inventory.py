"""From Kubernetes objects to node entries and pod records, without one broken part hiding the rest."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hami_plugins.engine.inventory import NodeBuilder, RecordReader, add_requests, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.segments import aligned, asks_for_a_card
from hami_plugins.errors import WireError
from hami_plugins.model.devices import AllocatedShare, CoreMask, GroupMember
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.nodes import NodeFacts, Problem
from hami_plugins.model.pods import Container, ContainerAllocation, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId, NodeName, PodUid, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from tests import acme, acme_variants
from tests.builders import (
    ACME,
    COUNT,
    MEMORY,
    a_container,
    a_device,
    a_node,
    a_node_object,
    a_pod,
    a_record,
    a_share,
)

KEY = acme.SPEC.keys.allocated
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP
NODE = a_node_object()
NOTHING = DeviceInventory()


def a_vendor(
    name: str, inventory: DeviceInventory | WireError = NOTHING, dialect: Dialect = Dialect.HAMI
) -> VendorSpec:
    """A vendor that finds these devices on every node."""

    def found(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
        if isinstance(inventory, WireError):
            raise inventory
        return inventory

    resources = ResourceNames(count=f"{name}.example/card", memory=f"{name}.example/memory")
    keys = replace(acme.SPEC.keys, allocated=f"hami.io/{name}-allocated")
    return replace(acme.SPEC, name=VendorName(name), resources=resources, keys=keys, dialect=dialect, inventory=found)


def cards(
    *names: str, links: tuple[tuple[int, ...], ...] = (), traits: tuple[tuple[str, str], ...] = ()
) -> DeviceInventory:
    return DeviceInventory(tuple(a_device() for _ in names), tuple(map(DeviceId, names)), links, traits)


class TestNodes:
    """A node is what all vendors find on it."""

    @pytest.mark.parametrize(
        ("offered", "vendor", "told"),
        [((), "a", 1), (("a",), "a", 1), (("b",), "b", 0), (("a", "b"), "a", 1)],
    )
    def test_a_device_that_two_have_registered_is_of_the_one_that_the_node_offers(
        self, offered: tuple[str, ...], vendor: str, told: int
    ) -> None:
        found = {name: DeviceInventory((a_device(vendor=name),), (DeviceId("x"),)) for name in ("a", "b")}
        registry = Registry([a_vendor("a", found["a"]), a_vendor("b", found["b"])])
        node = a_node_object(capacity={f"{name}.example/card": 10 for name in offered})
        entry = NodeBuilder(registry).entry(node, NodeFacts())
        assert [device.vendor for device in entry.state.shape.devices] == [vendor]
        assert entry.ids == ("x",)
        assert len(entry.problems) == told

    def test_every_vendor_is_asked_and_the_node_starts_idle(self) -> None:
        registry = Registry([a_vendor("a", cards("a-0")), a_vendor("b", cards("b-0", "b-1"))])
        facts = NodeFacts(unschedulable=True)
        entry = NodeBuilder(registry).entry(NODE, facts)
        assert entry.ids == ("a-0", "b-0", "b-1")
        assert entry.facts is facts
        assert entry.name == "node-0"
        assert [usage.slots for usage in entry.state.usage] == [0, 0, 0]
        assert entry.problems == ()

    def test_what_one_vendor_cannot_read_is_a_problem_and_the_others_stay(self) -> None:
        broken = a_vendor("a", WireError("hami.io/node-a-register", "x", "half a list"))
        entry = NodeBuilder(Registry([broken, a_vendor("b", cards("b-0"))])).entry(NODE, NodeFacts())
        assert entry.ids == ("b-0",)
        assert entry.problems == (Problem("node node-0", "hami.io/node-a-register: half a list (in 'x')"),)

    def test_what_a_vendor_remarks_is_a_problem_and_its_devices_stay(self) -> None:
        remarked = replace(cards("a-0"), remarks=("the links are a guess",))
        entry = NodeBuilder(Registry([a_vendor("a", remarked)])).entry(NODE, NodeFacts())
        assert entry.ids == ("a-0",)
        assert entry.problems == (Problem("node node-0", "the links are a guess"),)

    def test_a_device_that_is_registered_twice_counts_once(self) -> None:
        registry = Registry([a_vendor("a", cards("x", "x", "y")), a_vendor("b", cards("y", "z"))])
        entry = NodeBuilder(registry).entry(NODE, NodeFacts())
        assert entry.ids == ("x", "y", "z")
        assert [problem.what for problem in entry.problems] == [
            "device x is registered twice; the first counts",
            "device y is registered twice; the first counts",
        ]

    def test_links_and_traits_of_all_vendors_are_joined(self) -> None:
        registry = Registry(
            [
                a_vendor("a", cards("a-0", traits=(("z", "1"),))),
                a_vendor("b", cards("b-0", "b-1", links=((0, 7), (8, 0)), traits=(("k", "2"),))),
            ]
        )
        shape = NodeBuilder(registry).entry(NODE, NodeFacts()).state.shape
        assert shape.links == ((0, 0, 0), (0, 0, 7), (0, 8, 0))
        assert shape.traits == (("k", "2"), ("z", "1"))

    def test_links_survive_a_device_that_is_dropped(self) -> None:
        """Two entries of one id leave fewer devices than the matrix has rows."""
        registry = Registry([a_vendor("a", cards("x", "x", links=((1, 2), (3, 4))))])
        assert NodeBuilder(registry).entry(NODE, NodeFacts()).state.shape.links == ((1,),)

    def test_equal_shapes_are_one_object(self) -> None:
        builder = NodeBuilder(Registry([a_vendor("a", cards("a-0"))]))
        one, two = (builder.entry(a_node_object(name), NodeFacts()) for name in ("n1", "n2"))
        assert one.state.shape is two.state.shape


def test_a_nodes_sums_count_its_pods_and_their_plain_requests() -> None:
    entry = with_pods(a_node(), [a_record(requests=(("cpu", 5), ("memory", 7))), a_record(requests=(("cpu", 1),))])
    assert entry.requested == {"pods": 2 * NANO, "cpu": 6, "memory": 7}
    sums = dict(entry.requested)
    add_requests(sums, a_record(requests=(("cpu", 1),)), sign=-1)
    assert sums == {"pods": NANO, "cpu": 5, "memory": 7}


def record(
    annotations: Mapping[str, str], *containers: Container, specs: tuple[VendorSpec, ...] = (acme.SPEC,)
) -> tuple[tuple[ContainerAllocation, ...], tuple[Problem, ...]]:
    pod = a_pod(*containers, annotations=annotations)
    found, problems = RecordReader(Registry(specs)).record(pod)
    return found.allocations, problems


class TestRecords:
    """The allocation of a placed pod is that of its annotations."""

    def test_each_segment_belongs_to_its_container(self) -> None:
        allocations, problems = record(
            {KEY: "GPU-a,Acme,500,3:GPU-b,Acme,500,3:;;GPU-c,Acme,30,0:;", "other": "x"},
            a_container(name="load", kind=INIT),
            a_container(name="idle"),
            a_container(),
        )
        assert problems == ()
        assert [allocation.kind for allocation in allocations] == [INIT, APP, APP]
        assert [[share.device for share in allocation.shares] for allocation in allocations] == [
            ["GPU-a", "GPU-b"],
            [],
            ["GPU-c"],
        ]
        assert allocations[0].shares[0] == a_share("GPU-a", 500, 3)

    def test_lists_of_several_vendors_are_merged_per_container(self) -> None:
        specs = (acme.SPEC, a_vendor("beta"))
        allocations, _ = record(
            {KEY: ";x,Acme,1,1:;", "hami.io/beta-allocated": "y,beta,2,2:;z,beta,3,3:;"},
            a_container(),
            a_container(),
            specs=specs,
        )
        assert [[share.device for share in allocation.shares] for allocation in allocations] == [["y"], ["x", "z"]]
        assert [share.vendor for share in allocations[1].shares] == [ACME, "beta"]

    def test_an_unreadable_list_is_a_problem_and_other_lists_count(self) -> None:
        allocations, problems = record(
            {KEY: "GPU-a,Acme,half;", "hami.io/beta-allocated": "y,beta,2,2:;"},
            a_container(),
            specs=(acme.SPEC, a_vendor("beta")),
        )
        assert [share.device for share in allocations[0].shares] == ["y"]
        assert [(problem.place, KEY in problem.what) for problem in problems] == [("pod default/p", True)]

    def test_more_containers_than_the_pod_has_are_a_problem(self) -> None:
        (allocation,), (problem,) = record({KEY: "a,Acme,1,1:;b,Acme,1,1:;"}, a_container())
        assert [share.device for share in allocation.shares] == ["a", "b"]
        assert "names 2 containers, the pod has 1" in problem.what

    def test_everything_else_comes_from_the_pod(self) -> None:
        pod = Pod(
            namespace="team",
            name="p",
            uid=PodUid("u"),
            containers=(a_container(),),
            annotations={"scheduling.volcano.sh/queue-name": "gold", "scheduling.k8s.io/group-name": "ring"},
            init_finished=True,
            terminating=True,
            priority=9,
            node=NodeName("n"),
            constraints=replace(a_pod().constraints, requests=(("cpu", 1),)),
        )
        found, _ = RecordReader(Registry([acme.SPEC])).record(pod)
        assert (found.full_name, found.uid, found.priority, found.requests) == ("team/p", "u", 9, (("cpu", 1),))
        assert (found.queue, found.group, found.init_finished, found.terminating) == ("gold", "ring", True, True)

    def test_what_the_list_does_not_carry_is_recalled_by_the_vendor(self) -> None:
        def recall(
            annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
        ) -> tuple[ContainerAllocation, ...]:
            bits = int(annotations["bits"])
            return tuple(
                replace(allocation, shares=tuple(replace(share, mark=CoreMask(bits)) for share in allocation.shares))
                for allocation in allocations
            )

        spec = acme_variants.records(recall=recall)
        allocations, _ = record({KEY: "a,Acme,1,1:;", "bits": "5"}, a_container(), specs=(spec,))
        assert allocations[0].shares[0].mark == CoreMask(5)

    def test_a_list_without_what_goes_with_it_still_counts_and_the_rest_is_a_problem(self) -> None:
        def recall(
            annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
        ) -> tuple[ContainerAllocation, ...]:
            raise WireError("places", "half", "does not parse")

        spec = acme_variants.records(recall=recall)
        allocations, (problem,) = record({KEY: "a,Acme,100,1:;"}, a_container(), specs=(spec,))
        assert allocations[0].shares == (a_share("a", 100, 1),)
        assert problem.what == "places: does not parse (in 'half')"

    @pytest.mark.parametrize(("group", "mark"), [("team/ring", GroupMember("team/ring")), ("", None)])
    def test_shares_without_a_mark_of_their_own_are_marked_with_the_pods_group(
        self, group: str, mark: GroupMember | None
    ) -> None:
        spec = acme_variants.fitting(group_of=lambda pod: group)
        allocations, _ = record({KEY: "a,Acme,1,1:;"}, a_container(), specs=(spec,))
        assert allocations[0].shares[0].mark == mark

    def test_volcanos_lists_are_read_in_volcanos_form(self) -> None:
        spec = a_vendor("v", dialect=Dialect.VOLCANO)
        asking = a_container({"v.example/card": 1})
        allocations, problems = record({"hami.io/v-allocated": "a,NVIDIA,1,1:"}, a_container(), asking, specs=(spec,))
        assert problems == ()
        assert [[share.device for share in allocation.shares] for allocation in allocations] == [[], ["a"]]


def segments(text: str) -> list[list[AllocatedShare]]:
    """``ab,,c`` are three segments: two devices, none, one."""
    return [[a_share(name) for name in part] for part in text.split(",")] if text else []


def spread(text: str, spec: VendorSpec, *containers: Container) -> str:
    return ",".join("".join(share.device for share in part) for part in aligned(segments(text), spec, containers))


ASKS, IDLE = a_container({COUNT: 1}), a_container()
INIT_ASKS = a_container({COUNT: 1}, kind=INIT)


class TestAlignment:
    """Writers disagree about containers without devices; readers must not."""

    def test_one_segment_per_container_is_taken_as_it_is(self) -> None:
        assert spread("a,,b", acme.SPEC, IDLE, ASKS, IDLE) == "a,,b"

    def test_empty_segments_that_a_node_agent_appended_are_dropped(self) -> None:
        assert spread("a,,,", acme.SPEC, ASKS, IDLE) == "a,"

    def test_too_many_devices_are_refused(self) -> None:
        with pytest.raises(WireError, match="names 3 containers, the pod has 2"):
            spread("a,,b", acme.SPEC, ASKS, ASKS)

    def test_hami_forgets_idle_containers_when_the_model_is_not_spelled_like_the_vendor(self) -> None:
        assert spread("a,b", acme.SPEC, IDLE, ASKS, IDLE, ASKS) == ",a,,b"
        assert spread("a", acme.SPEC, IDLE, a_container(requests={MEMORY: 1})) == ",a"

    def test_segments_that_nobody_asks_for_stay_where_they_are(self) -> None:
        assert spread("a,b", acme.SPEC, IDLE, ASKS, IDLE) == "a,b,"
        assert spread(",a", acme.SPEC, IDLE, IDLE, IDLE) == ",a,"

    def test_no_segments_are_no_devices(self) -> None:
        assert spread("", acme.SPEC, ASKS, ASKS) == ","

    def test_volcano_writes_segments_for_asking_containers_and_passes_over_init_containers(self) -> None:
        spec = replace(acme.SPEC, dialect=Dialect.VOLCANO)
        assert spread("a", spec, INIT_ASKS, IDLE, ASKS) == ",,a"
        assert spread("a,b", spec, INIT_ASKS, IDLE, ASKS) == "a,,b"
        assert spread("a,b,", spec, INIT_ASKS, IDLE, ASKS, IDLE) == "a,,b,"

    def test_volcano_asks_for_a_card_with_a_count_or_memory(self) -> None:
        assert asks_for_a_card(acme.SPEC, a_container({COUNT: 0}))
        assert asks_for_a_card(acme.SPEC, a_container(requests={MEMORY: 1}))
        assert not asks_for_a_card(acme.SPEC, a_container({acme.RESOURCES.cores: 1}))
