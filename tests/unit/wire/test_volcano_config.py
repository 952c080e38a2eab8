"""Volcano's device configuration."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.devices import SlicePlacement
from hami_plugins.wire import volcano_config


def geometry(**about: Any) -> dict[str, Any]:
    plain = {
        "models": ["A100"],
        "allowedGeometries": [
            {
                "group": "group2",
                "geometries": [{"name": "2g", "memory": 10240, "count": 3}, {"name": "1g", "memory": 5120, "count": 1}],
            }
        ],
    }
    return {"nvidia": {"knownMigGeometries": [{**plain, **about}]}}


def test_an_empty_document_configures_nothing() -> None:
    assert volcano_config.decode({}) == volcano_config.VolcanoConfig()


def test_names_are_read_and_other_settings_passed_over() -> None:
    found = volcano_config.decode(
        {"nvidia": {"resourceCountName": "a/count", "resourceMemoryPercentageName": "a/percent", "overwriteEnv": False}}
    )
    assert (found.count, found.memory, found.memory_percentage, found.cores) == ("a/count", "", "a/percent", "")


def test_defaults_of_hami_are_read_by_no_component_of_volcano() -> None:
    found = volcano_config.decode({"nvidia": {"defaultMemory": 5000, "defaultCores": 30, "defaultGPUNum": 0}}).ignored
    reader = "neither Volcano's scheduler nor its device plugin reads it"
    assert found == (
        f"defaultMemory=5000: {reader}; a request without memory gets the whole card",
        f"defaultCores=30: {reader}; a request without cores has no limit of cores",
        f"defaultGPUNum=0: {reader}; memory without a number is one card, cores without a number are none",
    )
    assert volcano_config.decode({"nvidia": {"defaultMem": 5000}}).ignored == found[:1]


@pytest.mark.parametrize("usual", [{}, {"defaultMemory": 0, "defaultCores": 0, "defaultGPUNum": 1}])
def test_defaults_that_say_what_volcano_does_anyway_are_no_matter(usual: dict[str, int]) -> None:
    assert volcano_config.decode({"nvidia": usual}).ignored == ()


def test_slices_are_numbered_through_a_group() -> None:
    (found,) = volcano_config.decode(geometry()).geometries
    assert found.fits("NVIDIA-NVIDIA A100-SXM4-40GB")
    assert not found.fits("NVIDIA-NVIDIA A30")
    assert [(each.name, each.group, each.memory) for each in found.profiles] == [
        ("2g", "group2", 10240),
        ("1g", "group2", 5120),
    ]
    assert [each.placements for each in found.profiles] == [
        (SlicePlacement(0, 1), SlicePlacement(1, 1), SlicePlacement(2, 1)),
        (SlicePlacement(3, 1),),
    ]


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "device-config.yaml"),
        ({"nvidia": {"resourceCountName": 7}}, "nvidia.resourceCountName"),
        ({"nvidia": {"defaultMemory": -1}}, "nvidia.defaultMemory"),
        ({"nvidia": {"defaultMem": "5 GiB"}}, "nvidia.defaultMem"),
        ({"nvidia": {"defaultCores": 1.5}}, "nvidia.defaultCores"),
        ({"nvidia": {"defaultGPUNum": True}}, "nvidia.defaultGPUNum"),
        (geometry(models=[""]), r"knownMigGeometries\[0\].models"),
        (geometry(models="A100"), r"knownMigGeometries\[0\].models"),
        (geometry(allowedGeometries=[{"group": "group-1"}]), r"allowedGeometries\[0\].group"),
        (geometry(allowedGeometries=[{"geometries": []}]), r"allowedGeometries\[0\].group"),
        (geometry(allowedGeometries=[{"group": "g", "geometries": [{"count": 65}]}]), r"geometries\[0\].count"),
        (geometry(allowedGeometries=[{"group": "g", "geometries": [{"count": -1}]}]), r"geometries\[0\].count"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(document: object, place: str) -> None:
    with pytest.raises(WireError, match=place):
        volcano_config.decode(document)
