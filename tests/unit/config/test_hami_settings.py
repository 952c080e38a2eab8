"""HAMi's values and device config become settings of the allocator; each word that does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocator.settings import SETTINGS
from hami_plugins.cli.kit.output import as_yaml
from hami_plugins.config import hami_settings
from hami_plugins.errors import ConfigError


def taken(values: dict[str, Any], devices: dict[str, Any] | None = None) -> hami_settings.TakenOver:
    found = hami_settings.from_values(values, devices or {}, source="values.yaml")
    SETTINGS.load(as_yaml(found.settings), {})
    return found


@pytest.mark.parametrize(
    ("values", "path", "value"),
    [
        ({"schedulerName": "mine"}, "scheduler.name", "mine"),
        (
            {"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread"}}},
            "scheduler.nodeSchedulerPolicy",
            "spread",
        ),
        ({"scheduler": {"forceOverwriteDefaultScheduler": False}}, "scheduler.forceOverwriteDefaultScheduler", False),
        ({"scheduler": {"defaultMem": 5000}}, "devices.nvidia.defaultMemory", 5000),
        ({"mluResourceMem": "m/mem"}, "devices.cambricon.resourceMemoryName", "m/mem"),
        ({"dcuResourceCores": "d/cores"}, "devices.hygon.resourceCoreName", "d/cores"),
        ({"resourcePriority": "n/p"}, "devices.nvidia.resourcePriorityName", "n/p"),
        ({"devices": {"ascend": {"hamiVnpuCore": True}}}, "devices.vnpus.hamiVnpuCore", True),
        ({"device-config": {"content": "amd: {resourceCountName: a/gpu}"}}, "devices.amd.resourceCountName", "a/gpu"),
    ],
)
def test_a_value_that_decides_is_taken_over(values: dict[str, Any], path: str, value: object) -> None:
    found = taken(values)
    held: Any = found.settings
    for part in path.split("."):
        held = held[part]
    assert (held, found.untaken) == (value, ())


@pytest.mark.parametrize(
    ("values", "path", "why"),
    [
        ({"devicePlugin": {"deviceSplitCount": 5}}, "devicePlugin.deviceSplitCount", "deviceSplitCount"),
        (
            {"devicePlugin": {"migStrategy": "mixed"}},
            "devicePlugin.migStrategy",
            "NVIDIA's plugin offers nvidia.com/mig",
        ),
        ({"devicePlugin": {"image": {"tag": "x"}}}, "devicePlugin.image", "stays as it is"),
        ({"scheduler": {"replicas": 3}}, "scheduler.replicas", "allocator.replicas"),
        ({"scheduler": {"kubeScheduler": {"enabled": True}}}, "scheduler.kubeScheduler", "conf --kube-scheduler"),
        ({"scheduler": {"podAnnotations": {"a": "b"}}}, "scheduler.podAnnotations", "Deployment"),
        ({"devices": {"kunlun": {"enabled": True}}}, "devices.kunlun", "device plugin"),
        ({"surprise": {"inside": 1}}, "surprise", "no value of HAMi 2.10's chart"),
    ],
)
def test_any_other_value_is_named_with_the_reason_or_its_place(values: dict[str, Any], path: str, why: str) -> None:
    (word,) = taken(values).untaken
    assert (word.path, why in word.why) == (path, True)


def test_what_is_empty_is_no_word() -> None:
    assert taken({"scheduler": {"tolerations": [], "nodeSelector": {}}, "imagePullSecrets": []}).untaken == ()


@pytest.mark.parametrize(
    ("values", "served"),
    [
        ({"schedulerName": "s"}, set()),
        ({"devices": {"ascend": {"enabled": True}}}, {"Ascend910A"}),
        ({"devices": {"iluvatar": {"enabled": True}}}, {"MR-V100"}),
        ({}, {"Ascend910A", "MR-V100"}),
    ],
    ids=["off", "ascend", "iluvatar", "no values"],
)
def test_the_vendors_are_those_that_hami_serves(values: dict[str, Any], served: set[str]) -> None:
    vendors = taken(values).settings["vendors"]
    assert {"Ascend910A", "MR-V100"} & set(vendors) == served
    assert {"NVIDIA", "MLU", "DCU", "AWSNeuron"} <= set(vendors)
    assert "Volcano-vGPU" not in vendors


def test_the_device_config_counts_before_the_values() -> None:
    found = taken({"resourceName": "a/gpu", "resourceMem": "a/mem"}, {"nvidia": {"resourceCountName": "b/gpu"}})
    assert found.settings["devices"]["nvidia"] == {"resourceCountName": "b/gpu", "resourceMemoryName": "a/mem"}


def test_unknown_words_of_the_device_config_are_named_and_left_out() -> None:
    found = taken(
        {},
        {
            "nvidia": {"defaultMem": 5, "deviceSplitCount": 10, "typo": 1},
            "newcomer": {"resourceCountName": "x"},
            "iluvatars": [{"commonWord": "MR-V100", "colour": "red"}],
            "amd": {"typo": 1},
        },
    )
    assert found.settings["devices"] == {
        "nvidia": {"defaultMem": 5},
        "iluvatars": [{"commonWord": "MR-V100", "colour": "red"}],
    }
    assert [word.path for word in found.untaken] == [
        "devices.nvidia.deviceSplitCount",
        "devices.nvidia.typo",
        "devices.newcomer",
        "devices.iluvatars[0].colour",
        "devices.amd.typo",
    ]


def test_a_content_that_is_no_yaml_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"values\.yaml: device-config\.content"):
        taken({"device-config": {"content": "a: [b"}})
