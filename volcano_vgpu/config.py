"""Reads the agent's settings.

Built-in defaults, then Volcano's own device configuration, then the agent's YAML, then the environment, then what is
said about this node: by the node file, then by our own overrides (``nodes``). Later ones win, member by member.

Volcano's ConfigMap ``volcano-vgpu-device-config`` and the node file of its plugin are taken as they are
(``volcano.md`` 1.3), also as the manifests that hold them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from hami_plugins.config import texts
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.wire import volcano_config
from volcano_vgpu.settings import AgentSettings, Sharing

__all__ = ["AgentSettings", "load"]

PREFIX: Final = "HAMI_PLUGINS__VOLCANO_VGPU__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__VOLCANO_VGPU__SCHEDULER__VERSION``."""

NODE_FILE: Final = "config.json"
"""The key under which the existing plugin's ConfigMap holds the node file."""

DEVICE_CONFIG_NAMESPACES: Final = ("kube-system", "volcano-system")
"""Where Volcano's ConfigMap (``volcano_config.NAME``) may be; the first one that is there counts."""

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

_NAMES: Final = {
    "resourceCountName": "count",
    "resourceMemoryName": "memory",
    "resourceMemoryPercentageName": "memoryPercentage",
    "resourceCoreName": "cores",
    "resourcePriorityName": "priority",
}
_SHARED: Final = (
    "deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling", "gpuMemoryFactor", "disableCoreLimit",
    "knownMigGeometries",
)  # fmt: skip
_NODE_NUMBERS: Final = {
    "devicememoryscaling": "deviceMemoryScaling",
    "devicecorescaling": "deviceCoreScaling",
    "devicesplitcount": "deviceSplitCount",
}


class _Layer(NamedTuple):
    """Where values come from, and the values."""

    source: str
    values: dict[str, Any]


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
    layers = [_from_device_config(device_config)] if device_config is not None else []
    layers += [_Layer("settings", texts.mapping(text, "settings")), _from_environment(env)]
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer.values)
    settings = _made(merged, layers)
    if node_config is not None:
        settings = _with_node_file(settings, node_config)
    return settings.on(labels or {})


def _from_device_config(text: str) -> _Layer:
    """The part ``nvidia`` of Volcano's device configuration; what nobody reads of it is passed over."""
    source = "device configuration"
    document = _held(texts.mapping(text, source), volcano_config.KEY, source)
    try:
        volcano_config.decode(document)
    except WireError as error:
        raise ConfigError(f"{source}: {error}") from error
    raw = document.get("nvidia") or {}
    values: dict[str, Any] = {key: raw[key] for key in _SHARED if raw.get(key) is not None}
    names = {ours: raw[theirs] for theirs, ours in _NAMES.items() if raw.get(theirs)}
    if names:
        values["resources"] = names
    if raw.get("passDeviceSpecs") is not None:
        values["container"] = {"passDeviceSpecs": raw["passDeviceSpecs"]}
    return _Layer(source, values)


def _from_environment(env: Mapping[str, str]) -> _Layer:
    values: dict[str, Any] = {}
    for name, path in _KNOWN_VARIABLES.items():
        if env.get(name):
            _put(values, path, env[name])
    for name in sorted(env):
        if name.startswith(PREFIX):
            path = tuple(to_camel(part.lower()) for part in name.removeprefix(PREFIX).split("__"))
            _put(values, path, _value(name, env[name]))
    return _Layer("environment", values)


def _value(name: str, text: str) -> Any:
    """A variable's value: JSON where it begins like a list or an object, the text itself otherwise."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"environment: {name}: not JSON: {error} (found {texts.short(text)})") from error


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *folders, last = path
    for folder in folders:
        inner = values.setdefault(folder, {})
        values = inner if isinstance(inner, dict) else {}
    values[last] = value


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Lays values over others, objects member by member. Everything is brought to one spelling, that of the files."""
    for name, value in values.items():
        key = to_camel(name) if "_" in name else name
        held = into.get(key)
        if isinstance(held, dict) and isinstance(value, dict) and key != "labels":
            _merge(held, value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


def _made(merged: dict[str, Any], layers: list[_Layer]) -> AgentSettings:
    if "node" not in merged:
        raise ConfigError("settings: node: the name of this node is missing; set NODE_NAME from spec.nodeName")
    try:
        return AgentSettings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_complaints(error, layers))) from error


def _complaints(error: ValidationError, layers: list[_Layer]) -> list[str]:
    lines: list[str] = []
    for each in error.errors(include_url=False):
        source = next((layer.source for layer in reversed(layers) if _says(layer.values, each["loc"])), "settings")
        where = ".".join(str(part) for part in each["loc"]) or "(top)"
        lines.append(f"{source}: {where}: {each['msg']} (found {texts.short(each['input'])})")
    return lines


def _says(values: Mapping[str, Any], path: tuple[int | str, ...]) -> bool:
    """Whether a layer has a value at a path, or at the list that the path leads into."""
    held: Any = values
    for part in path:
        if not isinstance(held, dict):
            return True
        found = [value for name, value in held.items() if part in (name, to_camel(name))]
        if not found:
            return False
        held = found[0]
    return True


def _with_node_file(settings: AgentSettings, text: str) -> AgentSettings:
    """The settings with this node's entry of the existing plugin's node file. Numbers count where they are positive."""
    source = "node file"
    entries = _held(texts.mapping(text, source), NODE_FILE, source).get("nodeconfig") or []
    if not isinstance(entries, list):
        raise ConfigError(f"{source}: nodeconfig: not a list (found {texts.short(entries)})")
    named = [each for each in entries if isinstance(each, dict) and each.get("name") == settings.node]
    if not named:
        return settings
    entry = named[0]
    values: dict[str, Any] = {}
    for theirs, ours in _NODE_NUMBERS.items():
        if entry.get(theirs):
            values[ours] = entry[theirs]
    if entry.get("operatingmode"):
        values["mode"] = entry["operatingmode"]
    unwanted = entry.get("filterdevices") or {}
    if unwanted:
        values["exclude"] = {"uuids": unwanted.get("uuid") or [], "indexes": unwanted.get("index") or []}
    try:
        overrides = Sharing.model_validate(values)
    except ValidationError as error:
        place = f"{source}: nodeconfig[{entries.index(entry)}]"
        raise ConfigError("\n".join(_complaints(error, [_Layer(place, values)]))) from error
    return settings.model_copy(update={name: getattr(overrides, name) for name in overrides.model_fields_set})


def _held(document: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    """The document itself, or the one that a ConfigMap's manifest holds under ``key``."""
    data = document.get("data")
    if document.get("kind") == "ConfigMap" and isinstance(data, dict) and key in data:
        return texts.mapping(str(data[key]), f"{source}: {key}")
    return document
