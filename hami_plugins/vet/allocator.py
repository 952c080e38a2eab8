"""HP74x: components installed next to Volcano to allocate cards that do not match its release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano_releases import DeviceAssigner
from hami_plugins.vet import installed
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import Subject


def strips_allocations(subject: Subject, context: Context) -> Iterator[Violation]:
    """The policy on Bindings where Volcano writes the allocation nowhere else."""
    if installed.assigner_of(subject) is not DeviceAssigner.POLICY:
        return
    release = context.volcano.release
    yield Violation(
        ("spec", "matchConstraints"),
        "the policy takes the allocation off every Binding, the only place where Volcano writes it: pods "
        "are bound without cards",
        "delete the policy and its binding" if release is not None else "use it with Volcano up to 1.15 alone",
        severity=VetSeverity.ERROR if release is not None else VetSeverity.NOTE,
    )


RULES: Final = (
    VetRule(
        id="HP741",
        name="policy-strips-allocations",
        severity=VetSeverity.ERROR,
        summary="The policy of volcano-vgpu on Bindings is installed with a Volcano that allocates by the Binding.",
        why="Up to 1.15 Volcano patches the pod first, so the Binding carries an earlier attempt. From 1.16 on only "
        "the Binding carries the allocation.",
        fix="Delete the policy, or allocate in mode extender or webhook.",
        check=strips_allocations,
        quirk=volcano_releases.ALLOCATION_BY_BINDING,
    ),
)
