"""The vendors: one file each, listed here. A new vendor is one file and one line."""

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

BUILTIN: Final[tuple[VendorSpec, ...]] = (
    nvidia.SPEC,
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
    volcano.SPEC,
    koordinator.SPEC,
)
"""In HAMi's order of initialisation, then Volcano's and Koordinator's."""


def builtin() -> Registry:
    """A registry of the built-in vendors with their stock settings."""
    return Registry(BUILTIN)
