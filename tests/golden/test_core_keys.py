"""Names of annotations, resources and settings as HAMi's tables have them."""

from collections.abc import Mapping
from typing import Any

from hami_plugins.config.device_config import DeviceConfig, configured
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN, ascend, iluvatar
from hami_plugins.vendors.ascend import CHIPS
from tests.golden import cases, wire_keys

_OF_PLUGIN = "a setting of HAMi's node agent: what it does shows in the node's register, which is all that a plan reads"
_OF_BIND = "written by HAMi's bind; a plan ends with what filter writes"

DEVIATIONS = {
    **dict.fromkeys(
        (
            "config-nvidia-devicesplitcount",
            "config-nvidia-devicememoryscaling",
            "config-nvidia-devicecorescaling",
            "config-nvidia-preconfigureddevicememory",
            "config-nvidia-enablenumatopology",
            "config-nvidia-libcudaloglevel",
        ),
        _OF_PLUGIN,
    ),
    "annos-pod-03": _OF_BIND,
    "annos-pod-04": _OF_BIND,
    "annos-pod-19": "tells HAMi's own leader from its followers; no process of ours reads it",
}

BY_NAME: Mapping[str, VendorSpec] = {spec.name: spec for spec in BUILTIN}


@cases.each("hami-core/keys.yaml")
def test_vendor_has_the_keys_of_its_vector(case: cases.Case) -> None:
    """A row with ``<cw>`` in it holds for every model of the family."""
    word = case.given["vendor_key"]
    families = {"Ascend": ascend.SPECS, "Iluvatar": iluvatar.SPECS}
    for spec in families[case.given["family"]] if word == "<cw>" else (BY_NAME[word],):
        expected = {what: key and key.replace("<cw>", spec.name) for what, key in case.expect.items()}
        found = {
            what: getattr(spec.keys, what) or None for what in ("handshake", "register", "to_allocate", "allocated")
        }
        assert found == {what: expected[what] for what in found}


_VENDORS: Mapping[str, tuple[VendorSpec, ...]] = {
    "Kunlun full card": (BY_NAME["kunlun"],),
    "Kunlun": (BY_NAME["kunlun"], BY_NAME["XPU"]),
    "Kunlun XPU": (BY_NAME["XPU"], BY_NAME["kunlun"]),
    "Neuron": (BY_NAME["AWSNeuron"],),
    "AWS Neuron": (BY_NAME["AWSNeuron"],),
    "Cambricon": (BY_NAME["MLU"],),
    "Hygon": (BY_NAME["DCU"],),
    "Metax": (BY_NAME["Metax-SGPU"],),
    "Ascend": ascend.SPECS,
    "Iluvatar": iluvatar.SPECS,
}


@cases.each("hami-core/vendor-extra-keys.yaml")
def test_vendor_has_the_further_keys_of_its_vector(case: cases.Case) -> None:
    name = case.given["vendor"]
    for spec in _VENDORS.get(name) or (BY_NAME[name],):
        assert {key.replace("<cw>", spec.name) for key in case.expect["keys"]} <= set(spec.keys.all())


@cases.each("hami-core/annotations.yaml")
def test_annotation_of_its_vector_is_known(case: cases.Case) -> None:
    key = case.given["key"]
    known = wire_keys.all_keys()
    if case.id in DEVIATIONS:
        assert key not in known
    elif key.endswith("…"):
        assert any(each.startswith(key[:-1]) for each in known)
    else:
        assert key in known


_CHIP = {"commonWord": "Ascend910B3", "memoryAllocatable": 65536, "memoryCapacity": 65536}


@cases.each("hami-core/config-defaults.yaml")
def test_setting_has_the_default_of_its_vector(case: cases.Case) -> None:
    """A section without the setting means the same as one with HAMi's default."""
    section, key, default = case.given["section"], case.given["key"], case.expect["default"]
    others = {"configs": [_CHIP]} if section == "vnpus" else {}
    without, with_default, with_another = (
        configured(BUILTIN, DeviceConfig.model_validate({section: {**others, **said}}))
        for said in ({}, {key: default}, {key: _another(default)})
    )
    if key == "gpuCorePolicy":
        assert {spec.options.core_policy for spec in (*without, *with_default)} == {"", default}
        return
    assert [_shown(spec) for spec in without] == [_shown(spec) for spec in with_default]
    matters = [_shown(spec) for spec in with_another] != [_shown(spec) for spec in without]
    assert matters is (case.id not in DEVIATIONS)


def _shown(spec: VendorSpec) -> tuple[object, ...]:
    return spec.name, spec.resources, spec.options, spec.ignored_by_scheduler


def _another(default: Any) -> Any:
    """A value of the same kind that is not the default."""
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else f"other.example/{default.rpartition('/')[2]}"


@cases.each("hami-core/ascend-templates.yaml")
def test_chip_has_the_table_of_its_vector(case: cases.Case) -> None:
    chip = next(chip for chip in CHIPS if chip.word == case.given["commonWord"])
    assert chip.driver_name == case.given["chipName"]
    assert {
        "memoryAllocatable": chip.card.usable,
        "memoryCapacity": chip.card.capacity,
        "aiCore": chip.ai_cores,
        "aiCPU": chip.ai_cpus or None,
        "templates": [
            {"name": name, "memory": memory, "aiCore": cores, "aiCPU": cpus or None}
            for name, memory, cores, cpus in chip.card.templates
        ],
        "resourceNames": list(BY_NAME[chip.word].resources.all()),
    } == case.expect
