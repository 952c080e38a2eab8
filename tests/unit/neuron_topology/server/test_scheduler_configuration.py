"""What kube-scheduler is configured with, so that it asks the server about Neuron pods."""

from __future__ import annotations

from typing import Any

from hami_plugins.allocations.manifests.kube_scheduler_configuration import document
from neuron_topology.core.vendor import SPEC


def extender(**more: Any) -> dict[str, Any]:
    (found,) = document("https://allocator:9443/neuron", (SPEC.resources,), **more)["extenders"]
    assert isinstance(found, dict)
    return found


def test_pods_that_ask_for_neuron_wait_for_the_extender_and_no_others() -> None:
    found = extender()
    assert found["urlPrefix"] == "https://allocator:9443/neuron"
    assert found["ignorable"] is False
    managed = {each["name"]: each["ignoredByScheduler"] for each in found["managedResources"]}
    assert managed == {
        "aws.amazon.com/neuron": False,
        "aws.amazon.com/neurondevice": False,
        "aws.amazon.com/neuroncore": False,
    }


def test_the_scheduler_binds_itself_where_the_extender_does_not() -> None:
    assert extender()["bindVerb"] == "bind"
    assert "bindVerb" not in extender(binds=False)
