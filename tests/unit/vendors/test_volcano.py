"""NVIDIA GPUs under Volcano."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, with_pods
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import Instance, SlicePlacement, Unplaced
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import Absolute, ContainerKind, Percent
from hami_plugins.model.units import MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import NoFit, Reason
from hami_plugins.vendors import volcano
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import volcano_config
from tests.builders import a_container, a_node_object, a_pod, a_snapshot

NUMBER, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores
PERCENT = SPEC.resources.memory_percentage
IDS = SPEC.keys.allocated
MORE = SPEC.keys.more
A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"
TWO = f"GPU-a,10,40960,{A100},true,hami-core:GPU-b,10,40960,{A100},true,hami-core:"
CUT = f"GPU-m,10,40960,{A100},true,mig:"
GROUP = {"scheduling.k8s.io/group-name": "train", volcano.SPREAD_KEY: "spread"}

GEOMETRIES = {
    "nvidia": {
        "resourceMemoryPercentageName": PERCENT,
        "knownMigGeometries": [
            {
                "models": ["A100-SXM4-40GB"],
                "allowedGeometries": [
                    {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]},
                    {
                        "group": "group2",
                        "geometries": [
                            {"name": "2g.10gb", "memory": 10240, "count": 3},
                            {"name": "1g.5gb", "memory": 5120, "count": 1},
                        ],
                    },
                    {"group": "group3", "geometries": [{"name": "3g.20gb", "memory": 20480, "count": 2}]},
                ],
            }
        ],
    }
}
CONFIGURED = volcano.configured(volcano_config.decode(GEOMETRIES))


def node(register: str, *, spec: VendorSpec = SPEC, handshake: str = "", running: Iterable[Pod] = ()) -> NodeEntry:
    annotations = {SPEC.keys.register: register, SPEC.keys.handshake: handshake}
    registry = Registry([spec])
    entry = NodeBuilder(registry).entry(a_node_object("n1", annotations=annotations), NodeFacts())
    reader = RecordReader(registry)
    return with_pods(entry, [reader.record(pod)[0] for pod in running])


def place(
    entry: NodeEntry, *containers: Container, annotations: Mapping[str, str] | None = None, policy: str = "binpack"
) -> Mapping[str, str] | NoFit:
    """What is written on the pod, or why it does not fit."""
    registry = Registry([CONFIGURED])
    pod = a_pod(*containers, annotations=annotations or {})
    intake = take_in(pod, registry, Rules(policies=PolicyDefaults(volcano=policy)))
    assert not intake.refusal
    found = Decider(registry, uncounted=registry.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
    if isinstance(found, Placed):
        return annotations_of(pod, found, entry, registry, now_ns=1_000_000_000)
    refusal = found.by_node[0][1]
    assert isinstance(refusal, NoFit)
    return refusal


def ids(entry: NodeEntry, *containers: Container, annotations: Mapping[str, str] | None = None) -> str:
    written = place(entry, *containers, annotations=annotations)
    assert isinstance(written, dict), written
    return str(written[IDS])


def running(text: str, *, name: str = "old", annotations: Mapping[str, str] | None = None) -> Pod:
    containers = [a_container({NUMBER: 1}, name=f"c{at}") for at in range(text.count(";") + 1)]
    return a_pod(*containers, name=name, annotations={IDS: text, **(annotations or {})})


class TestInventory:
    def test_a_node_without_a_register_has_no_cards(self) -> None:
        assert SPEC.inventory(SPEC, a_node_object()).ids == ()

    def test_an_empty_register_is_no_cards(self) -> None:
        assert node("").ids == ()

    def test_a_node_whose_agent_was_given_up_has_no_cards(self) -> None:
        assert node(TWO, handshake="Deleted_2026.11.21 07:39:03").ids == ()
        assert node(TWO, handshake="Requesting_2026.11.21 07:39:03").ids == ("GPU-a", "GPU-b")

    def test_the_last_card_tells_the_mode_of_all(self) -> None:
        mixed = f"GPU-a,10,40960,{A100},true,hami-core:{CUT}"
        assert {device.mode for device in node(mixed, spec=CONFIGURED).state.shape.devices} == {"mig"}
        mixed = f"{CUT}GPU-a,10,40960,{A100},true,hami-core:"
        assert {device.mode for device in node(mixed, spec=CONFIGURED).state.shape.devices} == {"hami-core"}

    def test_cards_without_a_known_geometry_are_not_cut(self) -> None:
        assert node(CUT).state.shape.devices[0].mode == "hami-core"


class TestRequests:
    def asked(self, container: Container, *, configured: bool = False) -> object:
        registry = Registry([CONFIGURED if configured else SPEC])
        (demand,) = demand_of(a_pod(container), registry).containers
        return [(each.count, each.memory, each.cores) for each in demand.requests]

    def test_memory_alone_is_one_card(self) -> None:
        assert self.asked(a_container({MEMORY: 3000})) == [(1, Absolute(MiB(3000)), 0)]

    def test_neither_memory_nor_percentage_is_the_whole_card(self) -> None:
        assert self.asked(a_container({NUMBER: 2, CORES: 30})) == [(2, Percent(100), 30)]

    @pytest.mark.parametrize("limits", [{CORES: 50}, {PERCENT: 50}, {NUMBER: 0}], ids=["cores", "percentage", "zero"])
    def test_this_asks_for_no_card(self, limits: dict[str, int]) -> None:
        assert self.asked(a_container(limits), configured=True) == []

    def test_a_percentage_counts_only_where_it_is_configured(self) -> None:
        half = a_container({NUMBER: 1, PERCENT: 50})
        assert self.asked(half) == [(1, Percent(100), 0)]
        assert self.asked(half, configured=True) == [(1, Percent(50), 0)]

    def test_a_percentage_wins_over_an_amount_and_zero_says_nothing(self) -> None:
        assert self.asked(a_container({MEMORY: 3000, PERCENT: 50}), configured=True) == [(1, Percent(50), 0)]
        assert self.asked(a_container({MEMORY: 3000, PERCENT: 0}), configured=True) == [(1, Absolute(MiB(3000)), 0)]

    @pytest.mark.parametrize(
        "limits",
        [{NUMBER: -1}, {NUMBER: "1500m"}, {NUMBER: 1, MEMORY: -5}, {NUMBER: 1, CORES: -1}, {NUMBER: 0, MEMORY: 5}],
    )
    def test_what_means_nothing_is_refused(self, limits: dict[str, int | str]) -> None:
        with pytest.raises(InvalidRequestError):
            self.asked(a_container(limits))

    @pytest.mark.parametrize("percent", [150, -1, "500m"])
    def test_percentages_end_at_a_hundred(self, percent: int | str) -> None:
        with pytest.raises(InvalidRequestError, match="from 1 to 100"):
            self.asked(a_container({NUMBER: 1, PERCENT: percent}), configured=True)


class TestFit:
    def test_the_last_card_comes_first(self) -> None:
        assert ids(node(TWO), a_container({MEMORY: 4096})) == "GPU-b,NVIDIA,4096,0:"

    def test_idle_containers_are_not_listed(self) -> None:
        found = ids(
            node(TWO), a_container({MEMORY: 1}, name="a"), a_container(name="b"), a_container({MEMORY: 2}, name="c")
        )
        assert found == "GPU-b,NVIDIA,1,0:;GPU-b,NVIDIA,2,0:"

    def test_zero_cards_are_an_empty_list(self) -> None:
        assert ids(node(TWO), a_container({NUMBER: 0})) == ""

    def test_init_containers_and_sidecars_get_cards_that_are_listed_by_name(self) -> None:
        init = a_container({MEMORY: 40000}, name="i", kind=ContainerKind.INIT)
        side = a_container({MEMORY: 500}, name="s", kind=ContainerKind.SIDECAR)
        written = place(node(TWO), init, side, a_container({MEMORY: 4096}))
        assert isinstance(written, dict)
        assert written[IDS] == "GPU-b,NVIDIA,4096,0:"
        assert written[MORE] == "i=GPU-b,NVIDIA,40000,0:;s=GPU-b,NVIDIA,500,0:"

    def test_what_is_listed_by_name_is_read_back(self) -> None:
        init = a_container({MEMORY: 40000}, name="i", kind=ContainerKind.INIT)
        side = a_container({MEMORY: 500}, name="s", kind=ContainerKind.SIDECAR)
        written = {IDS: "GPU-b,NVIDIA,4096,0:", MORE: "i=GPU-a,NVIDIA,40000,0:;s=GPU-b,NVIDIA,500,0:"}
        pod = a_pod(init, side, a_container({MEMORY: 4096}), annotations=written)
        record, problems = RecordReader(Registry([SPEC])).record(pod)
        assert [[(share.device, share.memory) for share in allocation.shares] for allocation in record.allocations] == [
            [("GPU-a", 40000)],
            [("GPU-b", 500)],
            [("GPU-b", 4096)],
        ]
        assert not problems

    @pytest.mark.parametrize("more", ["nobody=GPU-a,NVIDIA,1,0:", "main=GPU-a,NVIDIA,1,0:", "s", "s=GPU-a,NVIDIA:"])
    def test_a_list_by_name_that_means_nothing_hides_nothing_else(self, more: str) -> None:
        side = a_container({MEMORY: 500}, name="s", kind=ContainerKind.SIDECAR)
        pod = a_pod(side, a_container({MEMORY: 4096}), annotations={IDS: "GPU-b,NVIDIA,4096,0:", MORE: more})
        record, problems = RecordReader(Registry([SPEC])).record(pod)
        assert [len(allocation.shares) for allocation in record.allocations] == [0, 1]
        assert MORE in problems[0].what

    def test_a_list_by_name_of_an_earlier_try_is_emptied(self) -> None:
        written = place(node(TWO), a_container({MEMORY: 4096}), annotations={MORE: "s=GPU-a,NVIDIA,1,0:"})
        assert isinstance(written, dict)
        assert written[MORE] == ""

    def test_what_volcano_gave_a_pod_with_an_init_container_is_the_applications(self) -> None:
        init = a_container({MEMORY: 40000}, name="i", kind=ContainerKind.INIT)
        pod = a_pod(init, a_container({MEMORY: 4096}), annotations={IDS: "GPU-b,NVIDIA,4096,0:"})
        record, _ = RecordReader(Registry([SPEC])).record(pod)
        assert [len(allocation.shares) for allocation in record.allocations] == [0, 1]

    def test_an_unhealthy_card_takes_nothing(self) -> None:
        ill = TWO.replace("true,hami-core:GPU-b", "false,hami-core:GPU-b")
        refusal = place(node(ill), a_container({NUMBER: 2}))
        assert isinstance(refusal, NoFit)
        assert refusal.words == "not enough gpu fitted on this node"
        assert dict(refusal.reasons) == {Reason.HEALTH: 1, Reason.TOO_FEW: 1}

    def test_more_cards_than_there_are_is_said_with_the_node(self) -> None:
        refusal = place(node(TWO), a_container({NUMBER: 3}))
        assert isinstance(refusal, NoFit)
        assert refusal.words == "no enough gpu cards on node n1"

    @pytest.mark.parametrize("number", [1, 3])
    def test_another_mode_is_said_first(self, number: int) -> None:
        refusal = place(node(TWO), a_container({NUMBER: number}), annotations={SPEC.keys.mode: "mig"})
        assert isinstance(refusal, NoFit)
        assert refusal.words == "pod required sharing mode mig is not the same as the node mode hami-core"

    def test_the_mode_has_to_be_the_same_text(self) -> None:
        assert isinstance(
            place(node(TWO), a_container({NUMBER: 1}), annotations={SPEC.keys.mode: "hami-core,mig"}), NoFit
        )
        assert ids(node(TWO), a_container({MEMORY: 1}), annotations={SPEC.keys.mode: "hami-core"})

    def test_a_card_that_is_not_called_nvidia_is_none(self) -> None:
        assert isinstance(place(node("GPU-a,10,16384,Tesla T4,true,hami-core:"), a_container({NUMBER: 1})), NoFit)

    @pytest.mark.parametrize(
        ("annotations", "fits"),
        [
            ({SPEC.keys.use_models: "H100,a100"}, True),
            ({SPEC.keys.use_models: "H100"}, False),
            ({SPEC.keys.avoid_models: "A100"}, False),
            ({SPEC.keys.use_models: "A100", SPEC.keys.avoid_models: "A100"}, True),
            ({SPEC.keys.use_models: "H100,"}, True),
            ({SPEC.keys.avoid_models: "H100,"}, False),
        ],
        ids=[
            "one of them",
            "another",
            "unwanted",
            "wanted wins",
            "an empty word wants all",
            "an empty word wants none",
        ],
    )
    def test_models_are_chosen_as_volcano_does(self, annotations: dict[str, str], fits: bool) -> None:
        found = place(node(TWO), a_container({NUMBER: 1}), annotations=annotations)
        assert isinstance(found, dict) is fits

    def test_lists_of_ids_are_honoured_and_all_of_them_hold(self) -> None:
        wanted = {SPEC.keys.use_ids[0]: "GPU-a, GPU-b,", SPEC.keys.use_ids[1]: "GPU-a"}
        assert ids(node(TWO), a_container({MEMORY: 1}), annotations=wanted).startswith("GPU-a")
        unwanted = {SPEC.keys.avoid_ids[0]: "GPU-b", SPEC.keys.avoid_ids[1]: " , "}
        assert ids(node(TWO), a_container({MEMORY: 1}), annotations=unwanted).startswith("GPU-a")


class TestGroups:
    def test_pods_of_a_gang_keep_apart_where_it_wants_that(self) -> None:
        busy = node(TWO, running=[running("GPU-b,NVIDIA,1000,0:", annotations=GROUP)])
        assert ids(busy, a_container({MEMORY: 1}), annotations=GROUP).startswith("GPU-a")
        assert ids(busy, a_container({MEMORY: 1}), annotations={**GROUP, volcano.SPREAD_KEY: "pack"}).startswith(
            "GPU-b"
        )
        other = {**GROUP, "scheduling.k8s.io/group-name": "other"}
        assert ids(busy, a_container({MEMORY: 1}), annotations=other).startswith("GPU-b")

    def test_containers_of_one_pod_may_share_a_card(self) -> None:
        one = node(f"GPU-a,10,40960,{A100},true,hami-core:")
        two = [a_container({MEMORY: 1}, name="a"), a_container({MEMORY: 2}, name="b")]
        assert ids(one, *two, annotations=GROUP) == "GPU-a,NVIDIA,1,0:;GPU-a,NVIDIA,2,0:"

    def test_without_a_gang_there_is_nobody_to_keep_apart_from(self) -> None:
        assert volcano.group_of(a_pod(annotations={volcano.SPREAD_KEY: "spread"})) == ""


class TestMig:
    def cut(self, *texts: str) -> NodeEntry:
        pods = [running(text, name=f"p{at}") for at, text in enumerate(texts)]
        return node(CUT, spec=CONFIGURED, running=pods)

    def test_the_first_geometry_with_a_slice_that_is_large_enough_is_taken(self) -> None:
        assert ids(self.cut(), a_container({MEMORY: 3000})) == "GPU-m[group1-0],NVIDIA,3000,0:"
        assert ids(self.cut(), a_container({MEMORY: 8000})) == "GPU-m[group2-0],NVIDIA,8000,0:"

    def test_slices_of_the_geometry_in_force_are_given_once(self) -> None:
        entry = self.cut("GPU-m[group2-1],NVIDIA,8000,0:")
        two = [a_container({MEMORY: 8000}, name="a"), a_container({MEMORY: 3000}, name="b")]
        assert ids(entry, *two) == "GPU-m[group2-0],NVIDIA,8000,0:;GPU-m[group2-3],NVIDIA,3000,0:"

    def test_no_slice_of_another_geometry_is_given(self) -> None:
        entry = self.cut("GPU-m[group3-0],NVIDIA,20000,0:", "GPU-m[group3-1],NVIDIA,20000,0:")
        refusal = place(entry, a_container({MEMORY: 900}))
        assert isinstance(refusal, NoFit)
        assert dict(refusal.reasons) == {Reason.PARTITION: 1}

    def test_a_card_with_two_geometries_takes_nothing(self) -> None:
        entry = self.cut("GPU-m[group1-0],NVIDIA,3000,0:", "GPU-m[group3-0],NVIDIA,20000,0:")
        assert isinstance(place(entry, a_container({MEMORY: 1000})), NoFit)

    def test_a_slot_that_two_containers_of_a_pod_were_given_is_held_once(self) -> None:
        entry = self.cut("GPU-m[group1-0],NVIDIA,3000,0:;GPU-m[group1-0],NVIDIA,3000,0:")
        marks = entry.state.usage[0].marks
        assert [mark for mark in marks if isinstance(mark, Instance)] == [
            Instance("group1-0", SlicePlacement(0, 1), "group1")
        ]
        assert sum(isinstance(mark, Unplaced) for mark in marks) == 1
        assert ids(entry, a_container({MEMORY: 3000})).startswith("GPU-m[group1-1]")

    def test_a_cut_card_with_a_share_in_no_slot_takes_nothing(self) -> None:
        refusal = place(self.cut("GPU-m,NVIDIA,3000,0:"), a_container({MEMORY: 1000}))
        assert isinstance(refusal, NoFit)
        assert dict(refusal.reasons) == {Reason.HEALTH: 1}

    def test_a_card_that_is_not_cut_and_holds_slots_takes_nothing(self) -> None:
        entry = node(TWO, running=[running("GPU-b[group1-0],NVIDIA,3000,0:")])
        assert ids(entry, a_container({MEMORY: 1000})).startswith("GPU-a")


class TestScore:
    def score(self, entry: NodeEntry, *containers: Container, policy: str) -> float:
        registry = Registry([CONFIGURED])
        intake = take_in(a_pod(*containers), registry, Rules(policies=PolicyDefaults(volcano=policy)))
        found = Decider(registry, uncounted=registry.resources).decide(a_snapshot(entry), intake.demand, intake.policy)
        assert isinstance(found, Placed)
        return found.fit.score

    def test_binpack_is_how_full_the_cards_are_then(self) -> None:
        assert self.score(node(TWO), a_container({NUMBER: 2, MEMORY: 4096}), policy="binpack") == 20.0

    def test_binpack_counts_whole_slices(self) -> None:
        assert self.score(node(CUT, spec=CONFIGURED), a_container({MEMORY: 3000}), policy="binpack") == 12.5

    def test_spread_is_for_cards_that_nobody_else_has(self) -> None:
        busy = node(TWO, running=[running("GPU-b,NVIDIA,1000,0:")])
        assert self.score(busy, a_container({NUMBER: 2, MEMORY: 1}), policy="spread") == 100.0

    def test_without_a_policy_nodes_are_equal(self) -> None:
        assert self.score(node(TWO), a_container({NUMBER: 1}), policy="") == 0.0


def test_the_configuration_can_rename_the_resources() -> None:
    spec = volcano.configured(volcano_config.VolcanoConfig(count="example.com/cards"))
    assert spec.resources.count == "example.com/cards"
    assert spec.resources.memory == MEMORY
    assert spec.options.flags == {volcano.PERCENTAGE: False}
