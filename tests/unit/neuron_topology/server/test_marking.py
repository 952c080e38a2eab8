"""Which pods are marked when they are made, and which are refused at once."""

from __future__ import annotations

from hami_plugins.allocations.marks import mark
from hami_plugins.wire.admission_review import Allowed, Denied
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES
from tests.unit.allocator.products import MARK, product
from tests.unit.neuron_topology.server.cluster import a_pod, said


def test_whoever_asks_for_devices_under_any_name_is_marked_whatever_the_scheduler() -> None:
    for name in (DEVICES, CORES, LEGACY_DEVICES):
        for scheduler in ("volcano", "default-scheduler"):
            pod = a_pod(scheduler=scheduler)
            pod["spec"]["containers"][0]["resources"] = {"limits": {name: "1"}}
            assert said(mark(pod, product())) == {MARK: "extender"}


def test_who_asks_for_none_is_left_alone() -> None:
    pod = a_pod()
    for resources in ({}, {"limits": {DEVICES: "0"}}, {"limits": {"nvidia.com/gpu": "1"}}):
        pod["spec"]["containers"][0]["resources"] = resources
        assert mark(pod, product()) == Allowed()


def test_what_could_be_allocated_nowhere_is_refused_when_it_is_made() -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"]["limits"][CORES] = "2"
    answer = mark(pod, product())
    assert isinstance(answer, Denied)
    assert answer.code == 400
    assert "keep one of the two" in answer.reason


def test_a_pod_that_cannot_be_read_is_refused_with_the_place() -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"]["limits"][DEVICES] = "many"
    answer = mark(pod, product())
    assert isinstance(answer, Denied)
    assert DEVICES in answer.reason
