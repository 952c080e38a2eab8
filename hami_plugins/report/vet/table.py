"""The table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.report.vet import amounts, keys, memory, names, objects, safety, scheduling, shapes, values
from hami_plugins.report.vet.findings import Rule

RULES: Final[tuple[Rule, ...]] = (
    *objects.RULES,
    *names.RULES,
    *amounts.RULES,
    *memory.RULES,
    *shapes.RULES,
    *keys.RULES,
    *values.RULES,
    *scheduling.RULES,
    *safety.RULES,
)
BY_ID: Final[Mapping[str, Rule]] = {rule.id: rule for rule in RULES}
