"""Reads the agent's settings.

Built-in defaults, then Volcano's own device configuration, then the agent's YAML, then the environment, then the
settings of this node: from the node file, then from this project's overrides (``nodes``). Later ones win, member by
member.

Volcano's ConfigMap ``volcano-vgpu-device-config`` and the node file of its plugin are taken as they are
(volcano-vgpu-device-plugin 1.12.0 ``pkg/util/util.go``), also as the manifests that hold them. So are HAMi's
(HAMi 2.10.0 ``pkg/device-plugin/nvidiadevice``), which have the same form, where the dialect is HAMi's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from hami_plugins.config import layers, texts
from hami_plugins.config.layers import Layer
from hami_plugins.config.reference import SettingsProgram
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import volcano_config
from volcano_vgpu.core.settings import AgentSettings, SharingSettings

__all__ = ["AgentSettings", "load"]

PREFIX: Final = "HAMI_PLUGINS__VOLCANO_VGPU__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__VOLCANO_VGPU__SCHEDULER__VERSION``."""

SETTINGS: Final = SettingsProgram(
    name="volcano-vgpu-agent", model=AgentSettings, prefix=PREFIX, option="--config FILE", commands="volcano-vgpu agent"
)

NODE_FILE: Final = "config.json"
"""The key under which the existing plugin's ConfigMap holds the node file."""

_KNOWN_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "NODE_NAME": ("node",),
    "HOOK_PATH": ("hookPath",),
    "DP_DISABLE_HEALTHCHECKS": ("health", "disabled"),
    "DP_ENABLE_HEALTHCHECKS": ("health", "enabled"),
    "PASS_DEVICE_SPECS": ("container", "passDeviceSpecs"),
    "GDRCOPY_ENABLED": ("container", "gdrcopy"),
    "GDS_ENABLED": ("container", "gds"),
    "MOFED_ENABLED": ("container", "mofed"),
    "LIBCUDA_LOG_LEVEL": ("container", "logLevel"),
}
"""The variables of the existing plugin, for a manifest that is kept."""

NAMES: Final = {
    "resourceCountName": "count",
    "resourceMemoryName": "memory",
    "resourceMemoryPercentageName": "memoryPercentage",
    "resourceCoreName": "cores",
    "resourcePriorityName": "priority",
}
"""How Volcano's document calls the names of resources, and how we do."""

SHARED: Final = (
    "deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "gpuMemoryFactor", "disableCoreLimit",
    "knownMigGeometries",
)  # fmt: skip
DEFAULTS: Final = {
    "defaultMem": ("defaults", "memory"),
    "defaultMemory": ("defaults", "memory"),
    "defaultCores": ("defaults", "cores"),
    "defaultGPUNum": ("defaults", "count"),
}
"""What HAMi's scheduler takes for granted, and where ours are. In Volcano's document the words are the same, and no
component of Volcano reads them."""

HAMI_MEMBERS: Final = {
    "deviceSplitCount": ("deviceSplitCount",),
    "deviceMemoryScaling": ("deviceMemoryScaling",),
    "deviceCoreScaling": ("deviceCoreScaling",),
    "disableCoreLimit": ("disableCoreLimit",),
    "memoryFactor": ("gpuMemoryFactor",),
    **DEFAULTS,
    "gpuCorePolicy": ("container", "corePolicy"),
}
"""Members of HAMi's section ``nvidia``, and where ours are."""

NODE_NUMBERS: Final = {
    "devicememoryscaling": "deviceMemoryScaling",
    "devicecorescaling": "deviceCoreScaling",
    "devicesplitcount": "deviceSplitCount",
}


def load(
    text: str,
    env: Mapping[str, str],
    *,
    device_config: str | None = None,
    node_config: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> AgentSettings:
    """The settings of the agent of one node.

    ``text`` is the agent's YAML and may be empty, ``device_config`` Volcano's document, ``node_config`` the existing
    plugin's node file, ``labels`` those of the node (overrides by label wait for them). Raises ``ConfigError`` with the
    source, the path, the value and what is allowed.
    """
    found = [
        Layer("settings", texts.mapping(text, "settings")),
        layers.of_environment(env, PREFIX, _KNOWN_VARIABLES),
    ]
    if device_config is not None:
        hamis = layers.merged(found).get("dialect") == Dialect.HAMI
        found.insert(0, (_from_hami_config if hamis else _from_device_config)(device_config))
    if "node" not in layers.merged(found):
        raise ConfigError("settings: node: the name of this node is missing; set NODE_NAME from spec.nodeName")
    settings = layers.made(AgentSettings, found)
    if node_config is not None:
        settings = _with_node_file(settings, node_config)
    return settings.on(labels or {})


def _from_device_config(text: str) -> Layer:
    """The part ``nvidia`` of Volcano's device configuration; unknown members are skipped."""
    source = "device configuration"
    document = texts.unwrapped(texts.mapping(text, source), volcano_config.KEY, source)
    try:
        volcano_config.decode(document)
    except WireError as error:
        raise ConfigError(f"{source}: {error}") from error
    raw = document.get("nvidia") or {}
    values: dict[str, Any] = {key: raw[key] for key in SHARED if raw.get(key) is not None}
    names = {ours: raw[theirs] for theirs, ours in NAMES.items() if raw.get(theirs)}
    if names:
        values["resources"] = names
    if raw.get("passDeviceSpecs") is not None:
        values["container"] = {"passDeviceSpecs": raw["passDeviceSpecs"]}
    _put(values, raw, DEFAULTS)
    return Layer(source, values)


def _from_hami_config(text: str) -> Layer:
    """The part ``nvidia`` of HAMi's device configuration; members that are the scheduler's alone are skipped."""
    source = "device configuration"
    raw = texts.unwrapped(texts.mapping(text, source), volcano_config.KEY, source).get("nvidia") or {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: nvidia: not a mapping (found {texts.short(raw)})")
    values: dict[str, Any] = {}
    _put(values, raw, HAMI_MEMBERS)
    names = {ours: raw[theirs] for theirs, ours in NAMES.items() if raw.get(theirs)}
    return Layer(source, values | ({"resources": names} if names else {}))


def _put(values: dict[str, Any], raw: Mapping[str, Any], places: Mapping[str, tuple[str, ...]]) -> None:
    """Put those members of a document that say something where ours are."""
    for theirs, place in places.items():
        if raw.get(theirs) not in (None, ""):
            inside = values
            for step in place[:-1]:
                inside = inside.setdefault(step, {})
            inside[place[-1]] = raw[theirs]


def _with_node_file(settings: AgentSettings, text: str) -> AgentSettings:
    """The settings with this node's entry of the existing plugin's node file. Numbers count where they are positive."""
    source = "node file"
    entries = texts.unwrapped(texts.mapping(text, source), NODE_FILE, source).get("nodeconfig") or []
    if not isinstance(entries, list):
        raise ConfigError(f"{source}: nodeconfig: not a list (found {texts.short(entries)})")
    named = [each for each in entries if isinstance(each, dict) and each.get("name") == settings.node]
    if not named:
        return settings
    entry = named[0]
    values: dict[str, Any] = {}
    for theirs, ours in NODE_NUMBERS.items():
        if entry.get(theirs):
            values[ours] = entry[theirs]
    if entry.get("operatingmode"):
        values["mode"] = entry["operatingmode"]
    unwanted = entry.get("filterdevices") or {}
    if unwanted:
        values["exclude"] = {"uuids": unwanted.get("uuid") or [], "indexes": unwanted.get("index") or []}
    try:
        overrides = SharingSettings.model_validate(values)
    except ValidationError as error:
        place = f"{source}: nodeconfig[{entries.index(entry)}]"
        raise ConfigError("\n".join(layers.complaints(error, SharingSettings, [Layer(place, values)]))) from error
    return settings.model_copy(update={name: getattr(overrides, name) for name in overrides.model_fields_set})
