"""What vet says of names that older plugins of AWS offered."""

from __future__ import annotations

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.engine.registry import Registry, replaced
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import BUILTIN
from neuron_topology.core import vendor
from tests.unit.vet import clusters

OLDER = "aws.amazon.com/neurondevice"


@pytest.mark.parametrize(("offered", "outdated"), [(OLDER, False), ("aws.amazon.com/neuron", True)])
def test_an_older_name_is_right_where_a_node_still_offers_it(offered: str, outdated: bool) -> None:
    """A pod that asks by it is placed there."""
    registry = Registry(replaced(BUILTIN, [vendor.SPEC]))
    pod = clusters.member("p", "")
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": {OLDER: "1"}}}]
    documents = vet.read(yaml.safe_dump(pod), source="f").documents
    snapshot = snapshot_of([clusters.node("n1", {}, {offered: "16"})], registry)
    found = {each.name for each in vet.vet(documents, registry, None, snapshot)}
    assert ("outdated-resource" in found) is outdated, found
