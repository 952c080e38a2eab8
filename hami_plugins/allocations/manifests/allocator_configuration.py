"""Volcano's scheduler configuration for the allocator of all vendors: what belongs into it, and what is wrong with one.

In mode ``webhook`` Volcano's own plugin decides about vGPUs, and the extender about all other devices. In mode
``policy`` no server runs, so no extender is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from hami_plugins.allocations.manifests import volcano_configuration, volcano_modes
from hami_plugins.allocations.manifests.volcano_configuration import EXTENDER, ConfigurationFinding, Plugin
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor_names import ResourceNames

COMMAND: Final = "hami-plugins allocator conf"


def document(mode: AllocatorMode, url: str, vendors: Registry) -> dict[str, Any]:
    """A whole configuration for the mode; ``url`` is where the scheduler reaches the extender."""
    own, asked = _divided(mode, vendors)
    plugins = [volcano_modes.deviceshare()] if own else []
    if asked:
        plugins.append({"name": EXTENDER, "arguments": volcano_configuration.extender_arguments(url, asked)})
    return volcano_configuration.document(*plugins)


def flags(mode: AllocatorMode, vendors: Registry) -> Mapping[str, str]:
    """Flags of vc-scheduler that go with it, and why."""
    return volcano_configuration.FLAGS if _divided(mode, vendors)[1] else {}


def check(conf: Mapping[str, Any], mode: AllocatorMode, vendors: Registry) -> tuple[ConfigurationFinding, ...]:
    """What is wrong with a configuration for the mode, in the order of the file; empty where nothing is."""
    found, unreadable = volcano_configuration.plugins(conf)
    if unreadable:
        return tuple(unreadable)
    own, asked = _divided(mode, vendors)
    if own:
        cards = chain(volcano_modes.without_deviceshare(found, mode), volcano_modes.two_caches(found, own))
    else:
        cards = chain(volcano_modes.with_deviceshare(found) if _has_cards(vendors) else ())
    return (*cards, *_of_extender(conf, found, asked))


def _has_cards(vendors: Registry) -> bool:
    return any(spec.dialect is Dialect.VOLCANO for spec in vendors)


def _of_extender(
    conf: Mapping[str, Any], plugins: list[Plugin], asked: Sequence[ResourceNames]
) -> Iterator[ConfigurationFinding]:
    if asked:
        yield from volcano_configuration.evictions(conf, "devices", "delete pods to free their devices")
        yield from volcano_configuration.extender(plugins, asked, COMMAND)


def _divided(mode: AllocatorMode, vendors: Registry) -> tuple[list[ResourceNames], list[ResourceNames]]:
    """The names of what Volcano's own plugin decides about, and of what the extender is asked about."""
    if mode is AllocatorMode.EXTENDER:
        return [], [spec.resources for spec in vendors]
    own = [spec.resources for spec in vendors if spec.dialect is Dialect.VOLCANO]
    others = [spec.resources for spec in vendors if spec.dialect is not Dialect.VOLCANO]
    return own, others if mode is AllocatorMode.WEBHOOK else []
