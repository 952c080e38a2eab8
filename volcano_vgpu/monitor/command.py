"""The work of ``usage``: what the containers of this node use, beside what they were granted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hami_plugins.cli import output
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.options import Form
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect
from hami_plugins.model.units import NodeName
from hami_plugins.report.page.bars import amount_words
from hami_plugins.report.page.occupancy import Unit
from hami_plugins.report.tables import Row, Table
from hami_plugins.wire import usage
from hami_plugins.wire.usage import CardUsage, ContainerUsage, Doubt, NodeUsage, Reading
from volcano_vgpu import register
from volcano_vgpu.cdi import CdiDirectory
from volcano_vgpu.commands import CALL_SECONDS, COMPONENT, Inputs
from volcano_vgpu.model import Inventory
from volcano_vgpu.monitor.join import MIB, Known
from volcano_vgpu.monitor.running import known_of, scraper_of
from volcano_vgpu.pods import NodePods
from volcano_vgpu.settings import AgentSettings
from volcano_vgpu.shares import NodeOffer

_COLUMNS: Final = ("POD", "CONTAINER", "CARD", "GRANTED", "USED", "SM", "LAST KERNEL", "PROCESSES", "REMARK")
_SPANS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_READINGS: Final = {
    Reading.READ: "",
    Reading.NOT_READY: "not ready",
    Reading.NO_FILE: "has not used its card yet",
    Reading.UNREADABLE: "cannot be read",
}
_DOUBTS: Final = {
    Doubt.STALE: "may count killed processes",
    Doubt.UNSETTLED: "was being written",
    Doubt.INVALID: "wrong counters left out",
    Doubt.UNNAMED: "a card without a name left out",
}


def show_usage(inputs: Inputs, *, form: Form, headers: bool) -> int:
    """Print what containers use; those that leave most of their grant unused come first in the table.

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
    broken = any(each.reading is Reading.UNREADABLE for each in found)
    return Exit.FINDINGS if broken else Exit.FINE


def table(containers: tuple[ContainerUsage, ...]) -> Table:
    """A row for each container and card."""
    ordered = sorted(containers, key=lambda each: -each.unused)
    rows = [row for each in ordered for row in _rows(each)]
    return Table(columns=_COLUMNS, rows=tuple(rows), whole=frozenset({0, 1, 3, 4}), optional=(7, 6, 5), toned=8)


def _known(inputs: Inputs, settings: AgentSettings) -> tuple[AgentSettings, Known]:
    """The settings for this node with its labels, and what the API server and the agent's own files say of it."""
    specifications = CdiDirectory(Path(settings.cdi_directory))
    if (refusal := specifications.look()) is not None:
        output.remark(refusal.text)
    try:
        client = connect(kubeconfig=inputs.kubeconfig, context=inputs.context, component=COMPONENT).within(CALL_SECONDS)
        node = client.get(paths.node(settings.node))
        pods = NodePods(client, settings.node).read_of_node()
    except KubeError as error:
        output.remark(f"pods are not known: {error}")
        return settings, Known(grants=specifications.grants, factor=settings.gpu_memory_factor)
    metadata = node.get("metadata") or {}
    settings = settings.on(metadata.get("labels") or {})
    text = str((metadata.get("annotations") or {}).get(register.REGISTER_KEY) or "")
    offer = NodeOffer.of(NodeName(settings.node), text, Inventory(), spec=settings.spec)
    factor = settings.gpu_memory_factor
    return settings, known_of(pods, specifications.grants, offer.entry, spec=settings.spec, factor=factor)


def _rows(found: ContainerUsage) -> list[Row]:
    said = [_READINGS[found.reading], found.problem, *(_DOUBTS[doubt] for doubt in sorted(found.doubts))]
    if found.gone:
        said.append(f"{found.gone} killed processes not counted")
    remark = "; ".join(filter(None, said))
    bad = found.reading is Reading.UNREADABLE
    tone = "bad" if bad else "warn" if found.doubts else ""
    processes = str(found.processes) if found.reading is Reading.READ else "-"
    ends = (_age(found.last_kernel_age), processes, remark)
    cards = found.cards or (None,)
    return [Row((found.full_name, found.container, *_cells(card), *ends), tone) for card in cards]


def _cells(card: CardUsage | None) -> tuple[str, str, str, str]:
    if card is None:
        return "-", "-", "-", "-"
    used = None if card.used is None else card.used.total
    share = "-" if card.utilization is None else f"{card.utilization:.0%}"
    return card.card, _amount(card.granted), _amount(used), share


def _amount(found: int | None) -> str:
    return "-" if found is None else amount_words(Unit.MEMORY, found // MIB)


def _age(seconds: float | None) -> str:
    """An age in its largest unit: ``3 min``."""
    if seconds is None:
        return "-"
    return next((f"{seconds / span:.0f} {unit}" for span, unit in _SPANS if seconds >= span), "now")
