"""HAMi 2.10's whole ``device-config.yaml`` is taken as it is, and means what is built in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hami_plugins.config import hami_settings, settings
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import BUILTIN

FILE = Path(__file__).parent / "hami-device-config.yaml"


def in_a_config_map(text: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": {"device-config.yaml": text}})


def of_hami(specs: object) -> dict[str, VendorSpec]:
    return {spec.name: spec for spec in specs if spec.dialect is Dialect.HAMI}  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrapped", [False, True], ids=["file", "ConfigMap"])
def test_the_defaults_of_hamis_chart_are_the_built_in_vendors(wrapped: bool) -> None:
    text = FILE.read_text()
    found = of_hami(settings.parse(in_a_config_map(text) if wrapped else text).registry())
    built_in = of_hami(BUILTIN)
    assert list(found) == list(built_in)
    for name, spec in found.items():
        assert spec.resources == built_in[name].resources, name
        assert spec.keys == built_in[name].keys, name
        assert spec.counted_by_scheduler == built_in[name].counted_by_scheduler, name


def test_each_word_that_changes_no_decision_is_named_with_its_place() -> None:
    untaken = dict(hami_settings.untaken_devices(yaml.safe_load(FILE.read_text())))
    assert set(untaken) == {
        "devices.nvidia.deviceSplitCount",
        "devices.nvidia.deviceMemoryScaling",
        "devices.nvidia.deviceCoreScaling",
        "devices.nvidia.preConfiguredDeviceMemory",
        "devices.nvidia.enableNumaTopology",
        "devices.nvidia.libCudaLogLevel",
        "devices.nvidia.disableCoreLimit",
        "devices.nvidia.migProfileAllowlist",
        "devices.enflame.resourceNameVGCUPercentage",
    }
    assert "container.logLevel" in untaken["devices.nvidia.libCudaLogLevel"]


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ({"resourceNameVGCU": "e/vgcu"}, "e/vgcu"),
        ({"resourceNameVGCU": "e/vgcu", "resourceNameDRSGCU": "e/drs"}, "e/drs"),
        ({}, "enflame.com/drs-gcu"),
    ],
    ids=["older word", "both", "neither"],
)
def test_enflames_older_word_names_its_slices(section: dict[str, str], name: str) -> None:
    found = settings.parse(yaml.safe_dump({"enflame": {"resourceNameGCU": "e/gcu", **section}})).registry()
    assert found[VendorName("Enflame")].resources.count == name
