"""``python -m tests.contract.charts.allocator_files`` writes the files that the chart of the allocator is made from.

Vendors, webhooks, and kube-scheduler's extender are the program's. Parts that depend on values and vendors are words in
capitals in them; the templates replace them with names, namespaces, and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from hami_plugins.allocations.manifests import chart_vendor, kube_scheduler_configuration, webhooks
from hami_plugins.allocations.manifests.webhooks import Hooks, WebhookTarget
from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.cli.allocator_server import extension_of
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.config.settings import Settings
from hami_plugins.engine.annotate import BOOKKEEPING, NODE_KEY, PHASE_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.wire import allocator_mark
from tests.contract.charts.schemas import CHARTS

FOLDER: Final = CHARTS / "allocator" / "files"
_HEAD: Final = "# Generated from the program: python -m tests.contract.charts.allocator_files\n"
_PROBE: Final = "probe.example/x"

SECTIONS: Final = (
    "nvidia", "cambricon", "hygon", "metax", "enflame", "mthreads", "kunlun", "awsneuron", "amd", "vastai", "biren",
)  # fmt: skip
"""Sections of HAMi's ``device-config.yaml`` that are about one vendor, or two."""

NAMES: Final = (
    "resourceCountName", "resourceMemoryName", "resourceMemoryPercentageName", "resourceCoreName",
    "resourcePriorityName", "resourceVCountName", "resourceVMemoryName", "resourceVCoreName", "resourceNameGCU",
    "resourceNameVGCU", "resourceNameDRSGCU", "resourceNameGCUMemory", "resourceNameGCUCore", "resourceName",
)  # fmt: skip
"""Every key of a section that names a resource."""

_Probed: TypeAlias = tuple[str, str, Registry]

_RESOURCES: Final = ResourceNames(count="RESOURCES")


def vendors() -> dict[str, Any]:
    """What each vendor's devices are called, and what serving them takes."""
    served = [spec for spec in registry_of(Settings()) if spec.dialect is not Dialect.KOORDINATOR]
    return {
        "bookkeeping": list(BOOKKEEPING),
        "requeued": allocator_mark.REQUEUED_KEY,
        "phase": PHASE_KEY,
        "label": NODE_KEY,
        "vendors": [_vendor(spec) for spec in served],
    }


def hooks() -> dict[str, Any]:
    """The webhooks, for any vendors."""
    target = WebhookTarget(configuration="CONFIGURATION", service="SERVICE", namespace="NAMESPACE")
    found = Hooks(resources=(_RESOURCES,), keys=("KEYS",), jobs=("JOBS",))
    return {"webhooks": webhooks.webhooks(found, target, exempt=("EXEMPT",))["webhooks"]}


def extender() -> dict[str, Any]:
    """kube-scheduler's extender, for any vendors, with the two times that its calls may take."""
    document = kube_scheduler_configuration.document("URL", (_RESOURCES,), evicts=True, timeout="TIMEOUT")
    found = kube_scheduler_configuration
    return {"path": SCHEDULER_PATH, "timeouts": {"plain": found.TIMEOUT, "locked": found.LOCKED_TIMEOUT}, **document}


FILES: Final[Mapping[str, Any]] = {"vendors.yaml": vendors, "webhooks.yaml": hooks, "kube-scheduler.yaml": extender}


def text(name: str) -> str:
    """A file, as it is kept."""
    return _HEAD + output.as_yaml(FILES[name]())


def _vendor(spec: VendorSpec) -> dict[str, Any]:
    section, keys = _named(spec)
    word = spec.name if section in {"devices.vnpus.configs", "devices.iluvatars"} else ""
    jobs = extension_of(Registry((spec,)))
    return chart_vendor.entry(
        spec, section=section, word=word, renamed_by=keys, jobs=() if jobs is None else jobs.resources
    )


def _named(spec: VendorSpec) -> tuple[str, dict[str, str]]:
    """The section of the settings that names a vendor's resources, and the key for each name; found by setting each."""
    sections: dict[str, None] = {}
    keys: dict[str, str] = {}
    for section, key, registry in (*_of_sections(), *_of_one(spec.name)):
        found = registry.get(spec.name)
        if found is None:
            continue
        for name in _changed(spec.resources, found.resources):
            keys[name] = key
            sections[section] = None
    (section,) = sections
    return section, keys


def _changed(before: ResourceNames, after: ResourceNames) -> Iterator[str]:
    for part in ("count", "memory", "memory_percentage", "cores", "priority"):
        if getattr(before, part) and getattr(after, part) == _PROBE:
            yield getattr(before, part)


@cache
def _of_sections() -> Sequence[_Probed]:
    """The vendors after each resource name that a section of its own has was set, the same for all vendors."""
    devices = [(f"devices.{name}", key, {"devices": {name: {key: _PROBE}}}) for key in NAMES for name in SECTIONS]
    volcano = [
        ("volcano.deviceConfig.nvidia", key, {"volcano": {"deviceConfig": {"nvidia": {key: _PROBE}}}}) for key in NAMES
    ]
    return list(_probed([*devices, *volcano]))


def _of_one(vendor: str) -> Iterator[_Probed]:
    """The vendors after each name was set that stands in a list, at the entry of this vendor."""
    sizes = {"commonWord": vendor, "memoryAllocatable": 1, "memoryCapacity": 1}
    chips = [(key, {**sizes, key: _PROBE}) for key in NAMES]
    chips += [
        (key, {**sizes, key: _PROBE, "resourceName": "a/b"}) for key in ("resourceMemoryName", "resourceCoreName")
    ]
    yield from _probed(
        [("devices.vnpus.configs", key, {"devices": {"vnpus": {"configs": [chip]}}}) for key, chip in chips]
    )
    models = [(key, {"commonWord": vendor, key: _PROBE}) for key in NAMES]
    yield from _probed([("devices.iluvatars", key, {"devices": {"iluvatars": [model]}}) for key, model in models])


def _probed(settings: Sequence[tuple[str, str, dict[str, Any]]]) -> Iterator[_Probed]:
    """A section, a key in it, and the vendors where the settings that name one resource there are read."""
    for section, key, told in settings:
        try:
            yield section, key, registry_of(Settings.model_validate(told))
        except (ConfigError, ValueError):
            continue


def main() -> None:
    """Write the files."""
    for name in FILES:
        (FOLDER / name).write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
