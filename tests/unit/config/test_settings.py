"""Settings: precedence, HAMi's own words, and refusals that say what is allowed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hami_plugins.config import settings
from hami_plugins.engine.policies import policy_of
from hami_plugins.errors import ConfigError
from hami_plugins.model.policy import NodePolicy
from hami_plugins.vendors import BUILTIN


def test_without_a_file_everything_is_as_built_in() -> None:
    found = settings.parse("")
    assert [spec.name for spec in found.registry()] == [spec.name for spec in BUILTIN]
    assert found.rules().webhook.scheduler == "hami-scheduler"


def test_the_environment_beats_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__SCHEDULER__NAME", "from-environment")
    found = settings.parse("version: 1\nscheduler: {name: from-file, gpuSchedulerPolicy: binpack}")
    assert found.rules().webhook.scheduler == "from-environment"
    assert found.rules().policies.device == "binpack"


def test_the_default_policy_of_the_cluster_holds_for_pods_that_say_nothing() -> None:
    rules = settings.parse("scheduler: {nodeSchedulerPolicy: spread}\nversion: 1").rules()
    assert policy_of({}, rules.policies).node is NodePolicy.SPREAD


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("version: 2", "version: .*1.*found 2", id="version"),
        pytest.param("version: 1\nscheduler: {nam: x}", r"scheduler.nam: no such .*mean name\?", id="misspelt key"),
        pytest.param("version: 1\nvolcano: {schedulePolicy: tight}", "schedulePolicy: .*'binpack'", id="word"),
        pytest.param("nvidia: {defaultCores: 200}", "devices.nvidia.defaultCores: .*100", id="hami section"),
        pytest.param("- a", "not a mapping but list", id="list"),
        pytest.param("{", "x.yaml: not usable YAML: line 2, column 1: ", id="broken"),
        pytest.param("a: \x00", "x.yaml: not usable YAML: ", id="control character"),
        pytest.param("true: 2", "x.yaml: not usable YAML: .*the key true is not text", id="a key that is no text"),
        pytest.param("1: 2", "x.yaml: 1: no such setting; there are version, scheduler,", id="number as a key"),
        pytest.param(f"version: {'x' * 500}", r"version: .*found 'x{99}\.\.\.\)", id="long value"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path_and_what_is_allowed(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        settings.parse(text, source="x.yaml")


def test_hamis_own_device_config_is_taken_as_it_is() -> None:
    found = settings.parse(
        """
nvidia:
  {resourceCountName: example.com/gpu, defaultMem: 5000, defaultGPUNum: 0, deviceSplitCount: 10, gpuCorePolicy: force}
hygon: {resourceCountName: hygon.com/dcunum, memoryFactor: 4}
metax: {resourceVCountName: m/s, resourceVMemoryName: m/mem, resourceVCoreName: m/core, sgpuTopologyAware: true}
kunlun: {resourceCountName: k/xpu, resourceVCountName: k/vxpu, resourceVMemoryName: k/mem}
enflame: {resourceNameGCU: e/gcu, resourceNameDRSGCU: e/drs, resourceNameGCUMemory: e/mem, resourceNameGCUCore: e/core}
iluvatars: [{chipName: MR-V100, commonWord: MR-V100, resourceCountName: i/count}]
vnpus:
  hamiVnpuCore: true
  configs:
    - {chipName: 910Z, commonWord: Ascend910Z, memoryAllocatable: 100, memoryCapacity: 128, aiCore: 20, memoryFactor: 0,
       templates: [{name: half, memory: 50, aiCore: 10, aiCPU: 3}]}
"""
    ).registry()
    nvidia = found.owner_of("example.com/gpu")
    assert nvidia is not None
    assert (nvidia.options.default_memory, nvidia.options.default_count) == (5000, 0)
    assert "example.com/gpu" in nvidia.ignored_by_scheduler
    assert found.owner_of("nvidia.com/gpu") is None
    for resource, name in [
        ("m/s", "Metax-SGPU"),
        ("k/xpu", "kunlun"),
        ("k/vxpu", "XPU"),
        ("e/gcu", "GCU"),
        ("e/drs", "Enflame"),
        ("i/count", "MR-V100"),
        ("huawei.com/Ascend910Z", "Ascend910Z"),
    ]:
        spec = found.owner_of(resource)
        assert spec is not None
        assert spec.name == name
    assert {spec.name for spec in found if spec.vendor == "Huawei"} == {"Ascend910Z"}
    assert {spec.name for spec in found if spec.vendor == "Iluvatar"} == {"MR-V100"}


VOLCANO_DEVICES = """\
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  resourceMemoryPercentageName: volcano.sh/vgpu-memory-percentage
  knownMigGeometries:
  - models: [A100-SXM4-40GB]
    allowedGeometries:
    - group: group1
      geometries:
      - {name: 1g.5gb, memory: 5120, count: 7}
"""


@pytest.mark.parametrize(
    "text",
    [
        VOLCANO_DEVICES,
        "kind: ConfigMap\ndata:\n  device-config.yaml: |\n"
        + "".join(f"    {line}\n" for line in VOLCANO_DEVICES.splitlines()),
        "version: 1\nvolcano:\n  deviceConfig:\n" + "".join(f"    {line}\n" for line in VOLCANO_DEVICES.splitlines()),
    ],
    ids=["file", "configmap", "inside"],
)
def test_volcanos_own_device_config_is_taken_as_it_is(text: str) -> None:
    found = settings.parse(text).registry()
    volcano = found.owner_of("volcano.sh/vgpu-number")
    assert volcano is not None
    assert volcano.options.flags == {"percentage": True}
    assert found.owner_of("nvidia.com/gpu") is not volcano


def test_a_broken_volcano_config_names_the_place() -> None:
    with pytest.raises(ConfigError, match=r"volcano.deviceConfig.*knownMigGeometries"):
        settings.parse("version: 1\nvolcano: {deviceConfig: {nvidia: {knownMigGeometries: 7}}}")


def test_what_volcanos_configuration_says_of_queues_holds() -> None:
    usual = settings.parse("").rules()
    assert (usual.queue_plugin, usual.queue_hierarchy, usual.overcommit) == ("", None, Fraction("1.2"))
    text = "version: 1\nvolcano: {queuePlugin: capacity, queueHierarchy: false, overcommitFactor: 1.05}"
    said = settings.parse(text).rules()
    assert (said.queue_plugin, said.queue_hierarchy, said.overcommit) == ("capacity", False, Fraction(105, 100))
    with pytest.raises(ConfigError, match="overcommitFactor"):
        settings.parse("version: 1\nvolcano: {overcommitFactor: 0.5}")


def test_defaults_that_volcano_does_not_read_are_concerns() -> None:
    assert settings.parse("").concerns == ()
    assert settings.parse("nvidia: {resourceCountName: volcano.sh/vgpu-number}").concerns == ()
    (concern,) = settings.parse("nvidia: {resourceCountName: volcano.sh/vgpu-number, defaultMem: 5000}").concerns
    assert concern.startswith("volcano.deviceConfig.nvidia.defaultMemory=5000: neither Volcano's scheduler nor")
    assert settings.parse("nvidia: {defaultMem: 5000}").concerns == ()


def test_the_release_of_volcano_is_one() -> None:
    found = settings.parse("version: 1\nvolcano: {release: v1.14.1, assigner: webhook}\n").volcano
    assert (found.release, found.assigner) == ("v1.14.1", "webhook")
    with pytest.raises(ConfigError, match=r"volcano.release.*not a known release of Volcano; write one of 1.14.0, "):
        settings.parse("version: 1\nvolcano: {release: latest}\n")
    with pytest.raises(ConfigError, match=r"not a known release of Volcano.*1.17.0"):
        settings.parse("version: 1\nvolcano: {release: 1.17.0}\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("schedulr: {name: x}\nversion: 1", "schedulr: no such setting; did you mean scheduler?"),
        (
            "version: 1\nvolcano: {queuPlugin: capacity}",
            "volcano.queuPlugin: no such setting; did you mean queuePlugin?",
        ),
        ("version: 1\nneuron: {zzz: 1}", "neuron.zzz: no such setting; there are allocator"),
    ],
)
def test_a_name_that_is_no_setting_is_answered_with_the_nearest_one(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings.parse(text, source="x.yaml")
    assert str(error.value) == f"x.yaml: {complaint} (`hami-plugins settings` lists all)"


def test_a_variable_that_sets_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__SCHEDULR__NAME", "x")
    with pytest.raises(ConfigError) as error:
        settings.parse("")
    assert str(error.value) == (
        "environment: HAMI_PLUGINS__SCHEDULR__NAME: no such setting; did you mean HAMI_PLUGINS__SCHEDULER? "
        "(`hami-plugins settings` lists all)"
    )


def test_variables_for_the_processes_of_the_products_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_PLUGINS__VOLCANO_VGPU__DEVICE_SPLIT_COUNT", "3")
    monkeypatch.setenv("HAMI_PLUGINS__KOORDINATOR__INJECTION__MODE", "auto")
    assert settings.parse("").version == 1
