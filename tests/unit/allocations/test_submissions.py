"""Annotations of a new pod that only schedulers and node agents write are removed, and its author is warned."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hami_plugins.allocations.marks import mark
from hami_plugins.allocations.product import Product
from hami_plugins.allocations.submissions import overrides, without_records
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import BUILTIN
from hami_plugins.wire.admission_review import Allowed
from tests import raw_objects

MARK = "hami-plugins.io/allocator"
KEYS = ("a.b/allocated", "a.b/left")
NODE = "hami.io/vgpu-node"

REQUESTS: dict[str, dict[str, str]] = {
    "NVIDIA": {"nvidia.com/gpu": "1"},
    "MLU": {"cambricon.com/vmlu": "1"},
    "DCU": {"hygon.com/dcunum": "1"},
    "Enflame": {"enflame.com/drs-gcu": "1", "enflame.com/gcu-memory": "2"},
    "Mthreads": {"mthreads.com/vgpu": "1"},
    "Metax-SGPU": {"metax-tech.com/sgpu": "1"},
    "kunlun": {"kunlunxin.com/xpu": "1"},
    "AWSNeuron": {"aws.amazon.com/neuron": "1"},
    "Ascend910B4": {"huawei.com/Ascend910B4": "1"},
    "MR-V100": {"iluvatar.ai/MR-V100-vgpu": "1"},
    "Volcano-vGPU": {"volcano.sh/vgpu-number": "1"},
}
"""A request of a device of each of these vendors."""


def serving(*names: str) -> Product:
    vendors = Registry(each for each in BUILTIN if not names or each.name in names)
    return Product(registry=vendors, rules=Rules(), marker=(MARK, "extender"))


def a_pod(annotations: Any = None, labels: Any = None, **container: Any) -> dict[str, Any]:
    metadata = {"namespace": "x"} | ({"annotations": annotations} if annotations is not None else {})
    return raw_objects.pod(
        "p", raw_objects.container(**container), metadata=metadata | ({"labels": labels} if labels else {})
    )


def test_records_are_removed_and_each_is_named_in_a_warning() -> None:
    raw = a_pod({"mine": "x", "a.b/left": "", "a.b/allocated": "forged"})
    before = copy.deepcopy(raw)
    found = without_records(raw, KEYS)
    assert raw == before
    assert found.pod == a_pod({"mine": "x"})
    assert [each.partition(" removed: ")[0] for each in found.warnings] == [f"annotation {key}" for key in KEYS]
    assert all("from the template that the pod is created from" in each for each in found.warnings)


@pytest.mark.parametrize("annotations", [None, {}, {"mine": "x"}, "broken"])
def test_a_pod_without_records_stays_as_it_is(annotations: Any) -> None:
    raw = a_pod(annotations)
    assert without_records(raw, KEYS) == (raw, ())


def test_the_label_of_an_allocated_pod_is_removed_where_hamis_records_are() -> None:
    raw = a_pod(labels={NODE: "n1", "app": "x"})
    assert without_records(raw, KEYS) == (raw, ())
    found = without_records(raw, (NODE,))
    assert found.pod["metadata"]["labels"] == {"app": "x"}
    assert [each.split()[:2] for each in found.warnings] == [["label", NODE]]


@pytest.mark.parametrize(
    ("variable", "effect"),
    [
        ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, "shows the container the cards all"),
        ({"name": "ASCEND_VISIBLE_DEVICES", "value": "0,1"}, "shows the container the cards 0,1"),
        ({"name": "AWS_NEURON_VISIBLE_DEVICES", "value": "0"}, "shows the container the cards 0"),
        ({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {}}}, "the cards (valueFrom)"),
        ({"name": "CUDA_DISABLE_CONTROL", "value": "true"}, "switches off the limits"),
        ({"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "0"}, "overrides the limit"),
        ({"name": "CUDA_DEVICE_SM_LIMIT"}, "overrides the limit"),
        ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "NONE"}, ""),
        ({"name": "NVIDIA_VISIBLE_DEVICES"}, ""),
        ({"name": "CUDA_DISABLE_CONTROL", "value": "false"}, ""),
        ({"name": "CUDA_VISIBLE_DEVICES", "value": "0"}, ""),
        ({"value": "x"}, ""),
    ],
)
def test_a_variable_that_overrides_the_slice_is_reported(variable: dict[str, Any], effect: str) -> None:
    found = list(overrides(a_pod(env=[variable]), {"main"}))
    assert len(found) == bool(effect)
    assert all(f"container main: variable {variable['name']}=" in each and effect in each for each in found)


def test_a_limit_means_nothing_in_a_container_that_asks_for_no_device() -> None:
    limit = {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "0"}
    assert list(overrides(a_pod(env=[limit]), {"other"})) == []


def test_init_containers_are_looked_at_and_what_is_no_list_is_passed_over() -> None:
    raw = a_pod(env="broken")
    raw["spec"]["initContainers"] = [
        raw_objects.container("first", env=[{"name": "CUDA_DISABLE_CONTROL", "value": "1"}])
    ]
    assert [each.split(":")[0] for each in overrides(raw, ())] == ["container first"]


@pytest.mark.parametrize("name", REQUESTS)
def test_no_key_of_any_served_vendor_survives_on_a_pod_that_is_marked(name: str) -> None:
    """A copied template carries the records of any vendor, whichever the pod asks for."""
    product = serving()
    forged = {key: "forged" for spec in BUILTIN for key in spec.keys.written()}
    more = ("hami.io/bind-phase", "hami.io/bind-time", NODE, "hami.io/vgpu-time", "hami-plugins.io/requeued-at")
    forged |= dict.fromkeys(more, "forged")
    raw = a_pod({**forged, "mine": "x", MARK: "forged"}, {NODE: "n1"}, limits=REQUESTS[name])
    raw["spec"]["schedulerName"] = "volcano"
    answer = mark(raw, product)
    assert isinstance(answer, Allowed)
    removed = {each["path"] for each in answer.operations if each["op"] == "remove"}
    assert removed >= {f"/metadata/annotations/{key.replace('/', '~1')}" for key in forged}
    assert "/metadata/labels/hami.io~1vgpu-node" in removed
    assert {"op": "replace", "path": f"/metadata/annotations/{MARK.replace('/', '~1')}", "value": "extender"} in (
        answer.operations
    )
    assert not [each for each in removed if "mine" in each]
    assert len(answer.warnings) == len(forged) + 1


def test_a_pod_that_asks_for_nothing_keeps_what_it_brings() -> None:
    """The admission policy answers for it: the webhook is not asked about all pods of a cluster."""
    raw = a_pod({"hami.io/vgpu-devices-allocated": "forged"}, limits={"cpu": "1"})
    assert mark(raw, serving("NVIDIA")) == Allowed()


def test_a_marked_pod_is_told_about_variables_and_keeps_them() -> None:
    variable = {"name": "CUDA_DISABLE_CONTROL", "value": "true"}
    answer = mark(a_pod(limits={"nvidia.com/gpu": "1"}, env=[variable]), serving("NVIDIA"))
    assert isinstance(answer, Allowed)
    assert len(answer.warnings) == 1
    assert "variable CUDA_DISABLE_CONTROL=true switches off the limits" in answer.warnings[0]
    assert not [each for each in answer.operations if each["op"] == "remove" or "env" in each["path"]]
