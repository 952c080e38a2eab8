"""A node in HAMi's dialect: what it registers, what its pods are allocated, and what is left of the other dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, PodUid
from hami_plugins.vendors import builtin, nvidia
from tests import raw_objects
from tests.unit.volcano_vgpu.cards import card, inventory, settings, sick, uuid
from volcano_vgpu.agent.bookkeeper import bound_at, settled, unneeded_lock
from volcano_vgpu.agent.config import load
from volcano_vgpu.agent.scheduler import Needs, WriteReason
from volcano_vgpu.core import hami_register, publication, register
from volcano_vgpu.core.allocations import AllocationLookup, allocations_of
from volcano_vgpu.core.assignments import allocated_cards, record_of
from volcano_vgpu.core.edits import EditSettings, Owner, edits_of
from volcano_vgpu.core.model import MigInstance, PhysicalDevice, SharingMode, SlotId
from volcano_vgpu.core.publication import Duties, PublicationTiming
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer

GPU, VOLCANO_GPU, MEMORY = "nvidia.com/gpu", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
LIST, LEFT, NODE_KEY = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-node"
REGISTER, VOLCANO_REGISTER = "hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register"
MIG = "hami.io/vgpu-mig-allocations"
NOW = datetime(2026, 11, 25, tzinfo=UTC)
HAMI = settings(dialect="hami")
CUT = settings(dialect="hami", mode=SharingMode.MIG)


def instance(start: int, profile: str = "1g.5gb", memory: int = 5120, size: int = 1) -> MigInstance:
    return MigInstance(
        uuid=DeviceId(f"MIG-{profile}-{start}"), profile=profile, memory=MiB(memory), start=start, size=size
    )


def sliced(number: int = 0) -> PhysicalDevice:
    return card(number, mig=True, instances=(instance(6), instance(5), instance(0, "3g.20gb", 20480, 4)))


def offer(*cards: PhysicalDevice, chosen: Any = HAMI) -> NodeOffer:
    found = inventory(*(cards or (card(0), card(1))))
    words = register.desired(found, chosen)
    return NodeOffer.of(
        NodeName("n1"), words.annotations[REGISTER], found, spec=chosen.spec, passed_over=words.passed_over
    )


def container(name: str, gpus: int = 1, memory: int = 1000, cores: int = 0) -> dict[str, Any]:
    limits = {GPU: str(gpus), "nvidia.com/gpumem": str(memory)} | ({"nvidia.com/gpucores": str(cores)} if cores else {})
    return {"name": name, "resources": {"limits": limits}}


def pod(
    *containers: Mapping[str, Any],
    ids: str | None,
    name: str = "p",
    more: Mapping[str, str] | None = None,
    **facts: Any,
) -> dict[str, Any]:
    annotations = dict(more or {}) | ({} if ids is None else {LIST: ids, LEFT: ids, NODE_KEY: "n1"})
    metadata = {"namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", "annotations": annotations}
    return raw_objects.pod(name, *(containers or (container("main"),)), metadata=metadata, node="n1", **facts)


def answers(raw: dict[str, Any], held: Mapping[str, int], where: NodeOffer | None = None, **more: Any) -> Any:
    slots = {name: frozenset(SlotId(f"{name}-{at}") for at in range(count)) for name, count in held.items()}
    question = AllocationLookup(uid=PodUid(raw["metadata"]["uid"]), held=slots, **more)
    return allocations_of(raw, question, where or offer())


def refused(answer: object) -> ContainerRefusal:
    assert isinstance(answer, ContainerRefusal), answer
    return answer


def given(answer: object) -> list[tuple[str, int, int]]:
    assert isinstance(answer, AllocatedContainer), answer
    return [(share.visible, share.assigned.memory, share.assigned.cores) for share in answer.shares]


# Settings


def test_resources_are_hamis_unless_they_are_named() -> None:
    assert HAMI.names.count == GPU
    assert load("dialect: hami\nresources: {count: x.io/gpu}", {"NODE_NAME": "n1"}).names.count == "x.io/gpu"
    assert HAMI.concerns == ()


def test_the_dialect_may_differ_from_node_to_node() -> None:
    text = "nodes: [{labels: {pool: hami}, settings: {dialect: hami}}]"
    assert load(text, {"NODE_NAME": "n1"}).names.count == VOLCANO_GPU
    assert load(text, {"NODE_NAME": "n1"}, labels={"pool": "hami"}).names.count == GPU


def test_hamis_device_configuration_is_taken_as_it_is() -> None:
    text = """
nvidia:
  resourceCountName: x.io/gpu
  resourcePriorityName: x.io/priority
  deviceSplitCount: 7
  memoryFactor: 2
  defaultMemory: 500
  defaultCores: 30
  defaultGPUNum: 1
  gpuCorePolicy: force
  knownMigGeometries: [{models: [A30], allowedGeometries: [[{name: 1g.6gb, memory: 6144, count: 4}]]}]
"""
    found = load("dialect: hami", {"NODE_NAME": "n1"}, device_config=text)
    options = found.spec.options
    assert (found.names.count, found.names.priority, found.device_split_count) == ("x.io/gpu", "x.io/priority", 7)
    assert (options.memory_factor, options.default_memory, options.default_cores) == (2, 500, 30)
    assert (found.container.core_policy, found.memory_unit) == ("force", 1)
    assert load("dialect: hami", {"NODE_NAME": "n1"}, device_config="").names.count == GPU
    with pytest.raises(ConfigError, match="nvidia: not a mapping"):
        load("dialect: hami", {"NODE_NAME": "n1"}, device_config="nvidia: 7")


# The register


def test_the_register_is_read_back_by_our_own_inventory_of_hamis_vendor() -> None:
    chosen = settings(dialect="hami", device_memory_scaling=1.5, device_core_scaling=1.5, gpu_memory_factor=2)
    words = register.desired(inventory(card(0, numa=1), *sick(1)), chosen)
    node = NodeObject(NodeName("n1"), words.annotations, {}, {}, {})
    entry = NodeBuilder(Registry([nvidia.SPEC])).entry(node, NodeFacts())
    first, second = entry.state.shape.devices
    assert entry.ids == (uuid(0), uuid(1))
    assert (first.model, first.memory, first.cores, first.slots, first.numa) == (
        "NVIDIA A100-SXM4-40GB",
        61440,
        150,
        10,
        1,
    )
    assert (first.healthy, second.healthy, second.index) == (True, False, 1)
    assert entry.problems == ()
    assert entry.notes == (("own-agent", "NVIDIA"),)
    assert words.healthy == {uuid(0)}
    assert words.capacity == {}


def test_a_node_is_asked_for_its_register_in_either_dialect() -> None:
    node = {"metadata": {"annotations": {REGISTER: "[]", VOLCANO_REGISTER: ":"}}}
    assert register.register_of(node, Dialect.HAMI) == "[]"
    assert register.register_of(node, Dialect.VOLCANO) == ":"


def test_hamis_own_register_is_nobodys_of_ours() -> None:
    text = '[{"id":"GPU-1","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-T4","mode":"hami-core","health":true}]'
    assert not hami_register.is_ours(text)
    assert not hami_register.is_ours(
        text.replace('"health"', '"agent":"hami-plugins","health"').replace("]", ',{"id":"GPU-2"}]')
    )
    assert not hami_register.is_ours('"agent"')
    assert hami_register.is_ours('[{"agent":"hami-plugins"')
    assert not hami_register.is_ours(text.replace('"health"', '"agent":"another","health"'))
    assert hami_register.is_ours(text.replace('"health"', '"agent":"hami-plugins","health"'))
    entry = NodeBuilder(builtin()).entry(NodeObject(NodeName("n1"), {REGISTER: text}, {}, {}, {}), NodeFacts())
    assert entry.notes == ()


def test_a_card_that_is_cut_is_registered_with_its_instances() -> None:
    words = register.desired(inventory(sliced()), CUT)
    (found,) = json.loads(words.annotations[REGISTER])
    assert (found["mode"], found["count"], found["devcore"], found["devmem"]) == ("mig", 3, 100, 40960)
    assert found["migProfiles"] == [
        {
            "name": "1g.5gb",
            "memoryMB": 5120,
            "core": 15,
            "sliceCount": 1,
            "placements": [{"start": 5, "size": 1}, {"start": 6, "size": 1}],
        },
        {"name": "3g.20gb", "memoryMB": 20480, "core": 43, "sliceCount": 3, "placements": [{"start": 0, "size": 4}]},
    ]


@pytest.mark.parametrize(
    ("profile", "memory", "cores"), [("1g.6gb", 6144, 25), ("7g.40gb", 40960, 100), ("odd", 0, 15)]
)
def test_the_cores_of_an_instance_are_in_proportion_to_its_slices(profile: str, memory: int, cores: int) -> None:
    whole = 24576 if profile == "1g.6gb" else 40960
    (found,) = hami_register.profiles(card(0, memory=MiB(whole), instances=(instance(0, profile, memory),)))
    assert found.cores == cores


def test_a_card_without_instances_is_passed_over_with_what_to_do() -> None:
    words = register.desired(inventory(card(0, mig=True), card(1)), CUT)
    assert "create some (nvidia-smi mig -i 0" in words.passed_over[uuid(0)]
    assert "MIG is off" in words.passed_over[uuid(1)]


def test_ids_that_volcano_would_confuse_are_fine() -> None:
    cards = inventory(card(0, uuid=DeviceId("GPU-ab")), card(1, uuid=DeviceId("GPU-a")))
    assert register.desired(cards, HAMI).passed_over == {}


@pytest.mark.parametrize(("name", "type_"), [("Tesla T4", "NVIDIA-Tesla T4"), ("", "NVIDIA-GPU")])
def test_a_model_is_known_as_nvidias(name: str, type_: str) -> None:
    assert hami_register.type_of(name) == type_


def test_no_handshake_is_written_unless_that_is_set() -> None:
    assert not Needs(dialect=Dialect.HAMI).handshake
    assert not Needs(dialect=Dialect.HAMI).touch(WriteReason.RESTART)
    always = settings(dialect="hami", scheduler={"handshake": "always"})
    assert Needs(settings=always.scheduler, dialect=Dialect.HAMI).handshake
    words = register.desired(inventory(card(0)), always, handshake=True)
    assert words.annotations["hami.io/node-handshake"].startswith("Reported")


# What is left of the other dialect


def said(chosen: Any, **status: Any) -> dict[str, Any]:
    words = register.desired(inventory(card(0)), chosen)
    capacity = {name: str(amount) for name, amount in words.capacity.items()}
    return {
        "metadata": {"name": "n1", "annotations": dict(words.annotations)},
        "status": {"capacity": capacity, **status},
    }


def test_volcanos_words_go_once_no_slot_is_on_offer() -> None:
    words = register.desired(inventory(card(0)), HAMI, handshake=False)
    busy = said(settings(), allocatable={VOLCANO_GPU: "10"})
    assert set(register.changes(busy, words).node["metadata"]["annotations"]) == {REGISTER}
    assert not register.changes(busy, words).status
    idle = said(settings())
    changed = register.changes(idle, words).node["metadata"]["annotations"]
    assert {key for key, text in changed.items() if text is None} == {
        VOLCANO_REGISTER,
        "volcano.sh/node-vgpu-handshake",
    }
    assert register.changes(idle, words).status == {
        "status": {"capacity": {"volcano.sh/vgpu-memory": None, "volcano.sh/vgpu-cores": None}}
    }


def test_hamis_words_go_where_they_are_ours_and_stay_where_its_own_plugin_wrote_them() -> None:
    words = register.desired(inventory(card(0)), settings())
    ours = said(settings(dialect="hami", scheduler={"handshake": "always"}))
    ours["metadata"]["annotations"] |= {"hami.io/node-nvidia-score": "[]"}
    changed = register.changes(ours, words).node["metadata"]["annotations"]
    assert {key for key, text in changed.items() if text is None} == {
        REGISTER, "hami.io/node-handshake", "hami.io/node-nvidia-score",
    }  # fmt: skip
    theirs = said(HAMI)
    theirs["metadata"]["annotations"] = {REGISTER: "[]", "hami.io/node-handshake": "Requesting_2026-08-14 09:31:07"}
    assert None not in register.changes(theirs, words).node["metadata"]["annotations"].values()


def test_the_number_of_slots_of_the_other_dialect_goes_when_the_kubelet_has_forgotten_it() -> None:
    node = said(HAMI)
    node["status"]["capacity"] = {VOLCANO_GPU: "0"}
    assert not register.changes(node, register.desired(inventory(card(0)), HAMI)).status
    forgotten = register.desired(inventory(card(0)), HAMI, forgotten=True)
    assert register.changes(node, forgotten).status == {"status": {"capacity": {VOLCANO_GPU: None}}}


def test_scores_that_no_longer_hold_are_removed() -> None:
    node = said(HAMI)
    node["metadata"]["annotations"]["hami.io/node-nvidia-score"] = "[]"
    words = register.desired(inventory(card(0)), HAMI, handshake=False)
    assert register.changes(node, words).node == {"metadata": {"annotations": {"hami.io/node-nvidia-score": None}}}


def test_withdrawing_takes_back_both_dialects() -> None:
    node = said(HAMI, allocatable={GPU: "0"})
    node["metadata"]["annotations"] |= {VOLCANO_REGISTER: "x"}
    node["status"]["capacity"] = {GPU: "0", VOLCANO_GPU: "0", "cpu": "4"}
    found = register.withdrawal(node, settings())
    assert found.node["metadata"]["annotations"].keys() == {REGISTER, "hami.io/node-handshake", VOLCANO_REGISTER}
    assert found.status == {"status": {"capacity": {GPU: None, VOLCANO_GPU: None}, "allocatable": {GPU: None}}}


def test_withdrawing_leaves_hamis_own_plugin_alone() -> None:
    node = {
        "metadata": {"annotations": {REGISTER: "[]"}},
        "status": {"capacity": {GPU: "10"}, "allocatable": {GPU: "10"}},
    }
    assert not register.withdrawal(node, settings())


@pytest.mark.parametrize(
    ("lock", "released"), [("2026-11-24T00:00:00Z,team,p", True), ("2026-11-24T00:00:00Z,team,q", False), ("?", False)]
)
def test_a_lock_is_released_for_the_pod_that_it_names(lock: str, released: bool) -> None:
    node = said(HAMI)
    node["metadata"]["annotations"]["hami.io/mutex.lock"] = lock
    words = register.desired(inventory(card(0)), HAMI)
    for duties, wanted in (
        (Duties(words=words, served=(("team", "p"),), served_until=NOW), released),
        (Duties(words=words), False),
    ):
        step = publication.next_step(node, duties, HAMI, NOW, PublicationTiming())
        removed = step.patch is not None and "hami.io/mutex.lock" in step.patch.body["metadata"]["annotations"]
        assert removed is wanted


def test_a_node_of_hami_is_never_touched() -> None:
    node: dict[str, Any] = {"metadata": {"name": "n1"}, "status": {}}
    step = publication.next_step(
        node, Duties(words=register.desired(inventory(card(0)), HAMI)), HAMI, NOW, PublicationTiming()
    )
    assert step.patch is not None
    assert [key for key in step.patch.body["metadata"]["annotations"] if "touched" in key] == []


def test_slots_are_offered_of_the_cards_that_the_node_registers_as_healthy() -> None:
    words = register.desired(inventory(card(0), *sick(1)), HAMI)
    node = {"metadata": {"annotations": dict(words.annotations)}}
    assert publication.offer(node, Duties(words=words), publication.Offer(), NOW, PublicationTiming()).cards == {
        uuid(0)
    }
    assert not register.is_valid({}, dialect=Dialect.HAMI)


# Allocations


def test_every_container_has_its_piece_init_containers_first() -> None:
    ids = f"{uuid(0)},NVIDIA,500,0:;;{uuid(1)},NVIDIA,1000,30:{uuid(0)},NVIDIA,1000,30:;"
    raw = pod({"name": "idle"}, container("main", 2, cores=30), ids=ids, initContainers=[container("init")])
    found = answers(raw, {"init": 1, "main": 2})
    assert given(found["init"]) == [(uuid(0), 500, 0)]
    assert given(found["main"]) == [(uuid(1), 1000, 30), (uuid(0), 1000, 30)]
    assert allocated_cards(raw, offer()) == {"init": (uuid(0),), "main": (uuid(1), uuid(0))}


def test_pieces_that_hami_has_left_out_are_put_where_they_belong() -> None:
    raw = pod({"name": "idle"}, container("main"), ids=f"{uuid(0)},NVIDIA,1000,0:;")
    assert given(answers(raw, {"main": 1})["main"]) == [(uuid(0), 1000, 0)]


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        (None, RefusalCode.NO_ALLOCATION),
        ("GPU-x,NVIDIA", RefusalCode.MALFORMED),
        (";", RefusalCode.COUNT),
        (f"{uuid(0)},NVIDIA,2000,0:;", RefusalCode.LARGER),
        ("GPU-x,NVIDIA,1000,0:;", RefusalCode.UNKNOWN_CARD),
        (f"{uuid(0)},NVIDIA,0,0:;", RefusalCode.MALFORMED),
    ],
)
def test_what_cannot_be_right_is_refused(ids: str | None, code: RefusalCode) -> None:
    refusal = refused(answers(pod(ids=ids), {"main": 1})["main"])
    assert refusal.code is code
    assert "Volcano" not in refusal.text


def test_an_allocation_for_another_node_is_refused() -> None:
    raw = pod(ids=f"{uuid(0)},NVIDIA,1000,0:;", more={})
    raw["metadata"]["annotations"][NODE_KEY] = "n2"
    assert refused(answers(raw, {"main": 1})["main"]).code is RefusalCode.OTHER_NODE


def test_an_unreadable_list_allocates_no_card() -> None:
    assert allocated_cards(pod(ids="GPU-x,NVIDIA"), offer()) == {}


def test_what_a_container_does_not_name_is_as_the_scheduler_has_it() -> None:
    chosen = settings(dialect="hami", defaults={"cores": 30, "memory": 700})
    raw = pod({"name": "main", "resources": {"limits": {GPU: "1"}}}, ids=f"{uuid(0)},NVIDIA,700,30:;")
    assert given(answers(raw, {"main": 1}, offer(chosen=chosen))["main"]) == [(uuid(0), 700, 30)]
    assert refused(answers(raw, {"main": 1})["main"]).code is RefusalCode.LARGER


def placed(*starts: tuple[str, int, int]) -> dict[str, str]:
    return {
        MIG: json.dumps(
            [
                {
                    "containerIndex": 0,
                    "deviceIndex": at,
                    "gpuUUID": uuid(0),
                    "profile": profile,
                    "placement": {"start": start, "size": size},
                }
                for at, (profile, start, size) in enumerate(starts)
            ]
        )
    }


def test_a_card_that_is_cut_on_demand_registers_where_instances_could_be() -> None:
    places = tuple(SlicePlacement(at, 1) for at in range(7))
    possible = (Profile("1g.5gb", MiB(4864), CoreShare(15), 1, places),)
    for made in ((), (instance(3),)):
        flexible = card(0, mig=True, instances=made, partitions=possible)
        (found,) = hami_register.decode(register.desired(inventory(flexible), CUT).annotations[REGISTER])
        assert (found.slots, found.profiles, found.mode) == (7, possible, "mig")


def test_a_container_sees_the_instance_at_the_place_that_the_scheduler_chose() -> None:
    ids = f"{uuid(0)},NVIDIA,5120,15:{uuid(0)},NVIDIA,20480,43:;"
    raw = pod(container("main", 2), ids=ids, more=placed(("1g.5gb", 6, 1), ("3g.20gb", 0, 4)))
    found = answers(raw, {"main": 2}, offer(sliced(), chosen=CUT))["main"]
    assert [share[0] for share in given(found)] == ["MIG-1g.5gb-6", "MIG-3g.20gb-0"]
    assert found.cards == (uuid(0), uuid(0))
    owner = Owner(pod_uid=PodUid("uid-p"), container="main", raw={})
    edits = edits_of(found, owner, EditSettings.of(CUT), inventory(sliced()))
    assert dict(edits.env)["NVIDIA_VISIBLE_DEVICES"] == "MIG-1g.5gb-6,MIG-3g.20gb-0"
    assert (edits.mounts, [name for name, _ in edits.env if name.startswith("CUDA")]) == ((), [])


@pytest.mark.parametrize(
    ("more", "count", "code"),
    [
        (placed(("1g.5gb", 3, 1)), 1, RefusalCode.PARTITION),
        ({}, 1, RefusalCode.MODE),
        (placed(("1g.5gb", 6, 1), ("1g.5gb", 5, 1)), 2, RefusalCode.LARGER),
    ],
)
def test_an_instance_that_is_not_there_or_not_asked_for_is_refused(
    more: Mapping[str, str], count: int, code: RefusalCode
) -> None:
    ids = f"{uuid(0)},NVIDIA,5120,15:" * count + ";"
    raw = pod(ids=ids, more=more)
    assert refused(answers(raw, {"main": count}, offer(sliced(), chosen=CUT))["main"]).code is code


def test_a_place_on_a_card_that_is_not_cut_is_refused() -> None:
    raw = pod(container("main", memory=5120), ids=f"{uuid(0)},NVIDIA,5120,0:;", more=placed(("1g.5gb", 6, 1)))
    assert refused(answers(raw, {"main": 1})["main"]).code is RefusalCode.MODE


def test_what_a_pod_of_volcano_was_served_counts_on_the_node_of_hami() -> None:
    where = offer()
    other = raw_objects.pod("old", {"name": "main"}, metadata={"namespace": "team", "uid": "uid-old"}, node="n1")
    handed = {"main": given_by_volcano(30000)}
    record = record_of(other, where, handed)
    assert record is not None
    raw = pod(container("main", memory=20000), ids=f"{uuid(0)},NVIDIA,20000,0:;")
    refusal = refused(answers(raw, {"main": 1}, where, others=(record,))["main"])
    assert (refusal.code, "team/old" in refusal.text) == (RefusalCode.CARD_FULL, True)


def given_by_volcano(memory: int) -> Any:
    raw = {
        "metadata": {
            "namespace": "team", "name": "v", "uid": "uid-v",
            "annotations": {"volcano.sh/vgpu-ids-new": f"{uuid(0)},NVIDIA,{memory},0:", "volcano.sh/vgpu-node": "n1"},
        },
        "spec": {
            "nodeName": "n1", "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"limits": {VOLCANO_GPU: "1", MEMORY: str(memory)}}}],
        },
    }  # fmt: skip
    found = inventory(card(0))
    where = NodeOffer.of(NodeName("n1"), register.desired(found, settings()).annotations[VOLCANO_REGISTER], found)
    answer = answers(raw, {"main": 1}, where)["main"]
    assert isinstance(answer, AllocatedContainer)
    return answer.devices


def test_places_that_cannot_be_read_keep_what_was_served() -> None:
    raw = pod(ids=None, more={MIG: "["})
    record = record_of(raw, offer(), {"main": given_by_volcano(300)})
    assert record is not None
    assert [share.memory for share in record.allocations[0].shares] == [300]


# What is written back


def test_nothing_is_written_for_a_scheduler_that_does_not_wait() -> None:
    raw = pod(ids=f"{uuid(0)},NVIDIA,1000,0:;")
    assert settled(raw, ["main"], failed=False, spec=nvidia.SPEC) == {}
    assert settled(raw, [], failed=True, spec=nvidia.SPEC) == {}


@pytest.mark.parametrize(
    ("more", "failed", "phase"),
    [
        ({}, False, "success"),
        ({}, True, "failed"),
        ({"hami.io/Ascend910B-devices-to-allocate": "a,Ascend910B,1,1:;"}, False, None),
        ({"hami.io/Ascend910B-devices-to-allocate": ";;"}, False, "success"),
    ],
)
def test_a_scheduler_that_waits_is_told_once_no_other_plugin_has_to_serve(
    more: Mapping[str, str], failed: bool, phase: str | None
) -> None:
    waiting = {"hami.io/bind-phase": "allocating", "hami.io/bind-time": "1795246593"}
    raw = pod(ids=f"{uuid(0)},NVIDIA,1000,0:;", more={**waiting, **more})
    found = settled(raw, [] if failed else ["main"], failed=failed, spec=nvidia.SPEC)
    assert found.get("hami.io/bind-phase") == phase
    assert "hami.io/vgpu-time" not in found
    lock = unneeded_lock(raw, nvidia.SPEC, NOW.replace(year=2030))
    assert (lock and lock[1]) == (None if phase is None else ("team", "p"))
    assert unneeded_lock(raw, nvidia.SPEC, NOW.replace(year=2020)) is None
    assert unneeded_lock(raw, settings().spec, NOW) is None
    assert bound_at(raw["metadata"]["annotations"], NOW.replace(year=2030), nvidia.SPEC) is not None
