"""HAMi's ``device-config.yaml``, as an operator already has it: its sections applied to the built-in vendors.

Keys that HAMi reads and a plan does not need are accepted and left alone, unknown ones are ignored as HAMi ignores
them; a known key with a value of the wrong kind stops the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hami_plugins.engine.templates import CutCard, Template
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB
from hami_plugins.model.vendor import Dialect, ResourceNames, VendorOptions, VendorSpec
from hami_plugins.vendors import ascend, iluvatar

Amount = Annotated[int, Field(ge=0, le=INT32_MAX)]


class Section(BaseModel):
    """A section of HAMi's file: camel-case keys, unknown ones ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class Names(Section):
    """The resource names of a vendor; empty keeps the built-in name."""

    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_memory_percentage_name: str = ""
    resource_core_name: str = ""
    resource_priority_name: str = ""


class NvidiaSection(Names):
    """NVIDIA's section, with the older words of HAMi's chart for the defaults."""

    default_memory: Amount = Field(0, validation_alias=AliasChoices("defaultMemory", "defaultMem"))
    default_cores: Annotated[int, Field(ge=0, le=100)] = 0
    default_gpu_num: Amount = Field(1, validation_alias=AliasChoices("defaultGPUNum", "defaultGpuNum"))
    memory_factor: Annotated[int, Field(ge=1)] = 1
    overwrite_env: bool = False
    gpu_core_policy: str = ""
    runtime_class_name: str = ""


class HygonSection(Names):
    """Hygon's section."""

    memory_factor: Annotated[int, Field(ge=1)] = 1


class MetaxSection(Names):
    """MetaX's section: whole cards and shared ones."""

    resource_v_count_name: str = Field("", alias="resourceVCountName")
    resource_v_memory_name: str = Field("", alias="resourceVMemoryName")
    resource_v_core_name: str = Field("", alias="resourceVCoreName")
    sgpu_topology_aware: bool = False


class KunlunSection(Names):
    """Kunlun's section: whole cards and slices."""

    resource_v_count_name: str = Field("", alias="resourceVCountName")
    resource_v_memory_name: str = Field("", alias="resourceVMemoryName")


class EnflameSection(Section):
    """Enflame's section: whole cards and DRS slices."""

    resource_name_gcu: str = Field("", alias="resourceNameGCU")
    resource_name_drs_gcu: str = Field("", alias="resourceNameDRSGCU")
    resource_name_gcu_memory: str = Field("", alias="resourceNameGCUMemory")
    resource_name_gcu_core: str = Field("", alias="resourceNameGCUCore")


class ChipSection(Names):
    """One Iluvatar model."""

    chip_name: str = ""
    common_word: str


class TemplateSection(Section):
    """One vNPU template of an Ascend chip; memory in MiB."""

    name: str
    memory: Amount
    ai_core: Amount = 0
    ai_cpu: Amount = Field(0, alias="aiCPU")


class NpuSection(Section):
    """One Ascend chip; memory in MiB."""

    chip_name: str = ""
    common_word: str
    resource_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""
    memory_allocatable: Amount
    memory_capacity: Amount
    memory_factor: Amount = 1
    ai_core: Amount = 0
    ai_cpu: Amount = Field(0, alias="aiCPU")
    super_pod: bool = False
    runtime_class_name: str = ""
    overwrite_env: bool = False
    templates: tuple[TemplateSection, ...] = ()


class NpusSection(Section):
    """All Ascend chips."""

    hami_vnpu_core: bool = False
    configs: tuple[NpuSection, ...] = ()


class DeviceConfig(Section):
    """The whole file. A section that is missing leaves its vendor as it is built in."""

    nvidia: NvidiaSection | None = None
    cambricon: Names | None = None
    hygon: HygonSection | None = None
    metax: MetaxSection | None = None
    enflame: EnflameSection | None = None
    mthreads: Names | None = None
    kunlun: KunlunSection | None = None
    awsneuron: Names | None = None
    amd: Names | None = None
    vastai: Names | None = None
    biren: Names | None = None
    iluvatars: tuple[ChipSection, ...] | None = None
    vnpus: NpusSection | None = None


_PLAIN: Final = {
    "MLU": "cambricon",
    "DCU": "hygon",
    "Mthreads": "mthreads",
    "Metax-GPU": "metax",
    "kunlun": "kunlun",
    "AWSNeuron": "awsneuron",
    "AMD": "amd",
    "Vastai": "vastai",
    "Biren": "biren",
    "NVIDIA": "nvidia",
}
"""Vendors whose section names count, memory and cores in the usual keys."""


def configured(specs: Iterable[VendorSpec], config: DeviceConfig) -> tuple[VendorSpec, ...]:
    """The vendors as the file has them, in the order given; Ascend and Iluvatar are replaced by the file's lists."""
    listed = {*(spec.name for spec in ascend.SPECS), *(spec.name for spec in iluvatar.SPECS)}
    changed = [_configured(spec, config) for spec in specs if spec.name not in listed]
    npus = ascend.SPECS if config.vnpus is None else tuple(_npu(chip, config.vnpus) for chip in config.vnpus.configs)
    chips = (
        iluvatar.SPECS
        if config.iluvatars is None
        else tuple(_renamed(iluvatar.spec_of(chip.common_word), _names(chip)) for chip in config.iluvatars)
    )
    ours = [spec for spec in changed if spec.dialect is Dialect.HAMI]
    others = [spec for spec in changed if spec.dialect is not Dialect.HAMI]
    return (*ours, *npus, *chips, *others)


def _configured(spec: VendorSpec, config: DeviceConfig) -> VendorSpec:  # noqa: PLR0911 - one case a section
    section = getattr(config, _PLAIN.get(spec.name, ""), None)
    if isinstance(section, Names):
        spec = _renamed(spec, _names(section))
    match spec.name:
        case "NVIDIA" if config.nvidia is not None:
            return replace(spec, options=_nvidia_options(config.nvidia))
        case "DCU" if config.hygon is not None:
            return replace(spec, options=replace(spec.options, memory_factor=config.hygon.memory_factor))
        case "Metax-SGPU" if config.metax is not None:
            shared = config.metax
            flags = {**spec.options.flags, "sgpuTopologyAware": shared.sgpu_topology_aware}
            names = {
                "count": shared.resource_v_count_name,
                "memory": shared.resource_v_memory_name,
                "cores": shared.resource_v_core_name,
            }
            return _renamed(replace(spec, options=replace(spec.options, flags=flags)), names)
        case "XPU" if config.kunlun is not None:
            sliced = config.kunlun
            return _renamed(spec, {"count": sliced.resource_v_count_name, "memory": sliced.resource_v_memory_name})
        case "GCU" if config.enflame is not None:
            return _renamed(spec, {"count": config.enflame.resource_name_gcu})
        case "Enflame" if config.enflame is not None:
            drs = config.enflame
            names = {
                "count": drs.resource_name_drs_gcu,
                "memory": drs.resource_name_gcu_memory,
                "cores": drs.resource_name_gcu_core,
            }
            return _renamed(spec, names)
        case _:
            return spec


def _nvidia_options(section: NvidiaSection) -> VendorOptions:
    return VendorOptions(
        default_count=section.default_gpu_num,
        default_memory=MiB(section.default_memory),
        default_cores=CoreShare(section.default_cores),
        memory_factor=section.memory_factor,
        overwrite_env=section.overwrite_env,
        core_policy=section.gpu_core_policy,
        runtime_class=section.runtime_class_name,
    )


def _npu(section: NpuSection, npus: NpusSection) -> VendorSpec:
    cuts = [Template(each.name, MiB(each.memory), each.ai_core, each.ai_cpu) for each in section.templates]
    spec = ascend.spec_of(
        ascend.Chip(
            word=section.common_word,
            driver_name=section.chip_name,
            card=CutCard.of(section.memory_allocatable, section.memory_capacity, cuts),
            ai_cores=section.ai_core,
            ai_cpus=section.ai_cpu,
            super_pod=section.super_pod,
            options=VendorOptions(
                memory_factor=max(section.memory_factor, 1),
                overwrite_env=section.overwrite_env,
                runtime_class=section.runtime_class_name,
                flags={ascend.SOFT_FLAG: npus.hami_vnpu_core},
            ),
        )
    )
    names = {
        "count": section.resource_name,
        "memory": section.resource_memory_name,
        "cores": section.resource_core_name,
    }
    return _renamed(spec, names)


def _names(section: Names) -> Mapping[str, str]:
    return {
        "count": section.resource_count_name,
        "memory": section.resource_memory_name,
        "memory_percentage": section.resource_memory_percentage_name,
        "cores": section.resource_core_name,
        "priority": section.resource_priority_name,
    }


def _renamed(spec: VendorSpec, names: Mapping[str, str]) -> VendorSpec:
    """The vendor under other resource names; an empty name keeps the one it has."""
    before = spec.resources
    given: dict[str, Any] = {key: name for key, name in names.items() if name}
    after: ResourceNames = replace(before, **given)
    renamed = dict(zip(before.all(), after.all(), strict=False)) if len(before.all()) == len(after.all()) else {}
    counted = tuple(renamed.get(name, name) for name in spec.counted_by_scheduler)
    return replace(spec, resources=after, counted_by_scheduler=counted)
