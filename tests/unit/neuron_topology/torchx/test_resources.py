"""Named resources: amounts that nodes have, and the ways on which TorchX finds them."""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.jobs import node_capacity
from neuron_topology.core.named_resources import NAMED, NamedResource
from neuron_topology.torchx import named
from tests.unit.neuron_topology.torchx import stand_in

ROOT = Path(__file__).parents[4]
GROUP = "torchx.named_resources"
NEURON, EFA = "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"

every_resource = pytest.mark.parametrize("resource", NAMED.values(), ids=lambda resource: resource.name)


KNOWN = [kind for kind in INSTANCE_TYPES.values() if kind.host_known]


def test_machines_whose_host_is_not_published_have_no_names() -> None:
    assert {kind.name for kind in INSTANCE_TYPES.values()} - {kind.name for kind in KNOWN} == {
        "trn3.48xlarge",
        "trn3e.24xlarge",
    }
    assert not any("trn3" in name for name in NAMED)


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_every_machine_has_a_name_and_each_part_of_it(kind: Any) -> None:
    ours = {each.devices[NEURON] for each in NAMED.values() if each.instance_type == kind.name}
    assert ours == {kind.devices, *(part for part in (1, 2, 4, 8, 16) if part < kind.devices)}
    whole = NAMED[f"neuron_{kind.name}"]
    assert (whole.devices[NEURON], whole.devices.get(EFA, 0)) == (kind.devices, kind.efa_interfaces)


@pytest.mark.parametrize("devices", [1, 16])
def test_a_whole_machine_is_called_by_the_number_of_its_devices_too(devices: int) -> None:
    kinds = [kind.name for kind in KNOWN if kind.devices == devices]
    assert kinds
    for kind in kinds:
        whole, counted = NAMED[f"neuron_{kind}"], NAMED[f"neuron_{kind}_{devices}"]
        assert replace(counted, name=whole.name) == whole


def test_no_name_counts_more_devices_than_the_machine_has() -> None:
    assert "neuron_inf2.48xlarge_8" in NAMED
    assert "neuron_inf2.48xlarge_16" not in NAMED


@every_resource
def test_as_many_pods_as_there_are_devices_for_fit_beside_the_daemons(resource: NamedResource) -> None:
    kind = INSTANCE_TYPES[resource.instance_type]
    pods = kind.devices // resource.devices[NEURON]
    left = node_capacity.for_pods(kind)
    assert pods * (resource.cpu * 1000 - 100) <= left.millicpu
    assert pods * resource.memory_mb * node_capacity.MEGA <= left.memory
    assert pods * resource.devices.get(EFA, 0) <= kind.efa_interfaces


@every_resource
def test_no_core_of_a_part_is_wasted(resource: NamedResource) -> None:
    kind = INSTANCE_TYPES[resource.instance_type]
    share = node_capacity.for_pods(kind).share(resource.devices[NEURON], kind.devices)
    assert (resource.cpu + 1) * 1000 - 100 > share.millicpu
    assert resource.cpu >= 1


def test_workers_are_the_cores_as_the_machine_counts_them() -> None:
    assert [
        NAMED[name].workers() for name in ("neuron_trn1.32xlarge", "neuron_trn2.48xlarge_4", "neuron_inf1.xlarge")
    ] == [
        32,
        16,
        4,
    ]


def test_the_entry_points_are_the_table() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert declared == {name: f"neuron_topology.torchx.named:{each.attribute}" for name, each in NAMED.items()}


@every_resource
def test_an_entry_point_makes_torchxs_own_value(resource: NamedResource, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install(monkeypatch, specs={"Resource": stand_in.Resource})
    factory = EntryPoint(resource.name, f"neuron_topology.torchx.named:{resource.attribute}", GROUP).load()
    assert factory() == stand_in.Resource(
        cpu=resource.cpu,
        gpu=0,
        memMB=resource.memory_mb,
        capabilities={"node.kubernetes.io/instance-type": resource.instance_type},
        devices=dict(resource.devices),
    )


def test_there_is_nothing_else_by_entry_point() -> None:
    with pytest.raises(AttributeError, match="trn9_huge"):
        EntryPoint("neuron_trn9.huge", "neuron_topology.torchx.named:trn9_huge", GROUP).load()


def test_decorated_functions_are_for_those_who_read_no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: dict[str, Callable[[], Any]] = {}
    stand_in.install(
        monkeypatch,
        specs={"Resource": stand_in.Resource},
        plugins={"register": stand_in.decorators(registered)},
    )
    named.register("some.module", {})
    assert registered == {}
    monkeypatch.setenv(named.SOURCE, "1")
    runpy.run_path(str(ROOT / "neuron_topology/torchx/plugin.py"), run_name="some.module")
    assert registered.keys() == NAMED.keys()
    assert {factory.__module__ for factory in registered.values()} == {"some.module"}
    assert registered["neuron_trn1.32xlarge_8"]().devices == {NEURON: 8, EFA: 4}
