"""The node side of the agent against the vectors about Volcano's own plugin."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from hami_plugins.model.units import DeviceId, MiB
from hami_plugins.node.kubelet.deviceplugin_pb2 import Device, ListAndWatchResponse
from tests.golden.cases import Case, each, of
from volcano_vgpu.agent import competing_plugins, config
from volcano_vgpu.agent.competing_plugins import NodeEnvironment
from volcano_vgpu.core import register, slots
from volcano_vgpu.core.health import APPLICATIONS, XidFilter
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice
from volcano_vgpu.core.register import HANDSHAKE, HANDSHAKE_KEY, REGISTER_KEY, desired
from volcano_vgpu.core.settings import AgentSettings

LOCK_KEY = "hamivgpu"
HEARTBEAT = "a handshake dated far ahead: one write instead of two a minute on every node"
SUMS = "memory and cores are sums in the node's status: no list of ids, so no limit of 4 MiB and no factor for it"
OF_HAMI = "counts in HAMi's dialect; under Volcano the agent says that nothing reads it"
NEVER_APPLIED = "the plugin reads the setting and does nothing with it; we apply it"
DEVIATIONS = {
    "register-encode-013": "an unhealthy card is left out: Volcano reads its health and hands it out all the same",
    "handshake-plugin-01": HEARTBEAT,
    "handshake-plugin-02": "no period at all: the node's own watch says when something has to be written",
    "handshake-scheduler-03": "devices are used for a minute; we offer slots under a handshake that does not expire",
    "handshake-scheduler-08": "as handshake-scheduler-03; and outside of its cluster the scheduler dies of it",
    "handshake-scheduler-09": "as handshake-scheduler-03",
    "device-ids-01": "slots are called vgpu-<start of the UUID>-<digest>-<n>, which no tool takes for a card",
    "device-ids-02": SUMS,
    "device-ids-03": SUMS,
    "device-ids-04": SUMS,
    "device-ids-05": SUMS,
    "device-ids-06": SUMS,
    "device-ids-07": SUMS,
    "config-04": "without any configuration the usual names, split count 10 and factor 1 hold, not empty ones and 0",
    "config-keys-resourcememorypercentagename": "a percentage that has a name is offered, or who asks never starts",
    "config-keys-resourcepriorityname": "the resource is read, for HAMi-core has priorities",
    "config-keys-defaultmemory": OF_HAMI,
    "config-keys-defaultcores": OF_HAMI,
    "config-keys-defaultgpunum": OF_HAMI,
    "config-keys-devicememoryscaling": NEVER_APPLIED,
    "config-keys-disablecorelimit": NEVER_APPLIED,
    "node_status_patch": "we patch the sums into the node's capacity",
    "memory_id_form": SUMS,
    "writes_handshake": HEARTBEAT,
    "register_health_always_false": "every card that is registered is healthy, and says so",
    "pod_matching": "pods are not matched by count and age: the kubelet's own record names the container",
    "multi_gpu_container_pod_matches": "as pod_matching: any number of containers may have cards",
    "nvidia_v0_19_flags": "settings are a file and variables; those of the plugin's that mean something are understood",
    "monitor_and_plugin_paths_meet": "one process, one path",
}

MODEL = "NVIDIA A100-SXM4-80GB"


def card(**facts: Any) -> PhysicalDevice:
    plain: dict[str, Any] = {"uuid": DeviceId("GPU-a"), "index": 0, "minor": 0, "model": MODEL, "memory": MiB(81920)}
    return PhysicalDevice(**{**plain, **facts})


def said(*cards: PhysicalDevice, **settings: Any) -> register.NodeRegistration:
    return desired(NodeInventory(cards=cards), AgentSettings(node="n1", **settings))


@each("volcano/register-encode.yaml")
def test_the_register_of_healthy_cards_is_the_plugins(case: Case) -> None:
    raws = case.given["devices"]
    cards = [
        card(
            uuid=raw["uuid"],
            minor=at,
            memory=MiB(raw["memory"]),
            model=raw["type"].removeprefix("NVIDIA-"),
            problems=() if raw["health"] else ("ill",),
        )
        for at, raw in enumerate(raws)
    ]
    records = [record for record in case.expect["value"].split(":") if ",false," not in record]
    assert said(*cards).annotations[REGISTER_KEY] == ":".join(records)
    assert ("false" in case.expect["value"]) is (case.id in DEVIATIONS)


@each("volcano/handshake-plugin.yaml")
def test_the_same_annotations_are_written_but_never_again(case: Case) -> None:
    handshake = "handshake_prefix" in case.expect
    words = desired(NodeInventory(cards=(card(),)), AgentSettings(node="n1"), handshake=handshake)
    assert set(words.annotations) == set(case.expect["patches"])
    capacity = {name: str(amount) for name, amount in words.capacity.items()}
    assert not register.changes(
        {"metadata": {"annotations": words.annotations}, "status": {"capacity": capacity}}, words
    )
    if handshake:
        assert not HANDSHAKE.startswith(case.expect["handshake_prefix"])


@each("volcano/handshake-scheduler.yaml")
def test_slots_are_offered_only_under_a_handshake_that_stays_good(case: Case) -> None:
    words = said(card())
    held = {REGISTER_KEY: words.annotations[REGISTER_KEY]} if case.given["register_present"] else {}
    if case.given["handshake"] is not None:
        held[HANDSHAKE_KEY] = case.given["handshake"]
    node = {"metadata": {"annotations": held}}
    lasting = case.expect["devices_used"] and case.expect.get("patch") is None and "<now" not in str(held)
    assert register.is_valid(node) is lasting
    assert lasting is (case.expect["devices_used"] and case.id not in DEVIATIONS)
    repaired = held | dict(register.changes(node, words).node.get("metadata", {}).get("annotations", {}))
    assert register.is_valid({"metadata": {"annotations": repaired}})


@each("volcano/handshake-writer.yaml")
def test_of_all_handshakes_ours_needs_no_writer(case: Case) -> None:
    undisturbed = case.expect["devices_to_the_end"] and case.given["period_s"] is None
    assert (case.given["value"] == HANDSHAKE) is undisturbed


@each("volcano/device-ids.yaml")
def test_a_card_is_as_much_as_the_plugin_makes_of_it(case: Case) -> None:
    given, resource = case.given, case.given["resource"]
    settings = {
        "device_split_count": given.get("split_count", 10),
        "gpu_memory_factor": given.get("factor", 1),
        "device_core_scaling": given.get("core_scaling", 1.0),
    }
    words = said(card(uuid=given["uuid"], memory=MiB(given.get("total_bytes", 2**33) // 2**20)), **settings)
    names = slots.Slots.of(words.cards, settings["device_split_count"]).slots_of(given["uuid"])
    amounts = {**words.capacity, "volcano.sh/vgpu-number": len(names)}
    assert amounts[resource] == case.expect["count"]
    theirs = case.expect["form"].replace("<GPU-UUID>", given["uuid"]).replace("<i>", "1")
    assert theirs not in names
    assert (slots.foreign_card_of(theirs) == given["uuid"]) is (resource == "volcano.sh/vgpu-number")


@each("volcano/device-ids-factor.yaml")
def test_no_factor_is_needed_for_big_cards(case: Case) -> None:
    count, memory = case.given["cards"], case.given["card_memory"]
    assert case.expect["factor_needed"] > 1
    words = said(*(card(uuid=f"GPU-{at}", minor=at, memory=MiB(memory)) for at in range(count)))
    assert words.capacity["volcano.sh/vgpu-memory"] == count * memory
    offered = slots.Slots.of(words.cards, 100).by_card.values()
    listed = ListAndWatchResponse(devices=[Device(ID=name, health="Healthy") for names in offered for name in names])
    assert len(listed.SerializeToString()) < case.given["limit"]


def loaded(case: Case) -> AgentSettings:
    given = case.given
    maps = [given["configmaps"][name] for name in ("kube-system", "volcano-system") if name in given["configmaps"]]
    flags = {"--device-split-count": "HAMI_PLUGINS__VOLCANO_VGPU__DEVICE_SPLIT_COUNT"}
    return config.load(
        "",
        {"NODE_NAME": given["node_name"], **{flags[name]: str(value) for name, value in given["flags"].items()}},
        device_config=yaml.safe_dump({"nvidia": maps[0]}) if maps else None,
        node_config=None if given["node_file"] is None else json.dumps(given["node_file"]),
    )


@each("volcano/config.yaml")
def test_settings_come_from_where_the_plugins_do_and_win_alike(case: Case) -> None:
    found = loaded(case)
    values = {
        "deviceSplitCount": found.device_split_count,
        "gpuMemoryFactor": found.gpu_memory_factor,
        "operatingmode": found.mode,
        "resourceCountName": found.names.count,
        "resourceMemoryName": found.names.memory,
        "resourceCoreName": found.names.cores,
    }
    for name, value in case.expect.get("effective", {}).items():
        assert (values[name] == value) is (case.id not in DEVIATIONS)
    if "scheduler_mode" in case.expect:
        words = desired(NodeInventory(cards=(card(),)), found)
        assert words.registered[0].mode == case.expect["scheduler_mode"]
    for what, removed in case.expect.get("removed", {}).items():
        assert {"uuid": found.exclude.uuids, "index": found.exclude.indexes}[what] == set(removed)


VALUES: dict[str, object] = {
    "knownMigGeometries": [
        {
            "models": ["A30"],
            "allowedGeometries": [{"group": "g", "geometries": [{"name": "1g", "memory": 1, "count": 1}]}],
        }
    ],
    "deviceSplitCount": 7,
    "deviceMemoryScaling": 1.5,
    "deviceCoreScaling": 1.5,
    "gpuMemoryFactor": 3,
    "disableCoreLimit": True,
    "passDeviceSpecs": True,
    "overwriteEnv": True,
    "defaultMemory": 9,
    "defaultCores": 9,
    "defaultGPUNum": 9,
}


@each("volcano/config-keys.yaml")
def test_a_key_of_the_configuration_does_what_it_says(case: Case) -> None:
    key = case.given["key"]
    document = yaml.safe_dump({"nvidia": {key: VALUES.get(key, "volcano.sh/other")}})
    env = {"NODE_NAME": "n1"}
    effective = config.load("", env, device_config=document) != config.load("", env)
    assert effective is (case.expect["plugin_effective"] or case.id in DEVIATIONS)


@each("volcano/health-filter.yaml")
def test_the_same_errors_count(case: Case) -> None:
    found = XidFilter.of(case.given["disable"] or "", case.given["enable"] or "")
    ignored = {xid for xid in range(1, 200) if not found.counts(xid)}
    if "extra_disabled" in case.expect:
        extra = case.expect["extra_disabled"]
        # 68 is ignored anyway; that it is on the list as well must not make it count.
        wanted = set(range(1, 200)) if extra == "all" else set(extra)
        assert wanted <= ignored
        assert ignored - wanted <= APPLICATIONS
    if "builtin_ignored" in case.expect:
        assert ignored & APPLICATIONS == set(case.expect["builtin_ignored"])
    if case.given["enable"] == case.given["disable"] == "68":
        assert 68 not in ignored


def _is_recognised(value: Any) -> bool:
    around = [NodeEnvironment(sockets=(name,), node={}) for name in value]
    return all(competing_plugins.rivals(each, resource="volcano.sh/vgpu-number", directory="/x") for each in around)


OURS: dict[str, Callable[[Any], bool]] = {
    "resources": lambda value: set(value) <= {"volcano.sh/vgpu-number", *said(card()).capacity},
    "endpoint_files": _is_recognised,
    "node_status_patch": lambda value: value is bool(register.changes({}, said(card())).status),
    "register_fields": lambda value: value == 6,
    "factor_applied_to_register": lambda value: (
        value is (said(card(), gpu_memory_factor=2).registered[0].memory == 40960)
    ),
    "register_health_always_false": lambda value: value is (",false," in said(card()).annotations[REGISTER_KEY]),
    "register_sorted_by_minor": lambda value: value,
    "lock_key_released": lambda value: value == LOCK_KEY,
    "writes_handshake": lambda value: value is False,
}
"""Of the facts about versions of the plugin those that an agent can be asked about: whether ours is the same."""

OTHER_THAN_OLD = {
    "register_fields": "v1.9.4",
    "factor_applied_to_register": "v1.9.3",
    "register_sorted_by_minor": "v1.12.0",
    "lock_key_released": "v1.9.2",
}
"""The versions that have a fact otherwise than later ones, and than we."""


@each("volcano/versions-plugin.yaml")
def test_the_agent_is_like_the_newest_plugin_but_for_what_is_meant(case: Case) -> None:
    feature, version = case.given["feature"], case.given["plugin"]
    if feature not in OURS:
        assert feature in DEVIATIONS
    elif feature == "register_health_always_false":
        assert OURS[feature](case.expect["value"]) is (case.expect["value"] is False)
    elif feature == "writes_handshake":
        assert OURS[feature](case.expect["value"]) is (version == "main")
    else:
        assert OURS[feature](case.expect["value"]) is (
            feature not in DEVIATIONS and OTHER_THAN_OLD.get(feature) != version
        )


def test_every_deviation_is_about_a_case() -> None:
    files = ("register-encode", "handshake-plugin", "handshake-scheduler", "device-ids", "device-ids-factor", "config")
    known = {case.id for file in (*files, "config-keys") for case in of(f"volcano/{file}.yaml")}
    features = {case.given["feature"] for case in of("volcano/versions-plugin.yaml")}
    assert DEVIATIONS.keys() <= known | features


@pytest.mark.parametrize("order", [1, -1])
def test_cards_are_registered_by_minor_number(order: int) -> None:
    cards = [card(uuid="GPU-b", minor=0), card(uuid="GPU-a", minor=1)][::order]
    assert [each.id for each in said(*cards).registered] == ["GPU-b", "GPU-a"]
