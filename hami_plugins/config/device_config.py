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

from hami_plugins.engine.templates import CutCard, SliceTemplate
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB
from hami_plugins.model.vendor import VendorOptions, VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors import ascend, iluvatar

Amount = Annotated[int, Field(ge=0, le=INT32_MAX)]


class DeviceConfigSection(BaseModel):
    """A section of HAMi's file: camel-case keys, unknown ones ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class NamesSection(DeviceConfigSection):
    """The resource names of a vendor; empty keeps the built-in name."""

    resource_count_name: str = Field("", description="Resource for a number of devices; empty keeps the built-in name.")
    resource_memory_name: str = Field("", description="Resource for memory; empty keeps the built-in name.")
    resource_memory_percentage_name: str = Field(
        "",
        description="Resource for a percentage of memory; empty keeps the built-in name.",
    )
    resource_core_name: str = Field("", description="Resource for cores; empty keeps the built-in name.")
    resource_priority_name: str = Field("", description="Resource for a priority; empty keeps the built-in name.")


class NvidiaSection(NamesSection):
    """NVIDIA's section, with the older words of HAMi's chart for the defaults."""

    default_memory: Amount = Field(
        0,
        validation_alias=AliasChoices("defaultMemory", "defaultMem"),
        description="Memory in MiB of a request that names none; 0 for the whole card.",
    )
    default_cores: Annotated[int, Field(ge=0, le=100)] = Field(
        0,
        description="Cores in % of a request that names none.",
    )
    default_gpu_num: Amount = Field(
        1,
        validation_alias=AliasChoices("defaultGPUNum", "defaultGpuNum"),
        description="Number of cards of a request that names none.",
    )
    memory_factor: Annotated[int, Field(ge=1)] = Field(1, description="MiB in one unit of the memory resource.")
    overwrite_env: bool = Field(
        False,
        description="Whether `NVIDIA_VISIBLE_DEVICES` is set to `none` in containers without a request.",
    )
    gpu_core_policy: str = Field("", description="`GPU_CORE_UTILIZATION_POLICY` of containers.")
    runtime_class_name: str = Field("", description="`runtimeClassName` that the webhook sets.")


class HygonSection(NamesSection):
    """Hygon's section."""

    memory_factor: Annotated[int, Field(ge=1)] = Field(1, description="MiB in one unit of the memory resource.")


class MetaxSection(NamesSection):
    """MetaX's section: whole cards and shared ones."""

    resource_v_count_name: str = Field(
        "",
        alias="resourceVCountName",
        description="Resource for a number of shared cards.",
    )
    resource_v_memory_name: str = Field(
        "",
        alias="resourceVMemoryName",
        description="Resource for memory of shared cards.",
    )
    resource_v_core_name: str = Field("", alias="resourceVCoreName", description="Resource for cores of shared cards.")
    sgpu_topology_aware: bool = Field(False, description="Whether shared cards are chosen by their links.")


class KunlunSection(NamesSection):
    """Kunlun's section: whole cards and slices."""

    resource_v_count_name: str = Field("", alias="resourceVCountName", description="Resource for a number of slices.")
    resource_v_memory_name: str = Field("", alias="resourceVMemoryName", description="Resource for memory of slices.")


class EnflameSection(DeviceConfigSection):
    """Enflame's section: whole cards and DRS slices.

    ``resource_name_vgcu`` is the older word for DRS slices (HAMi 2.10.0 ``pkg/device/enflame/device.go``).
    """

    resource_name_gcu: str = Field("", alias="resourceNameGCU", description="Resource for whole cards.")
    resource_name_drs_gcu: str = Field("", alias="resourceNameDRSGCU", description="Resource for DRS slices.")
    resource_name_vgcu: str = Field(
        "",
        alias="resourceNameVGCU",
        description="Resource for DRS slices, where `resourceNameDRSGCU` is empty.",
    )
    resource_name_gcu_memory: str = Field(
        "",
        alias="resourceNameGCUMemory",
        description="Resource for memory of slices.",
    )
    resource_name_gcu_core: str = Field("", alias="resourceNameGCUCore", description="Resource for cores of slices.")


class ChipSection(NamesSection):
    """One Iluvatar model."""

    chip_name: str = Field("", description="Name of the model as the driver reports it.")
    common_word: str = Field(description="HAMi's name of the model.")


class TemplateSection(DeviceConfigSection):
    """One vNPU template of an Ascend chip; memory in MiB."""

    name: str = Field(description="Name of the template.")
    memory: Amount = Field(description="Memory of the template in MiB.")
    ai_core: Amount = Field(0, description="AI cores of the template.")
    ai_cpu: Amount = Field(0, alias="aiCPU", description="AI CPUs of the template.")


class NpuSection(DeviceConfigSection):
    """One Ascend chip; memory in MiB."""

    chip_name: str = Field("", description="Name of the chip as the driver reports it.")
    common_word: str = Field(description="HAMi's name of the chip.")
    resource_name: str = Field("", description="Resource for a number of devices.")
    resource_memory_name: str = Field("", description="Resource for memory.")
    resource_core_name: str = Field("", description="Resource for cores.")
    memory_allocatable: Amount = Field(description="Memory that can be allocated, in MiB.")
    memory_capacity: Amount = Field(description="Memory of the chip in MiB.")
    memory_factor: Amount = Field(1, description="MiB in one unit of the memory resource.")
    ai_core: Amount = Field(0, description="AI cores of the chip.")
    ai_cpu: Amount = Field(0, alias="aiCPU", description="AI CPUs of the chip.")
    super_pod: bool = Field(False, description="Whether the chip is part of a SuperPoD.")
    runtime_class_name: str = Field("", description="`runtimeClassName` that the webhook sets.")
    overwrite_env: bool = Field(
        False,
        description="Whether `ASCEND_VISIBLE_DEVICES` is emptied in containers without a request.",
    )
    templates: tuple[TemplateSection, ...] = Field((), description="Templates (vNPU) of the chip.")


class NpusSection(DeviceConfigSection):
    """All Ascend chips."""

    hami_vnpu_core: bool = Field(False, description="Whether chips are shared by HAMi's vNPU core, in software.")
    configs: tuple[NpuSection, ...] | None = Field(None, description="Ascend chips; replaces the built-in list.")


class DeviceConfig(DeviceConfigSection):
    """The whole file. A section that is missing leaves its vendor as it is built in."""

    nvidia: NvidiaSection | None = None
    cambricon: NamesSection | None = None
    hygon: HygonSection | None = None
    metax: MetaxSection | None = None
    enflame: EnflameSection | None = None
    mthreads: NamesSection | None = None
    kunlun: KunlunSection | None = None
    awsneuron: NamesSection | None = None
    amd: NamesSection | None = None
    vastai: NamesSection | None = None
    biren: NamesSection | None = None
    iluvatars: tuple[ChipSection, ...] | None = Field(
        None, description="Models of Iluvatar; replaces the built-in list."
    )
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
    npus = ascend.SPECS if config.vnpus is None else _npus(config.vnpus)
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
    if isinstance(section, NamesSection):
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
                "count": drs.resource_name_drs_gcu or drs.resource_name_vgcu,
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


def _npus(section: NpusSection) -> tuple[VendorSpec, ...]:
    if section.configs is not None:
        return tuple(_npu(chip, section) for chip in section.configs)
    flags = {ascend.SOFT_FLAG: section.hami_vnpu_core}
    return tuple(
        replace(spec, options=replace(spec.options, flags={**spec.options.flags, **flags})) for spec in ascend.SPECS
    )


def _npu(section: NpuSection, npus: NpusSection) -> VendorSpec:
    cuts = [SliceTemplate(each.name, MiB(each.memory), each.ai_core, each.ai_cpu) for each in section.templates]
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


def _names(section: NamesSection) -> Mapping[str, str]:
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
