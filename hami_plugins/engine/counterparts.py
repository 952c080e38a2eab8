"""Devices that pods hold by the list of another dialect: their node spoke it when the pods were placed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.vendor import Recall, VendorSpec


def counterpart(spec: VendorSpec, other: VendorSpec) -> VendorSpec:
    """The other vendor as a reader of its list whose devices are those of ``spec``.

    Parts of a device that it names mean nothing under ``spec``: without their marks the device is not shared further.
    """
    records = replace(other.records, recall=_unmarked(other.records.recall))
    return replace(other, name=spec.name, word=other.wire_word(), records=records)


def _unmarked(recall: Recall | None) -> Recall | None:
    if recall is None:
        return None

    def unmarked(
        annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
    ) -> tuple[ContainerAllocation, ...]:
        return tuple(
            replace(each, shares=tuple(replace(share, mark=None) for share in each.shares))
            for each in recall(annotations, allocations)
        )

    return unmarked
