"""The table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.vet import (
    allocator,
    amounts,
    capacity,
    claims,
    enqueue,
    fit,
    gangs,
    keys,
    koordinator,
    memory,
    mig,
    names,
    nodes,
    objects,
    quotas,
    safety,
    scheduling,
    shapes,
    two_managers,
    values,
)
from hami_plugins.vet.findings import VetRule

RULES: Final[tuple[VetRule, ...]] = (
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
    *enqueue.RULES,
    *nodes.RULES,
    *two_managers.RULES,
    *mig.RULES,
    *allocator.RULES,
    *claims.RULES,
    *sorted((*capacity.RULES, *fit.RULES), key=lambda rule: rule.id),
    *koordinator.RULES,
)
BY_ID: Final[Mapping[str, VetRule]] = {rule.id: rule for rule in RULES}
