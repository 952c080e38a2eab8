"""The work of ``neuron queue``: read the nodes of a cluster, print the queue."""

from __future__ import annotations

import sys

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.cli.kit.options import Form
from neuron_topology.commands import hypernodes
from neuron_topology.commands.hypernodes import HyperNodesOptions
from neuron_topology.commands.options import ObjectForm
from neuron_topology.core.jobs import queue


def run(name: str, source: ClusterSource, *, weight: int, form: ObjectForm) -> int:
    """Print a queue as large as the cluster."""
    found = queue.queue(name, hypernodes.nodes(HyperNodesOptions(source=source)), weight=weight)
    if form is ObjectForm.JSON:
        output.document(found, Form.JSON)
    else:
        sys.stdout.write(output.as_yaml(found))
    return Exit.FINE
