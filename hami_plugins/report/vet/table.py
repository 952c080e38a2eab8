"""The table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.report.vet import (
    amounts,
    capacity,
    fitting,
    gangs,
    gates,
    grants,
    keys,
    koordinator,
    memory,
    names,
    nodes,
    objects,
    quotas,
    safety,
    scheduling,
    shapes,
    values,
)
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
    *gangs.RULES,
    *quotas.RULES,
    *gates.RULES,
    *nodes.RULES,
    *grants.RULES,
    *sorted((*capacity.RULES, *fitting.RULES), key=lambda rule: rule.id),
    *koordinator.RULES,
)
BY_ID: Final[Mapping[str, Rule]] = {rule.id: rule for rule in RULES}
