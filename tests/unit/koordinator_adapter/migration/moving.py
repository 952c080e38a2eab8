"""What a migration starts from, made of the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import NodeName
from hami_plugins.vendors import builtin
from hami_plugins.wire import koordinator_devices
from koordinator_adapter.core.migration.kinds import SERVED, is_group, is_quota, kind_of, served
from koordinator_adapter.core.migration.planner import MigrationPlan, MigrationSource, planned
from koordinator_adapter.core.translation.model import TranslationOptions
from koordinator_adapter.core.translation.reader import complete
from tests.unit.koordinator_adapter.migration.cluster import Raw

REGISTRY = complete(builtin())


def plan(objects: Iterable[Raw], target: Dialect = Dialect.KOORDINATOR, **more: Any) -> MigrationPlan:
    """The plan for these objects, as the command collects them."""
    rows = list(objects)
    pods = tuple(raw for raw in rows if raw["kind"] == "Pod")
    devices = [koordinator_devices.decode(raw) for raw in rows if raw["kind"] == "Device"]
    found = MigrationSource(
        workloads=tuple(filter(served, rows)),
        owned=tuple(raw for raw in rows if kind_of(raw) in SERVED and not served(raw) and raw not in pods),
        groups=tuple(filter(is_group, rows)),
        quotas=tuple(raw for raw in rows if is_quota(raw, target)),
        pods=pods,
        devices={NodeName(each.node): each for each in devices},
    )
    settings = more.pop("settings", TranslationOptions())
    return planned(found, target, REGISTRY, settings, **more)


def steps(found: MigrationPlan) -> list[str]:
    """The names of what is changed."""
    return [each.name for each in found.steps]


def left(found: MigrationPlan) -> dict[str, str]:
    """The message about each object that stays as it is, or loses something."""
    return {each.name: f"{each.finding.about}: {each.finding.words}" for each in found.left}
