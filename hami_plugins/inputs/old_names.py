"""Resource names that older releases or documents of HAMi and of vendors use, and what to write today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Outdated(NamedTuple):
    """A name that documents or older releases use and nothing reads any more, and what to write today.

    ``successor`` is empty when there is no single one; then ``hint`` is the advice. ``why`` names the project that
    dropped the name.
    """

    successor: str
    hint: str = ""
    why: str = "no vendor reads this name"


RESOURCES: Final[Mapping[str, Outdated]] = {
    "amd.com/gpu-core-pct": Outdated("amd.com/gpucores"),
    "amd.com/gpu-cores": Outdated("amd.com/gpucores"),
    "amd.com/gpu-mem": Outdated("amd.com/gpumem"),
    "amd.com/gpu-memory": Outdated("amd.com/gpumem"),
    "aws.amazon.com/neurondevice": Outdated("aws.amazon.com/neuron", why="AWS's plugin no longer offers this name"),
    "cambricon.com/mlu.vcore": Outdated("cambricon.com/mlu.smlu.vcore"),
    "cambricon.com/mlu.vmemory": Outdated("cambricon.com/mlu.smlu.vmemory"),
    "cambricon.com/mlu370.smlu.vcore": Outdated("cambricon.com/mlu.smlu.vcore"),
    "cambricon.com/mlu370.smlu.vmemory": Outdated("cambricon.com/mlu.smlu.vmemory"),
    "cambricon.com/mlu590.smlu.vcore": Outdated("cambricon.com/mlu.smlu.vcore"),
    "cambricon.com/mlu590.smlu.vmemory": Outdated("cambricon.com/mlu.smlu.vmemory"),
    "enflame.com/vgcu": Outdated(
        "",
        "ask for enflame.com/drs-gcu (slices), or for enflame.com/gcu-memory and gcu-core; where resourceNameVGCU of "
        "HAMi's device config is this name, give that file with --settings",
        why="HAMi reads this name only where its device config has it",
    ),
    "enflame.com/vgcu-percentage": Outdated("", "ask for enflame.com/gcu-core, a percentage of one card"),
    "huawei.com/Ascend910B": Outdated(
        "", "name the chip: huawei.com/Ascend910B2, Ascend910B3, Ascend910B4 or Ascend910B4-1"
    ),
    "huawei.com/Ascend910B-memory": Outdated(
        "",
        "name the chip: huawei.com/Ascend910B2-memory, Ascend910B3-memory, Ascend910B4-memory or Ascend910B4-1-memory",
    ),
    "nvidia.com/cores": Outdated("nvidia.com/gpucores"),
    "nvidia.com/mem": Outdated("nvidia.com/gpumem"),
    "nvidia.com/vgpu": Outdated("nvidia.com/gpu"),
}
"""Source: HAMi's own examples and documents of older releases."""


def remark(resource: str) -> str:
    """The replacement for a name that is no longer read, as the end of a sentence about it; else empty."""
    old = RESOURCES.get(resource)
    if old is None:
        return ""
    return f" ({old.why}; {f'write {old.successor}' if old.successor else old.hint})"
