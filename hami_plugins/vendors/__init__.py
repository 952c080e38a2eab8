"""The vendors: one file each, listed here. A new vendor is one file and one line."""

from dataclasses import replace
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import (
    amd,
    ascend,
    awsneuron,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    koordinator,
    kunlun,
    metax,
    mthreads,
    nvidia,
    vastai,
    volcano,
)


def _beside(spec: VendorSpec, other: VendorSpec) -> VendorSpec:
    """The vendor, whose devices pods may hold by the other one's list as well."""
    return replace(spec, records=replace(spec.records, counterparts=(other,)))


BUILTIN: Final[tuple[VendorSpec, ...]] = (
    _beside(nvidia.SPEC, volcano.SPEC),
    cambricon.SPEC,
    hygon.SPEC,
    *enflame.SPECS,
    mthreads.SPEC,
    *metax.SPECS,
    *kunlun.SPECS,
    awsneuron.SPEC,
    amd.SPEC,
    vastai.SPEC,
    biren.SPEC,
    *ascend.SPECS,
    *iluvatar.SPECS,
    _beside(volcano.SPEC, nvidia.SPEC),
    koordinator.SPEC,
)
"""In HAMi's order of initialisation, then Volcano's and Koordinator's."""


def builtin() -> Registry:
    """A registry of the built-in vendors with their stock settings."""
    return Registry(BUILTIN)
