"""HAMi's own configuration as settings of the allocator: its chart's values and its ``device-config.yaml``.

Each word is taken over, or listed with the reason and the place where that is set now. The words are those of HAMi
2.10.0 ``charts/hami/values.yaml`` and ``pkg/device/*``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from hami_plugins.config import texts
from hami_plugins.config.device_config import DeviceConfig, configured
from hami_plugins.errors import ConfigError
from hami_plugins.model.dialect import Dialect
from hami_plugins.vendors import BUILTIN

DEVICE_CONFIG: Final = "device-config.yaml"
"""The key of HAMi's ConfigMap."""


class SkippedSetting(NamedTuple):
    """A word of HAMi's that is not taken over: its path, and why or where that is set."""

    path: str
    why: str


class TakenOver(NamedTuple):
    """Settings of the allocator (``allocator run --config``), and the words that are not among them."""

    settings: dict[str, Any]
    untaken: tuple[SkippedSetting, ...]


_PLUGIN: Final = "HAMi's device plugin reads it; with volcano-vgpu's agent set"
_NOWHERE: Final = "nothing reads it"

_SECTION_WORDS: Final[Mapping[str, str]] = {
    "nvidia.deviceSplitCount": f"{_PLUGIN} deviceSplitCount",
    "nvidia.deviceMemoryScaling": f"{_PLUGIN} deviceMemoryScaling",
    "nvidia.deviceCoreScaling": f"{_PLUGIN} deviceCoreScaling",
    "nvidia.libCudaLogLevel": f"{_PLUGIN} container.logLevel",
    "nvidia.disableCoreLimit": f"{_PLUGIN} disableCoreLimit",
    "nvidia.preConfiguredDeviceMemory": "HAMi's device plugin reads it; our agent asks the driver for the memory",
    "nvidia.enableNumaTopology": "HAMi's device plugin reads it; the allocator reads the NUMA nodes that it registers",
    "nvidia.migProfileAllowlist": "HAMi's device plugin applies it; the allocator reads the profiles that it registers",
    "enflame.resourceNameVGCUPercentage": f"{_NOWHERE} since HAMi 2.7: request enflame.com/gcu-memory and gcu-core",
}
"""Words of ``device-config.yaml`` that change nothing about a decision."""

_RESOURCES: Final[Mapping[str, str]] = {
    "resourceName": "nvidia.resourceCountName",
    "resourceMem": "nvidia.resourceMemoryName",
    "resourceMemPercentage": "nvidia.resourceMemoryPercentageName",
    "resourceCores": "nvidia.resourceCoreName",
    "resourcePriority": "nvidia.resourcePriorityName",
    "mluResourceName": "cambricon.resourceCountName",
    "mluResourceMem": "cambricon.resourceMemoryName",
    "mluResourceCores": "cambricon.resourceCoreName",
    "dcuResourceName": "hygon.resourceCountName",
    "dcuResourceMem": "hygon.resourceMemoryName",
    "dcuResourceCores": "hygon.resourceCoreName",
    "metaxResourceName": "metax.resourceVCountName",
    "metaxResourceMem": "metax.resourceVMemoryName",
    "metaxResourceCore": "metax.resourceVCoreName",
    "metaxsGPUTopologyAware": "metax.sgpuTopologyAware",
    "mthreadsResourceName": "mthreads.resourceCountName",
    "mthreadsResourceMem": "mthreads.resourceMemoryName",
    "mthreadsResourceCores": "mthreads.resourceCoreName",
    "enflameResourceNameGCU": "enflame.resourceNameGCU",
    "enflameResourceNameVGCU": "enflame.resourceNameVGCU",
    "enflameResourceNameDRSGCU": "enflame.resourceNameDRSGCU",
    "kunlunResourceName": "kunlun.resourceCountName",
    "kunlunResourceVCountName": "kunlun.resourceVCountName",
    "kunlunResourceVMemoryName": "kunlun.resourceVMemoryName",
    "vastaiResourceName": "vastai.resourceCountName",
    "amdResourceName": "amd.resourceCountName",
    "scheduler.defaultMem": "nvidia.defaultMemory",
    "scheduler.defaultCores": "nvidia.defaultCores",
    "scheduler.defaultGPUNum": "nvidia.defaultGPUNum",
    "devices.nvidia.gpuCorePolicy": "nvidia.gpuCorePolicy",
    "devicePlugin.runtimeClassName": "nvidia.runtimeClassName",
    "devices.ascend.hamiVnpuCore": "vnpus.hamiVnpuCore",
}
"""Values of the chart, with their places in ``device-config.yaml``."""

_SCHEDULER: Final[Mapping[str, str]] = {
    "schedulerName": "name",
    "scheduler.forceOverwriteDefaultScheduler": "forceOverwriteDefaultScheduler",
    "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy": "nodeSchedulerPolicy",
    "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy": "gpuSchedulerPolicy",
}
"""Values of the chart, with their places in our section ``scheduler``."""

_SWITCHES: Final[Mapping[str, str]] = {"Huawei": "devices.ascend.enabled", "Iluvatar": "devices.iluvatar.enabled"}
"""Values that enable a vendor's devices; the devices of all other vendors are always enabled."""

_CONTENT: Final = "device-config.content"
_READ: Final = (_CONTENT, *_SWITCHES.values())
"""Further values that are taken over."""

_CHART_WORDS: Final[Mapping[str, str]] = {
    "scheduler.overwriteEnv": "write devices.nvidia.overwriteEnv",
    "scheduler.nodeLockExpire": "the allocator releases its locks itself; those of other clients count for 5 minutes",
    "scheduler.replicas": "chart value allocator.replicas",
    "scheduler.leaderElect": "the replicas of the allocator share the Lease of the setting lease.name",
    "scheduler.kubeScheduler": "run a kube-scheduler with what `allocator conf --kube-scheduler` prints",
    "scheduler.extender": "run `allocator run`; its settings are those printed here",
    "scheduler.admissionWebhook": "apply what `allocator webhooks` prints",
    "scheduler.service": "settings service and listen",
    "scheduler.metricsBindAddress": "setting listen",
    "scheduler": "a value of the Deployment of HAMi's scheduler; see the chart of the allocator",
    "devicePlugin.deviceSplitCount": f"{_PLUGIN} deviceSplitCount",
    "devicePlugin.deviceMemoryScaling": f"{_PLUGIN} deviceMemoryScaling",
    "devicePlugin.deviceCoreScaling": f"{_PLUGIN} deviceCoreScaling",
    "devicePlugin.disablecorelimit": f"{_PLUGIN} disableCoreLimit",
    "devicePlugin.migStrategy": "HAMi's device plugin reads it and does nothing with it; cards are shared by MIG with "
    "its operatingmode mig (with volcano-vgpu's agent, setting mode), and NVIDIA's plugin offers nvidia.com/mig-*",
    "devicePlugin": "a value of HAMi's device plugin, which stays as it is",
    "devices.nvidia.libCudaLogLevel": f"{_PLUGIN} container.logLevel",
    "devices": "a value of that vendor's device plugin, which stays as it is",
    "mockDevicePlugin": "a value of HAMi's mock plugin, which stays as it is",
    "enflameResourceNameVGCUPercentage": _SECTION_WORDS["enflame.resourceNameVGCUPercentage"],
    "global": "a value of HAMi's chart alone",
    "imagePullSecrets": "a value of HAMi's chart alone",
    "podSecurityPolicy": "a value of HAMi's chart alone",
    "nameOverride": "a value of HAMi's chart alone",
    "fullnameOverride": "a value of HAMi's chart alone",
    "namespaceOverride": "a value of HAMi's chart alone",
    "version": "a value of HAMi's chart alone",
}
"""Values of the chart that are not taken over; the longest path that fits counts."""

_UNKNOWN: Final = "no value of HAMi 2.10's chart"


def from_values(values: Mapping[str, Any], device_config: Mapping[str, Any], *, source: str) -> TakenOver:
    """Settings that allocate as HAMi does with these values; ``device_config`` is its ConfigMap's file, or empty.

    Where both name a resource, the file counts, as with HAMi. Raises ``ConfigError`` for a content that is not YAML,
    and for a value that the vendor does not allow.
    """
    scheduler: dict[str, Any] = {}
    devices: dict[str, Any] = {}
    untaken: list[SkippedSetting] = []
    for path, value in _leaves(values, ""):
        if (ours := _SCHEDULER.get(path)) is not None:
            scheduler[ours] = value
        elif (place := _RESOURCES.get(path)) is not None:
            section, word = place.split(".")
            devices.setdefault(section, {})[word] = value
        elif path not in _READ:
            untaken.append(SkippedSetting(path, _reason(path)))
    content = texts.mapping(str(_at(values, _CONTENT) or ""), f"{source}: {_CONTENT}")
    for given in (content, device_config):
        for section, words in given.items():
            devices[section] = {**devices.get(section, {}), **words} if isinstance(words, dict) else words
    untaken.extend(untaken_devices(devices))
    found: dict[str, Any] = {"version": 1, "vendors": list(_vendors(values, devices))}
    if scheduler:
        found["scheduler"] = scheduler
    if devices := _taken(devices):
        found["devices"] = devices
    return TakenOver(found, tuple(untaken))


def untaken_devices(config: Mapping[str, Any]) -> Iterator[SkippedSetting]:
    """The words of a ``device-config.yaml`` that change nothing about a decision, or that no vendor has."""
    known = {field.alias or name: field for name, field in DeviceConfig.model_fields.items()}
    for section, words in config.items():
        if section not in known:
            yield SkippedSetting(f"devices.{section}", f"no section of HAMi 2.10; there are {', '.join(known)}")
            continue
        model = next(texts.models(known[section].annotation))
        for at, each in enumerate(words if isinstance(words, list) else [words]):
            place = f"{section}[{at}]" if isinstance(words, list) else section
            for word in each if isinstance(each, dict) else ():
                if word not in _words(model):
                    why = _SECTION_WORDS.get(f"{section}.{word}", "no word of HAMi 2.10 in this section")
                    yield SkippedSetting(f"devices.{place}.{word}", why)


def _words(model: Any) -> frozenset[str]:
    """The keys of a section, in each spelling."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        choices = getattr(field.validation_alias, "choices", None) or [field.validation_alias or field.alias or name]
        found.update(map(str, choices))
    return frozenset(found)


def _taken(devices: Mapping[str, Any]) -> dict[str, Any]:
    """The device config without the words that are listed as not taken."""
    dropped = {each.path.removeprefix("devices.") for each in untaken_devices(devices)}
    found: dict[str, Any] = {}
    for section, words in devices.items():
        if section in dropped:
            continue
        if isinstance(words, dict):
            kept = {word: value for word, value in words.items() if f"{section}.{word}" not in dropped}
        else:
            kept = words
        if kept not in ({}, None):
            found[section] = kept
    return found


def _vendors(values: Mapping[str, Any], devices: Mapping[str, Any]) -> Iterator[str]:
    """Those that HAMi's scheduler serves: all of them, and where its values are known those that they switch on."""
    off = {maker for maker, path in _SWITCHES.items() if values and _at(values, path) is not True}
    for spec in configured(BUILTIN, _parsed(_taken(devices))):
        if spec.dialect is Dialect.HAMI and spec.vendor not in off:
            yield spec.name


def _parsed(devices: Mapping[str, Any]) -> DeviceConfig:
    try:
        return DeviceConfig.model_validate(devices)
    except ValidationError as error:
        lines = texts.complaints(error, DeviceConfig)
        raise ConfigError("\n".join(f"settings: devices.{line}" for line in lines)) from error


def _leaves(values: Mapping[str, Any], folder: str) -> Iterator[tuple[str, Any]]:
    """All values with their paths; folders that are taken or refused as a whole are not gone into."""
    for key, value in values.items():
        path = f"{folder}{key}"
        if isinstance(value, dict) and value and _goes_on(path):
            yield from _leaves(value, f"{path}.")
        elif value not in ({}, [], None):
            yield path, value


def _goes_on(path: str) -> bool:
    return any(
        known.startswith(f"{path}.") for table in (_SCHEDULER, _RESOURCES, _CHART_WORDS, _READ) for known in table
    )


def _reason(path: str) -> str:
    parts = path.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((_CHART_WORDS[each] for each in prefixes if each in _CHART_WORDS), _UNKNOWN)


def _at(values: Mapping[str, Any], path: str) -> Any:
    held: Any = values
    for part in path.split("."):
        held = held.get(part) if isinstance(held, Mapping) else None
    return held
