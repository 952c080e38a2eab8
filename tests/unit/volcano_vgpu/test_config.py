"""The agent's settings: their sources, which win, and the messages about wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.errors import ConfigError
from tests.unit.volcano_vgpu.allocated_pods import card, offer, pod
from tests.unit.volcano_vgpu.test_allocations import refused
from volcano_vgpu.agent.config import load
from volcano_vgpu.core.model import SharingMode

ENV = {"NODE_NAME": "n1"}
OURS = "HAMI_PLUGINS__VOLCANO_VGPU__"
DEVICE_CONFIG = """
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  resourceMemoryName: volcano.sh/vgpu-memory
  resourceMemoryPercentageName: volcano.sh/vgpu-memory-percentage
  resourceCoreName: volcano.sh/vgpu-cores
  overwriteEnv: false
  defaultMemory: 0
  deviceSplitCount: 8
  deviceMemoryScaling: 1.5
  deviceCoreScaling: 1
  gpuMemoryFactor: 2
  passDeviceSpecs: true
  knownMigGeometries:
  - models: ["A30"]
    allowedGeometries:
    - group: group1
      geometries: [{name: 1g.6gb, memory: 6144, count: 4}]
"""


def test_without_anything_said_the_defaults_hold() -> None:
    found = load("", ENV)
    assert (found.node, found.device_split_count, found.gpu_memory_factor, found.mode) == (
        "n1",
        10,
        1,
        SharingMode.HAMI_CORE,
    )
    assert found.names.count == "volcano.sh/vgpu-number"
    assert found.concerns == ()


def test_volcanos_device_configuration_is_taken_as_it_is() -> None:
    found = load("", ENV, device_config=DEVICE_CONFIG)
    assert (found.device_split_count, found.device_memory_scaling, found.gpu_memory_factor) == (8, 1.5, 2)
    assert found.names.memory_percentage == "volcano.sh/vgpu-memory-percentage"
    assert found.container.pass_device_specs
    assert found.geometries[0].fits("NVIDIA-NVIDIA A30")


def test_the_config_map_that_holds_it_is_taken_too() -> None:
    body = "".join(f"    {line}\n" for line in DEVICE_CONFIG.splitlines())
    manifest = f"kind: ConfigMap\ndata:\n  device-config.yaml: |\n{body}"
    assert load("", ENV, device_config=manifest).device_split_count == 8


def test_an_empty_device_configuration_says_nothing() -> None:
    assert load("", ENV, device_config="").device_split_count == 10
    assert load("", ENV, device_config="nvidia:").device_split_count == 10


def test_the_agents_own_settings_win_over_volcanos_and_the_environment_over_both() -> None:
    own = "deviceSplitCount: 6\nscheduler: {version: 1.14.1}\n"
    assert load(own, ENV, device_config=DEVICE_CONFIG).device_split_count == 6
    found = load(
        own,
        {**ENV, f"{OURS}DEVICE_SPLIT_COUNT": "5", f"{OURS}SCHEDULER__TOUCH": "never"},
        device_config=DEVICE_CONFIG,
    )
    assert found.device_split_count == 5
    assert (found.scheduler.version, found.scheduler.touch) == ("1.14.1", "never")


def test_a_setting_may_be_spelled_either_way_in_a_file() -> None:
    assert load("device_split_count: 3", ENV).device_split_count == 3
    assert load("device_split_count: 3", {**ENV, f"{OURS}DEVICE_SPLIT_COUNT": "4"}).device_split_count == 4


def test_the_environment_can_set_lists_and_objects_as_json() -> None:
    found = load("", {**ENV, f"{OURS}EXCLUDE": '{"uuids": ["GPU-a"], "indexes": [1]}'})
    assert found.exclude.uuids == {"GPU-a"}
    assert found.exclude.indexes == {1}


def test_the_existing_plugins_variables_are_understood() -> None:
    env = {**ENV, "DP_DISABLE_HEALTHCHECKS": "68,79", "GDS_ENABLED": "false", "HOOK_PATH": "/opt/vgpu"}
    found = load("", env)
    assert (found.health.disabled, found.container.gds, found.hook_path) == ("68,79", False, "/opt/vgpu")
    assert load("", {**env, f"{OURS}HOOK_PATH": "/srv"}).hook_path == "/srv"


def test_a_node_is_overridden_by_its_name_or_by_its_labels() -> None:
    text = """
deviceSplitCount: 6
nodes:
- {name: n1, settings: {deviceSplitCount: 4, gpuMemoryFactor: 2}}
- {name: n2, settings: {deviceSplitCount: 1}}
- {labels: {gpu: big}, settings: {deviceSplitCount: 20}}
- {settings: {deviceSplitCount: 99}}
"""
    assert load(text, ENV).device_split_count == 4
    assert load(text, ENV, labels={"gpu": "small"}).device_split_count == 4
    big = load(text, ENV, labels={"gpu": "big", "x": "y"})
    assert (big.device_split_count, big.gpu_memory_factor) == (20, 2)
    assert load(text, {"NODE_NAME": "n3"}).device_split_count == 6


def test_the_node_file_is_taken_as_it_is_and_wins() -> None:
    node_file = """{"nodeconfig": [
      "not an entry", {"name": "n10", "devicesplitcount": -5},
      {"name": "n1", "operatingmode": "mps", "devicesplitcount": 4, "devicememoryscaling": 0, "migstrategy": "none",
       "filterdevices": {"uuid": ["GPU-a"], "index": [1]}}]}"""
    found = load("deviceSplitCount: 6", {**ENV, f"{OURS}DEVICE_SPLIT_COUNT": "5"}, node_config=node_file)
    assert (found.device_split_count, found.device_memory_scaling, found.mode) == (4, 1.0, SharingMode.MPS)
    assert found.exclude.uuids == {"GPU-a"}
    assert found.exclude.indexes == {1}
    assert load("", {"NODE_NAME": "elsewhere"}, node_config=node_file).device_split_count == 10
    assert load("", ENV, node_config="").device_split_count == 10


@pytest.mark.parametrize(
    ("text", "env", "says"),
    [
        ("gpuMemoryFactor: 0", ENV, "settings: gpuMemoryFactor: Input should be greater than or equal to 1 (found 0)"),
        ("deviceSplitCount: 1001", ENV, "less than or equal to 1000"),
        ("deviceMemoryScaling: -1", ENV, "greater than 0"),
        ("mode: mpx", ENV, "'hami-core', 'mps' or 'mig' (found 'mpx')"),
        ("deviceSplitCounts: 3", ENV, "settings: deviceSplitCounts: no such setting; did you mean deviceSplitCount?"),
        ("hookPath: usr/local", ENV, "not an absolute path"),
        ("resources: {count: vgpu}", ENV, "not the name of an extended resource"),
        ("resources: {memoryPercentage: 'a b/c'}", ENV, "not the name of an extended resource"),
        ("knownMigGeometries: [{models: ['']}]", ENV, "an empty model"),
        ("nodes: [{name: n2, settings: {deviceSplitCount: 0}}]", ENV, "nodes.0.settings.deviceSplitCount"),
        ("", {}, "NODE_NAME"),
        ("[]", ENV, "not a mapping but list"),
        ("a: [", ENV, "not usable YAML: line 2"),
        ("", {**ENV, f"{OURS}CDI": "perhaps"}, "environment: cdi: Input should be 'auto'"),
        ("", {**ENV, f"{OURS}EXCLUDE": "{x"}, f"environment: {OURS}EXCLUDE: not JSON"),
        ("", {**ENV, f"{OURS}DEVICE_SPLIT_COUNT__X": "1"}, "environment: deviceSplitCount"),
        ("scheduler: 3", {**ENV, f"{OURS}LOG": "x", f"{OURS}LOG__LEVEL": "info"}, "log: Input should be"),
    ],
)
def test_a_wrong_value_is_refused_with_where_it_stands_and_what_is_allowed(
    text: str, env: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load(text, env)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nvidia: {gpuMemoryFactor: 0}", "device configuration: gpuMemoryFactor: Input should be greater"),
        ("nvidia: {resourceCountName: 3}", "expected text"),
        ("nvidia: {knownMigGeometries: [{models: ['']}]}", "knownMigGeometries[0].models"),
        (f"nvidia: {{deviceSplitCount: {'x' * 200}}}", "..."),
    ],
)
def test_a_wrong_value_in_volcanos_file_is_said_to_be_there(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        load("", ENV, device_config=text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodeconfig: 3", "not a list"),
        ("nodeconfig: [{name: n1, operatingmode: magic}]", "node file: nodeconfig[0]: mode"),
        ("nodeconfig: [{name: n1, devicesplitcount: -3}]", "node file: nodeconfig[0]: deviceSplitCount"),
    ],
)
def test_a_wrong_value_in_the_node_file_is_said_to_be_there(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        load("", ENV, node_config=text)
    assert says in str(error.value)


def test_resources_with_other_names_are_allowed_with_a_warning() -> None:
    (concern,) = load("resources: {cores: example.com/cores}", ENV).concerns
    assert "example.com/cores instead of volcano.sh/vgpu-cores" in concern


def test_the_vendor_has_the_names_of_resources_that_are_set() -> None:
    text = "resources: {count: example.com/gpu, memory: example.com/mib, cores: example.com/share}"
    names = load(text, ENV, device_config=DEVICE_CONFIG).spec.resources
    assert (names.count, names.memory, names.cores) == ("example.com/gpu", "example.com/mib", "example.com/share")
    assert names.memory_percentage == "volcano.sh/vgpu-memory-percentage"


def test_the_vendor_cuts_cards_by_the_geometries_that_are_set() -> None:
    a30 = replace(card("GPU-a", mig=True), model="NVIDIA A30")
    node = offer(a30, mode="mig", spec=load("", ENV, device_config=DEVICE_CONFIG).spec)
    assert "(known groups: group1)" in refused(pod(ids="GPU-a[group9-0],NVIDIA,5000,0:"), on=node).text


def test_an_override_wins_over_the_node_file_before_and_after_labels_are_known() -> None:
    """What ``cards`` prints without an API server is what the agent registers."""
    text = "nodes: [{name: n1, settings: {deviceSplitCount: 5}}]"
    found = load(
        text, ENV, node_config='{"nodeconfig": [{"name": "n1", "devicesplitcount": 7, "devicecorescaling": 2}]}'
    )
    assert (found.device_split_count, found.device_core_scaling) == (5, 2)
    assert found.on({}) == found


def test_defaults_of_hami_in_volcanos_document_are_kept_and_told_to_change_nothing() -> None:
    document = DEVICE_CONFIG.replace("defaultMemory: 0", "defaultMem: 5000\n  defaultCores: 30\n  defaultGPUNum: 2")
    found = load("", ENV, device_config=document)
    assert (found.defaults.memory, found.defaults.cores, found.defaults.count) == (5000, 30, 2)
    assert [each.partition(":")[0] for each in found.concerns] == ["defaults"] * 3
    assert "defaultMemory=5000: neither Volcano's scheduler nor its device plugin reads it" in found.concerns[0]
    hamis = load("dialect: hami", ENV, device_config=document)
    assert (hamis.spec.options.default_memory, hamis.spec.options.default_cores, hamis.concerns) == (5000, 30, ())


@pytest.mark.parametrize("dialect", ["volcano", "hami"])
@pytest.mark.parametrize(
    ("word", "value", "place"),
    [
        ("defaultMemory", "-1", "memory"),
        ("defaultMem", "5 GiB", "memory"),
        ("defaultCores", "101", "cores"),
        ("defaultGPUNum", "65", "count"),
        ("defaultGPUNum", "x", "count"),
    ],
)
def test_a_default_out_of_range_stops_the_agent_with_its_place(dialect: str, word: str, value: str, place: str) -> None:
    with pytest.raises(ConfigError, match=f"device configuration: .*(defaults.{place}|nvidia.{word}).*{value}"):
        load(f"dialect: {dialect}", ENV, device_config=f"nvidia: {{{word}: {value}}}")


@pytest.mark.parametrize(
    ("text", "makes"),
    [
        ("{dialect: hami, mode: mig, flexibleMig: true}", True),
        ("{dialect: hami, mode: mig}", False),
        ("{dialect: hami, flexibleMig: true}", False),
        ("{mode: mig, flexibleMig: true}", False),
    ],
)
def test_mig_instances_are_made_only_in_hamis_dialect_and_mode_mig(text: str, *, makes: bool) -> None:
    found = load(text, ENV)
    assert found.makes_instances is makes
    assert any("flexibleMig" in each for each in found.concerns) is (found.flexible_mig and not makes)
