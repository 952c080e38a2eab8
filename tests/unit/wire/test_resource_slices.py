"""ResourceSlices and DeviceClasses in all versions of the API."""

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.claims import (
    CapacityPolicy,
    CounterUse,
    DeviceCapacity,
    DeviceNodes,
    DeviceTaint,
    PoolId,
    SemanticVersion,
)
from hami_plugins.model.pods import Requirement
from hami_plugins.wire import resource_slices

GI = 2**30 * 10**9
DEVICE: dict[str, Any] = {
    "attributes": {"model": {"string": "A100"}, "numa": {"int": 1}, "ok": {"bool": False}, "v": {"version": "1.2.3"}},
    "capacity": {"memory": {"value": "80Gi"}},
    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    "consumesCounters": [{"counterSet": "card", "counters": {"b": {"value": "2"}, "a": {"value": "1"}}}],
}


def of(spec: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    """A slice."""
    rest = {"driver": "d.io", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {**rest, **spec},
    }


@pytest.mark.parametrize("basic", [False, True])
def test_a_device_is_the_same_in_all_versions(*, basic: bool) -> None:
    """v1beta1 has the members inside ``basic``."""
    raw = {"name": "g", "basic": DEVICE} if basic else {"name": "g", **DEVICE}
    (found,) = resource_slices.resource_slice(of({"nodeName": "n", "devices": [raw]})).devices
    assert found.name == "g"
    assert found.attributes == {"model": "A100", "numa": 1, "ok": False, "v": SemanticVersion("1.2.3")}
    assert found.capacity == {"memory": DeviceCapacity(80 * GI)}
    assert found.taints == (DeviceTaint("k", "v", "NoSchedule"),)
    assert found.uses == (CounterUse("card", (("a", 10**9), ("b", 2 * 10**9))),)
    assert (found.shared, found.waits, found.nodes, found.not_read) == (False, False, None, "")


def test_a_slice_names_its_pool() -> None:
    """Driver, name, generation and number of slices; one slice by default."""
    found = resource_slices.resource_slice(of({"allNodes": True}))
    assert (found.pool, found.generation, found.slices) == (PoolId("d.io", "p"), 3, 2)
    assert found.nodes == DeviceNodes(everywhere=True)
    assert resource_slices.resource_slice(of({"pool": {"name": "p"}})).slices == 1
    assert str(found.pool) == "d.io/p"


def test_the_nodes_of_a_slice() -> None:
    """By name, by selector, or by those of each device."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]}
    chosen = DeviceNodes(terms=((Requirement("rack", "Exists"),),))
    assert resource_slices.resource_slice(of({"nodeSelector": terms})).nodes == chosen
    devices = [{"name": "a", "nodeSelector": terms}, {"name": "b", "nodeName": "n"}]
    found = resource_slices.resource_slice(of({"perDeviceNodeSelection": True, "devices": devices}))
    assert [each.nodes for each in found.devices] == [chosen, DeviceNodes(node="n")]  # type: ignore[arg-type]
    assert not found.nodes.known


def test_policies_of_shared_capacities() -> None:
    """Default with a range, or with values."""
    ranged = {"value": "8", "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "8", "step": "1"}}}
    listed = {"value": "8", "requestPolicy": {"default": "4", "validValues": ["4", "8"]}}
    empty = {"value": "8", "requestPolicy": {}}
    raw = {"name": "g", "allowMultipleAllocations": True, "capacity": {"r": ranged, "l": listed, "e": empty}}
    (found,) = resource_slices.resource_slice(of({"devices": [raw]})).devices
    one = 10**9
    assert found.shared
    assert found.capacity["r"].policy == CapacityPolicy(one, one, 8 * one, one)
    assert found.capacity["l"].policy == CapacityPolicy(4 * one, values=(4 * one, 8 * one))
    assert found.capacity["e"].policy == CapacityPolicy()


def test_shared_counters() -> None:
    """By set and name."""
    sets = [{"name": "card", "counters": {"slices": {"value": "7"}}}]
    assert resource_slices.resource_slice(of({"sharedCounters": sets})).counters == {"card": {"slices": 7 * 10**9}}


def test_what_decides_and_is_not_known_is_named() -> None:
    """Neither a later member of a device nor a selector of another kind is passed over."""
    raw = {"name": "g", "novelty": 1, "nodeAllocatableResourceMappings": {}}
    assert resource_slices.resource_slice(of({"devices": [raw]})).devices[0].not_read == "novelty"
    spec = {"selectors": [{"cel": {"expression": "true"}}, {"rego": "x"}]}
    found = resource_slices.device_class({"metadata": {"name": "c"}, "spec": spec})
    assert (found.selectors, found.not_read) == (("true",), "selectors[1] is not a CEL expression")


def test_a_class_may_stand_for_a_resource() -> None:
    """With the time of its creation."""
    metadata = {"name": "c", "creationTimestamp": "1970-01-01T00:00:09Z"}
    found = resource_slices.device_class({"metadata": metadata, "spec": {"extendedResourceName": "x/y"}})
    assert (found.name, found.resource, found.made_at, found.selectors) == ("c", "x/y", 9, ())


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ({"driver": ""}, "resourceslice s: spec.driver"),
        ({"pool": {}}, "resourceslice s: spec.pool.name"),
        ({"devices": [{}]}, "resourceslice s: spec.devices[0].name"),
        ({"devices": [{"name": "g", "attributes": {"a": {}}}]}, "resourceslice s: spec.devices[0].attributes[a]"),
        ({"devices": [{"name": "g", "capacity": {"m": {}}}]}, "resourceslice s: spec.devices[0].capacity[m].value"),
        (
            {"devices": [{"name": "g", "capacity": {"m": {"value": "lots"}}}]},
            "resourceslice s: spec.devices[0].capacity[m].value",
        ),
        ({"sharedCounters": [{"name": ""}]}, "resourceslice s: spec.sharedCounters[0].name"),
    ],
)
def test_what_cannot_be_read_is_named(spec: dict[str, Any], key: str) -> None:
    """With the path of the member."""
    with pytest.raises(WireError) as caught:
        resource_slices.resource_slice(of(spec))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("version", "ours"),
    [("resource.k8s.io/v1beta1", True), ("", True), (None, True), ("resource.k8s.iox/v1", False), ("v1", False)],
)
def test_objects_of_other_groups_are_others(version: object, *, ours: bool) -> None:
    """An item of a typed list has no version."""
    assert resource_slices.is_of_group({"apiVersion": version}) is ours
