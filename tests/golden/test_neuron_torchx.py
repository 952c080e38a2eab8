"""What TorchX submits and what becomes of it: amounts, gangs, the host of rank 0, the taint of Neuron nodes."""

from typing import Any

from hami_plugins.wire import quantity
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.jobs import node_capacity, patch
from neuron_topology.core.named_resources import NAMED
from tests.golden import cases
from tests.golden.cases import Case

TORCHX_KEEPS_BACK = 100
"""Thousandths of a core by which TorchX asks for less than a resource has."""


def a_job(*tasks: dict[str, Any], resource: str = "aws.amazon.com/neuron", command: str = "") -> dict[str, Any]:
    container = {"name": "c", "command": [command], "resources": {"limits": {resource: 1}}}
    template = {"spec": {"containers": [container]}}
    return {"spec": {"tasks": [{"name": f"t-{at}", "template": template, **task} for at, task in enumerate(tasks)]}}


@cases.each("neuron/torchx-fit.yaml")
def test_our_resource_fits_on_the_node_on_which_torchxs_own_does_not(case: Case) -> None:
    kind = case.given["name"].removeprefix("aws_")
    millicpu = node_capacity.allocatable(INSTANCE_TYPES[kind]).millicpu
    assert f"{millicpu}m" == case.expect["cpu_allocatable"]
    # The smaller node's own is below what is allocatable, and above it together with the daemons'.
    theirs = quantity.parse(case.expect["cpu_request"], key="cpu").nano // 10**6
    left = node_capacity.for_pods(INSTANCE_TYPES[kind]).millicpu
    assert (theirs <= left) is case.expect["schedulable"]
    assert NAMED[f"neuron_{kind}"].cpu * 1000 - TORCHX_KEEPS_BACK <= left


@cases.each("neuron/torchx-minavailable.yaml")
def test_a_gang_starts_with_the_pods_that_it_needs(case: Case) -> None:
    least = case.expect["task_min_available"]
    tasks: list[dict[str, Any]] = [{}, {}] if least is None else [{"minAvailable": each} for each in least]
    found = patch.patch(a_job(*tasks)).job["spec"]["minAvailable"]
    assert found == (2 if least is None else sum(least))


@cases.each("neuron/torchx-rank0.yaml")
def test_the_host_of_rank_0_is_read_from_a_variable_that_is_there(case: Case) -> None:
    job = patch.patch(a_job({}, command=f"--rdzv_endpoint {case.expect['bash_reference']}:29500")).job
    (command,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"]
    assert f"${{{case.expect['env_var']}:=localhost}}" in command


@cases.each("neuron/tolerations.yaml")
def test_the_taint_is_tolerated_whatever_the_resource_is_called(case: Case) -> None:
    job = patch.patch(a_job({}, resource=case.given["requested_resource"])).job
    (toleration,) = job["spec"]["tasks"][0]["template"]["spec"]["tolerations"]
    assert toleration["key"] == case.given["node_taint_key"]
