"""How Koordinator divides Ascend NPUs: the templates of its chart, by the model of the chip.

A template is asked for by its numbers, all of them. Source: koordinator-sh/charts
``versions/v1.7.0/templates/gpu-shared-resource-templates.yaml``; the file of v1.8.0 is equal. An operator can have
others in the ConfigMap ``gpu-shared-resource-templates``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class NpuTemplate(NamedTuple):
    """What a template gives: AI cores, AI CPUs, percent of the media processor (0 where it is not said), and MiB."""

    cores: int
    cpus: int
    dvpp: int
    memory: int


_OF_310P: Final[Mapping[str, NpuTemplate]] = {
    "vir01": NpuTemplate(1, 1, 12, 3072),
    "vir02": NpuTemplate(2, 2, 25, 6144),
    "vir02_1c": NpuTemplate(2, 1, 25, 6144),
    "vir04": NpuTemplate(4, 4, 50, 12288),
    "vir04_3c": NpuTemplate(4, 3, 50, 12288),
    "vir04_3c_ndvpp": NpuTemplate(4, 3, 0, 12288),
    "vir04_4c_dvpp": NpuTemplate(4, 4, 100, 12288),
}
_OF_910B2: Final[Mapping[str, NpuTemplate]] = {
    "vir03_1c_8g": NpuTemplate(3, 1, 0, 8192),
    "vir06_1c_16g": NpuTemplate(6, 1, 0, 16384),
    "vir12_3c_32g": NpuTemplate(12, 3, 0, 32768),
}

TEMPLATES: Final[Mapping[str, Mapping[str, NpuTemplate]]] = {
    "Ascend-310P": _OF_310P,
    "Ascend-310P3": _OF_310P,
    "Ascend-910": {
        "vir02": NpuTemplate(2, 1, 0, 2048),
        "vir04": NpuTemplate(4, 1, 0, 4096),
        "vir08": NpuTemplate(8, 3, 0, 8192),
        "vir16": NpuTemplate(16, 7, 0, 16384),
    },
    "Ascend-910B1": _OF_910B2,
    "Ascend-910B2": _OF_910B2,
    "Ascend-910B2C": _OF_910B2,
    "Ascend-910B3": {
        "vir05_1c_16g": NpuTemplate(5, 1, 0, 16384),
        "vir10_3c_32g": NpuTemplate(10, 3, 0, 32768),
    },
    "Ascend-910B4": {
        "vir05_1c_8g": NpuTemplate(5, 1, 25, 8192),
        "vir10_3c_16g": NpuTemplate(10, 3, 50, 16384),
        "vir10_3c_16g_nm": NpuTemplate(10, 3, 0, 16384),
        "vir10_4c_16g_m": NpuTemplate(10, 4, 100, 16384),
    },
}
"""Koordinator's templates by the label of the model."""

MODELS: Final[Mapping[str, str]] = {
    "Ascend310P": "Ascend-310P3",
    "Ascend910A": "Ascend-910",
    "Ascend910B2": "Ascend-910B2",
    "Ascend910B3": "Ascend-910B3",
    "Ascend910B4": "Ascend-910B4",
}
"""What Koordinator calls HAMi's chips. HAMi has no name for Ascend-910B1 and Ascend-910B2C."""


def known_models(word: str) -> frozenset[str]:
    """The models of nodes on which HAMi's chip of that name is asked for."""
    return frozenset({MODELS[word], "Ascend-310P"} if word == "Ascend310P" else {MODELS[word]})
