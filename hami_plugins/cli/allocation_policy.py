"""The work of ``allocation-policy``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from hami_plugins.allocations.manifests import allocation_policy
from hami_plugins.allocations.manifests.account_policies import GROUPS
from hami_plugins.cli.kit import inputs
from hami_plugins.cli.kit.objects import print_documents
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError

REMEDY: Final = "print the policy again with --user, and apply it"


def print_policy(
    names: Sequence[str],
    *,
    users: Sequence[str],
    groups: Sequence[str],
    name: str,
    form: Form,
    settings: str | None,
) -> int:
    """Print one policy for the allocation keys of some systems, or of all."""
    known = allocation_policy.systems(inputs.registry_of(inputs.settings_of(settings)))
    if unknown := [each for each in names if each not in known]:
        raise ConfigError(f"{unknown[0]}: unknown system; the systems are {', '.join(known)}")
    found = reduce(or_, (known[each] for each in names or known))
    found = replace(found, users=(*found.users, *users))
    documents = allocation_policy.policy(
        found,
        remedy=REMEDY,
        groups=(*GROUPS, *groups),
        name=name or allocation_policy.NAME,
    )
    return print_documents(documents, Form.JSON if form is Form.JSON else Form.YAML)
