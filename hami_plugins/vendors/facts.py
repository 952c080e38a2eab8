"""What is known about the devices of the built-in vendors, each statement with its source.

Sources: the code of the schedulers, and the pages of HAMi's website as of 2026-08-21 (a path below ``docs/`` of
``Project-HAMi/website``). Where code and page disagree, the code counts, and the words say what the page says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hami_plugins.model.facts import Fact, Feature, Support, VendorFacts

_YES, _NO, _WHOLE = Support.YES, Support.NO, Support.WHOLE

_DEVICES: Final = "HAMi website docs/userguide/device-supported"
_FAQ: Final = "HAMi website docs/faq/faq"
_CHART: Final = "HAMi 2.10.0 charts/hami/values.yaml"


def _code(path: str) -> str:
    return f"HAMi 2.10.0 pkg/device/{path}"


def _page(path: str) -> str:
    return f"HAMi website docs/userguide/{path}"


def _enabled(name: str, *, by_default: bool) -> Fact:
    words = f"chart hami, value devices.{name}.enabled ({'true' if by_default else 'false'} by default)"
    return Fact(words, _CHART)


_NVIDIA_RUNTIME: Final = Feature(
    _YES,
    "the NVIDIA container runtime, as the node's default, or by the RuntimeClass of devicePlugin.runtimeClassName",
    f"HAMi website docs/installation/prerequisites; {_CHART}",
)

_NVIDIA_CODE: Final = _code("nvidia/device.go")
_HAMI_CORE: Final = Feature(
    _YES,
    "HAMi-core in the container; in mode mig the instance, in hardware",
    f"{_DEVICES}; HAMi website docs/developers/hami-core-design; {_page('nvidia-device/dynamic-mig-support')}",
)
NVIDIA: Final = VendorFacts(
    code=_NVIDIA_CODE,
    models=Fact("all", _DEVICES),
    memory=_HAMI_CORE,
    cores=_HAMI_CORE,
    numa=Feature(_YES, 'annotation nvidia.com/numa-bind: "true"', _NVIDIA_CODE),
    topology=Feature(
        _YES, "hami.io/gpu-scheduler-policy: topology-aware, by the link scores that the plugin writes", _NVIDIA_CODE
    ),
    runtime_class=_NVIDIA_RUNTIME,
    plugin=Fact("HAMi's NVIDIA device plugin", _CHART),
    chart=Fact("chart hami", _CHART),
    node_label=Fact("gpu=on", "HAMi website docs/installation/prerequisites"),
)

_VOLCANO_PAGE: Final = _page("volcano-vgpu/nvidia-gpu/how-to-use-volcano-vgpu")
_VOLCANO_CODE: Final = "Volcano 1.14.1 pkg/scheduler/api/devices/nvidia/vgpu"
VOLCANO: Final = VendorFacts(
    code=_VOLCANO_CODE,
    models=Fact("NVIDIA cards; no list of models", _VOLCANO_PAGE),
    memory=_HAMI_CORE,
    cores=_HAMI_CORE,
    numa=Feature(_NO, "", _VOLCANO_CODE),
    topology=Feature(_NO, "cards are chosen by load alone", _VOLCANO_CODE),
    runtime_class=Feature(_YES, "the NVIDIA container runtime, as the node's default, or by RuntimeClass", _FAQ),
    plugin=Fact("volcano-vgpu-device-plugin, or the agent of volcano-vgpu", _VOLCANO_PAGE),
    chart=Fact("manifest of volcano-vgpu-device-plugin, or chart volcano-vgpu", _VOLCANO_PAGE),
)

_KOORDINATOR_CODE: Final = "Koordinator 1.7.0 pkg/scheduler/plugins/deviceshare"
_KOORDINATOR_HINT: Final = "labels of cards in the hint scheduling.koordinator.sh/device-allocate-hint"
KOORDINATOR: Final = VendorFacts(
    code=_KOORDINATOR_CODE,
    memory=Feature(
        _YES,
        "HAMi-core, where node and pod have the label koordinator.sh/gpu-isolation-provider: HAMi-core; else not",
        f"{_KOORDINATOR_CODE}; Koordinator 1.7.0 pkg/koordlet/runtimehooks/hooks/gpu",
    ),
    cores=Feature(
        _YES,
        "HAMi-core, where node and pod have the label koordinator.sh/gpu-isolation-provider: HAMi-core; else not",
        f"{_KOORDINATOR_CODE}; Koordinator 1.7.0 pkg/koordlet/runtimehooks/hooks/gpu",
    ),
    ids=Feature(_YES, _KOORDINATOR_HINT, _KOORDINATOR_CODE),
    model_filter=Feature(_YES, _KOORDINATOR_HINT, _KOORDINATOR_CODE),
    numa=Feature(_YES, 'requiredTopologyScope "NUMANode" in the hint', _KOORDINATOR_CODE),
    topology=Feature(
        _YES, "by PCIe switch, where every card publishes its place; not looked at by this product", _KOORDINATOR_CODE
    ),
    runtime_class=Feature(_YES, "the NVIDIA container runtime, as the node's default, or by RuntimeClass", _FAQ),
    plugin=Fact("koordlet", "Koordinator 1.7.0 pkg/koordlet/statesinformer/impl/states_device_linux.go"),
    chart=Fact("chart koordinator", "Koordinator 1.7.0"),
    node_label=Fact(
        "koordinator.sh/gpu-isolation-provider=HAMi-core, for shared cards", f"{_KOORDINATOR_CODE}; {_FAQ}"
    ),
)

_MLU_PAGE: Final = _page("cambricon-device/enable-cambricon-mlu-sharing")
_MLU_CODE: Final = _code("cambricon/device.go")
MLU: Final = VendorFacts(
    code=_MLU_CODE,
    models=Fact("370, 590", _DEVICES),
    memory=Feature(_YES, "dynamic sMLU of the card", _MLU_PAGE),
    cores=Feature(_YES, "dynamic sMLU of the card", _MLU_PAGE),
    model_filter=Feature(_NO, "pages name cambricon.com/use-mlutype and nouse-mlutype; no code reads them", _MLU_CODE),
    numa=Feature(_NO, "", _MLU_CODE),
    topology=Feature(_NO, "", _MLU_CODE),
    runtime_class=Feature(_NO, "the device plugin mounts the devices itself", _FAQ),
    plugin=Fact("Cambricon's device plugin, with mode=dynamic-smlu and min-dsmlu-unit=256", _MLU_PAGE),
    chart=Fact("Cambricon's manifest", _MLU_PAGE),
)

_DCU_PAGE: Final = _page("hygon-device/enable-hygon-dcu-sharing")
_DCU_CODE: Final = _code("hygon/device.go")
DCU: Final = VendorFacts(
    code=_DCU_CODE,
    models=Fact("all (an earlier FAQ: Z100, Z100L, K100-AI)", f"{_DEVICES}; HAMi's FAQ of 2025"),
    memory=Feature(_YES, "virtual DCU, on certain models such as Z100", _DCU_PAGE),
    cores=Feature(_YES, "virtual DCU", _DCU_PAGE),
    numa=Feature(_NO, "", _DCU_CODE),
    topology=Feature(_NO, "", _DCU_CODE),
    runtime_class=Feature(_NO, "the device plugin mounts the devices itself", _FAQ),
    plugin=Fact("dcu-vgpu-device-plugin", _DCU_PAGE),
    chart=Fact("manifest of dcu-vgpu-device-plugin", _DCU_PAGE),
)

_GCU_PAGE: Final = _page("enflame-device/enable-enflame-gcu-sharing")
_GCU_CODE: Final = _code("enflame/gcu.go")
_DRS_CODE: Final = _code("enflame/device.go")
_GCU_RUNTIME: Final = Feature(
    Support.UNKNOWN, "the page asks for enflame-container-toolkit, and names no RuntimeClass", _GCU_PAGE
)
GCU: Final = VendorFacts(
    code=_GCU_CODE,
    models=Fact("S60", _DEVICES),
    memory=Feature(_WHOLE, "", _GCU_CODE),
    cores=Feature(_WHOLE, "", _GCU_CODE),
    numa=Feature(_NO, "", _GCU_CODE),
    topology=Feature(_NO, "", _GCU_CODE),
    runtime_class=_GCU_RUNTIME,
    chart=_enabled("enflame", by_default=True),
)
DRS: Final = replace(
    GCU,
    code=_DRS_CODE,
    memory=Feature(_YES, "hardware slices (DRS) of the card", _GCU_PAGE),
    cores=Feature(_YES, "hardware slices (DRS) of the card", _GCU_PAGE),
    numa=Feature(_NO, "", _DRS_CODE),
    topology=Feature(_NO, "one slice of one card", _DRS_CODE),
    plugin=Fact("Enflame's gcushare-device-plugin from 2.2.14 on, without its scheduler plugin", _GCU_PAGE),
)

_MTHREADS_PAGE: Final = _page("mthreads-device/enable-mthreads-gpu-sharing")
_MTHREADS_CODE: Final = _code("mthreads/device.go")
MTHREADS: Final = VendorFacts(
    code=_MTHREADS_CODE,
    models=Fact("MTT S4000", _DEVICES),
    memory=Feature(_YES, "hard limits, on certain models such as MTT S4000", _MTHREADS_PAGE),
    cores=Feature(_YES, "hard limits, on certain models such as MTT S4000", _MTHREADS_PAGE),
    numa=Feature(_NO, "", _MTHREADS_CODE),
    topology=Feature(_NO, "", _MTHREADS_CODE),
    plugin=Fact("MT CloudNative Toolkits newer than 1.9.0", _MTHREADS_PAGE),
    chart=_enabled("mthreads", by_default=True),
)

_METAX_PAGE: Final = _page("metax-device/metax-gpu/enable-metax-gpu-schedule")
_METAX_CODE: Final = _code("metax/device.go")
METAX: Final = VendorFacts(
    code=_METAX_CODE,
    models=Fact("MXC500", _METAX_PAGE),
    memory=Feature(_WHOLE, "", _METAX_PAGE),
    cores=Feature(_WHOLE, "", _METAX_PAGE),
    numa=Feature(_NO, "", _METAX_CODE),
    topology=Feature(_YES, "losses and scores of MetaXLink and PCIe switches that nodes publish", _METAX_PAGE),
    plugin=Fact("MetaX GPU Extensions from 0.8.0 on", _METAX_PAGE),
    chart=Fact("MetaX's package", _METAX_PAGE),
)
_SGPU_PAGE: Final = _page("metax-device/metax-sgpu/enable-metax-gpu-sharing")
_SGPU_CODE: Final = _code("metax/sdevice.go")
SGPU: Final = VendorFacts(
    code=_SGPU_CODE,
    models=Fact("MXC500", _DEVICES),
    memory=Feature(_YES, "hard limits of the sGPU", _SGPU_PAGE),
    cores=Feature(_YES, "hard limits of the sGPU; none for pods of class online", f"{_SGPU_PAGE}; {_SGPU_CODE}"),
    numa=Feature(_NO, "", _SGPU_CODE),
    topology=Feature(_YES, "MetaXLink zones, with metax-tech.com/sgpu-topology-aware", _SGPU_CODE),
    plugin=Fact("MetaX GPU Operator from 0.10.2 on", _SGPU_PAGE),
    chart=Fact("MetaX's package", _SGPU_PAGE),
)

_XPU_PAGE: Final = _page("kunlunxin-device/enable-kunlunxin-schedule")
_XPU_CODE: Final = _code("kunlun/device.go")
XPU: Final = VendorFacts(
    code=_XPU_CODE,
    models=Fact("P800", _XPU_PAGE),
    memory=Feature(_WHOLE, "", _XPU_PAGE),
    cores=Feature(_WHOLE, "", _XPU_PAGE),
    numa=Feature(_YES, "always: 1, 2 or 4 cards of one half of the machine come first", _XPU_PAGE),
    topology=Feature(_YES, "sets of 1, 2, 4 or 8 linked cards", _XPU_CODE),
    plugin=Fact("Kunlunxin's device plugin", _XPU_PAGE),
    chart=_enabled("kunlun", by_default=True),
)
_VXPU_PAGE: Final = _page("kunlunxin-device/enable-kunlunxin-vxpu")
_VXPU_CODE: Final = _code("kunlun/vdevice.go")
VXPU: Final = replace(
    XPU,
    code=_VXPU_CODE,
    models=Fact("P800-OAM", _VXPU_PAGE),
    memory=Feature(_YES, "slices of a quarter or half of the card", _VXPU_PAGE),
    cores=Feature(Support.UNKNOWN, "they follow the memory; the page speaks of memory alone", _VXPU_PAGE),
    topology=Feature(_YES, "sets of 1, 2, 4 or 8 linked cards", _VXPU_CODE),
    runtime_class=Feature(
        Support.UNKNOWN, "the page asks for xpu-container-toolkit, and names no RuntimeClass", _VXPU_PAGE
    ),
    plugin=Fact("vxpu-device-plugin (projecthami/vxpu-device-plugin)", _VXPU_PAGE),
    chart=Fact("manifest of vxpu-device-plugin", _VXPU_PAGE),
    node_label=Fact("xpu=on", _VXPU_PAGE),
)

_NEURON_PAGE: Final = _page("awsneuron-device/enable-awsneuron-managing")
_NEURON_CODE: Final = _code("awsneuron/device.go")
NEURON: Final = VendorFacts(
    code=_NEURON_CODE,
    models=Fact("Inferentia and Trainium: EC2 instances Inf and Trn", _NEURON_PAGE),
    memory=Feature(_YES, "the driver, while tasks run; neuron-ls shows all memory of the device", _NEURON_PAGE),
    cores=Feature(_YES, "whole cores, by AWS_NEURON_IDS", _NEURON_CODE),
    numa=Feature(_NO, "", _NEURON_CODE),
    topology=Feature(_YES, "sets of devices that are linked", _NEURON_PAGE),
    plugin=Fact("AWS's Neuron device plugin", _NEURON_PAGE),
    chart=Fact("AWS's Neuron Helm chart", "AWS Neuron documentation deploy/eks/helm-chart.rst"),
)

_AMD_PAGE: Final = _page("amd-device/enable-amd-gpu-sharing")
_AMD_CODE: Final = _code("amd/device.go")
AMD: Final = VendorFacts(
    code=_AMD_CODE,
    models=Fact("Instinct, with ROCm", _DEVICES),
    memory=Feature(_YES, "libamvgpu.so in the container, by LD_AUDIT; it needs glibc 2.34", _AMD_PAGE),
    cores=Feature(_YES, "ranges of compute units, by HSA_CU_MASK", f"{_DEVICES}; HAMi 2.10.0 docs/develop/amd-vgpu"),
    numa=Feature(_NO, "", _AMD_CODE),
    topology=Feature(_NO, "", _AMD_CODE),
    plugin=Fact("amd-device-plugin of Project-HAMi, not ROCm's", _AMD_PAGE),
    chart=Fact("chart amd-gpu of amd-device-plugin", _AMD_PAGE),
)

_VASTAI_PAGE: Final = _page("vastai/enable-vastai-sharing")
_VASTAI_CODE: Final = _code("vastai/device.go")
VASTAI: Final = VendorFacts(
    code=_VASTAI_CODE,
    models=Fact("VA16", _DEVICES),
    memory=Feature(_WHOLE, "cards or dies", _VASTAI_PAGE),
    cores=Feature(_WHOLE, "cards or dies", _VASTAI_PAGE),
    numa=Feature(_NO, "", _VASTAI_CODE),
    topology=Feature(_YES, "in die mode, dies of one card come first", _VASTAI_PAGE),
    plugin=Fact("vastai-device-plugin (projecthami/vastai-device-plugin)", _VASTAI_PAGE),
    chart=Fact("manifest of vastai-device-plugin", _VASTAI_PAGE),
    node_label=Fact("vastai=on", _VASTAI_PAGE),
)

_BIREN_PAGE: Final = _page("biren-device/enable-biren-sharing")
_BIREN_CODE: Final = _code("biren/device.go")
BIREN: Final = VendorFacts(
    code=_BIREN_CODE,
    models=Fact("Biren166M", _DEVICES),
    memory=Feature(_WHOLE, "cards, or SVI partitions that the plugin registers as cards", _BIREN_PAGE),
    cores=Feature(_WHOLE, "cards, or SVI partitions that the plugin registers as cards", _BIREN_PAGE),
    numa=Feature(_NO, "", _BIREN_CODE),
    topology=Feature(_NO, "", _BIREN_CODE),
    plugin=Fact("biren-device-plugin (projecthami/biren-device-plugin)", _BIREN_PAGE),
    chart=Fact("manifest of biren-device-plugin", _BIREN_PAGE),
    node_label=Fact("biren=on", _BIREN_PAGE),
)

_ASCEND_PAGE: Final = _page("ascend-device/enable-ascend-sharing")
_ASCEND_CODE: Final = _code("ascend/device.go")


def ascend(chip: str) -> VendorFacts:
    """One chip of Ascend, by HAMi's word for it, such as ``Ascend910B3``."""
    rings = chip.startswith("Ascend910")
    words = "pairs of dies" if chip == "Ascend910C" else "rings of four cards (HCCS)"
    return VendorFacts(
        code=_ASCEND_CODE,
        models=Fact(chip, "vnpus.configs of HAMi's device config"),
        memory=Feature(_YES, "the vNPU template; in mode hami-core its library", _ASCEND_PAGE),
        cores=Feature(_YES, "the vNPU template; in mode hami-core its limiter", f"{_DEVICES}; {_ASCEND_PAGE}"),
        numa=Feature(_NO, "", _ASCEND_CODE),
        topology=Feature(_YES, words, _ASCEND_CODE) if rings else Feature(_NO, "", _ASCEND_CODE),
        runtime_class=Feature(
            _YES,
            "Ascend Docker Runtime, as the node's default, or by the RuntimeClass of devices.ascend.runtimeClassName",
            f"{_ASCEND_PAGE}; {_FAQ}",
        ),
        plugin=Fact("ascend-device-plugin", _ASCEND_PAGE),
        chart=_enabled("ascend", by_default=False),
        node_label=Fact("ascend=on", _ASCEND_PAGE),
    )


_ILUVATAR_PAGE: Final = _page("iluvatar-device/enable-iluvatar-gpu-sharing")
_ILUVATAR_CODE: Final = _code("iluvatar/device.go")


def iluvatar(model: str) -> VendorFacts:
    """One model of Iluvatar, such as ``BI-V150``."""
    return VendorFacts(
        code=_ILUVATAR_CODE,
        models=Fact(model, f"iluvatars of HAMi's device config; {_ILUVATAR_PAGE}"),
        memory=Feature(_YES, "hard limits", _ILUVATAR_PAGE),
        cores=Feature(_YES, "hard limits", _ILUVATAR_PAGE),
        numa=Feature(_NO, "", _ILUVATAR_CODE),
        topology=Feature(_NO, "", _ILUVATAR_CODE),
        plugin=Fact("Iluvatar's gpu-manager, without gpu-admission", _ILUVATAR_PAGE),
        chart=_enabled("iluvatar", by_default=False),
    )
