"""The work of ``usage``: the usage of this node's containers, compared with their allocation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect
from hami_plugins.model.units import NodeName
from hami_plugins.output.usage import table
from hami_plugins.wire import usage
from hami_plugins.wire.usage import NodeUsage, ReadStatus
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.pods import NodePods
from volcano_vgpu.commands.agent import CALL_SECONDS, COMPONENT, AgentInputs
from volcano_vgpu.core import register
from volcano_vgpu.core.model import NodeInventory
from volcano_vgpu.core.monitor.join import Known
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.core.shares import NodeOffer
from volcano_vgpu.monitor.monitor import known_of, scraper_of


def show_usage(inputs: AgentInputs, *, form: Form, headers: bool) -> int:
    """Print what containers use; those that leave most of their allocation unused come first in the table.

    What the API server does not tell (it is out of reach) is left out with a remark. A file that cannot be read is a
    finding.
    """
    settings, known = _known(inputs, inputs.settings())
    now = datetime.now(UTC)
    found = scraper_of(settings, lambda: known).scrape().containers
    if form is Form.TABLE:
        output.table(table(found), headers=headers)
    else:
        stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        output.document(usage.encode(NodeUsage(node=NodeName(settings.node), time=stamp, containers=found)), form)
    broken = any(each.reading is ReadStatus.UNREADABLE for each in found)
    return Exit.FINDINGS if broken else Exit.FINE


def _known(inputs: AgentInputs, settings: AgentSettings) -> tuple[AgentSettings, Known]:
    """The settings for this node with its labels, and what the API server and the agent's own files say of it."""
    specifications = _specifications(settings)
    if (refusal := specifications.look()) is not None:
        output.remark(refusal.text)
    try:
        client = connect(kubeconfig=inputs.kubeconfig, context=inputs.context, component=COMPONENT).within(CALL_SECONDS)
        node = client.get(paths.node(settings.node))
        pods = NodePods(client, settings.node).read_of_node()
    except KubeError as error:
        output.remark(f"pods are not known: {error}")
        return settings, Known(allocations=specifications.allocations, factor=settings.memory_unit)
    metadata = node.get("metadata") or {}
    settings = settings.on(metadata.get("labels") or {})
    if settings.dialect is not specifications.dialect:
        specifications = _specifications(settings)
        specifications.look()
    text = register.register_of(node, settings.dialect)
    offer = NodeOffer.of(NodeName(settings.node), text, NodeInventory(), spec=settings.spec)
    factor = settings.memory_unit
    return settings, known_of(pods, specifications.allocations, offer.entry, spec=settings.spec, factor=factor)


def _specifications(settings: AgentSettings) -> CdiDirectory:
    return CdiDirectory(Path(settings.cdi_directory), dialect=settings.dialect, factor=settings.gpu_memory_factor)
