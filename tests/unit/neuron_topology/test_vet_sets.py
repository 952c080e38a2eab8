"""When vet says by itself that no linked set of so many devices exists, and when it leaves that to the nodes."""

from __future__ import annotations

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.engine.registry import Registry, replaced
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import BUILTIN
from neuron_topology.core import vendor
from tests.unit.cli.linked import a_node
from tests.unit.vet import clusters

AWS, OURS = Registry(BUILTIN), Registry(replaced(BUILTIN, [vendor.SPEC]))
TRAINIUM = {"node.kubernetes.io/instance-type": "trn1.32xlarge"}


@pytest.mark.parametrize(
    ("registry", "listed", "selected", "found"),
    [
        (AWS, False, {}, ["warning"]),
        (AWS, False, TRAINIUM, ["error"]),
        (AWS, True, {}, []),
        (AWS, True, TRAINIUM, ["error"]),
        (OURS, False, {}, ["warning"]),
        (OURS, False, TRAINIUM, ["warning"]),
        (OURS, True, {}, []),
        (OURS, True, TRAINIUM, []),
    ],
)
def test_the_nodes_of_a_cluster_say_which_sets_they_have_unless_aws_alone_allocates_on_trainium(
    registry: Registry, listed: bool, selected: dict[str, str], found: list[str]
) -> None:
    pod = clusters.member("p", "")
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"aws.amazon.com/neuron": "2"}}}]
    pod["spec"]["nodeSelector"] = selected
    documents = vet.read(yaml.safe_dump(pod), source="f").documents
    snapshot = snapshot_of([a_node("n")], registry) if listed else None
    findings = vet.vet(documents, registry, None, snapshot)
    assert [each.severity.value for each in findings if each.rule == "HP309"] == found
